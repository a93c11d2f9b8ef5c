"""The simulated device: where runs end, where deliveries cut them, and what results say."""

from __future__ import annotations

from typing import Any

import pytest

from backends.sim.clock import SimClock
from backends.sim.costs.constant import Constant
from backends.sim.device import SimDevice
from backends.sim.outputs import Lengths, Script
from schedlab.batch import DecodeBatch
from schedlab.device import FOREVER_NS, Chunk, CopyKind, CopyOp, DeviceFacts, Step, StepResult
from schedlab.pace import quanta_to_ns
from tests.unit.sequences import join, waiting

STEP_NS = 1000


class Bench:
    """A device whose iterations take 1000 ns, and a batch of rows with the given output lengths (one is sampled)."""

    def __init__(self, *lengths: int) -> None:
        self.clock = SimClock()
        self.outputs = Lengths()
        self.device = SimDevice(self.clock, Constant(step_ns=STEP_NS), self.outputs, DeviceFacts("sim", 100))
        self.batch = DecodeBatch(4)
        self.rows = [waiting(number) for number in range(len(lengths))]
        self.results: list[tuple[int, StepResult]] = []
        for row, length in zip(self.rows, lengths, strict=True):
            self.outputs.expect(row.request_id, length)
            join(self.batch, row)

    def launch(self, repeat: int, until_ns: int = FOREVER_NS, **more: Any) -> None:
        ticket = self.device.launch(Step((), self.batch, repeat, until_ns)._replace(**more))
        self.device.when_done(ticket, lambda result: self.results.append((self.clock.now_ns(), result)))

    def deliver_at(self, at_quanta: int) -> None:
        self.clock.at(at_quanta, lambda _: self.device.interrupt())

    def run(self) -> tuple[int, StepResult]:
        """The end of the launched run and its result."""
        self.clock.run()
        ((at_ns, result),) = self.results
        return at_ns, result


@pytest.mark.parametrize(
    ("repeat", "until_ns", "iterations"),
    [(5, FOREVER_NS, 5), (50, FOREVER_NS, 9), (50, 3000, 3), (50, 3001, 4), (50, 0, 1), (2, 3000, 2), (1, 9000, 1)],
)
def test_a_run_ends_by_its_repeats_its_time_or_the_first_row_to_end(
    repeat: int, until_ns: int, iterations: int
) -> None:
    bench = Bench(20, 10)
    bench.launch(repeat, until_ns)
    at_ns, result = bench.run()
    assert (at_ns, result.repeats, result.pace.count) == (iterations * STEP_NS, iterations, iterations)
    assert result.ended == ([bench.rows[1]] if iterations == 9 else [])


@pytest.mark.parametrize(
    ("delivered_quanta", "iterations"),
    [
        (0, 1),
        (1, 1),
        (STEP_NS << 20, 1),
        ((STEP_NS << 20) + 1, 2),
        ((3 * STEP_NS << 20) - 1, 3),
        (3 * STEP_NS << 20, 3),
        ((8 * STEP_NS << 20) + 1, 9),
        (20 * STEP_NS << 20, 9),
    ],
)
def test_a_delivery_cuts_a_run_at_the_first_iteration_that_ends_then_or_later(
    delivered_quanta: int, iterations: int
) -> None:
    bench = Bench(10, 20)
    bench.launch(50)
    bench.deliver_at(delivered_quanta)
    at_ns, result = bench.run()
    assert (at_ns, result.repeats) == (iterations * STEP_NS, iterations)
    assert result.ended == ([bench.rows[0]] if iterations == 9 else [])
    assert quanta_to_ns(bench.device.busy_quanta) == at_ns


def test_the_earliest_of_several_deliveries_decides() -> None:
    bench = Bench(100)
    bench.launch(50)
    for quanta in ((7 * STEP_NS) << 20, (4 * STEP_NS << 20) + 5, (4 * STEP_NS << 20) + 9):
        bench.deliver_at(quanta)
    assert bench.run()[1].repeats == 5


def test_a_step_waits_for_the_copies_that_it_names() -> None:
    bench = Bench(100)
    copy = bench.device.copy(CopyOp(CopyKind.DEVICE_TO_HOST, (0,), 25_000, 0))
    start_ns = quanta_to_ns(bench.device.links.end_quanta(copy))
    bench.launch(2, after=(copy,))
    at_ns, result = bench.run()
    assert start_ns == 11_000 and at_ns == start_ns + 2 * STEP_NS
    assert quanta_to_ns(result.pace.start_quanta) == start_ns


def test_rows_that_left_end_nothing_and_a_row_that_came_back_ends_where_it_should() -> None:
    bench = Bench(5, 8)
    gone, stays = bench.rows
    bench.launch(1)
    bench.run()
    bench.batch.step += 1
    bench.batch.newcomers.clear()
    bench.batch.leave(gone)
    join(bench.batch, gone)
    bench.results.clear()
    bench.launch(50)
    at_ns, result = bench.run()
    assert (result.ended, result.repeats) == ([gone], 2), "outputs: 1 joined, 1 decoded, 1 sampled on return, 2 here"
    assert at_ns == 3 * STEP_NS and stays in bench.batch


def test_a_prompt_says_how_its_first_token_ends_it() -> None:
    bench = Bench()
    sequences = [waiting(number, prompt_tokens=4) for number in range(4)]
    for sequence, length in zip(sequences, (0, 1, 2, 0), strict=True):
        bench.outputs.expect(sequence.request_id, length)
    chunks = tuple(Chunk(sequence, 0, 4, samples=sequence is not sequences[3]) for sequence in sequences)
    bench.launch(1, chunks=chunks, decode=None)
    result = bench.run()[1]
    assert result.without_token == (sequences[0],)
    assert result.ended == [sequences[1]]


def test_a_device_with_tokens_does_one_iteration_and_names_each_rows_token() -> None:
    bench = Bench(1, 1)
    bench.device.outputs = Script({0: [7, 8, 9], 1: [4]}, filler=99)
    bench.device._ends._outputs = bench.device.outputs
    bench.launch(50)
    result = bench.run()[1]
    assert (result.repeats, result.tokens) == (1, {0: 8, 1: 99})


def test_only_one_step_is_in_flight() -> None:
    bench = Bench(9)
    bench.launch(3)
    with pytest.raises(AssertionError, match="one step at a time"):
        bench.launch(3)
