"""Memory that a step needs beside weights and KV: activations and captured graphs. Whole bytes, per GPU."""

from __future__ import annotations

# One kernel of a captured graph: vLLM pull request 11349 logs 0.21 GiB for the 35 decode graphs of Llama-3.2-1B, whose
# 180 kernels (this project's own count) make 6,300 nodes.
GRAPH_KERNEL_BYTES = 36_000
# vLLM captures no larger decode step.
LARGEST_CAPTURED_ROWS = 512


def peak_activation_bytes(
    *,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    hidden: int,
    mlp_width: int,
    vocab: int,
    dtype_bytes: int,
    tp: int,
    mlp_matrices: int = 3,
    recurrent_width: int = 0,
    scan_bytes: int = 0,
) -> int:
    """Most bytes of activations alive at once on each GPU, by this project's own count.

    Assumption: the peak is in an MLP (residual, its normed copy, gate and up, and their product, for every token of a
    full step), in a recurrent layer, or at the logits (in the model's type and as float32, for every sequence); buffers
    are reused between layers, and attention keeps no score matrix.

    *mlp_width* is the intermediate size, or for experts the sum over those that one token uses. *recurrent_width* is
    what a recurrent layer keeps per token on this GPU (projections, convolved inputs, output and its normed copy), and
    *scan_bytes* its states between the chunks of a prefill.
    """
    residual = 2 * hidden
    mlp = max_num_batched_tokens * (residual + -(-mlp_matrices * mlp_width // tp)) * dtype_bytes
    recurrent = max_num_batched_tokens * (residual + recurrent_width) * dtype_bytes + scan_bytes
    logits = max_num_seqs * vocab * (dtype_bytes + 4)
    return max(mlp, recurrent if recurrent_width else 0, logits)


def graph_bytes(kernels: int, max_num_seqs: int) -> int:
    """Bytes of the captured decode graphs when a step has so many *kernels*: one graph for each captured size."""
    return len(captured_sizes(max_num_seqs)) * kernels * GRAPH_KERNEL_BYTES


def captured_sizes(max_num_seqs: int) -> list[int]:
    """Rows of the decode graphs: 1, 2, 4, then every multiple of 8 up to the seats, at most 512 (vLLM's sizes)."""
    few = [size for size in (1, 2, 4) if size <= max_num_seqs]
    return [*few, *range(8, min(max_num_seqs, LARGEST_CAPTURED_ROWS) + 1, 8)]
