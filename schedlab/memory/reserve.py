"""How much of a GPU's memory is left for KV, and how many blocks that is. Whole bytes, per GPU."""

from __future__ import annotations

from dataclasses import dataclass

from schedlab.errors import UsageError

# Device context and library workspaces: the figure of ai-dynamo/aiconfigurator's systems/*.yaml (551 MB) before its
# safety margin was added.
CONTEXT_BYTES = 551 * 10**6
DEFAULT_UTILISATION_PERCENT = 90


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Shares of one GPU's memory. `reserve_bytes` is what is left unused and the device context.

    total = weights + activations + reserve + kv, and kv holds num_blocks blocks with less than one block over.
    """

    total_bytes: int
    weights_bytes: int
    activations_bytes: int
    reserve_bytes: int
    kv_bytes: int
    block_bytes: int
    num_blocks: int


def plan_memory(
    *,
    memory_bytes: int,
    weights_bytes: int,
    activations_bytes: int,
    kv_bytes_per_token: int,
    block_size: int,
    utilisation_percent: int = DEFAULT_UTILISATION_PERCENT,
    context_bytes: int = CONTEXT_BYTES,
) -> MemoryPlan:
    """Divides one GPU's memory; every argument is per GPU, *block_size* in tokens.

    Raises UsageError when the weights do not fit or no block is left, with the numbers and what to change.
    """
    _check(memory_bytes, kv_bytes_per_token, block_size, utilisation_percent)
    usable_bytes = memory_bytes * utilisation_percent // 100
    left_bytes = usable_bytes - context_bytes - weights_bytes - activations_bytes
    block_bytes = block_size * kv_bytes_per_token
    if left_bytes < block_bytes:
        raise UsageError(
            f"{_gib(usable_bytes)} usable of {_gib(memory_bytes)} ({utilisation_percent} %) "
            f"{'leave no room for KV behind' if weights_bytes <= usable_bytes else 'do not hold'} "
            f"{_gib(weights_bytes)} of weights, {_gib(activations_bytes)} of activations and "
            f"{_gib(context_bytes)} of device context on each GPU: use more GPUs (--tp), a GPU with more memory, "
            f"a smaller model or fewer batched tokens"
        )
    return MemoryPlan(
        total_bytes=memory_bytes,
        weights_bytes=weights_bytes,
        activations_bytes=activations_bytes,
        reserve_bytes=memory_bytes - usable_bytes + context_bytes,
        kv_bytes=left_bytes,
        block_bytes=block_bytes,
        num_blocks=left_bytes // block_bytes,
    )


def peak_activation_bytes(
    *,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    hidden: int,
    mlp_width: int,
    vocab: int,
    dtype_bytes: int,
    tp: int,
) -> int:
    """Most bytes of activations alive at once on each GPU, by this project's own count.

    Assumption: the peak is either in an MLP (residual, its normed copy, gate and up, and their product, for every
    token of a full step) or at the logits (in the model's type and as float32, for every sequence); buffers are reused
    between layers, and attention keeps no score matrix. *mlp_width* is the intermediate size, or for experts the sum
    over those that one token uses.
    """
    mlp = max_num_batched_tokens * (2 * hidden + -(-3 * mlp_width // tp)) * dtype_bytes
    logits = max_num_seqs * vocab * (dtype_bytes + 4)
    return max(mlp, logits)


def _check(memory_bytes: int, kv_bytes_per_token: int, block_size: int, utilisation_percent: int) -> None:
    if not 1 <= utilisation_percent <= 100:
        raise UsageError(f"memory utilisation must be 1..100 percent, got {utilisation_percent}")
    for name, value in (
        ("memory", memory_bytes),
        ("KV bytes per token", kv_bytes_per_token),
        ("block size", block_size),
    ):
        if value < 1:
            raise UsageError(f"{name} must be positive, got {value}")


def _gib(amount_bytes: int) -> str:
    return f"{amount_bytes / 2**30:.2f} GiB"
