"""A weight matrix gives the same products however it is laid out."""

from __future__ import annotations

import pytest

from tests.torch_needed import torch  # isort: skip

from backends.cuda.matrix import Matrix


@pytest.mark.parametrize("outputs", [1, 96, 192, 193, 576, 1000])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_products_of_any_number_of_rows(
    outputs: int, has_bias: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row, which goes another way; as many outputs as a panel has, and one more."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    torch.manual_seed(outputs)
    weight, bias = torch.randn(outputs, 40), torch.randn(outputs) if has_bias else None
    matrix = Matrix(weight, bias)
    assert len(matrix.panels) % threads == 0
    for rows in (1, 2, 17):
        x = torch.randn(rows, 40)
        wanted = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
        torch.testing.assert_close(matrix(x).double(), wanted, rtol=1e-5, atol=1e-5)


def test_its_bytes_are_those_that_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert Matrix(torch.zeros(193, 8), torch.zeros(193)).num_bytes == 4 * (194 * 8 + 193 * 8 + 193)
