"""The memory plan: bytes are per GPU, every byte has one owner, and what does not fit is refused with the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import find_model
from schedlab.errors import UsageError
from schedlab.memory.reserve import DoesNotFit, MemoryNeeds, MemoryPlan, plan_memory
from schedlab.memory.workspace import captured_sizes, graph_bytes, peak_activation_bytes

GIB = 1 << 30
BLOCK_BYTES = 16 * 131072


def plan(**changes: Any) -> MemoryPlan:
    """A plan whose pool is exactly 1 GiB, but for *changes*."""
    numbers = {
        "memory_bytes": 4 * GIB,
        "weights_bytes": 2 * GIB,
        "activations_bytes": GIB,
        "kv_bytes_per_token": 131072,
        "block_size": 16,
        "max_model_len": 16,
        "max_num_seqs": 8,
        "utilisation_percent": 100,
        "context_bytes": 0,
    }
    return plan_memory(MemoryNeeds(**{**numbers, **changes}))


@pytest.mark.parametrize("block_size", [1, 16, 48, 64])
@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize(("model", "kv_bytes"), [("llama-3-8b", 131072), ("qwen2.5-7b", 57344)])
def test_a_prompt_takes_whole_blocks_of_this_gpus_share(model: str, kv_bytes: int, ranks: int, block_size: int) -> None:
    share = find_model(model).kv_bytes_per_token(ranks)
    assert share * ranks == kv_bytes
    planned = plan(kv_bytes_per_token=share, block_size=block_size, max_model_len=1024)
    assert planned.kv_bytes + planned.unused_bytes == GIB
    assert planned.block_bytes == block_size * kv_bytes // ranks
    assert planned.num_blocks == GIB // (block_size * kv_bytes // ranks)
    assert planned.blocks_per_sequence == -(-1024 // block_size)
    assert planned.full_sequences == planned.num_blocks // planned.blocks_per_sequence


@given(
    memory=st.integers(4 * GIB, 200 * GIB),
    weights=st.integers(0, GIB),
    activations=st.integers(0, 100 << 20),
    per_token=st.integers(1, 2**20),
    block_size=st.integers(1, 128),
    percent=st.integers(75, 100),
    state=st.sampled_from([0, 1, 12345, 10 << 20]),
    seats=st.integers(1, 64),
    snapshots=st.integers(0, 1000),
    graphs=st.integers(0, GIB),
)
def test_every_byte_has_one_owner_and_less_than_a_block_is_left(
    memory: int,
    weights: int,
    activations: int,
    per_token: int,
    block_size: int,
    percent: int,
    state: int,
    seats: int,
    snapshots: int,
    graphs: int,
) -> None:
    planned = plan_memory(
        MemoryNeeds(
            memory_bytes=memory,
            weights_bytes=weights,
            activations_bytes=activations,
            kv_bytes_per_token=per_token,
            block_size=block_size,
            max_model_len=1,
            max_num_seqs=seats,
            state_bytes_per_seq=state,
            snapshot_slots=snapshots,
            graphs_bytes=graphs,
            utilisation_percent=percent,
            context_bytes=1 << 20,
        )
    )
    assert sum(planned.owners.values()) == planned.total_bytes == memory
    assert all(amount >= 0 for amount in planned.owners.values())
    assert 0 <= planned.unused_bytes < planned.block_bytes
    assert planned.kv_bytes == planned.num_blocks * planned.block_bytes
    assert planned.state_bytes == seats * state
    assert planned.snapshots_bytes == planned.snapshot_slots * state
    assert planned.snapshot_slots <= snapshots


@given(
    room=st.integers(0, GIB // 2),
    longest=st.integers(1, 200_000),
    seats=st.integers(1, 64),
    wanted=st.integers(0, 1000),
    state=st.sampled_from([1, 123456, 10 << 20]),
)
def test_snapshots_never_take_what_a_sequence_or_the_seats_need(
    room: int, longest: int, seats: int, wanted: int, state: int
) -> None:
    """As many as are wanted while 4096 tokens of every seat and one whole sequence keep their room, and no fewer."""
    rules = {
        "memory_bytes": 3 * GIB + seats * state + room,
        "kv_bytes_per_token": 1024,
        "max_model_len": longest,
        "max_num_seqs": seats,
        "state_bytes_per_seq": state,
    }
    try:
        without = plan(**rules)
    except DoesNotFit:
        with pytest.raises(DoesNotFit):
            plan(**rules, snapshot_slots=wanted)
        return
    planned = plan(**rules, snapshot_slots=wanted)
    floor_blocks = max(-(-longest // 16), seats * -(-min(longest, 4096) // 16))
    assert planned.snapshot_slots <= wanted
    assert planned.num_blocks >= min(floor_blocks, without.num_blocks)
    if planned.snapshot_slots < wanted:
        left = room - (planned.snapshot_slots + 1) * state
        assert left < floor_blocks * 16 * 1024


def test_one_sequence_exactly_is_enough_and_one_byte_less_is_not() -> None:
    needed = 4 * BLOCK_BYTES
    assert plan(activations_bytes=2 * GIB - needed, max_model_len=49).full_sequences == 1
    with pytest.raises(
        DoesNotFit, match=r"leave 0\.01 GiB for KV beside 2\.00 GiB of weights.* max_model_len 49 needs"
    ):
        plan(activations_bytes=2 * GIB - needed + 1, max_model_len=49)


def test_weights_that_do_not_fit_name_the_numbers() -> None:
    model, gpu = find_model("llama-3-70b"), find_hardware("h100")
    with pytest.raises(DoesNotFit) as refused:
        plan(memory_bytes=gpu.memory_bytes, weights_bytes=model.weight_bytes(1), utilisation_percent=90)
    message = str(refused.value)
    assert "71.68 GiB usable of 79.65 GiB (90 %) do not hold 131.42 GiB of weights" in message
    assert plan(memory_bytes=gpu.memory_bytes, weights_bytes=model.weight_bytes(4), utilisation_percent=90)


def test_a_known_setting_has_a_known_number_of_blocks() -> None:
    model, gpu = find_model("llama-3-8b"), find_hardware("h100")
    activations = peak_activation_bytes(
        max_num_batched_tokens=8192,
        max_num_seqs=256,
        hidden=model.hidden,
        mlp_width=model.mlp_width,
        vocab=model.vocab,
        dtype_bytes=2,
        tp=1,
    )
    assert activations == 8192 * (2 * 4096 + 3 * 14336) * 2
    planned = plan_memory(
        MemoryNeeds(
            memory_bytes=gpu.memory_bytes,
            weights_bytes=model.weight_bytes(),
            activations_bytes=activations,
            kv_bytes_per_token=model.kv_bytes_per_token(),
            block_size=16,
            max_model_len=8192,
            max_num_seqs=256,
        )
    )
    assert planned.num_blocks == 28380


def test_graphs_take_the_share_kept_back_first_and_kv_only_beyond_it() -> None:
    kept_back = 4 * GIB - 4 * GIB * 90 // 100
    room = {"weights_bytes": GIB, "utilisation_percent": 90}
    without, within = plan(**room), plan(**room, graphs_bytes=kept_back)
    assert (within.num_blocks, within.reserve_bytes) == (without.num_blocks, 0)
    assert without.reserve_bytes == kept_back
    beyond = plan(**room, graphs_bytes=kept_back + 10 * BLOCK_BYTES)
    assert beyond.num_blocks == without.num_blocks - 10


def test_every_seat_owns_a_slot_of_state() -> None:
    assert plan().num_blocks - plan(state_bytes_per_seq=BLOCK_BYTES).num_blocks == 8
    assert plan(state_bytes_per_seq=BLOCK_BYTES, max_num_seqs=80).state_bytes == 80 * BLOCK_BYTES
    with pytest.raises(DoesNotFit, match=r"2\.00 GiB of state for 1024 sequences"):
        plan(state_bytes_per_seq=BLOCK_BYTES, max_num_seqs=1024)


def test_snapshots_stop_where_kv_would_fall_below_its_floor() -> None:
    # 512 blocks: 8 go to the seats' state; the floor is one block for each of 8 seats.
    assert plan(state_bytes_per_seq=BLOCK_BYTES, snapshot_slots=100).snapshot_slots == 100
    full = plan(state_bytes_per_seq=BLOCK_BYTES, snapshot_slots=10_000)
    assert (full.snapshot_slots, full.num_blocks) == (512 - 8 - 8, 8)
    longer = plan(state_bytes_per_seq=BLOCK_BYTES, snapshot_slots=10_000, max_model_len=100 * 16, max_num_seqs=1)
    assert (longer.snapshot_slots, longer.num_blocks) == (512 - 1 - 100, 100)
    assert plan(snapshot_slots=10_000).snapshot_slots == 0


def test_one_graph_is_captured_for_each_size_up_to_the_seats() -> None:
    assert captured_sizes(3) == [1, 2]
    assert captured_sizes(20) == [1, 2, 4, 8, 16]
    assert len(captured_sizes(256)) == 35
    assert captured_sizes(10_000)[-1] == 512
    assert graph_bytes(180, 256) == pytest.approx(0.21 * GIB, rel=0.01)


def test_activations_grow_with_tokens_and_logits_with_sequences() -> None:
    shape = {"hidden": 576, "mlp_width": 1536, "vocab": 49152, "dtype_bytes": 2, "tp": 1}
    few = peak_activation_bytes(max_num_batched_tokens=64, max_num_seqs=256, **shape)
    assert few == 256 * 49152 * 6
    assert peak_activation_bytes(max_num_batched_tokens=8192, max_num_seqs=8, **shape) == 8192 * (1152 + 4608) * 2
    assert peak_activation_bytes(max_num_batched_tokens=64, max_num_seqs=512, **shape) == 2 * few
    wide = peak_activation_bytes(
        max_num_batched_tokens=8192, max_num_seqs=8, **shape, recurrent_width=9000, scan_bytes=7
    )
    assert wide == 8192 * (1152 + 9000) * 2 + 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"utilisation_percent": 0}, "utilisation must be 1..100"),
        ({"utilisation_percent": 101}, "utilisation must be 1..100"),
        ({"block_size": 0}, "block size must be positive"),
        ({"kv_bytes_per_token": 0}, "KV bytes per token must be positive"),
        ({"memory_bytes": 0}, "memory must be positive"),
        ({"max_model_len": 0}, "max_model_len must be positive"),
        ({"max_num_seqs": 0}, "max_num_seqs must be positive"),
    ],
)
def test_numbers_without_meaning_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(**changes)
