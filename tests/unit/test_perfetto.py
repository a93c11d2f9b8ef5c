"""The Perfetto trace: valid, ordered, bounded, clipped to the right window."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from reports.perfetto import PerfettoRecorder, parse_window
from reports.perfetto_json import pack_lanes
from reports.perfetto_window import PhaseSlice, TraceWindow
from schedlab.errors import UsageError
from schedlab.events import EventBus
from schedlab.pace import ns_to_quanta
from tests.event_script import MS, EventScript

S = 1_000_000_000


def script_with(*recorders: PerfettoRecorder) -> EventScript:
    bus = EventBus()
    for recorder in recorders:
        bus.add(recorder)
    return EventScript(bus)


def serve(script: EventScript, iterations: int, prompt_tokens: int = 10) -> None:
    """One request alone: 100 ms of prefill, then iterations of 10 ms."""
    sequence = script.arrive(prompt_tokens)
    script.admit(sequence)
    script.chunk(sequence, prompt_tokens, ns_to_quanta(100 * MS), with_decode=False)
    script.decode(iterations, ns_to_quanta(10 * MS))
    script.finish(sequence)


def written(recorder: PerfettoRecorder, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    recorder.write(folder / "trace.perfetto.json")
    document = json.loads((folder / "trace.perfetto.json").read_text())
    return document["otherData"], document["traceEvents"]


def slices(events: list[dict[str, Any]], process: int) -> list[tuple[str, float, float]]:
    return [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == process]


def test_a_request_shows_its_steps_and_its_phases(tmp_path: Path) -> None:
    recorder = PerfettoRecorder()
    serve(script_with(recorder), 40)
    about, events = written(recorder, tmp_path)
    assert slices(events, 1) == [("prefill 10", 0, 100_000), ("decode x40", 100_000, 400_000)]
    assert slices(events, 2) == [("prefill", 0, 100_000), ("decode", 100_000, 400_000)]
    assert about["state"] == "complete"
    assert about["tokens_processed"] == 50


def test_a_preempted_request_shows_waiting_and_the_prefill_again(tmp_path: Path) -> None:
    recorder = PerfettoRecorder()
    script = script_with(recorder)
    sequence = script.arrive(6)
    script.wait(ns_to_quanta(5 * MS))
    script.admit(sequence)
    script.chunk(sequence, 6, ns_to_quanta(MS), with_decode=False)
    script.decode(3, ns_to_quanta(MS))
    script.preempt(sequence)
    script.wait(ns_to_quanta(2 * MS))
    script.resume(sequence)
    script.chunk(sequence, 100, ns_to_quanta(MS), with_decode=False)
    script.decode(2, ns_to_quanta(MS))
    script.finish(sequence)
    _, events = written(recorder, tmp_path)
    assert [(name, duration) for name, _, duration in slices(events, 2)] == [
        ("queued", 5000),
        ("prefill", 1000),
        ("decode", 3000),
        ("preempted", 2000),
        ("re-prefill", 1000),
        ("decode", 2000),
    ]
    instants = [event for event in events if event["ph"] == "i"]
    assert [(event["ts"], event["args"]["freed_blocks"]) for event in instants] == [(9000, 3)]
    running = [(e["ts"], e["args"]["value"]) for e in events if e["ph"] == "C" and e["name"] == "running"]
    assert running == [(5000, 1), (9000, 0), (11_000, 1), (14_000, 0)]


def test_a_swapped_request_shows_where_it_was_and_its_copies_on_their_links(tmp_path: Path) -> None:
    recorder = PerfettoRecorder()
    script = script_with(recorder)
    script.on_copy.append(recorder.copy_begun)
    sequence = script.arrive(6)
    script.admit(sequence)
    script.chunk(sequence, 6, ns_to_quanta(MS), with_decode=False)
    script.decode(3, ns_to_quanta(MS))
    script.swap_out(sequence, ns_to_quanta(2 * MS))
    script.wait(ns_to_quanta(5 * MS))
    script.begin_restore(sequence, ns_to_quanta(3 * MS))
    script.wait(ns_to_quanta(3 * MS))
    script.end_restore(sequence)
    script.decode(2, ns_to_quanta(MS))
    script.finish(sequence)
    _, events = written(recorder, tmp_path)
    assert [(name, duration) for name, _, duration in slices(events, 2)] == [
        ("prefill", 1000),
        ("decode", 3000),
        ("swapped to host", 5000),
        ("restoring", 3000),
        ("decode", 2000),
    ]
    copies = [(e["tid"], e["ts"], e["dur"], e["args"]["bytes"]) for e in events if e["ph"] == "X" and e["pid"] == 3]
    assert copies == [(1, 4000, 2000, 300), (2, 9000, 3000, 300)]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["pid"] == 3 and e["tid"]}
    assert (tracks[1], tracks[2]) == ("device to host", "host to device")


def test_a_copy_that_reaches_into_the_next_minute_is_shown_there(tmp_path: Path) -> None:
    recorder = PerfettoRecorder()
    script = script_with(recorder)
    script.on_copy.append(recorder.copy_begun)
    sequence = script.arrive(6)
    script.admit(sequence)
    script.chunk(sequence, 6, ns_to_quanta(59 * S), with_decode=False)
    script.swap_out(sequence, ns_to_quanta(2 * S))
    script.wait(ns_to_quanta(3 * S))
    serve(script, 3_000)
    _, events = written(recorder, tmp_path)
    assert slices(events, 3) == [("request 0", 60e6, 1e6)]


def test_mixed_steps_name_rows_and_prompt_tokens(tmp_path: Path) -> None:
    recorder = PerfettoRecorder()
    script = script_with(recorder)
    first, second = script.arrive(4), script.arrive(9)
    script.admit(first)
    script.chunk(first, 4, ns_to_quanta(MS), with_decode=False)
    script.admit(second)
    script.chunk(second, 7, ns_to_quanta(MS), with_decode=True)
    assert slices(written(recorder, tmp_path)[1], 1)[1][0] == "mixed 1+7"


def test_times_never_go_back_and_slices_of_a_lane_do_not_overlap(tmp_path: Path) -> None:
    recorder = PerfettoRecorder()
    script = script_with(recorder)
    for number in range(30):
        serve(script, 1 + number, 1 + number % 7)
        script.arrive(5)
        script.wait(ns_to_quanta(1) // 3)
    _, events = written(recorder, tmp_path)
    times = [event["ts"] for event in events if "ts" in event]
    assert times == sorted(times)
    lanes = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            lanes[event["pid"], event["tid"]].append((round(event["ts"] * 1000), round(event["dur"] * 1000)))
    for spans in lanes.values():
        assert all(a + length <= b for (a, length), (b, _) in pairwise(spans))


def test_the_busiest_minute_is_chosen_and_runs_over_its_edge_are_clipped(tmp_path: Path) -> None:
    recorder = PerfettoRecorder()
    script = script_with(recorder)
    serve(script, 100)
    script.wait(ns_to_quanta(110 * S) - script.now)
    serve(script, 3_000)
    script.wait(ns_to_quanta(600 * S) - script.now)
    serve(script, 10)
    about, events = written(recorder, tmp_path)
    assert (about["window_start_s"], about["window_end_s"]) == (120, 180)
    assert slices(events, 1) == [("decode x3000", 120e6, 20_100_000)]
    assert slices(events, 2) == [("decode", 120e6, 20_100_000)]
    assert about["tokens_processed"] == 2010


def test_a_request_that_spans_the_whole_window_is_in_it(tmp_path: Path) -> None:
    recorder = PerfettoRecorder((30 * S, 40 * S))
    serve(script_with(recorder), 20_000)
    about, events = written(recorder, tmp_path)
    assert slices(events, 1) == [("decode x20000", 30e6, 10e6)]
    assert slices(events, 2) == [("decode", 30e6, 10e6)]
    assert about["tokens_processed"] == 1000
    assert about["window_choice"] == "as asked"


def test_a_run_cut_short_ends_its_requests_where_it_has_got_to(tmp_path: Path) -> None:
    recorder = PerfettoRecorder()
    script = script_with(recorder)
    sequence = script.arrive(4)
    script.admit(sequence)
    script.chunk(sequence, 4, ns_to_quanta(MS), with_decode=False)
    script.decode(5, ns_to_quanta(MS))
    assert slices(written(recorder, tmp_path)[1], 2) == [("prefill", 0, 1000), ("decode", 1000, 5000)]


def test_a_trace_past_its_limit_is_cut_and_says_so(tmp_path: Path) -> None:
    recorder = PerfettoRecorder(most_slices=25)
    script = script_with(recorder)
    for _ in range(20):
        serve(script, 2)
    about, events = written(recorder, tmp_path)
    assert sum(event["ph"] in "Xi" for event in events) == about["slices"] == 25
    assert about["slices_left_out"] == 20 * 4 - 25
    assert "cut" in about["state"]


def test_a_run_without_events_gives_a_valid_trace(tmp_path: Path) -> None:
    about, events = written(PerfettoRecorder(), tmp_path)
    assert about["slices"] == 0
    assert {event["ph"] for event in events} == {"M"}


def test_requests_share_a_lane_when_they_do_not_overlap() -> None:
    phases = [PhaseSlice(0, 5, 7, "a", ""), PhaseSlice(3, 9, 8, "a", ""), PhaseSlice(5, 6, 9, "a", "")]
    assert pack_lanes(phases) == {7: 1, 8: 2, 9: 1}


def test_window_text_is_seconds() -> None:
    assert parse_window("0.5-60") == (S // 2, 60 * S)


@pytest.mark.parametrize("text", ["", "60", "60-60", "9-3", "a-b", "-5-3", "0-inf", "nan-3"])
def test_a_bad_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="perfetto-window"):
        parse_window(text)


def test_an_unwritable_trace_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        PerfettoRecorder().write(tmp_path / "absent" / "trace.json")


def test_a_step_of_years_passes_over_the_empty_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows: list[int] = []

    def window(start_ns: int, end_ns: int, most_slices: int) -> TraceWindow:
        windows.append(start_ns)
        return TraceWindow(start_ns, end_ns, most_slices)

    monkeypatch.setattr("reports.perfetto.TraceWindow", window)
    recorder, year_ns = PerfettoRecorder(), 365 * 86_400 * S
    script = script_with(recorder)
    sequence = script.arrive(10)
    script.admit(sequence)
    script.chunk(sequence, 10, ns_to_quanta(100 * MS), with_decode=False)
    script.decode(3, ns_to_quanta(year_ns))
    script.finish(sequence)
    about, events = written(recorder, tmp_path)
    assert len(windows) < 12
    assert about["tokens_processed"] == 10 and slices(events, 1)[0] == ("prefill 10", 0, 100_000)
