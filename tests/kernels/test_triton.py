"""Every Triton kernel against its reference: compiled where there is a GPU, else in the interpreter."""

from __future__ import annotations

import pytest

from tests.torch_needed import _REASON, torch  # isort: skip

pytest.importorskip("triton", reason=_REASON)

from kernels import (
    activation,
    activation_triton,
    attention,
    blocks,
    blocks_triton,
    decode_triton,
    moe,
    moe_triton,
    norm,
    norm_triton,
    prefill_triton,
    rotary,
    rotary_triton,
    sampling,
    sampling_triton,
)
from tests.kernels.paged import paged
from tests.kernels.test_small_kernels import angles_of

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# Query heads, key/value heads, head size.
SHAPES = [(4, 2, 64), (6, 2, 80), (9, 3, 96), (5, 5, 128), (2, 1, 256)]
# The interpreter takes half a second for a row that is sampled.
ROWS = 8 if DEVICE.type == "cuda" else 4
VARIANTS = [(None, None), (5, None), (None, 3.0), (70, 2.0)]


def near(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Within what the type of `wanted` can tell apart."""
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[wanted.dtype]
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def some(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype).to(DEVICE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 48, 576, 1000])
def test_norms(dtype: torch.dtype, width: int) -> None:
    x, weight, residual = some(3, width, dtype=dtype), some(width), some(3, width, dtype=dtype)
    near(norm_triton.rms_norm(x, weight, 1e-5), norm.rms_norm(x, weight, 1e-5))
    sums = residual.clone(), residual.clone()
    near(
        norm_triton.add_rms_norm(x, sums[0], weight, 1e-5),
        norm.add_rms_norm(x, sums[1], weight, 1e-5),
    )
    # The interpreter cuts bfloat16 off where a GPU rounds it.
    near(*sums)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gated_activations(dtype: torch.dtype) -> None:
    for width in (1, 80, 1536):
        both = some(3, 2 * width, dtype=dtype)
        near(activation_triton.silu_mul(both), activation.silu_mul(both))
        near(activation_triton.gelu_tanh_mul(both), activation.gelu_tanh_mul(both))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES)
def test_rotation_and_write(heads: int, kv_heads: int, size: int, normed: bool, interleaved: bool) -> None:
    projected = some(3, heads + 2 * kv_heads, size)
    cos, sin = (each.to(DEVICE) for each in angles_of(3, size, interleaved=interleaved)[1:])
    slots = torch.tensor([17, 2, 9], device=DEVICE)
    options = {"interleaved": interleaved, "eps": 1e-6}
    if normed:
        options |= {"query_norm": some(size), "key_norm": some(size)}
    results = []
    for kernel in (rotary_triton, rotary):
        caches = torch.full((2, 3, 8, kv_heads, size), float("nan"), device=DEVICE)
        turned = kernel.rotate_and_write(projected, heads, cos, sin, *caches.flatten(1, 2), slots, **options)
        results.append((turned, caches))
    near(results[0][0], results[1][0])
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(("window", "soft_cap"), VARIANTS)
@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES)
def test_decode_attention(
    heads: int, kv_heads: int, size: int, window: int | None, soft_cap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contexts of one token, of a block and a bit, and of several splits; NaN wherever nothing was written."""
    monkeypatch.setattr(decode_triton, "_LEAST_SPLIT", 64)
    check_decode([1, 17, 150], 16, heads, kv_heads, size, torch.float32, window, soft_cap)


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_decode_attention_in_half_precision(dtype: torch.dtype) -> None:
    check_decode([1, 40], 16, 6, 2, 64, dtype, None, None)


@pytest.mark.parametrize("block_size", [8, 32, 256])
def test_decode_attention_at_the_borders_of_blocks(block_size: int) -> None:
    check_decode([1, block_size - 1, block_size, block_size + 1], block_size, 2, 1, 64, torch.float32, None, None)


def check_decode(
    lengths: list[int],
    block_size: int,
    heads: int,
    kv_heads: int,
    size: int,
    dtype: torch.dtype,
    window: int | None,
    soft_cap: float | None,
) -> None:
    content = paged(lengths, block_size, kv_heads, size, dtype)
    queries, longest = some(len(lengths), heads, size, dtype=dtype), max(lengths)
    keys, values, tables = (each.to(DEVICE) for each in content[:3])
    counts = torch.tensor(lengths, device=DEVICE)
    contexts = attention.row_contexts(tables, counts, longest, block_size, window)
    near(
        decode_triton.decode_attention(
            queries, keys, values, tables, counts, longest, scale=0.2, window=window, soft_cap=soft_cap
        ),
        attention.decode_attention(queries, keys, values, contexts, scale=0.2, soft_cap=soft_cap),
    )


@pytest.mark.parametrize(("window", "soft_cap"), VARIANTS)
@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES)
def test_prefill_attention(heads: int, kv_heads: int, size: int, window: int | None, soft_cap: float | None) -> None:
    """A whole prompt of more than one tile, a chunk behind a prefix, and a single token."""
    check_prefill([70, 90, 33], [70, 5, 1], 16, heads, kv_heads, size, torch.float32, window, soft_cap)


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_prefill_attention_in_half_precision(dtype: torch.dtype) -> None:
    check_prefill([20, 40], [20, 9], 8, 6, 2, 64, dtype, None, None)


def check_prefill(
    lengths: list[int],
    counts: list[int],
    block_size: int,
    heads: int,
    kv_heads: int,
    size: int,
    dtype: torch.dtype,
    window: int | None,
    soft_cap: float | None,
) -> None:
    content = paged(lengths, block_size, kv_heads, size, dtype)
    keys, values, tables = (each.to(DEVICE) for each in content[:3])
    queries = some(sum(counts), heads, size, dtype=dtype)
    firsts = [sum(counts[:number]) for number in range(len(counts))]
    shapes = [(first, count, length - count) for first, count, length in zip(firsts, counts, lengths, strict=True)]
    tiles = prefill_triton.chunk_tiles(shapes, list(tables), DEVICE)
    contexts = [
        attention.ChunkContext(first, count, attention.chunk_slots(table, start + count, block_size))
        for (first, count, start), table in zip(shapes, tables, strict=True)
    ]
    options = {"scale": 0.2, "window": window, "soft_cap": soft_cap}
    near(
        prefill_triton.prefill_attention(queries, keys, values, tiles, **options),
        attention.prefill_attention(queries, keys, values, contexts, **options),
    )


@pytest.mark.parametrize(
    ("num_experts", "per_token", "tokens", "hidden", "width", "dtype"),
    [
        (5, 2, 7, 48, 40, torch.float32),
        (3, 1, 1, 70, 33, torch.float32),
        (2, 2, 90, 16, 24, torch.float32),
        *[(4, 3, 9, 64, 16, dtype) for dtype in DTYPES[1:]],
    ],
)
def test_experts(num_experts: int, per_token: int, tokens: int, hidden: int, width: int, dtype: torch.dtype) -> None:
    """Few pairs, a single one, several tiles of an expert; nobody chooses the last expert but where all do."""
    x, logits = some(tokens, hidden, dtype=dtype), some(tokens, num_experts)
    logits[:, -1] -= 100
    gate_up = some(num_experts, 2 * width, hidden, dtype=dtype) / hidden**0.5
    down = some(num_experts, hidden, width, dtype=dtype) / width**0.5
    weights, chosen = moe.route(logits, per_token, renormalise=True)
    near(moe_triton.expert_mlp(x, weights, chosen, gate_up, down), moe.expert_mlp(x, weights, chosen, gate_up, down))


@pytest.mark.parametrize("dtype", DTYPES)
def test_block_copies(dtype: torch.dtype) -> None:
    """The first size is more than one tile of a program, the second less."""
    for size in (64, 3):
        pool = some(2, 2, 7, 8, 3, size, dtype=dtype)
        chosen, others = torch.tensor([5, 0, 3], device=DEVICE), torch.tensor([1, 6, 2], device=DEVICE)
        image = blocks_triton.gather_blocks(pool, chosen)
        assert torch.equal(image, blocks.gather_blocks(pool, chosen))
        pools = pool.clone(), pool.clone()
        for each, kernel in zip(pools, (blocks_triton, blocks), strict=True):
            kernel.scatter_blocks(each, others, image)
            kernel.copy_blocks(each, torch.tensor([4], device=DEVICE), torch.tensor([5], device=DEVICE))
        assert torch.equal(*pools)


@pytest.mark.parametrize(
    ("vocab", "changes"),
    [
        (199, {}),
        (199, {"temperature": 0.0}),
        (50, {"top_k": 5}),
        (50, {"top_p": 0.7}),
        (199, {"min_p": 0.2}),
        (70, {"top_k": 20, "top_p": 0.5, "min_p": 0.01}),
        (50, {"top_k": 10**6, "temperature": 1.5}),
    ],
)
def test_sampling(vocab: int, changes: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one tile and in several."""
    monkeypatch.setattr(sampling_triton, "_LARGEST_TILE", 64)
    torch.manual_seed(vocab)
    options = {"temperature": 0.8, "top_k": 0, "top_p": 1.0, "min_p": 0.0, **changes}
    logits = some(ROWS, vocab) * 2
    given = [torch.full((ROWS,), value, device=DEVICE) for value in options.values()]
    given[1] = given[1].long()
    draws = sampling.uniforms(torch.arange(ROWS, device=DEVICE), torch.arange(ROWS, device=DEVICE))
    found = sampling_triton.sample(logits, *given, draws)
    assert found.tolist() == sampling.sample(logits, *given, draws).tolist()


def test_sampling_keeps_equals_together_and_takes_the_lowest_of_the_likeliest() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0, 2.0, -1.0]], device=DEVICE).expand(ROWS, -1).contiguous()
    # Each of the four that stay at most has a share of the draws.
    draws = torch.linspace(0, 0.95, ROWS, device=DEVICE)

    def tokens(temperature: float, top_k: int) -> set[int]:
        full = [torch.full((ROWS,), value, device=DEVICE) for value in (temperature, 1.0, 0.0)]
        top_ks = torch.full((ROWS,), top_k, device=DEVICE)
        return set(sampling_triton.sample(logits, full[0], top_ks, full[1], full[2], draws).tolist())

    assert tokens(1.0, 1) == {1, 2}
    assert tokens(3.0, 3) == {1, 2, 3, 4}
    assert tokens(0.0, 3) == {1}
