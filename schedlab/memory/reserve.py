"""Who owns each byte of a GPU's memory, and how many KV blocks that leaves. Whole bytes, per GPU."""

from __future__ import annotations

from dataclasses import dataclass

from schedlab.errors import UsageError
from schedlab.memory.blocks import blocks_for

# Device context and library workspaces: the figure of ai-dynamo/aiconfigurator's systems/*.yaml (551 MB) before its
# safety margin was added.
CONTEXT_BYTES = 551 * 10**6
DEFAULT_UTILISATION_PERCENT = 90
# Tokens of every seat that stay possible beside state snapshots; the floor of Metrale Engine 1.0.0-beta-preview.
KV_FLOOR_TOKENS = 4096


class DoesNotFit(UsageError):
    """The memory does not hold the weights, or not one sequence of the longest length."""


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """What a plan divides the memory among; bytes per GPU, lengths in tokens.

    Attributes:
        state_bytes_per_seq: of a sequence apart from KV: recurrent and convolution state of a hybrid model.
        max_num_seqs: seats; each owns a slot of that state all the time.
        snapshot_slots: copies of that state wanted beside them; fewer are planned where KV would fall below its floor.
        graphs_bytes: captured graphs. They come out of the share that is kept back, and out of KV what is too much.
        utilisation_percent: share of the memory that may be used; the rest is kept back.
    """

    memory_bytes: int
    weights_bytes: int
    activations_bytes: int
    kv_bytes_per_token: int
    block_size: int
    max_model_len: int
    max_num_seqs: int
    state_bytes_per_seq: int = 0
    snapshot_slots: int = 0
    graphs_bytes: int = 0
    utilisation_percent: int = DEFAULT_UTILISATION_PERCENT
    context_bytes: int = CONTEXT_BYTES


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The shares of one GPU's memory; `owners` add up to `total_bytes`.

    `reserve_bytes` is kept back and not taken by graphs; `unused_bytes` is what is left over of a block. A sequence of
    `max_model_len` tokens needs `blocks_per_sequence`; `full_sequences` of them have room at the same time.
    """

    total_bytes: int
    weights_bytes: int
    activations_bytes: int
    state_bytes: int
    snapshots_bytes: int
    graphs_bytes: int
    kv_bytes: int
    context_bytes: int
    reserve_bytes: int
    unused_bytes: int
    state_bytes_per_seq: int
    state_slots: int
    snapshot_slots: int
    block_bytes: int
    block_size: int
    num_blocks: int
    kv_tokens: int
    max_model_len: int
    blocks_per_sequence: int
    full_sequences: int

    @property
    def owners(self) -> dict[str, int]:
        """Bytes by owner, in the order in which they are taken."""
        return {
            "weights": self.weights_bytes,
            "activations": self.activations_bytes,
            "sequence state": self.state_bytes,
            "state snapshots": self.snapshots_bytes,
            "captured graphs": self.graphs_bytes,
            "device context": self.context_bytes,
            "kept back": self.reserve_bytes,
            "KV blocks": self.kv_bytes,
            "unused": self.unused_bytes,
        }


def plan_memory(needs: MemoryNeeds) -> MemoryPlan:
    """Divide one GPU's memory.

    Raises:
        DoesNotFit: the weights do not fit, or there are too few blocks for one sequence of `max_model_len`; the message
            has the numbers.
        UsageError: a number has no meaning.
    """
    _check(needs)
    kept_back = needs.memory_bytes - _usable(needs)
    graphs_kept_back = min(needs.graphs_bytes, kept_back)
    state = needs.max_num_seqs * needs.state_bytes_per_seq
    taken = needs.weights_bytes + needs.activations_bytes + state + needs.context_bytes
    left = _usable(needs) - taken - (needs.graphs_bytes - graphs_kept_back)
    block_bytes = needs.block_size * needs.kv_bytes_per_token
    snapshot_slots = _snapshot_slots(needs, left)
    snapshots = snapshot_slots * needs.state_bytes_per_seq
    num_blocks = max(0, left - snapshots) // block_bytes
    blocks_per_sequence = blocks_for(needs.max_model_len, needs.block_size)
    if num_blocks < blocks_per_sequence:
        raise DoesNotFit(_shortage(needs, state, left, blocks_per_sequence * block_bytes))
    return MemoryPlan(
        total_bytes=needs.memory_bytes,
        weights_bytes=needs.weights_bytes,
        activations_bytes=needs.activations_bytes,
        state_bytes=state,
        snapshots_bytes=snapshots,
        graphs_bytes=needs.graphs_bytes,
        kv_bytes=num_blocks * block_bytes,
        context_bytes=needs.context_bytes,
        reserve_bytes=kept_back - graphs_kept_back,
        unused_bytes=left - snapshots - num_blocks * block_bytes,
        state_bytes_per_seq=needs.state_bytes_per_seq,
        state_slots=needs.max_num_seqs if needs.state_bytes_per_seq else 0,
        snapshot_slots=snapshot_slots,
        block_bytes=block_bytes,
        block_size=needs.block_size,
        num_blocks=num_blocks,
        kv_tokens=num_blocks * needs.block_size,
        max_model_len=needs.max_model_len,
        blocks_per_sequence=blocks_per_sequence,
        full_sequences=num_blocks // blocks_per_sequence,
    )


def _usable(needs: MemoryNeeds) -> int:
    return needs.memory_bytes * needs.utilisation_percent // 100


def _snapshot_slots(needs: MemoryNeeds, left_bytes: int) -> int:
    """As many as wanted while KV keeps its floor: some tokens of every seat, and one whole sequence."""
    if not needs.state_bytes_per_seq:
        return 0
    per_seat = blocks_for(min(KV_FLOOR_TOKENS, needs.max_model_len), needs.block_size)
    floor_blocks = max(needs.max_num_seqs * per_seat, blocks_for(needs.max_model_len, needs.block_size))
    above = left_bytes - floor_blocks * needs.block_size * needs.kv_bytes_per_token
    return max(0, min(needs.snapshot_slots, above // needs.state_bytes_per_seq))


def _shortage(needs: MemoryNeeds, state_bytes: int, left_bytes: int, sequence_bytes: int) -> str:
    usable = _usable(needs)
    shares = [f"{gib(needs.weights_bytes)} of weights", f"{gib(needs.activations_bytes)} of activations"]
    if state_bytes:
        shares.append(f"{gib(state_bytes)} of state for {needs.max_num_seqs} sequences")
    shares.append(f"{gib(needs.context_bytes)} of device context")
    if left_bytes > 0:
        verb = f"leave {gib(left_bytes)} for KV beside"
    else:
        verb = "do not hold" if needs.weights_bytes > usable else "leave no room for KV beside"
    return (
        f"{gib(usable)} usable of {gib(needs.memory_bytes)} ({needs.utilisation_percent} %) {verb} "
        f"{', '.join(shares[:-1])} and {shares[-1]} on each GPU; one sequence of max_model_len {needs.max_model_len} "
        f"needs {gib(sequence_bytes)} of KV"
    )


def _check(needs: MemoryNeeds) -> None:
    if not 1 <= needs.utilisation_percent <= 100:
        raise UsageError(f"memory utilisation must be 1..100 percent, got {needs.utilisation_percent}")
    for name, value in (
        ("memory", needs.memory_bytes),
        ("KV bytes per token", needs.kv_bytes_per_token),
        ("block size", needs.block_size),
        ("max_model_len", needs.max_model_len),
        ("max_num_seqs", needs.max_num_seqs),
    ):
        if value < 1:
            raise UsageError(f"{name} must be positive, got {value}")


def gib(amount_bytes: int) -> str:
    """A number of bytes as a reader takes it in."""
    return f"{amount_bytes / 2**30:.2f} GiB"
