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
