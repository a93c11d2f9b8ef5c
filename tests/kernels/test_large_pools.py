"""Scenario K01: blocks whose elements lie beyond 2^31 are read, written and copied like the first ones."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.torch_needed import _REASON, torch  # isort: skip

pytest.importorskip("triton", reason=_REASON)

from kernels import attention, blocks, blocks_triton, decode_triton, prefill_triton, rotary, rotary_triton
from tests.kernels.test_small_kernels import angles_of
from tests.kernels.test_triton import DEVICE

BLOCKS, SIZE, HEADS, WIDTH = 131_080, 16, 8, 128
LOW, HIGH = [0, 1, 9], [131_071, 131_072, 131_079]
LENGTH = 2 * SIZE + 1


@pytest.fixture(scope="module")
def pool() -> torch.Tensor:
    """4.3 GB of address space; only what the tests touch takes memory."""
    return torch.empty(BLOCKS, SIZE, HEADS, WIDTH, dtype=torch.float16, device=DEVICE)


def tensor(values: list[Any]) -> torch.Tensor:
    return torch.tensor(values, device=DEVICE)


def fill(pool: torch.Tensor) -> None:
    """The same content in the low and in the high blocks."""
    content = torch.randn(3, SIZE, HEADS, WIDTH).to(pool.dtype).to(DEVICE)
    pool[tensor(LOW)] = content
    pool[tensor(HIGH)] = content


def test_decode_and_prefill_read_them(pool: torch.Tensor) -> None:
    assert HIGH[1] * SIZE * HEADS * WIDTH == 1 << 31
    fill(pool)
    queries = torch.randn(2, HEADS, WIDTH).to(pool.dtype).to(DEVICE)
    tables, lengths = tensor([LOW, HIGH]), tensor([LENGTH, LENGTH])
    rows = queries[:1].expand(2, -1, -1)
    found = decode_triton.decode_attention(rows, pool, pool, tables, lengths, LENGTH, scale=0.1)
    assert torch.equal(found[0], found[1]) and found.isfinite().all()
    outputs = []
    for table in tables:
        tiles = prefill_triton.chunk_tiles([(0, 2, LENGTH - 2)], [table], DEVICE)
        outputs.append(prefill_triton.prefill_attention(queries, pool, pool, tiles, scale=0.1))
        slots = attention.chunk_slots(table, LENGTH, SIZE)
        context = [attention.ChunkContext(0, 2, slots)]
        wanted = attention.prefill_attention(queries, pool, pool, context, scale=0.1)
        torch.testing.assert_close(outputs[-1], wanted, rtol=3e-3, atol=3e-3)
    assert torch.equal(*outputs) and outputs[0].isfinite().all()


@pytest.mark.parametrize("kernel", [rotary_triton, rotary])
def test_new_keys_and_values_are_written_to_them(pool: torch.Tensor, kernel: ModuleType) -> None:
    pool[tensor(LOW + HIGH)] = 0
    projected = torch.randn(1, 1 + 2 * HEADS, WIDTH).to(pool.dtype).to(DEVICE).expand(6, -1, -1).contiguous()
    cos, sin = (
        each[:1].expand(6, -1, -1).contiguous().to(DEVICE) for each in angles_of(1, WIDTH, interleaved=False)[1:]
    )
    slots, flat = tensor([block * SIZE + 5 for block in LOW + HIGH]), pool.flatten(0, 1)
    kernel.rotate_and_write(projected, 1, cos, sin, flat, flat, slots, interleaved=False, eps=1e-6)
    written = pool[tensor(LOW + HIGH)]
    assert written[0, 5].any() and not written[:, [*range(5), *range(6, SIZE)]].any()
    assert all(torch.equal(written[0], other) for other in written[1:])


@pytest.mark.parametrize("kernel", [blocks_triton, blocks])
def test_they_are_copied(pool: torch.Tensor, kernel: ModuleType) -> None:
    fill(pool)
    whole = pool[None, None]
    image = kernel.gather_blocks(whole, tensor(HIGH))
    assert torch.equal(image, kernel.gather_blocks(whole, tensor(LOW))) and image.any()
    pool[tensor(LOW + HIGH)] = 0
    kernel.scatter_blocks(whole, tensor(HIGH), image)
    kernel.copy_blocks(whole, tensor(HIGH[1:]), tensor(LOW[1:]))
    assert torch.equal(pool[tensor(HIGH)], image[0, 0]) and torch.equal(pool[tensor(LOW[1:])], image[0, 0, 1:])
    assert not pool[LOW[0]].any()
