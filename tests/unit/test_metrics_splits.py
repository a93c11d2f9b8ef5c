"""Every output is the same bytes however decode runs are cut into events, and equals a count token by token."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.sim.links import CopyTicket
from experiments.event_log import EventLog
from experiments.metrics.growth import blocks_during
from experiments.metrics.latency import TokenGaps
from experiments.metrics.requests import RequestTable
from experiments.metrics.summary import Summary
from experiments.metrics.timeline import Timeline
from experiments.metrics.traffic import Traffic
from experiments.metrics.usage import Usage
from schedlab.events import EventBus, StepDone
from schedlab.pace import ns_to_quanta
from tests.event_script import MS, OPERATIONS, EventScript, play, single, whole

scripts = st.lists(
    st.tuples(st.sampled_from((*OPERATIONS, "arrive", "admit", "chunk", "enter", "enter", "decode", "decode")),
              st.integers(0, 9), st.integers(1, 40)),
    max_size=50,
)  # fmt: skip
SLO = {"ttft": 0.2, "tpot": 0.02, "itl": 0.03, "e2e": 2.0}


class TokenByToken:
    """An oracle: expands every step into rows and iterations."""

    def __init__(self) -> None:
        self.gaps: list[int] = []
        self.last: dict[int, int] = {}
        self.outputs: dict[int, int] = {}
        self.block_quanta = 0
        self.iterations: list[tuple[int, int, int, int]] = []

    def on_step_done(self, event: StepDone) -> None:
        grown = [sum(1 for growth in event.growth if growth.iteration == i) for i in range(event.pace.count)]
        blocks = event.used_blocks - (grown[0] if grown else 0)
        for iteration in range(event.pace.count):
            start, end = event.pace.end_quanta(iteration), event.pace.end_quanta(iteration + 1)
            blocks += grown[iteration]
            assert blocks_during(event, iteration) == blocks
            self.block_quanta += blocks * (end - start)
            self.iterations.append((start, end, event.decode_rows, blocks))
            for row in event.batch.rows if event.decode_rows else ():
                self._token(row.request_id, end, end)
        for chunk in event.chunks:
            if chunk.samples:
                self._token(chunk.sequence.request_id, end, end >> 20 << 20)

    def on_swapped_out(self, event: Any) -> None:
        self.on_preempted(event)

    def on_preempted(self, event: Any) -> None:
        number = event.sequence.request_id
        if number in self.last:
            self.last[number] = self.last[number] >> 20 << 20

    def _token(self, number: int, end: int, stamp: int) -> None:
        if number in self.last:
            self.gaps.append(end - self.last[number])
        self.last[number] = stamp
        self.outputs[number] = self.outputs.get(number, 0) + 1


@dataclass
class Observed:
    """Everything that watches one playing of a script."""

    log: EventLog
    requests: RequestTable = field(default_factory=RequestTable)
    gaps: TokenGaps = field(default_factory=TokenGaps)
    usage: Usage = field(default_factory=Usage)
    timeline: Timeline = field(init=False)
    traffic: Traffic = field(default_factory=Traffic)
    oracle: TokenByToken = field(default_factory=TokenByToken)
    copies: list[CopyTicket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.timeline = Timeline(self.usage, 50 * MS, 64)

    def bytes(self, folder: Path) -> tuple[Any, ...]:
        self.log.close()
        self.requests.write_parquet(folder / "requests.parquet")
        self.timeline.write_parquet(folder / "timeline.parquet")
        summary = Summary(self.requests, self.gaps, self.usage, 500, SLO).to_dict()
        files = [(folder / name).read_bytes() for name in ("events.jsonl", "requests.parquet", "timeline.parquet")]
        traffic = self.traffic.to_dict()
        return (
            *files,
            json.dumps(traffic, allow_nan=False),
            json.dumps(summary, allow_nan=False),
            sorted(self.gaps.histogram.counts.items()),
        )


def observe(
    operations: list[Any], split: Callable[[int], list[int]], stepped: bool = False
) -> tuple[Observed, tuple[Any, ...]]:
    with TemporaryDirectory() as name:
        observed = Observed(EventLog(Path(name) / "events.jsonl"))
        bus = EventBus()
        for observer in vars(observed).values():
            if observer is not observed.copies:
                bus.add(observer)
        script = EventScript(bus, split=split, stepped=stepped, on_copy=[observed.traffic.copy_begun])
        play(script, operations)
        observed.copies = script.copies
        return observed, observed.bytes(Path(name))


@settings(deadline=None)
@given(scripts, st.data())
def test_outputs_are_the_same_bytes_however_runs_are_split(operations: list[Any], data: st.DataObject) -> None:
    def drawn(count: int) -> list[int]:
        cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=4))) if count > 1 else []
        return [after - before for before, after in pairwise([0, *cuts, count])]

    expected = observe(operations, whole)[1]
    assert observe(operations, whole)[1] == expected
    assert observe(operations, drawn)[1] == expected
    assert observe(operations, single)[1] == expected
    assert observe(operations, whole, stepped=True)[1] == expected


@settings(deadline=None)
@given(scripts)
def test_gaps_and_sums_equal_a_count_token_by_token(operations: list[Any]) -> None:
    observed = observe(operations, whole)[0]
    oracle, histogram = observed.oracle, observed.gaps.histogram
    assert histogram.count == len(oracle.gaps)
    assert histogram.count == sum(max(outputs - 1, 0) for outputs in observed.requests.output_tokens)
    assert histogram.total == sum(oracle.gaps)
    assert histogram.maximum == max(oracle.gaps, default=0)
    assert observed.usage.block_quanta == oracle.block_quanta
    assert observed.usage.peak_blocks == max((blocks for *_, blocks in oracle.iterations), default=0)
    outputs = sum(oracle.outputs.values())
    assert observed.usage.output_tokens == outputs
    assert sum(observed.requests.output_tokens) == outputs
    assert observed.usage.steps == len(oracle.iterations)


@settings(deadline=None)
@given(scripts)
def test_gaps_and_ttft_add_up_to_the_last_token(operations: list[Any]) -> None:
    observed = observe(operations, whole)[0]
    table = observed.requests
    spans = [
        last - first
        for last, first in zip(table.last_token_ns, table.first_token_ns, strict=True)
        if first >= 0
    ]  # fmt: skip
    # Stamps are floors of quanta, so each start and end of a residence in the batch may hide less than one nanosecond.
    slack_ns = 2 * (len(spans) + observed.usage.preemptions + sum(table.swaps))
    assert abs(observed.gaps.histogram.total / ns_to_quanta(1) - sum(spans)) <= slack_ns


@settings(deadline=None)
@given(scripts)
def test_timeline_equals_sampling_each_iteration(operations: list[Any]) -> None:
    observed = observe(operations, whole)[0]
    frame = observed.timeline.to_frame()
    iterations = observed.oracle.iterations
    assert frame["steps"].sum() == len(iterations)
    assert frame["output_tokens"].sum() == observed.usage.output_tokens
    assert frame["prompt_tokens"].sum() == observed.usage.computed_prefill_tokens
    assert len(frame) <= 64
    before = 0
    for row in frame.itertuples():
        boundary = ns_to_quanta(row.t_ns)
        assert row.steps == sum(1 for _, end, _, _ in iterations if before < end <= boundary)
        covering = [blocks for start, end, _, blocks in iterations if start < boundary <= end]
        assert row.kv_blocks == covering[0] if covering else row.running == 0
        before = boundary


@settings(deadline=None)
@given(scripts)
def test_links_overlap_with_compute_as_each_copy_does_with_each_iteration(operations: list[Any]) -> None:
    observed = observe(operations, whole)[0]
    links = observed.traffic.to_dict()["links"]
    for kind, link in links.items():
        copies = [copy for copy in observed.copies if copy.kind == kind]
        busy = sum(copy.end_quanta - copy.start_quanta for copy in copies)
        overlap = sum(
            max(0, min(end, copy.end_quanta) - max(start, copy.start_quanta))
            for copy in copies
            for start, end, _, _ in observed.oracle.iterations
        )
        assert (link["copies"], link["bytes"]) == (len(copies), sum(copy.num_bytes for copy in copies))
        assert link.get("overlap_share") == (round(overlap / busy, 6) if busy else None)
    assert sum(link["copies"] for link in links.values()) == len(observed.copies)
