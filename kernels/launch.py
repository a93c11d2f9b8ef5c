"""How kernels are launched: sizes that Triton wants, and where kernels run."""

from __future__ import annotations

import triton
from torch import Tensor

# Assumed where there is no GPU to ask: kernels run in the interpreter then.
_FEW_PROCESSORS = 4


def power_of_2(size: int, least: int = 1) -> int:
    """The least power of 2 that is neither below *size* nor below *least*."""
    return int(max(triton.next_power_of_2(size), least))


def processors(tensor: Tensor) -> int:
    """Streaming multiprocessors of the tensor's device."""
    if not tensor.is_cuda:
        return _FEW_PROCESSORS
    import torch

    return int(torch.cuda.get_device_properties(tensor.device).multi_processor_count)


def dot_precision(tensor: Tensor) -> str:
    """Products of float32 are exact float32 products, not TF32, so that both devices agree."""
    return "ieee" if tensor.element_size() == 4 else "tf32"
