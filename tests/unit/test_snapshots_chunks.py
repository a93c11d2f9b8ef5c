"""Where chunks end, what is saved there and while decoding, and who goes on from it."""

from __future__ import annotations

from typing import Any

import pytest

from schedlab.config import SchedulerConfig
from schedlab.core.caching import cached_prefix
from schedlab.core.scheduler import Scheduler
from schedlab.errors import UsageError
from schedlab.policies.fifo import Fifo
from schedlab.request import FinishReason
from tests.unit.hand_device import Hand, HandDevice

BLOCK = 16
TEXT = range(500, 600)


def hand(device: HandDevice | None = None, **rules: Any) -> Hand:
    given = {"max_num_batched_tokens": 512, "prefix_cache": True, "snapshot_slots": 8, **rules}
    return Hand(SchedulerConfig(**given), device or HandDevice())


def saves(one: Hand) -> list[int]:
    """Depths that were saved, in order."""
    return [int(moved[3]) for moved in one.device.moved if moved[0] == "save"]


def test_the_last_chunk_but_one_ends_a_block_below_the_last_boundary() -> None:
    for tokens, split in ((400, 368), (401, 384), (416, 384), (417, 400)):
        one = hand()
        one.submit(1, TEXT, tokens)
        one.tick(2)
        assert one.chunks(1) == [(0, split), (split, tokens)]
        assert saves(one) == [split]


def test_a_split_below_the_minimum_or_behind_the_start_is_none() -> None:
    one = hand()
    one.submit(1, TEXT, 272)
    one.tick(2)
    assert one.chunks(1) == [(0, 272)] and saves(one) == []
    smaller = hand(snapshot_min_tokens=64)
    smaller.submit(1, TEXT, 100)
    smaller.tick(2)
    assert smaller.chunks(1) == [(0, 80), (80, 100)] and saves(smaller) == [80]


def test_chunks_end_at_the_last_interval_boundary_inside() -> None:
    one = hand(snapshot_interval_blocks=8, max_num_batched_tokens=300)
    one.submit(1, TEXT, 1000, "s")
    one.tick(6)
    assert one.chunks(1) == [(0, 256), (256, 512), (512, 768), (768, 896), (896, 976), (976, 1000)]
    assert saves(one) == [256, 512, 768, 896, 976]
    pool = one.core.snapshots
    assert pool is not None
    assert {kept.num_tokens: kept.session for kept in pool.snapshots()} == {
        256: "",
        512: "",
        768: "",
        896: "",
        976: "s",
    }


def test_an_interval_boundary_behind_the_split_hides_none_before_it() -> None:
    one = hand(snapshot_interval_blocks=8)
    one.submit(1, TEXT, 390, "s")
    one.tick(5)
    assert one.chunks(1) == [(0, 256), (256, 368), (368, 384), (384, 390)]
    assert saves(one) == [256, 368, 384]


@pytest.mark.parametrize(
    "rules", [{"snapshot_slots": 0}, {"chunked_prefill": False, "max_model_len": 512, "max_num_batched_tokens": 600}]
)
def test_chunks_stay_as_they_are_without_slots_or_pieces(rules: dict[str, Any]) -> None:
    one = hand(**rules)
    one.submit(1, TEXT, 400)
    one.tick(2)
    assert one.chunks(1) == [(0, 400)] and saves(one) == []


def test_prompts_without_keys_and_devices_without_states_save_nothing() -> None:
    one = hand()
    one.submit(1, (), 400)
    one.tick(2)
    assert one.chunks(1) == [(0, 400)] and saves(one) == []
    plain = hand(HandDevice(state_bytes=0), snapshot_slots=0)
    plain.submit(1, TEXT, 400)
    plain.tick(2)
    assert plain.chunks(1) == [(0, 400)] and plain.core.snapshots is None
    with pytest.raises(UsageError, match="snapshot_slots is 8, and sequences on hand carry no state"):
        hand(HandDevice(state_bytes=0))


def test_the_same_prompt_goes_on_from_its_sessions_tail() -> None:
    one = hand(snapshot_interval_blocks=0, snapshot_decode_blocks=0)
    one.submit(1, TEXT, 401, "s", outputs=1)
    one.tick(3)
    one.submit(2, TEXT, 401, "s")
    one.submit(3, TEXT, 401, "t")
    one.tick(3)
    assert one.chunks(2) == [(384, 401)]
    assert one.chunks(3)[0][0] == 0
    assert one.sequence(2).num_cached_tokens == 384 and one.sequence(3).num_cached_tokens == 0
    pool = one.core.snapshots
    assert pool is not None
    assert (pool.num_used, pool.num_cut_hits, pool.counts()["cut_tokens"]) == (1, 2, 16 + 400)


@pytest.mark.parametrize("ticks", [60, 75])
def test_decode_saves_every_few_blocks_for_the_sequence_alone_until_it_ends(ticks: int) -> None:
    """Its latest state is found at its own depth, however many blocks have been filled since."""
    device = HandDevice()
    device.keys[1] = list(range(900, 930))
    one = hand(device, snapshot_min_tokens=16, snapshot_decode_blocks=2, snapshot_interval_blocks=0)
    one.submit(1, TEXT[:3], 48, "s", outputs=100)
    one.tick(ticks)
    pool = one.core.snapshots
    assert pool is not None
    assert saves(one) == [16, 64, 96]
    assert [(kept.num_tokens, kept.key) for kept in pool.snapshots()] == [(16, TEXT[0]), (96, None)]
    one.cancel(1)
    one.tick()
    assert [(kept.num_tokens, kept.key, kept.session) for kept in pool.snapshots()] == [(96, 902, "s")]
    one.submit(2, [*TEXT[:3], *range(900, 930)], 200, "s")
    one.tick()
    assert one.sequence(2).num_cached_tokens == 96


def test_outputs_without_known_keys_take_no_slot() -> None:
    one = hand(snapshot_min_tokens=16, snapshot_decode_blocks=1, snapshot_interval_blocks=0)
    one.submit(1, TEXT[:3], 48)
    one.tick(60)
    assert saves(one) == [16]


def test_a_sequence_that_leaves_on_a_boundary_leaves_its_state() -> None:
    device = HandDevice()
    device.keys[1] = list(range(900, 930))
    one = hand(device, snapshot_min_tokens=16, snapshot_decode_blocks=0, snapshot_interval_blocks=0)
    one.submit(1, TEXT[:3], 48, "s", outputs=17)
    one.tick(18)
    assert 1 not in one.core.sequences
    assert saves(one) == [16, 64]


@pytest.mark.parametrize(
    ("outputs", "decode_blocks", "saved"),
    [(17, 0, [16, 64]), (17, 4, [16, 64]), (20, 4, [16, 64]), (33, 0, [16]), (90, 4, [16, 64])],
)
def test_a_row_has_its_state_saved_until_its_window_lets_a_block_go(
    outputs: int, decode_blocks: int, saved: list[int]
) -> None:
    """A window of four blocks: with the fourth the first is copied, and it goes only when there is a fifth."""
    device = HandDevice()
    device.keys[1] = list(range(900, 930))
    one = hand(
        device,
        snapshot_min_tokens=16,
        snapshot_decode_blocks=decode_blocks,
        snapshot_interval_blocks=0,
        window_blocks=4,
        swap_disk_gib=1,
    )
    one.submit(1, TEXT[:3], 48, "s", outputs=outputs)
    for _ in range(outputs + 2):
        one.tick()
        one.end_all_copies()
    assert 1 not in one.core.sequences
    assert saves(one) == saved


def test_a_session_that_computed_nothing_takes_no_snapshot_from_everybody() -> None:
    one = hand(snapshot_interval_blocks=0)
    one.submit(1, TEXT, 401, outputs=1)
    one.tick(3)
    one.submit(2, TEXT, 401, "s")
    one.core.begin_tick()
    one.core.plan()
    assert one.sequence(2).num_computed == 384
    one.core.end(one.sequence(2), FinishReason.CANCELLED)
    pool = one.core.snapshots
    assert pool is not None and [(kept.num_tokens, kept.session) for kept in pool.snapshots()] == [(384, "")]
    assert saves(one) == [384]


def test_an_answer_that_was_looked_up_is_forgotten_when_its_snapshot_goes() -> None:
    one = hand(max_num_seqs=1, snapshot_slots=1, snapshot_interval_blocks=0)
    one.submit(1, TEXT, 401, outputs=1)
    one.tick(3)
    one.submit(2, range(5000, 5100), 48)
    one.tick()
    one.submit(3, TEXT, 401)
    one.tick()
    core, waiting = one.core, one.sequence(3)
    assert core.snapshots is not None
    assert len(cached_prefix(core, waiting)) == 24
    core.snapshots.save(1 << 40, 320)
    assert cached_prefix(core, waiting) == []


def test_a_snapshot_is_overwritten_only_after_its_restore_was_asked_for() -> None:
    one = hand(max_num_seqs=1, snapshot_slots=1, snapshot_interval_blocks=0)
    one.submit(1, TEXT, 401, outputs=1)
    one.submit(2, TEXT, 801, outputs=1)
    one.tick(8)
    assert [moved[0] for moved in one.device.moved] == ["save", "restore", "save"]
    assert one.chunks(2)[0][0] == 384


def test_the_schedulers_of_stateless_models_refuse_no_other_field() -> None:
    config = SchedulerConfig(prefix_cache=True)
    assert Scheduler(config, Fifo(config), HandDevice(state_bytes=0)).snapshots is None
    with pytest.raises(UsageError, match="prefix_cache is off"):
        SchedulerConfig(snapshot_slots=3)
