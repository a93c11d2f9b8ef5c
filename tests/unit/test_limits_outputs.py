"""The heap of output limits against the rows themselves, however they come and go."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.batch import DecodeBatch
from schedlab.core.limits import SLACK_ENTRIES, OutputLimits
from schedlab.sequence import Sequence
from tests.unit.sequences import join, waiting


@given(st.data())
@settings(max_examples=150, derandomize=True, deadline=None, database=None)
def test_each_row_is_reported_once_at_its_last_output(data: st.DataObject) -> None:
    batch = DecodeBatch(4)
    limits = OutputLimits(batch)
    parked: list[Sequence] = []
    for number in range(data.draw(st.integers(1, 30))):
        move = data.draw(st.sampled_from(("join", "rejoin", "leave", "advance", "advance")))
        if move == "join":
            sequence = waiting(number, max_outputs=data.draw(st.integers(2, 12)))
            join(batch, sequence)
            limits.add(sequence)
        elif move == "rejoin" and parked and parked[-1].num_outputs + 1 < parked[-1].max_outputs:
            join(batch, parked[-1])
            limits.add(parked.pop())
        elif move == "leave" and batch.rows:
            parked.append(data.draw(st.sampled_from(list(batch.rows))))
            batch.leave(parked[-1])
        elif batch.rows:
            left = {sequence: sequence.max_outputs - batch.outputs(sequence) for sequence in batch.rows}
            assert limits.next_step() == batch.step + min(left.values())
            iterations = data.draw(st.integers(1, min(left.values())))
            batch.step += iterations
            done = limits.reached()
            assert set(done) == {sequence for sequence, most in left.items() if most == iterations}
            assert len(done) == len(set(done))
            for sequence in done:
                batch.leave(sequence)


def test_rows_that_left_take_no_room_for_ever() -> None:
    batch = DecodeBatch(4)
    limits = OutputLimits(batch)
    for number in range(3 * SLACK_ENTRIES):
        sequence = waiting(number)
        join(batch, sequence)
        limits.add(sequence)
        batch.leave(sequence)
    assert len(limits._heap) <= 2 * len(batch) + SLACK_ENTRIES + 1
