"""With which token a request ends in the scheduler, wherever that token comes from, and what its end says of it."""

from __future__ import annotations

import pytest

from schedlab.config import SchedulerConfig
from schedlab.events import Finished
from schedlab.request import FinishReason, SamplingParams
from tests.unit.hand_device import Hand, HandDevice

EOS = 7


class Ends:
    """Observer: how every request ended."""

    def __init__(self) -> None:
        self.finished: list[Finished] = []

    def on_finished(self, event: Finished) -> None:
        self.finished.append(event)


def hand(num_blocks: int = 100) -> tuple[Hand, Ends]:
    config = SchedulerConfig(max_num_seqs=2, max_num_batched_tokens=64, max_model_len=64, block_size=4)
    made, ends = Hand(config, HandDevice(num_blocks)), Ends()
    made.core.bus.add(ends)
    return made, ends


@pytest.mark.parametrize("least", [0, 1, 2, 3, 5])
def test_the_first_ending_token_at_or_behind_min_tokens_ends_it(least: int) -> None:
    """The first output comes of the prompt's end, the others of decode rows: both count alike."""
    made, ends = hand()
    made.submit(1, (), 6, sampling=SamplingParams((EOS,), min_tokens=least))
    made.tick(8, token=EOS)
    (end,) = ends.finished
    assert (end.reason, end.sequence.num_outputs) == (FinishReason.STOP, max(least, 1))


@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_token_that_ends_nothing_is_counted_up_to_max_tokens(most: int) -> None:
    made, ends = hand()
    made.submit(1, (), 6, outputs=most, sampling=SamplingParams((EOS,)))
    made.tick(8, token=EOS + 1)
    (end,) = ends.finished
    assert (end.reason, end.sequence.num_outputs) == (FinishReason.LENGTH, most)


def test_who_outgrows_the_pool_is_told_how_many_outputs_there_are() -> None:
    """Three blocks of 4, a prompt of 6: positions 6 to 11 take outputs, and the one sampled there is the seventh."""
    made, ends = hand(num_blocks=3)
    made.submit(1, (), 6)
    made.tick(12)
    (end,) = ends.finished
    assert (end.reason, end.sequence.num_outputs) == (FinishReason.ERROR, 7)
    assert "it holds all 3 blocks of the pool after 7 outputs and needs one more" in end.sequence.error
