"""Sampling keeps what its parameters say, and a draw depends on seed and output index only."""

from __future__ import annotations

from tests.torch_needed import torch  # isort: skip

from kernels.sampling import greedy, logprobs, sample, uniforms


def drawn(logits: torch.Tensor, count: int = 4000, **changes: float) -> torch.Tensor:
    """How often each token is drawn from one row of logits, as shares."""
    rows = logits.expand(count, -1)
    options = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, **changes}
    of = {name: torch.full((count,), value) for name, value in options.items()}
    draws = uniforms(torch.zeros(count, dtype=torch.int64), torch.arange(count))
    tokens = sample(rows, of["temperature"], of["top_k"].long(), of["top_p"], of["min_p"], draws)
    return tokens.bincount(minlength=logits.shape[-1]) / count


LOGITS = torch.tensor([0.5, 0.05, 0.25, 0.15, 0.05]).log()


def test_shares_follow_the_softmax_at_the_temperature() -> None:
    torch.testing.assert_close(drawn(LOGITS), LOGITS.exp(), rtol=0, atol=0.03)
    cooler = (LOGITS / 0.5).softmax(-1)
    torch.testing.assert_close(drawn(LOGITS, temperature=0.5), cooler, rtol=0, atol=0.03)


def test_top_k_keeps_the_likeliest_and_all_that_equal_the_last_of_them() -> None:
    assert (drawn(LOGITS, top_k=2) > 0).tolist() == [True, False, True, False, False]
    assert (drawn(LOGITS, top_k=4) > 0).all()


def test_top_p_keeps_the_fewest_that_hold_the_probability() -> None:
    assert (drawn(LOGITS, top_p=0.5) > 0).tolist() == [True, False, False, False, False]
    assert (drawn(LOGITS, top_p=0.51) > 0).tolist() == [True, False, True, False, False]
    # Of the two that top_k leaves, the first alone holds two thirds.
    assert (drawn(LOGITS, top_p=0.6, top_k=2) > 0).tolist() == [True, False, False, False, False]


def test_min_p_keeps_what_is_likely_enough_beside_the_likeliest() -> None:
    assert (drawn(LOGITS, min_p=0.4) > 0).tolist() == [True, False, True, False, False]


def test_temperature_zero_takes_the_likeliest_and_the_lowest_id_of_equals() -> None:
    assert drawn(LOGITS, temperature=0.0).tolist() == [1, 0, 0, 0, 0]
    assert greedy(torch.tensor([[0.0, 2.0, 2.0, 1.0]])).tolist() == [1]


def test_a_row_is_drawn_alike_in_any_batch() -> None:
    """Scenario K12: other rows, their number and the place in the batch do not matter."""
    torch.manual_seed(1)
    logits, seeds, indices = torch.randn(6, 500), torch.arange(6) * 7 + 42, torch.arange(6)
    options = [torch.full((6,), value) for value in (0.8, 0.0, 0.9, 0.01)]
    options[1] = options[1].long()

    def tokens(rows: list[int]) -> list[int]:
        given = [option[rows] for option in options]
        return sample(logits[rows], *given, uniforms(seeds[rows], indices[rows])).tolist()

    together = tokens([0, 1, 2, 3, 4, 5])
    assert tokens([5, 2]) == [together[5], together[2]]
    assert [tokens([row])[0] for row in range(6)] == together


def test_draws_are_spread_evenly_and_differ_by_seed_and_by_index() -> None:
    draws = uniforms(torch.arange(20_000) % 100, torch.arange(20_000) // 100)
    assert ((draws >= 0) & (draws < 1)).all()
    assert draws.unique().numel() > 19_900
    shares = draws.mul(10).long().bincount(minlength=10) / len(draws)
    torch.testing.assert_close(shares, torch.full((10,), 0.1), rtol=0, atol=0.01)


def test_logprobs_are_of_the_unmodified_distribution() -> None:
    found = logprobs(LOGITS[None], torch.tensor([3]), 2)
    torch.testing.assert_close(found.chosen.exp(), torch.tensor([0.15]))
    torch.testing.assert_close(found.top.exp(), torch.tensor([[0.5, 0.25]]))
    assert found.top_ids.tolist() == [[0, 2]]
    assert found.rank.tolist() == [3]
