"""How many KV blocks a real device has: its memory by the memory plan."""

from __future__ import annotations

import os

import torch

from backends.cuda.model import Model
from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.memory.reserve import CONTEXT_BYTES, DEFAULT_UTILISATION_PERCENT, MemoryNeeds, MemoryPlan, plan_memory
from schedlab.memory.workspace import peak_activation_bytes

# A CPU's memory is shared with everything else that runs there.
_CPU_SHARE_PERCENT = 50


def plan_for(
    model: Model,
    config: SchedulerConfig,
    *,
    memory_bytes: int | None = None,
    utilisation_percent: int = DEFAULT_UTILISATION_PERCENT,
) -> MemoryPlan:
    """The plan of the model's device; *memory_bytes* of it may be used, or all that a GPU has, or half of a CPU's.

    Raises:
        DoesNotFit: weights or one longest sequence do not fit.
    """
    spec, itemsize, is_gpu = model.spec, model.dtype.itemsize, model.device.type == "cuda"
    experts = spec.experts
    return plan_memory(
        MemoryNeeds(
            memory_bytes=memory_bytes_of(model.device) if memory_bytes is None else memory_bytes,
            weights_bytes=model.weights.num_bytes,
            activations_bytes=peak_activation_bytes(
                max_num_batched_tokens=config.max_num_batched_tokens,
                max_num_seqs=config.max_num_seqs,
                hidden=spec.hidden,
                mlp_width=max(spec.intermediate, experts.experts_per_token * experts.width if experts else 0),
                vocab=spec.vocab,
                dtype_bytes=itemsize,
                tp=1,
            ),
            kv_bytes_per_token=spec.kv_bytes_per_token(itemsize),
            block_size=config.block_size,
            max_model_len=min(config.max_model_len, model.max_model_len),
            max_num_seqs=config.max_num_seqs,
            utilisation_percent=utilisation_percent,
            context_bytes=CONTEXT_BYTES if is_gpu else 0,
        )
    )


def memory_bytes_of(device: torch.device) -> int:
    """What may be used of a device's memory: all of a GPU's, half of a CPU's.

    Raises UsageError where the machine does not tell.
    """
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _CPU_SHARE_PERCENT // 100
    except (ValueError, OSError) as error:
        raise UsageError(f"this machine does not tell its memory ({error}); give the bytes to use") from None
