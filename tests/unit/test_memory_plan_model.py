"""Every number of a memory plan and of a refusal, found again by counting; and what a step needs beside KV."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.errors import UsageError
from schedlab.memory.reserve import DoesNotFit, MemoryNeeds, MemoryPlan, gib, plan_memory
from schedlab.memory.workspace import captured_sizes, graph_bytes, peak_activation_bytes

GIB = 1 << 30
NEEDS = st.builds(
    MemoryNeeds,
    memory_bytes=st.integers(1, 60_000),
    weights_bytes=st.integers(0, 20_000),
    activations_bytes=st.integers(0, 3000),
    kv_bytes_per_token=st.integers(1, 4),
    block_size=st.integers(1, 40),
    max_model_len=st.sampled_from((1, 17, 160, 4096, 5000)),
    max_num_seqs=st.integers(1, 6),
    state_bytes_per_seq=st.sampled_from((0, 1, 30, 700)),
    snapshot_slots=st.sampled_from((0, 1, 5, 60)),
    graphs_bytes=st.integers(0, 9000),
    utilisation_percent=st.integers(60, 100),
    context_bytes=st.integers(0, 2000),
)


def whole(tokens: int, needs: MemoryNeeds) -> int:
    """Blocks that hold so many tokens."""
    return sum(first % needs.block_size == 0 for first in range(tokens))


def left_for_kv(needs: MemoryNeeds) -> int:
    """Bytes of the usable share that nobody has taken but KV and snapshots."""
    usable = needs.memory_bytes * needs.utilisation_percent // 100
    beyond = max(0, needs.graphs_bytes - (needs.memory_bytes - usable))
    others = needs.weights_bytes + needs.activations_bytes + needs.context_bytes + beyond
    return usable - others - needs.max_num_seqs * needs.state_bytes_per_seq


def most_snapshots(needs: MemoryNeeds) -> int:
    """Wanted ones, taken one by one while KV keeps its floor."""
    seats = needs.max_num_seqs * whole(min(4096, needs.max_model_len), needs)
    floor_bytes = max(seats, whole(needs.max_model_len, needs)) * needs.block_size * needs.kv_bytes_per_token
    slots, left = 0, left_for_kv(needs) - needs.state_bytes_per_seq
    while needs.state_bytes_per_seq and slots < needs.snapshot_slots and left >= floor_bytes:
        slots, left = slots + 1, left - needs.state_bytes_per_seq
    return slots


def expected(needs: MemoryNeeds) -> MemoryPlan | None:
    """The plan; None where not one sequence has room."""
    slots, block_bytes = most_snapshots(needs), needs.block_size * needs.kv_bytes_per_token
    kv = left_for_kv(needs) - slots * needs.state_bytes_per_seq
    num_blocks, each = max(kv, 0) // block_bytes, whole(needs.max_model_len, needs)
    kept_back = needs.memory_bytes - needs.memory_bytes * needs.utilisation_percent // 100
    if num_blocks < each:
        return None
    return MemoryPlan(
        total_bytes=needs.memory_bytes,
        weights_bytes=needs.weights_bytes,
        activations_bytes=needs.activations_bytes,
        state_bytes=needs.max_num_seqs * needs.state_bytes_per_seq,
        snapshots_bytes=slots * needs.state_bytes_per_seq,
        graphs_bytes=needs.graphs_bytes,
        kv_bytes=num_blocks * block_bytes,
        context_bytes=needs.context_bytes,
        reserve_bytes=max(0, kept_back - needs.graphs_bytes),
        unused_bytes=kv % block_bytes,
        state_bytes_per_seq=needs.state_bytes_per_seq,
        state_slots=needs.max_num_seqs if needs.state_bytes_per_seq else 0,
        snapshot_slots=slots,
        block_bytes=block_bytes,
        block_size=needs.block_size,
        num_blocks=num_blocks,
        kv_tokens=num_blocks * needs.block_size,
        max_model_len=needs.max_model_len,
        blocks_per_sequence=each,
        full_sequences=num_blocks // each,
    )


def refusal(needs: MemoryNeeds) -> str:
    """What is said when not one sequence has room."""
    usable = needs.memory_bytes * needs.utilisation_percent // 100
    left, state = left_for_kv(needs), needs.max_num_seqs * needs.state_bytes_per_seq
    if left > 0:
        verb = f"leave {gib(left)} for KV beside"
    elif needs.weights_bytes > usable:
        verb = "do not hold"
    else:
        verb = "leave no room for KV beside"
    of_state = f", {gib(state)} of state for {needs.max_num_seqs} sequences" if state else ""
    kv = whole(needs.max_model_len, needs) * needs.block_size * needs.kv_bytes_per_token
    return (
        f"{gib(usable)} usable of {gib(needs.memory_bytes)} ({needs.utilisation_percent} %) {verb} "
        f"{gib(needs.weights_bytes)} of weights, {gib(needs.activations_bytes)} of activations{of_state} and "
        f"{gib(needs.context_bytes)} of device context on each GPU; one sequence of max_model_len "
        f"{needs.max_model_len} needs {gib(kv)} of KV"
    )


def in_gib(needs: MemoryNeeds) -> MemoryNeeds:
    """The same in numbers that a refusal does not round to nothing."""
    unit = GIB // 100
    return MemoryNeeds(
        memory_bytes=needs.memory_bytes * unit,
        weights_bytes=needs.weights_bytes * unit,
        activations_bytes=needs.activations_bytes * unit,
        kv_bytes_per_token=needs.kv_bytes_per_token * unit,
        block_size=needs.block_size,
        max_model_len=needs.max_model_len,
        max_num_seqs=needs.max_num_seqs,
        state_bytes_per_seq=needs.state_bytes_per_seq * unit,
        snapshot_slots=needs.snapshot_slots,
        graphs_bytes=needs.graphs_bytes * unit,
        utilisation_percent=needs.utilisation_percent,
        context_bytes=needs.context_bytes * unit,
    )


@given(small=NEEDS)
@settings(max_examples=120, derandomize=True, deadline=None, database=None)
def test_a_plan_and_a_refusal_are_those_that_counting_gives(small: MemoryNeeds) -> None:
    for needs in (small, in_gib(small)):
        planned = expected(needs)
        if planned is None:
            with pytest.raises(DoesNotFit) as refused:
                plan_memory(needs)
            assert str(refused.value) == refusal(needs)
        else:
            assert plan_memory(needs) == planned


def test_a_single_byte_is_room_of_which_a_refusal_tells() -> None:
    for left, verb in ((-1, "leave no room"), (0, "leave no room"), (1, "leave 0.00 GiB"), (GIB, "leave 1.00 GiB")):
        needs = MemoryNeeds(
            memory_bytes=9 * GIB,
            weights_bytes=9 * GIB - 5,
            activations_bytes=5 - left if left <= 5 else 0,
            kv_bytes_per_token=9 * GIB,
            block_size=1,
            max_model_len=1,
            max_num_seqs=1,
            utilisation_percent=100,
            context_bytes=0,
        )
        needs = replace(needs, weights_bytes=8 * GIB) if left == GIB else needs
        with pytest.raises(DoesNotFit, match=f" {verb} for KV beside "):
            plan_memory(needs)


def test_owners_are_named_in_the_order_in_which_they_take() -> None:
    planned = plan_memory(
        MemoryNeeds(
            memory_bytes=100_000,
            weights_bytes=101,
            activations_bytes=202,
            kv_bytes_per_token=1,
            block_size=7,
            max_model_len=10,
            max_num_seqs=3,
            state_bytes_per_seq=11,
            snapshot_slots=5,
            graphs_bytes=404,
            context_bytes=606,
        )
    )
    kv = 90_000 - 101 - 202 - 33 - 55 - 606
    assert list(planned.owners.items()) == [
        ("weights", 101),
        ("activations", 202),
        ("sequence state", 33),
        ("state snapshots", 55),
        ("captured graphs", 404),
        ("device context", 606),
        ("kept back", 10_000 - 404),
        ("KV blocks", kv // 7 * 7),
        ("unused", kv % 7),
    ]


def test_a_tenth_is_kept_back_and_the_context_has_its_published_size_unless_said_otherwise() -> None:
    planned = plan_memory(
        MemoryNeeds(
            memory_bytes=10**9,
            weights_bytes=0,
            activations_bytes=0,
            kv_bytes_per_token=1,
            block_size=1,
            max_model_len=1,
            max_num_seqs=1,
        )
    )
    assert (planned.context_bytes, planned.reserve_bytes) == (551_000_000, 100_000_000)
    assert (planned.graphs_bytes, planned.state_bytes, planned.snapshot_slots) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("memory", "memory_bytes"),
        ("KV bytes per token", "kv_bytes_per_token"),
        ("block size", "block_size"),
        ("max_model_len", "max_model_len"),
        ("max_num_seqs", "max_num_seqs"),
    ],
)
def test_the_least_number_with_a_meaning_is_one(name: str, field: str) -> None:
    numbers = {"memory_bytes": 1000, "kv_bytes_per_token": 1, "block_size": 1, "max_model_len": 1, "max_num_seqs": 1}
    fixed = {"weights_bytes": 0, "activations_bytes": 0, "context_bytes": 0, "utilisation_percent": 100}
    for value in (0, -1):
        with pytest.raises(UsageError, match=f"^{name} must be positive, got {value}$"):
            plan_memory(MemoryNeeds(**{**numbers, **fixed, field: value}))
    assert plan_memory(MemoryNeeds(**{**numbers, **fixed, field: 1})).num_blocks == (
        1 if field == "memory_bytes" else 1000
    )


def test_a_share_is_between_one_percent_and_all() -> None:
    def blocks(percent: int) -> int:
        needs = MemoryNeeds(1000, 0, 0, 1, 1, 1, 1, utilisation_percent=percent, context_bytes=0)
        return plan_memory(needs).num_blocks

    assert [blocks(percent) for percent in (1, 2, 99, 100)] == [10, 20, 990, 1000]
    for percent in (-1, 0, 101):
        with pytest.raises(UsageError, match=f"^memory utilisation must be 1..100 percent, got {percent}$"):
            blocks(percent)


def test_bytes_are_told_in_gib_of_two_decimals() -> None:
    assert [gib(amount) for amount in (0, GIB, 5 * GIB // 4, 80 * GIB + 1)] == [
        "0.00 GiB",
        "1.00 GiB",
        "1.25 GiB",
        "80.00 GiB",
    ]
    assert re.fullmatch(r"\d+\.\d\d GiB", gib(123_456_789_012))


SIZES = st.integers(1, 300)


@given(
    tokens=SIZES,
    seats=SIZES,
    hidden=SIZES,
    width=SIZES,
    vocab=st.integers(1, 3000),
    dtype_bytes=st.sampled_from((1, 2, 4)),
    tp=st.sampled_from((1, 2, 3, 8)),
    matrices=st.sampled_from((2, 3)),
    recurrent=st.sampled_from((0, 1, 500, 3000)),
    scan=st.sampled_from((0, 7, 100_000)),
)
@settings(max_examples=80, derandomize=True, deadline=None, database=None)
def test_activations_are_those_of_the_layer_that_keeps_most(
    tokens: int,
    seats: int,
    hidden: int,
    width: int,
    vocab: int,
    dtype_bytes: int,
    tp: int,
    matrices: int,
    recurrent: int,
    scan: int,
) -> None:
    found = peak_activation_bytes(
        max_num_batched_tokens=tokens,
        max_num_seqs=seats,
        hidden=hidden,
        mlp_width=width,
        vocab=vocab,
        dtype_bytes=dtype_bytes,
        tp=tp,
        mlp_matrices=matrices,
        recurrent_width=recurrent,
        scan_bytes=scan,
    )
    this_gpus = next(part for part in range(matrices * width + 1) if part * tp >= matrices * width)
    in_an_mlp = tokens * dtype_bytes * (hidden + hidden + this_gpus)
    in_a_recurrent_layer = tokens * dtype_bytes * (hidden + hidden + recurrent) + scan
    at_the_logits = seats * vocab * dtype_bytes + seats * vocab * 4
    layers = [in_an_mlp, at_the_logits] + ([in_a_recurrent_layer] if recurrent else [])
    assert found == sorted(layers)[-1]


def test_an_mlp_has_three_matrices_and_no_recurrent_layer_unless_said_otherwise() -> None:
    numbers = {"max_num_batched_tokens": 100, "max_num_seqs": 1, "hidden": 8, "mlp_width": 4, "vocab": 1}
    assert peak_activation_bytes(**numbers, dtype_bytes=2, tp=1) == 100 * (16 + 12) * 2


def test_graphs_are_captured_for_vllms_sizes() -> None:
    for seats in range(600):
        captured = [rows for rows in range(1, min(seats, 512) + 1) if rows in (1, 2, 4) or rows % 8 == 0]
        assert captured_sizes(seats) == captured
        assert graph_bytes(7, seats) == 7 * 36_000 * len(captured)
