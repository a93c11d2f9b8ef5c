"""A weight matrix that multiplies rows of activations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# MKL multiplies a panel so wide without copying it first, which pays from two rows on.
_PANEL_OUTPUTS = 192


class Matrix:
    """x @ weight.T + bias.

    All products of SmolLM2-135M on one core of a Sapphire Rapids Xeon, in huge pages: with 16 rows 75 ms by panels,
    100 ms from the weight as it is stored and 103 ms by columns; with one row 36 ms by columns, 41 ms by panels and
    42 ms as stored. On two cores 16 rows take 58 ms by panels 3 of which may meet 2 threads, 51 ms where every thread
    has as many panels as any other.

    Attributes:
        outputs: rows of the weight.
        panels: [P, inputs, width], the weight's transpose cut into panels, each contiguous; the last one is filled up
            with zeros. Every thread that torch has when this is made gets as many as any other. On a GPU one panel,
            which is a view of the weight.
        columns: on a CPU [inputs, outputs], the transpose in one piece, for a single row; else None.
        bias: [outputs], or None.

    Args:
        weight: [outputs, inputs].
        place: a contiguous copy in the memory where it shall stay.
    """

    __slots__ = ("bias", "columns", "outputs", "panels")

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, *, place: Callable[[Tensor], Tensor] = Tensor.contiguous
    ) -> None:
        self.outputs, self.bias = len(weight), bias
        self.panels = weight.t()[None] if weight.is_cuda else place(_panels(weight))
        self.columns = None if weight.is_cuda else place(weight.t())

    def __call__(self, x: Tensor) -> Tensor:
        """[T, inputs] to [T, outputs]."""
        is_row = self.columns is not None and x.size(0) == 1
        result = torch.mm(x, self.columns) if is_row else self._by_panels(x)
        return result if self.bias is None else result.add_(self.bias)

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return sum(tensor.nbytes for tensor in (self.panels, self.columns, self.bias) if tensor is not None)

    def _by_panels(self, x: Tensor) -> Tensor:
        products = torch.bmm(x.expand(len(self.panels), *x.shape), self.panels)
        return products.transpose(0, 1).flatten(1)[:, : self.outputs].contiguous()


def _panels(weight: Tensor) -> Tensor:
    """A view of the weight, or of what it becomes when it is filled up."""
    outputs, inputs = weight.shape
    threads = torch.get_num_threads()
    count = -(-outputs // (_PANEL_OUTPUTS * threads)) * threads
    width = -(-outputs // count)
    filled = torch.nn.functional.pad(weight, (0, 0, 0, count * width - outputs))
    return filled.view(count, width, inputs).transpose(1, 2)
