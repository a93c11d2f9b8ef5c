"""Without a GPU Triton's interpreter runs the kernels. It must be told before anything imports triton."""

from __future__ import annotations

import importlib.util
import os


def _has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


if not _has_gpu():
    os.environ["TRITON_INTERPRET"] = "1"


def _multiply_bfloat16() -> None:
    """The interpreter keeps bfloat16 as 16-bit integers and multiplies matrices of these; have it widen them first."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder

    create_dot = InterpreterBuilder.create_dot

    def widening(builder, a, b, *rest):
        a, b = (builder.cast_impl(each, tl.float32) if each.dtype.scalar == tl.bfloat16 else each for each in (a, b))
        return create_dot(builder, a, b, *rest)

    InterpreterBuilder.create_dot = widening


if importlib.util.find_spec("triton") is not None and "TRITON_INTERPRET" in os.environ:
    _multiply_bfloat16()
