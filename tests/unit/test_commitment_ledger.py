"""The kept sum of commitments against a recount after every move."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.memory.commitment import CommitmentLedger
from schedlab.sequence import Sequence
from tests.unit.sequences import waiting


def recounted(sequence: Sequence, block_size: int, watermark: int) -> int:
    end = sequence.num_prompt_tokens + sequence.max_outputs
    known = sequence.num_prompt_tokens + sequence.num_outputs
    tokens = end if watermark < 0 else min(known + watermark, end)
    return tokens // block_size + 1


@given(st.data(), st.sampled_from((1, 2, 3, 4, 16)), st.sampled_from((-1, 0, 1, 3, 7, 20)))
@settings(max_examples=150, derandomize=True, deadline=None, database=None)
def test_the_sum_is_what_a_recount_gives(data: st.DataObject, block_size: int, watermark: int) -> None:
    ledger = CommitmentLedger(block_size, watermark)
    held: list[Sequence] = []
    growing: list[Sequence] = []
    away: list[Sequence] = []
    for number in range(data.draw(st.integers(1, 40))):
        moves = ["add", *(["start", "remove"] if held else []), *(["stop", "advance"] if growing else [])]
        moves += ["again"] if away else []
        move = data.draw(st.sampled_from(moves))
        if move == "add":
            held.append(waiting(number, data.draw(st.integers(1, 30)), data.draw(st.integers(1, 40))))
            ledger.add(held[-1])
        elif move == "again":
            held.append(away.pop(data.draw(st.integers(0, len(away) - 1))))
            ledger.add(held[-1])
        elif move == "start":
            sequence = data.draw(st.sampled_from(held))
            if sequence not in growing and sequence.num_outputs < sequence.max_outputs:
                sequence.num_outputs += 1
                growing.append(sequence)
                ledger.start_growing(sequence)
        elif move == "stop":
            sequence = growing.pop(data.draw(st.integers(0, len(growing) - 1)))
            ledger.stop_growing(sequence)
        elif move == "remove":
            sequence = held.pop(data.draw(st.integers(0, len(held) - 1)))
            growing = [other for other in growing if other is not sequence]
            ledger.remove(sequence)
            assert not ledger.holds(sequence) and ledger.held_by(sequence) == 0
            away.append(sequence)
        else:
            most = min(sequence.max_outputs - sequence.num_outputs for sequence in growing)
            iterations = data.draw(st.integers(0, most))
            ledger.advance(iterations)
            for sequence in growing:
                sequence.num_outputs += iterations
        assert ledger.blocks == sum(recounted(sequence, block_size, watermark) for sequence in held)
        for sequence in held:
            assert ledger.holds(sequence) and ledger.held_by(sequence) == recounted(sequence, block_size, watermark)


@pytest.mark.parametrize(
    ("watermark", "known", "end", "blocks"),
    [(-1, 5, 31, 2), (-1, 5, 32, 3), (0, 16, 99, 2), (8, 7, 99, 1), (8, 8, 9, 1)],
)
def test_a_commitment_is_one_block_more_than_full_ones(watermark: int, known: int, end: int, blocks: int) -> None:
    assert CommitmentLedger(16, watermark).blocks_of(known, end) == blocks
