"""Each kind of fault in a run whose steps take 10 ms: what it hits, what it leaves alone, and what the result says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import schedlab
from schedlab.errors import UsageError
from tests.unit.replay_helpers import REPEATABLE, session_trace, small_trace, write_trace

STEP_NS = 10_000_000
SWAP = {"preemption": "host", "swap_host_gib": 64, "prefix_cache": False}
DISK = {"preemption": "disk", "swap_disk_gib": 64, "prefix_cache": False}
BOTH = {**DISK, "swap_host_gib": 64}
HOST_LINKS, DISK_LINKS = ("d2h", "h2d"), ("host_to_disk", "disk_to_host")


def replayed(trace: Path, faults: dict[str, Any], **options: Any) -> Any:
    return schedlab.replay(trace, cost="constant", check=True, faults=faults, **options)


def two(tmp_path: Path) -> Path:
    """Both prompts in the first step; then each step gives both a token, up to the 20th."""
    return write_trace(tmp_path / "t.csv", [(0, 10, 20), (0, 10, 30)])


def ends(result: Any) -> list[tuple[str, int]]:
    table = result.requests.sort_values("request_id")
    return list(zip(table["finish_reason"], table["output_tokens"], strict=True))


def crowd(tmp_path: Path) -> Path:
    """Twelve requests that grow from 3 blocks to 9 each: a pool of 50 blocks is soon short."""
    return write_trace(tmp_path / "crowd.csv", [(0, 40, 90)] * 12)


def undisturbed(tmp_path: Path, **options: Any) -> list[tuple[str, int]]:
    return ends(schedlab.replay(crowd(tmp_path), cost="constant", num_blocks=50, **options))


@pytest.mark.parametrize("fault", [{"steps": [5]}, {"at": "45ms"}], ids=["by number", "at a time"])
def test_a_failed_step_ends_its_rows_with_what_they_had(tmp_path: Path, fault: dict[str, Any]) -> None:
    result = replayed(two(tmp_path), {"step_failure": [fault]})
    assert ends(result) == [("error", 4), ("error", 4)]
    assert list(result.requests["finished_ns"]) == [5 * STEP_NS] * 2
    assert result.summary["faults"]["failed_steps"] == 1
    assert result.summary["failed"][0]["reason"] == "injected: step 5 failed"


def test_a_time_between_steps_fails_the_next_one(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 10, 2), (1_000_000_000, 10, 2)])
    result = replayed(trace, {"step_failure": [{"at": "500ms"}]})
    assert ends(result) == [("stop", 2), ("error", 0)]


def test_who_comes_after_a_failed_step_is_served(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 10, 20), (0, 10, 20), (55_000_000, 10, 3)])
    result = replayed(trace, {"step_failure": [{"steps": [4]}]})
    assert ends(result) == [("error", 3), ("error", 3), ("stop", 3)]


@pytest.mark.parametrize("loss", [{"step": 5}, {"at": "45ms"}], ids=["by number", "at a time"])
def test_a_lost_device_ends_everyone_and_the_run_and_says_so(tmp_path: Path, loss: dict[str, Any]) -> None:
    rows = [(0, 10, 20), (0, 10, 20), (60_000_000, 10, 2), (900_000_000, 10, 2), (900_000_000, 10, 2)]
    result = replayed(write_trace(tmp_path / "t.csv", rows), {"device_loss": [loss]})
    assert ends(result) == [("error", 4), ("error", 4)]
    assert result.summary["faults"]["device_lost_s"] == 0.05
    assert any(note.startswith("cut short: the device was lost") and "3 rows" in note for note in result.notes)


def test_requests_that_wait_or_were_preempted_end_with_the_device(tmp_path: Path) -> None:
    for settings in ({}, SWAP):
        result = replayed(crowd(tmp_path), {"device_loss": [{"step": 60}]}, num_blocks=50, set=settings)
        assert {reason for reason, _ in ends(result)} <= {"error", "stop"}
        assert len(result.requests) == 12 and "error" in dict(ends(result))


def test_no_turn_of_a_session_is_sent_to_a_lost_device(tmp_path: Path) -> None:
    result = replayed(session_trace(tmp_path / "t.csv"), {"device_loss": [{"at": "300ms"}]})
    table = result.requests
    assert len(table) + result.summary["unsent_turns"] <= 7
    assert table["finished_ns"].max() < 2_000_000_000


def test_slow_steps_take_as_many_times_as_long(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 10, 10)])
    by_number = replayed(trace, {"slow_steps": [{"factor": 2.5, "steps": [2, 3]}]})
    assert list(by_number.requests["finished_ns"]) == [13 * STEP_NS]
    window = {"factor": 3, "from": "25ms", "to": "65ms"}
    in_window = replayed(trace, {"slow_steps": [window]})
    assert list(in_window.requests["finished_ns"]) == [14 * STEP_NS], "those that begin at 30 and 60 ms"
    assert in_window.summary["faults"]["slow_steps"] == 2


def test_slow_links_take_longer_and_change_no_output(tmp_path: Path) -> None:
    options: dict[str, Any] = {"num_blocks": 50, "set": SWAP}
    plain = replayed(crowd(tmp_path), {}, **options)
    slow = replayed(crowd(tmp_path), {"slow_links": [{"factor": 1000, "from": "0s", "to": "10s"}]}, **options)
    assert ends(slow) == ends(plain) == undisturbed(tmp_path)
    before, after = (result.summary["swap"]["links"]["d2h"] for result in (plain, slow))
    assert plain.summary["swap"]["swapped_out"]["host"] > 0
    assert slow.summary["faults"]["slow_copies"] == sum(
        link["copies"] for link in slow.summary["swap"]["links"].values()
    )
    assert after["busy_s"] / after["copies"] > 100 * before["busy_s"] / before["copies"]


@pytest.mark.parametrize(
    ("settings", "link"),
    [(SWAP, link) for link in HOST_LINKS]
    + [(settings, link) for settings in (DISK, BOTH) for link in (*HOST_LINKS, *DISK_LINKS)],
)
def test_a_victim_whose_copies_fail_is_computed_again_and_its_client_never_notices(
    tmp_path: Path, settings: dict[str, Any], link: str
) -> None:
    faults = {"copy_failure": [{"chance": 0.6, "seed": 2, "links": [link]}]}
    result = replayed(crowd(tmp_path), faults, num_blocks=50, set=settings)
    assert ends(result) == undisturbed(tmp_path)
    assert result.summary["faults"]["failed_copies"] > 0
    stays_on_the_host = link == "host_to_disk" and "swap_host_gib" in settings
    assert result.summary["recomputed_tokens"] > 0 or stays_on_the_host


def test_a_full_disk_is_noticed_and_the_host_or_recomputing_takes_over(tmp_path: Path) -> None:
    full = {"disk_full": [{"from": "0s", "to": "100s"}]}
    alone = replayed(crowd(tmp_path), full, num_blocks=50, set=DISK)
    assert ends(alone) == undisturbed(tmp_path)
    assert alone.summary["swap"]["restored"] == 0 and alone.summary["recomputed_tokens"] > 0
    with_host = replayed(crowd(tmp_path), full, num_blocks=50, set={**DISK, "swap_host_gib": 64})
    assert ends(with_host) == undisturbed(tmp_path)
    assert with_host.summary["swap"]["restored"] > 0
    assert with_host.summary["recomputed_tokens"] < alone.summary["recomputed_tokens"]


def test_a_client_leaves_at_its_time_and_nobody_else_is_touched(tmp_path: Path) -> None:
    leaves = {"departure": [{"request": 0, "at": "75ms"}, {"request": 1, "at": "900ms"}]}
    result = replayed(two(tmp_path), leaves)
    assert ends(result) == [("cancelled", 8), ("stop", 30)]
    assert result.summary["faults"]["departures"] == 1, "the second had its answer by then"


@pytest.mark.parametrize("at", ["0ms", "3ms", "17ms"])
def test_a_client_may_leave_before_the_scheduler_has_seen_its_request(tmp_path: Path, at: str) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 10, 20), (int(at[:-2]) * 1_000_000, 10, 20)])
    result = replayed(trace, {"departure": [{"request": 1, "at": at}]})
    assert ends(result) == [("stop", 20), ("cancelled", 0)]
    assert result.summary["faults"]["departures"] == 1


def test_a_client_that_has_not_come_does_not_leave(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 10, 20), (500_000_000, 10, 20)])
    result = replayed(trace, {"departure": [{"request": 1, "at": "100ms"}]})
    assert ends(result) == [("stop", 20), ("stop", 20)]
    assert result.summary["faults"]["departures"] == 0


@pytest.mark.parametrize(
    ("fault", "settings"),
    [
        ({"slow_links": [{"factor": 2, "from": "0s", "to": "1s"}]}, {}),
        ({"copy_failure": [{"copies": [1]}]}, {}),
        ({"disk_full": [{"from": "0s", "to": "1s"}]}, SWAP),
        ({"copy_failure": [{"copies": [1], "links": list(DISK_LINKS)}]}, SWAP),
        ({"copy_failure": [{"copies": [1], "links": ["disk_to_host"]}]}, {**SWAP, "preemption": "cheapest"}),
    ],
)
def test_a_fault_of_links_that_are_never_used_is_refused(
    tmp_path: Path, fault: dict[str, Any], settings: dict[str, Any]
) -> None:
    with pytest.raises(UsageError) as refused:
        replayed(crowd(tmp_path), fault, set=settings)
    told, tier = str(refused.value), "disk" if settings else "host"
    assert re.match(f"faults: {next(iter(fault))} 1: with preemption=.* nothing is ever copied", told)
    assert told.endswith(f"; run with --set preemption={tier} --set swap_{tier}_gib=N, or leave it out")


def test_a_departure_of_nobody_is_refused(tmp_path: Path) -> None:
    leaves = {"departure": [{"request": 1, "at": "1s"}, {"request": 2, "at": "1s"}]}
    with pytest.raises(UsageError, match="faults: departure 2: there is no request 2, the last is 1; leave it out"):
        replayed(two(tmp_path), leaves)


def test_clients_leave_with_a_chance_so_long_after_they_came(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(row * STEP_NS, 10, 500) for row in range(60)])
    result = replayed(trace, {"departure": [{"chance": 0.5, "seed": 1, "after": ["20ms", "40ms"]}]})
    table = result.requests
    gone = table[table["finish_reason"] == "cancelled"]
    stays_ns = gone["finished_ns"] - gone["arrival_ns"]
    assert 15 < len(gone) < 45 and set(table["finish_reason"]) == {"cancelled", "stop"}
    assert stays_ns.min() >= 2 * STEP_NS and stays_ns.max() <= 5 * STEP_NS


MANY = {
    "step_failure": [{"chance": 0.01, "seed": 3}, {"at": "333ms"}],
    "slow_steps": [
        {"factor": 1.7, "chance": 0.05, "seed": 1},
        {"factor": 2, "from": "100ms", "to": "777ms"},
    ],
    "slow_links": [{"factor": 50, "from": "200ms", "to": "1s"}],
    "copy_failure": [{"chance": 0.3, "seed": 4}],
    "departure": [{"chance": 0.2, "seed": 5, "after": ["0s", "400ms"]}],
    "device_loss": [{"at": "2s"}],
}


@pytest.mark.parametrize("cost", ["constant", "roofline"])
def test_leap_and_step_fail_alike_and_config_json_repeats_the_run(tmp_path: Path, cost: str) -> None:
    trace = small_trace(tmp_path / "t.csv")
    options: dict[str, Any] = {"num_blocks": 60, "events": True, "check": True, "cost": cost, "faults": MANY}
    settings = {"preemption": "disk", "swap_disk_gib": 1, "swap_host_gib": 1}
    schedlab.replay(trace, out=tmp_path / "leap", set=settings, **options)
    schedlab.replay(trace, out=tmp_path / "step", set=settings, leap=False, **options)
    schedlab.replay(tmp_path / "leap" / "config.json", out=tmp_path / "again", events=True)
    for other in ("step", "again"):
        for name in REPEATABLE:
            assert (tmp_path / "leap" / name).read_bytes() == (tmp_path / other / name).read_bytes(), (other, name)
    assert json.loads((tmp_path / "leap" / "config.json").read_text())["options"]["faults"] == MANY


def test_a_run_without_faults_says_nothing_of_them(tmp_path: Path) -> None:
    result = replayed(two(tmp_path), {})
    assert "faults" not in result.summary and not any("fault" in note for note in result.notes)
