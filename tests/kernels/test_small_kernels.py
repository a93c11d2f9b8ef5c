"""Norm, rotation, activation, experts and block copies against their formulas."""

from __future__ import annotations

import math

import pytest

from tests.torch_needed import torch  # isort: skip

from kernels.activation import gelu_tanh_mul, silu_mul
from kernels.blocks import copy_blocks, gather_blocks, scatter_blocks
from kernels.moe import expert_mlp, route
from kernels.norm import add_rms_norm, rms_norm
from kernels.rotary import rotate, rotate_and_write


def test_a_norm_divides_by_the_root_mean_square_of_the_sum() -> None:
    x, residual, weight = torch.randn(5, 96), torch.randn(5, 96), torch.randn(96)
    total = (x + residual).double()
    wanted = total / (total.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
    torch.testing.assert_close(add_rms_norm(x, residual, weight, 1e-5).double(), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(residual.double(), total, rtol=1e-6, atol=1e-6)


def test_a_norm_of_half_precision_is_computed_in_float32() -> None:
    x = torch.full((1, 64), 300.0, dtype=torch.float16)
    assert torch.equal(rms_norm(x, torch.ones(64), 1e-6), torch.ones_like(x))


def angles_of(tokens: int, size: int, *, interleaved: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random angles [tokens, size / 2], and their cosines and signed sines as `rotate` wants them."""
    angles = torch.randn(tokens, size // 2)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    if interleaved:
        return angles, cos.repeat_interleave(2, -1), torch.stack((-sin, sin), -1).flatten(-2)
    return angles, torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_rotation_turns_each_pair_by_its_angle(interleaved: bool) -> None:
    x = torch.randn(3, 2, 8)
    angles, cos, sin = angles_of(3, 8, interleaved=interleaved)
    found = rotate(x, cos, sin, interleaved=interleaved)
    for pair in range(4):
        first, second = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + 4)
        turned = torch.complex(x[..., first], x[..., second]) * torch.exp(1j * angles[:, None, pair])
        torch.testing.assert_close(found[..., first], turned.real)
        torch.testing.assert_close(found[..., second], turned.imag)


@pytest.mark.parametrize("normed", [False, True])
def test_rotated_keys_and_plain_values_are_written_to_their_slots_only(normed: bool) -> None:
    projected, weight = torch.randn(2, 4 + 2 + 2, 8), torch.rand(8)
    queries, keys, values = projected.split([4, 2, 2], 1)
    caches = [torch.full((3, 4, 2, 8), float("nan")) for _ in range(2)]
    flat = [cache.flatten(0, 1) for cache in caches]
    _, cos, sin = angles_of(2, 8, interleaved=False)
    slots, norms = torch.tensor([9, 2]), {"query_norm": weight, "key_norm": weight, "eps": 1e-6} if normed else {}
    turned = rotate_and_write(projected, 4, cos, sin, *flat, slots, interleaved=False, **norms)
    if normed:
        queries, keys = (rms_norm(each, weight, 1e-6) for each in (queries, keys))
    assert torch.equal(flat[0][slots], rotate(keys, cos, sin, interleaved=False))
    assert torch.equal(flat[1][slots], values)
    assert torch.equal(turned, rotate(queries, cos, sin, interleaved=False))
    assert all(int(cache.isnan().all(-1).all(-1).sum()) == 10 for cache in caches)


def test_gates_come_first() -> None:
    gate, up = torch.randn(3, 10), torch.randn(3, 10)
    both = torch.cat((gate, up), -1)
    torch.testing.assert_close(silu_mul(both), gate / (1 + torch.exp(-gate)) * up)
    inner = math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    torch.testing.assert_close(gelu_tanh_mul(both), 0.5 * gate * (1 + torch.tanh(inner)) * up)


@pytest.mark.parametrize("renormalise", [False, True])
def test_each_token_passes_through_its_own_experts(renormalise: bool) -> None:
    x, logits = torch.randn(7, 6), torch.randn(7, 5)
    gate_up, down = torch.randn(5, 8, 6), torch.randn(5, 6, 4)
    weights, experts = route(logits, 2, renormalise=renormalise)
    found = expert_mlp(x, weights, experts, gate_up, down)
    for token in range(7):
        chances = logits[token].softmax(-1)
        best = chances.argsort(descending=True)[:2]
        total = chances[best].sum() if renormalise else 1.0
        wanted = sum(chances[e] / total * (down[e] @ silu_mul((gate_up[e] @ x[token])[None])[0]) for e in best)
        torch.testing.assert_close(found[token], wanted, rtol=1e-4, atol=1e-5)


def test_blocks_go_away_and_come_back_elsewhere() -> None:
    pool = torch.randn(2, 2, 6, 4, 1, 8)
    before = pool.clone()
    image = gather_blocks(pool, torch.tensor([4, 1]))
    scatter_blocks(pool, torch.tensor([0, 5]), image)
    copy_blocks(pool, torch.tensor([2]), torch.tensor([3]))
    for target, source in {0: 4, 5: 1, 3: 2, 1: 1, 2: 2, 4: 4}.items():
        assert torch.equal(pool[:, :, target], before[:, :, source])
