"""The host's part of a decode step: plan, step preparation and commit, on a device whose forward pass costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from time import thread_time_ns

import torch
from torch import Tensor

from backends.cuda.device import CudaDevice
from backends.cuda.model import Model
from backends.cuda.operations import ReferenceOperations
from backends.cuda.rope import RopeSpec
from backends.cuda.spec import ModelSpec
from backends.cuda.step_inputs import StepInputs
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.driver import run_blocking
from schedlab.events import StepDone
from schedlab.inbox import Close, Submit
from schedlab.mailbox import Mailbox
from schedlab.policies.fifo import Fifo
from schedlab.policies.presets import find_preset
from schedlab.request import Prompt, Request, SamplingParams

BAR_MS, AIM_MS = 0.9, 0.3
_VOCAB = 16
_PROMPT_TOKENS, _OUTPUTS = 32, 400
_ROUND_STEPS = 50
_MOST_TOKENS = 8192


class FreeModel(Model):
    """Gives the same scores always, and computes nothing."""

    def __init__(self, max_model_len: int) -> None:
        self.spec = ModelSpec(
            name="free", family="llama", layers=1, hidden=2, heads=1, kv_heads=1, head_dim=2, intermediate=2,
            vocab=_VOCAB, max_model_len=max_model_len, rms_eps=1e-6, windows=(None,), ropes=(RopeSpec(10_000.0),),
            scale=1.0, tie_embeddings=True,
        )  # fmt: skip
        self.max_model_len, self.operations = max_model_len, ReferenceOperations()
        self._scores = torch.zeros(_MOST_TOKENS, _VOCAB)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    def hidden(self, inputs: StepInputs, kv: Tensor) -> Tensor:
        """Nothing, for each token."""
        return self._scores[: len(inputs.token_ids)]

    def logits(self, hidden: Tensor) -> Tensor:
        """The same scores."""
        return hidden


class StepTimes:
    """CPU time of the scheduler's thread at the end of each step that decodes so many rows."""

    def __init__(self, num_rows: int) -> None:
        self._num_rows = num_rows
        self.ended_ns: list[int] = []

    def on_step_done(self, event: StepDone) -> None:
        if event.decode_rows == self._num_rows and not event.chunks:
            self.ended_ns.append(thread_time_ns())


def step_ms(num_rows: int) -> float:
    """CPU time of one step with that many rows: the median of rounds of steps, each round's mean."""
    fields = {**find_preset("vllm").fields, "max_num_seqs": num_rows, "max_model_len": 2 * _OUTPUTS}
    config = SchedulerConfig(**fields)
    needed_blocks = num_rows * ((_PROMPT_TOKENS + _OUTPUTS) // config.block_size + 1)
    device = CudaDevice(FreeModel(config.max_model_len), config, needed_blocks)
    core, mailbox, times = Scheduler(config, Fifo(config), device, leap=False), Mailbox(), StepTimes(num_rows)
    core.bus.add(times)
    for number in range(num_rows):
        prompt = Prompt.of_tokens((number + place) % _VOCAB for place in range(_PROMPT_TOKENS))
        mailbox.send(Submit(Request(number, prompt, _OUTPUTS, sampling=SamplingParams(ignore_eos=True))))
    mailbox.send(Close())
    run_blocking(core, device, mailbox)
    device.close()
    ends = times.ended_ns[::_ROUND_STEPS]
    return median((last - first) / _ROUND_STEPS / 1e6 for first, last in pairwise(ends))


def lines() -> Iterator[str]:
    """The result as Markdown."""
    torch.set_num_threads(1)
    yield "| decoding rows | CPU ms a step |"
    yield "| ---: | ---: |"
    for num_rows in (32, 256):
        yield f"| {num_rows} | {step_ms(num_rows):.3f} |"
    yield ""
    yield f"Bar at 256 rows: {BAR_MS:g} ms, aim {AIM_MS:g} ms."
