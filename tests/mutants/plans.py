"""Attacks on the plan of a GPU's memory: small numbers, every one of which is found by trying."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, takewhile
from random import Random
from typing import Any

from schedlab.errors import UsageError
from schedlab.memory.reserve import KV_FLOOR_TOKENS, DoesNotFit, MemoryNeeds, gib, plan_memory
from schedlab.memory.workspace import (
    GRAPH_KERNEL_BYTES,
    LARGEST_CAPTURED_ROWS,
    captured_sizes,
    graph_bytes,
    peak_activation_bytes,
)
from tests.mutants.attack import Attack

DRAWN = 400


def memory_goes_to_its_owners() -> None:
    """As many snapshots as are wanted and leave KV its floor, then as many blocks as fit; every byte has an owner."""
    chance, refused = Random(0), 0
    for _ in range(DRAWN):
        needs = _needs(chance)
        kept_back = needs.memory_bytes - needs.memory_bytes * needs.utilisation_percent // 100
        beyond = max(0, needs.graphs_bytes - kept_back)
        state = needs.max_num_seqs * needs.state_bytes_per_seq
        owned = needs.weights_bytes + needs.activations_bytes + needs.context_bytes + state
        left = needs.memory_bytes - kept_back - owned - beyond
        block_bytes = needs.block_size * needs.kv_bytes_per_token
        longest = _blocks(needs, needs.max_model_len)
        floor = max(longest, needs.max_num_seqs * _blocks(needs, min(KV_FLOOR_TOKENS, needs.max_model_len)))
        wanted = range(1, needs.snapshot_slots + 1) if needs.state_bytes_per_seq else ()
        fitting = [n for n in wanted if left - n * needs.state_bytes_per_seq >= floor * block_bytes]
        slots = max(fitting, default=0)
        rest = left - slots * needs.state_bytes_per_seq
        num_blocks = sum(1 for _ in takewhile(lambda n, rest=rest, size=block_bytes: n * size <= rest, count(1)))
        try:
            plan = plan_memory(needs)
        except DoesNotFit as error:
            assert num_blocks < longest, f"{needs} is refused, {num_blocks} blocks fit"
            _tells(str(error), needs, left, state, longest * block_bytes)
            refused += 1
            continue
        assert num_blocks >= longest, f"{needs} is not refused, {num_blocks} blocks fit"
        assert sum(plan.owners.values()) == plan.total_bytes == needs.memory_bytes
        found = plan.num_blocks, plan.snapshot_slots, plan.full_sequences, plan.blocks_per_sequence, plan.kv_tokens
        expected = num_blocks, slots, num_blocks // longest, longest, num_blocks * needs.block_size
        assert found == expected, f"{needs}: {found}, should be {expected}"
        shares = plan.state_bytes, plan.snapshots_bytes, plan.kv_bytes, plan.reserve_bytes, plan.graphs_bytes
        owed = state, slots * needs.state_bytes_per_seq, num_blocks * block_bytes
        owed += max(0, kept_back - needs.graphs_bytes), needs.graphs_bytes
        assert shares == owed, f"{needs}: {shares}, should be {owed}"
        assert 0 <= plan.unused_bytes == rest - num_blocks * block_bytes
        assert plan.state_slots == (needs.max_num_seqs if needs.state_bytes_per_seq else 0)
    assert 20 < refused < DRAWN - 100, f"{refused} of {DRAWN} are refused"


def _needs(chance: Random) -> MemoryNeeds:
    block_size, length = chance.choice((1, 16, 300)), chance.choice((1, 16, 17, 900, KV_FLOOR_TOKENS, 5000))
    seats, unit = chance.randint(1, 3), chance.randint(1, 3)
    needs = MemoryNeeds(
        memory_bytes=chance.randint(1, 4) * (length + block_size) * unit * seats + chance.randint(0, 5000),
        weights_bytes=chance.randint(0, 900),
        activations_bytes=chance.randint(0, 90),
        kv_bytes_per_token=unit,
        block_size=block_size,
        max_model_len=length,
        max_num_seqs=seats,
        state_bytes_per_seq=chance.choice((0, 1, 70)),
        snapshot_slots=chance.choice((0, 3, 50)),
        graphs_bytes=chance.choice((0, 40, 700)),
        utilisation_percent=chance.choice((100, 99, 90, 60, 1)),
        context_bytes=chance.randint(0, 90),
    )
    if chance.random() < 0.7:
        return needs
    # A few bytes are left, or missing.
    taken = needs.weights_bytes + needs.activations_bytes + needs.context_bytes + seats * needs.state_bytes_per_seq
    memory_bytes = max(1, taken + chance.randint(-1, 2))
    return replace(needs, memory_bytes=memory_bytes, utilisation_percent=100, graphs_bytes=0)


def _blocks(needs: MemoryNeeds, tokens: int) -> int:
    return next(n for n in count() if n * needs.block_size >= tokens)


def _tells(message: str, needs: MemoryNeeds, left: int, state: int, sequence_bytes: int) -> None:
    """The numbers in their order, and what is too large."""
    usable = needs.memory_bytes * needs.utilisation_percent // 100
    numbers = [usable, needs.memory_bytes, *([left] if left > 0 else ()), needs.weights_bytes, needs.activations_bytes]
    numbers += [*([state] if state else ()), needs.context_bytes, sequence_bytes]
    found = [word for word in message.replace("GiB", "").split() if word.replace(".", "").isdigit() and "." in word]
    assert found == [gib(number).split()[0] for number in numbers], f"{message}: {numbers}"
    verb = "do not hold" if needs.weights_bytes > usable else "leave no room"
    assert ("leave 0" if left > 0 else verb) in message, message


def numbers_without_a_meaning_are_refused() -> None:
    """Those just outside of what each may be; those just inside are planned."""
    least = {
        "memory_bytes": 1000,
        "weights_bytes": 0,
        "activations_bytes": 0,
        "kv_bytes_per_token": 1,
        "block_size": 1,
        "max_model_len": 1,
        "max_num_seqs": 1,
        "context_bytes": 0,
        "utilisation_percent": 1,
    }
    plan_memory(MemoryNeeds(**least))
    plan_memory(MemoryNeeds(**{**least, "utilisation_percent": 100}))
    zeros = ("memory_bytes", "kv_bytes_per_token", "block_size", "max_model_len", "max_num_seqs", "utilisation_percent")
    for wrong in (*({name: 0} for name in zeros), {"utilisation_percent": 101}):
        try:
            plan_memory(MemoryNeeds(**{**least, **wrong}))
        except DoesNotFit as error:
            raise AssertionError(f"{wrong} counts as a size") from error
        except UsageError:
            continue
        raise AssertionError(f"{wrong} is planned")


def steps_need_what_their_largest_part_needs() -> None:
    """Activations of each kind of layer in turn, and of the logits; a graph for each size."""
    for seats in (1, 2, 3, 4, 7, 8, 9, 16, 100, LARGEST_CAPTURED_ROWS, LARGEST_CAPTURED_ROWS + 9):
        most = min(seats, LARGEST_CAPTURED_ROWS)
        sizes = [rows for rows in range(1, most + 1) if rows in (1, 2, 4) or rows % 8 == 0]
        assert captured_sizes(seats) == sizes, f"{seats} seats: {captured_sizes(seats)}, should be {sizes}"
        assert graph_bytes(7, seats) == 7 * GRAPH_KERNEL_BYTES * len(sizes)
    chance = Random(1)
    for _ in range(DRAWN):
        numbers: dict[str, Any] = {
            "max_num_batched_tokens": chance.randint(1, 9),
            "max_num_seqs": chance.randint(1, 5),
            "hidden": chance.randint(1, 9),
            "mlp_width": chance.randint(1, 30),
            "vocab": chance.randint(1, 60),
            "dtype_bytes": chance.choice((1, 2, 4)),
            "tp": chance.choice((1, 2, 3)),
            "mlp_matrices": chance.choice((2, 3)),
            "recurrent_width": chance.choice((0, 5, 90)),
            "scan_bytes": chance.choice((0, 200)),
        }
        found, expected = peak_activation_bytes(**numbers), _peak(**numbers)
        assert found == expected, f"{numbers}: {found}, should be {expected}"


def _peak(
    max_num_batched_tokens: int,
    max_num_seqs: int,
    hidden: int,
    mlp_width: int,
    vocab: int,
    dtype_bytes: int,
    tp: int,
    mlp_matrices: int,
    recurrent_width: int,
    scan_bytes: int,
) -> int:
    own = next(n for n in count() if n * tp >= mlp_matrices * mlp_width)
    kinds = [max_num_batched_tokens * (hidden + hidden + own) * dtype_bytes]
    if recurrent_width:
        kinds.append(max_num_batched_tokens * (hidden + hidden + recurrent_width) * dtype_bytes + scan_bytes)
    kinds.append(max_num_seqs * vocab * dtype_bytes + max_num_seqs * vocab * 4)
    return max(kinds)


ATTACKS = (memory_goes_to_its_owners, numbers_without_a_meaning_are_refused, steps_need_what_their_largest_part_needs)


def plan_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"plans: {attack.__name__}", attack) for attack in ATTACKS]
