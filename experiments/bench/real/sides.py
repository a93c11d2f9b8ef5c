"""What is compared: this scheduler on its CPU device, and `generate` of transformers, on the same weights."""

from __future__ import annotations

from collections.abc import Callable

import torch

from backends.cuda.device import CudaDevice
from backends.cuda.loading import load_model, model_folder
from backends.cuda.model import Model
from experiments.bench.real.side import Load, Serve
from experiments.serve.real import demo_model
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.driver import run_blocking
from schedlab.events import StepDone
from schedlab.inbox import Close, Submit
from schedlab.mailbox import Mailbox
from schedlab.policies.fifo import Fifo
from schedlab.policies.presets import find_preset
from schedlab.request import Prompt, Request, SamplingParams

MAX_MODEL_LEN = 1024
_PRESET = "vllm"


class Outputs:
    """Counts the tokens that came out."""

    def __init__(self) -> None:
        self.num_tokens = 0

    def on_step_done(self, event: StepDone) -> None:
        self.num_tokens += len(event.tokens or ())


def ours() -> Serve:
    """Continuous batching with the `vllm` preset."""
    model = load_model(demo_model(), device=torch.device("cpu"), dtype="float32", max_model_len=MAX_MODEL_LEN)
    return lambda load: ready(model, load)()


def ready(model: Model, load: Load) -> Callable[[], None]:
    """A fresh scheduler and device that have been given a load; what serves it to its end."""
    fields = {
        **find_preset(_PRESET).fields,
        "max_model_len": model.max_model_len,
        "max_num_seqs": load.at_a_time,
        "prefix_cache": False,
    }
    config = SchedulerConfig(**fields)
    longest = max(len(prompt) + count for prompt, count in zip(load.prompts, load.outputs, strict=True))
    device = CudaDevice(model, config, load.at_a_time * (longest // config.block_size + 1))
    core, mailbox, outputs = Scheduler(config, Fifo(config), device, leap=False), Mailbox(), Outputs()
    core.bus.add(outputs)
    sampling = SamplingParams(ignore_eos=True)
    for number, (prompt, count) in enumerate(zip(load.prompts, load.outputs, strict=True)):
        mailbox.send(Submit(Request(number, Prompt.of_tokens(prompt), count, sampling=sampling)))
    mailbox.send(Close())

    def run() -> None:
        run_blocking(core, device, mailbox)
        device.close()
        assert outputs.num_tokens == sum(load.outputs)

    return run


def theirs() -> Serve:
    """Static batches in the order of arrival, padded on the left, each until its longest output is there."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    model = AutoModelForCausalLM.from_pretrained(model_folder(demo_model()), dtype=torch.float32).eval()

    def serve(load: Load) -> None:
        for first in range(0, len(load.prompts), load.at_a_time):
            batch = slice(first, first + load.at_a_time)
            _generate(model, load.prompts[batch], max(load.outputs[batch]))

    return serve


def _generate(model: torch.nn.Module, prompts: tuple[tuple[int, ...], ...], num_outputs: int) -> None:
    longest = max(len(prompt) for prompt in prompts)
    padded = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    with torch.inference_mode():
        found = model.generate(
            padded,
            attention_mask=mask,
            do_sample=False,
            min_new_tokens=num_outputs,
            max_new_tokens=num_outputs,
            pad_token_id=0,
        )
    assert found.shape[1] == longest + num_outputs
