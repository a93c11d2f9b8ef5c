"""A window of a run as Chrome trace-event JSON.

The format is "Trace Event Format" by Google, which ui.perfetto.dev reads: `X` a slice, `C` a counter, `i` an instant,
`M` names; times in microseconds, here with three decimals, so to the nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reports.perfetto_window import CopySlice, PhaseSlice, Slices, StepSlice, TraceWindow
from schedlab.errors import UsageError

DEVICE, REQUESTS, LINKS = 1, 2, 3
LINK_NAMES = {
    "d2h": "device to host",
    "h2d": "host to device",
    "host_to_disk": "host to disk",
    "disk_to_host": "disk to host",
}


class _Event(NamedTuple):
    """What stands after the time in an event's JSON, and when it is."""

    at_ns: int
    text: str


def write_trace(path: Path, window: TraceWindow, device_name: str, choice: str) -> None:
    """Write the trace, events by time.

    Raises:
        UsageError: the file cannot be written.
    """
    slices = window.slices()
    lanes = pack_lanes(slices.phases)
    events = [*_steps(slices.steps), *_counters(slices.steps), *_phases(slices, lanes), *_copies(slices.copies)]
    events.sort(key=lambda event: event.at_ns)
    lines = [
        *_names(device_name, lanes, bool(slices.copies)),
        *(f'{{"ts":{_us(at_ns)},{text}}}' for at_ns, text in events),
    ]
    about = json.dumps(_about(window, slices, choice), indent=1)
    try:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f'{{"displayTimeUnit":"ms","otherData":{about},"traceEvents":[\n')
            file.write(",\n".join(lines))
            file.write("\n]}\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; free some space or choose another --out") from error


def pack_lanes(phases: Iterable[PhaseSlice]) -> dict[int, int]:
    """A lane for each request, such that those on one lane do not overlap and the lowest free lane is taken."""
    spans: dict[int, tuple[int, int]] = {}
    for phase in phases:
        start_ns, end_ns = spans.get(phase.request_id, (phase.start_ns, phase.end_ns))
        spans[phase.request_id] = min(start_ns, phase.start_ns), max(end_ns, phase.end_ns)
    lanes: dict[int, int] = {}
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for request_id, (start_ns, end_ns) in sorted(spans.items(), key=lambda span: (span[1][0], span[0])):
        while busy and busy[0][0] <= start_ns:
            heappush(free, heappop(busy)[1])
        lanes[request_id] = heappop(free) if free else len(busy) + 1
        heappush(busy, (end_ns, lanes[request_id]))
    return lanes


def _about(window: TraceWindow, slices: Slices, choice: str) -> dict[str, object]:
    left_out = slices.left_out
    return {
        "window_start_s": window.start_ns / 1e9,
        "window_end_s": window.end_ns / 1e9,
        "window_choice": choice,
        "tokens_processed": window.tokens,
        "slices": slices.num_written,
        "slices_left_out": left_out,
        "state": f"cut: {left_out} later slices found no room" if left_out else "complete",
    }


def _us(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def _names(device_name: str, lanes: dict[int, int], has_copies: bool) -> Iterator[str]:
    yield _name("process_name", DEVICE, 0, device_name)
    yield _name("process_name", REQUESTS, 0, "requests")
    yield _name("thread_name", DEVICE, 1, "steps")
    for lane in range(1, max(lanes.values(), default=0) + 1):
        yield _name("thread_name", REQUESTS, lane, f"lane {lane:03d}")
    if has_copies:
        yield _name("process_name", LINKS, 0, "links")
        for track, name in enumerate(LINK_NAMES.values(), 1):
            yield _name("thread_name", LINKS, track, name)


def _name(kind: str, process: int, lane: int, name: str) -> str:
    return f'{{"ph":"M","name":"{kind}","pid":{process},"tid":{lane},"args":{{"name":{json.dumps(name)}}}}}'


def _slice(process: int, lane: int, duration_ns: int, name: str, args: str) -> str:
    return f'"ph":"X","dur":{_us(duration_ns)},"pid":{process},"tid":{lane},"name":"{name}","args":{{{args}}}'


def _steps(steps: list[StepSlice]) -> Iterator[_Event]:
    for step in steps:
        tokens = f'"iterations":{step.iterations},"decode_rows":{step.rows},"prefill_tokens":{step.prefill_tokens}'
        load = f'"context_tokens":{step.context_tokens},"kv_blocks":{step.kv_blocks}'
        text = _slice(DEVICE, 1, step.end_ns - step.start_ns, _step_name(step), f"{tokens},{load}")
        yield _Event(step.start_ns, text)


def _step_name(step: StepSlice) -> str:
    if not step.rows:
        return f"prefill {step.prefill_tokens}"
    return f"mixed {step.rows}+{step.prefill_tokens}" if step.prefill_tokens else f"decode x{step.iterations}"


def _counters(steps: list[StepSlice]) -> Iterator[_Event]:
    """Changes of the gauges, as each step begins; nothing runs between steps."""
    shown: dict[str, int] = {"cached blocks": 0}
    for step, following in pairwise([*steps, None]):
        assert step is not None
        gauges = {
            "running": step.running,
            "waiting": step.waiting,
            "parked": step.parked,
            "KV blocks": step.kv_blocks,
            "cached blocks": step.cached_blocks,
        }
        for name, value in gauges.items():
            if shown.get(name) != value:
                yield _counter(step.start_ns, name, value)
        shown = gauges
        if following is None or following.start_ns > step.end_ns:
            yield _counter(step.end_ns, "running", 0)
            del shown["running"]


def _counter(at_ns: int, name: str, value: int) -> _Event:
    return _Event(at_ns, f'"ph":"C","pid":{DEVICE},"tid":0,"name":"{name}","args":{{"value":{value}}}')


def _phases(slices: Slices, lanes: dict[int, int]) -> Iterator[_Event]:
    for phase in slices.phases:
        end = f',"end":"{phase.ended}"' if phase.ended else ""
        cached = f',"cached_tokens":{phase.cached_tokens}' if phase.cached_tokens else ""
        args = f'"request":{phase.request_id}{cached}{end}'
        text = _slice(REQUESTS, lanes[phase.request_id], phase.end_ns - phase.start_ns, phase.name, args)
        yield _Event(phase.start_ns, text)
    for at_ns, request_id, freed_blocks, reason in slices.preemptions:
        lane = lanes.get(request_id, 0)
        args = f'"request":{request_id},"freed_blocks":{freed_blocks},"why":{json.dumps(reason)}'
        text = f'"ph":"i","s":"t","pid":{REQUESTS},"tid":{lane},"name":"preempted","args":{{{args}}}'
        yield _Event(at_ns, text)


def _copies(copies: list[CopySlice]) -> Iterator[_Event]:
    tracks = {link: track for track, link in enumerate(LINK_NAMES, 1)}
    for copy in copies:
        error = f',"error":{json.dumps(copy.error)}' if copy.error else ""
        args = f'"request":{copy.request_id},"bytes":{copy.num_bytes}{error}'
        name = f"request {copy.request_id}"
        yield _Event(copy.start_ns, _slice(LINKS, tracks[copy.link], copy.end_ns - copy.start_ns, name, args))
