"""A weight matrix that multiplies rows of activations."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import linear

# Up to so many rows, a product reads a matrix faster column by column: 23 instead of 12 GB/s for one row of 576 and a
# matrix of 3072 x 576, with MKL on one core of a Zen 3. With more rows MKL is faster on rows.
_FEW_ROWS = 2


@dataclass(slots=True)
class Matrix:
    """x @ weight.T + bias.

    Attributes:
        weight: [outputs, inputs].
        columns: on a CPU the same again, laid out column by column, if it has more outputs than inputs; else None.
    """

    weight: Tensor
    bias: Tensor | None = None
    columns: Tensor | None = None

    def __post_init__(self) -> None:
        outputs, inputs = self.weight.shape
        if outputs > inputs and not self.weight.is_cuda:
            self.columns = self.weight.t().contiguous().t()

    def __call__(self, x: Tensor) -> Tensor:
        """[T, inputs] to [T, outputs]."""
        few = self.columns is not None and len(x) <= _FEW_ROWS
        return linear(x, self.columns if few else self.weight, self.bias)

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return sum(tensor.nbytes for tensor in (self.weight, self.bias, self.columns) if tensor is not None)
