"""The decode batch's derived numbers against rows that are counted one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.batch import DecodeBatch
from schedlab.sequence import Sequence
from tests.unit.sequences import join, waiting

FIXED = settings(max_examples=150, derandomize=True, deadline=None, database=None)


class Rows:
    """A batch beside plain lists of its rows' lengths and outputs."""

    def __init__(self, block_size: int, window_tokens: int | None) -> None:
        self.batch = DecodeBatch(block_size, window_tokens)
        self.lengths: dict[Sequence, int] = {}
        self.outputs: dict[Sequence, int] = {}

    def join(self, sequence: Sequence) -> None:
        join(self.batch, sequence)
        self.lengths[sequence], self.outputs[sequence] = sequence.num_computed, sequence.num_outputs

    def leave(self, sequence: Sequence) -> None:
        self.batch.leave(sequence)
        assert sequence.num_computed == self.lengths.pop(sequence)
        assert sequence.num_outputs == self.outputs.pop(sequence)

    def advance(self, iterations: int) -> None:
        self.batch.step += iterations
        self.batch.newcomers.clear()
        for sequence in self.lengths:
            self.lengths[sequence] += iterations
            self.outputs[sequence] += iterations

    def growing(self, iteration: int) -> list[Sequence]:
        """Rows whose next token of that iteration starts a block, in joining order."""
        size = self.batch.block_size
        return [sequence for sequence, length in self.lengths.items() if (length + iteration) % size == 0]


@st.composite
def all_rows(draw: st.DrawFn) -> Rows:
    """A batch after any number of joins, leaves and iterations."""
    rows = Rows(draw(st.integers(1, 6)), draw(st.sampled_from((None, 1, 4, 9))))
    gone: list[Sequence] = []
    for number in range(draw(st.integers(1, 25))):
        move = draw(st.sampled_from(("join", "join", "rejoin", "leave", "advance")))
        if move == "join":
            rows.join(waiting(number, draw(st.integers(1, 14))))
        elif move == "rejoin" and gone:
            rows.join(gone.pop())
        elif move == "leave" and rows.lengths:
            gone.append(draw(st.sampled_from(list(rows.lengths))))
            rows.leave(gone[-1])
        else:
            rows.advance(draw(st.integers(0, 12)))
    return rows


@given(all_rows())
@FIXED
def test_lengths_outputs_and_sums(rows: Rows) -> None:
    batch = rows.batch
    assert list(batch.rows) == list(rows.lengths) and len(batch) == len(rows.lengths)
    assert batch.context_tokens == sum(rows.lengths.values())
    for sequence, length in rows.lengths.items():
        assert sequence in batch
        assert (batch.length(sequence), batch.outputs(sequence)) == (length, rows.outputs[sequence])
    if batch.windowed is not None:
        window = batch.windowed.window_tokens
        found = batch.windowed.sum(len(batch), batch.step)
        below = [length for length in rows.lengths.values() if length < window]
        assert found.tokens == sum(min(length, window) for length in rows.lengths.values())
        assert found.growing_rows == len(below)
        assert not below or found.iterations == window - max(below)


@given(all_rows(), st.integers(1, 40), st.integers(0, 60))
@FIXED
def test_growth_is_what_stepping_would_need(rows: Rows, count: int, blocks: int) -> None:
    batch = rows.batch
    stepped = [rows.growing(iteration) for iteration in range(count)]
    assert list(batch.growing(0)) == stepped[0]
    cycle = [list(grown) for grown in batch.growing_from(1)]
    assert len(cycle) == batch.block_size
    assert [cycle[(iteration - 1) % len(cycle)] for iteration in range(1, count)] == stepped[1:]
    for first in range(0, count, 7):
        assert batch.growth_blocks(first, count - first) == sum(map(len, stepped[first:]))
    if batch.rows:
        fits = [n for n in range(1, count + 1) if sum(map(len, stepped[1:n])) <= blocks]
        assert batch.affordable(blocks, count) == max(fits)


@given(all_rows())
@FIXED
def test_only_rows_that_have_not_been_in_a_step_are_newcomers(rows: Rows) -> None:
    assert all(sequence in rows.lengths for sequence in rows.batch.newcomers)
    assert len(dict.fromkeys(rows.batch.newcomers)) == len(rows.batch.newcomers)


def test_the_oldest_token_is_that_of_the_row_that_waits_longest() -> None:
    batch = DecodeBatch(4)
    early, late = waiting(0), waiting(1)
    join(batch, early, now_ns=10)
    assert batch.oldest_token_ns() == 10
    batch.step, batch.last_step_ns = 1, 25
    join(batch, late, now_ns=30)
    assert batch.oldest_token_ns() == 25
    batch.leave(early)
    assert early.last_token_ns == 25
    assert batch.oldest_token_ns() == 30
