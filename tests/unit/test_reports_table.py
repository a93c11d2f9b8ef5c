"""The summary on the terminal."""

from __future__ import annotations

import pytest
from rich.console import Console

from reports.table import goodput, print_summary
from reports.units import DASH, brief, duration, find, flatten, latency_row, number, percent, rate, size
from tests.unit.made_run import MadeRun, empty_run, made_run


def printed(run: MadeRun, width: int = 100) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        print_summary(console, run.summary, run.config, run.run, run.notes)
    return capture.get()


def row(text: str, label: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [label])


def test_each_row_of_latencies_has_its_own_unit() -> None:
    text = printed(made_run(100))
    assert row(text, "TTFT") == ["TTFT", "73.2", "43.3", "169", "234", "365", "ms"]
    assert row(text, "E2E")[-2:] == ["15.5", "s"]


def test_everything_promised_is_printed() -> None:
    text = printed(made_run(100))
    for words in (
        "azure-conv-like · llama-3-8b on h100 ×2",
        "preset vllm · policy fifo · 256 sequences · 8,192 tokens a step",
        "103 arrived, 100 finished (length), 3 refused",
        "5.38 requests/s, 1,136 output tokens/s",
        "91.3 % = 4.91 requests/s within TTFT ≤ 100 ms, TPOT ≤ 20 ms",
        "41.0 % mean, 91.2 % peak",
        "40.2 mean, 93 peak",
        "17 (18,234 tokens computed again), 0 swaps",
        "412,345 (115 a simulated second)",
        "1,683× real time (2.13 s of wall time)",
        "note: A modelled trace, not an original.",
    ):
        assert words in text, words


def test_cache_swap_and_faults_are_printed_where_the_run_had_them() -> None:
    run = made_run(100)
    for words in ("prefix cache", "state snapshots", "swap ", "faults"):
        assert words not in printed(run)
    run.summary |= {
        "cache": {"hit_tokens": 12_345, "hit_share": 0.374, "hit_tokens_on_return": 678, "cached_blocks": 90}
        | {"evicted_blocks": 1_234},
        "snapshots": {"slots": 8, "used_slots": 6, "saved": 44, "used": 3, "evicted": 14}
        | {"cut_hits": 2, "cut_tokens": 64},
        "swap": {
            "swapped_out": {"host": 7, "disk": 0},
            "restored": 6,
            "links": {"d2h": {"copies": 7, "bytes": 2_500_000_000, "busy_s": 0.1, "overlap_share": 0.25, "failed": 2}},
            "far_block_reads": 55,
        },
        "faults": {"failed_steps": 3, "slow_steps": 0, "failed_copies": 2, "departures": 1, "device_lost_s": None},
    }
    text = printed(run, width=200)
    for words in (
        "12,345 tokens hit = 37.4 % of prompt tokens, 678 more on return; 90 blocks cached, 1,234 evicted",
        "44 saved (6 of 8 slots held at the end, 14 evicted, the others replaced or given back), 3 used, 2 hits cut",
        "7 to host, 0 to disk, 6 restored",
        "device to host: 7 copies, 2.50 GB in 100 ms, 25.0 % of it beside compute, 2 failed",
        "55 blocks of windows read from disk by steps",
        "3 failed steps, 2 failed copies, 1 departures",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.50 kB"), (64_000_000, "64.0 MB"), (3e15, "3,000 TB")]
)
def test_bytes_have_the_largest_unit_that_fits(num_bytes: float, text: str) -> None:
    assert size(num_bytes) == text and size(None) == DASH


def test_a_partial_run_says_what_is_unfinished_and_leaves_out_reasons_that_nothing_had() -> None:
    run = made_run(10)
    run.summary["requests"] = {"arrived": 9, "refused": 0, "finished": {"length": 5, "error": 0}, "unfinished": 4}
    assert "9 arrived, 5 finished (length), 4 unfinished, 0 refused" in printed(run)


def test_a_target_on_gaps_between_tokens_is_no_part_of_goodput() -> None:
    run = made_run(10)
    run.summary["goodput"]["targets"]["itl"] = 0.05
    run.summary["goodput"]["attainment"]["itl"] = 0.25
    assert goodput(run.summary).endswith(
        "TTFT ≤ 100 ms, TPOT ≤ 20 ms; 25.0 % of gaps between tokens within ITL ≤ 50 ms"
    )
    run.summary["goodput"]["targets"] = {"itl": 0.05}
    assert goodput(run.summary) == "25.0 % of gaps between tokens within ITL ≤ 50 ms"


def test_an_empty_run_shows_dashes() -> None:
    text = printed(empty_run())
    assert row(text, "TTFT") == ["TTFT", *[DASH] * 5, "ms"]
    assert "None" not in text
    assert "nan" not in text


def test_names_are_neither_markup_nor_terminal_commands() -> None:
    run = made_run(10)
    run.config["trace"] = "[red]x[/] [/nonsense] \x1b[2J\x07"
    run.notes = ["[bold]loud[/bold]"]
    text = printed(run)
    assert "[red]x[/] [/nonsense]" in text
    assert "[bold]loud[/bold]" in text
    assert not set("\x1b\x07") & set(text)


def test_the_table_fits_80_columns() -> None:
    assert max(len(line) for line in printed(made_run(100), width=80).splitlines()) <= 80


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (1_234_567, "1,234,567"),
        (0.00123, "0.0012"),
        (0.5, "0.500"),
        (9.994, "9.99"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (None, DASH),
        (float("nan"), DASH),
        (True, DASH),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [
        (5.38, "5.38 x/s"),
        (0.01, "0.010 x/s"),
        (0.002, "7.20 x/h"),
        (3e-6, "0.011 x/h"),
        (1e-6, "0.086 x/d"),
        (0.0, "0 x/s"),
        (None, f"{DASH} x/s"),
    ],
)
def test_slow_rates_are_said_by_the_hour_or_the_day(per_s: float | None, text: str) -> None:
    assert rate(per_s, "x") == text


def test_one_of_a_thing_is_said_in_the_singular() -> None:
    run = made_run(10)
    run.config["scheduler"] = {"max_num_seqs": 1, "num_blocks": 1, "block_size": 1, "max_num_batched_tokens": 1}
    assert "1 sequence · 1 token a step · 1 token a block · 1 KV block" in printed(run)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (2e-6, "2.00 µs"),
        (0.25, "250 ms"),
        (119.0, "119 s"),
        (180, "3.00 min"),
        (7_200, "2.00 h"),
        (864_000, "10.0 d"),
        (None, DASH),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_shares_never_round_to_all_or_none() -> None:
    assert [percent(share) for share in (0, 1e-6, 0.5, 0.99999, 1, None)] == [
        "0.0 %",
        "< 0.1 %",
        "50.0 %",
        "> 99.9 %",
        "100.0 %",
        DASH,
    ]


def test_brief_drops_only_zeros_after_a_point() -> None:
    assert [brief(text) for text in ("20.0 ms", "100 ms", "1.50 s", "—")] == ["20 ms", "100 ms", "1.5 s", "—"]


def test_latency_rows_change_unit_at_one_second() -> None:
    assert latency_row({"p50": 999.0}, ["p50"]) == ("ms", ["999"])
    assert latency_row({"p50": 1_000.0, "p99": 20_000}, ["p50", "p99"]) == ("s", ["1.00", "20.0"])


def test_records_are_flattened_in_order_and_searched_shallow_first() -> None:
    record = {"b": {"x": 1, "y": {"z": True}}, "a": None, "x": 2, "e": {}}
    assert list(flatten(record)) == [("b.x", "1"), ("b.y.z", "true"), ("a", DASH), ("x", "2"), ("e", "{}")]
    assert find(record, "x") == 2
    assert find(record, "absent", "z") is True
    assert find(record, "absent") is None
