"""Runs of worlds whose every decision is written down, to be compared."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from backends.sim.device import SimDevice
from backends.sim.testbed import SimTestbed
from experiments.event_log import EventLog
from schedlab.events import StepDone
from schedlab.testing import Node, Sessions, World


@dataclass(frozen=True)
class Recorded:
    """What a run left: its event log, the tables of its chunks, how it ended, and the checker's counts.

    Attributes:
        counts: requests accepted and ended, tokens computed by prefill, and tokens computed again.
        num_ticks: of the scheduler; the only thing in which leaping may differ.
    """

    log: bytes
    tables: list[tuple[int, tuple[int, ...]]]
    end: str
    counts: tuple[int, int, int, int]
    num_ticks: int = field(compare=False)


class Recorder:
    """Observer of a node: its event log, and the block table behind every chunk."""

    def __init__(self, node: Node, path: Path) -> None:
        self._node = node
        self._path = path
        self._log = EventLog(path)
        self._tables: list[tuple[int, tuple[int, ...]]] = []
        node.core.bus.add(self._log)
        node.core.bus.add(self)

    def on_step_done(self, event: StepDone) -> None:
        for chunk in event.chunks:
            self._tables.append((chunk.sequence.request_id, tuple(chunk.sequence.block_table)))

    def recorded(self, end: str) -> Recorded:
        self._log.close()
        book = self._node.checker.book
        counts = book.num_accepted, book.num_finished, book.prefill_tokens, book.recomputed_tokens
        return Recorded(self._path.read_bytes(), self._tables, end, counts, book.num_ticks)


def run(
    world: World,
    *,
    leap: bool,
    device_class: type[SimDevice] = SimDevice,
    watch: Callable[[Node], None] | None = None,
) -> Recorded:
    """One run to its end; a stall is an outcome, a broken law an error. `watch` sees the node before it starts."""
    testbed = SimTestbed(device_class)
    with tempfile.TemporaryDirectory() as folder:
        node = Node(testbed, world, leap=leap)
        recorder = Recorder(node, Path(folder) / "events.jsonl")
        if watch is not None:
            watch(node)
        node.start()
        Sessions(node, world.sessions)
        return recorder.recorded(node.run_to_end())


def assert_leap_equals_step(world: World, device_class: type[SimDevice] = SimDevice) -> Recorded:
    """Run with and without leaps; everything must be the same to the byte."""
    leapt, stepped = (run(world, leap=leap, device_class=device_class) for leap in (True, False))
    assert_same(leapt, stepped)
    return leapt


def assert_same(leapt: Recorded, stepped: Recorded) -> None:
    """The same to the byte; the first line that is not is shown."""
    leapt_lines, stepped_lines = leapt.log.splitlines(), stepped.log.splitlines()
    for number, (ours, theirs) in enumerate(zip(leapt_lines, stepped_lines, strict=False), 1):
        assert ours == theirs, f"line {number} of the event log: leap {ours!r}, step {theirs!r}"
    assert len(leapt_lines) == len(stepped_lines)
    assert leapt.tables == stepped.tables
    assert leapt == stepped
