"""A scheduler on a real device, run on this thread, with every logit that was sampled from."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torch_needed import torch  # isort: skip

from backends.cuda.device import CudaDevice
from backends.cuda.loading import load_model
from backends.cuda.model import Model
from backends.cuda.packing import PackedStep
from backends.cuda.sampler import Sampled
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import Step, StepResult
from schedlab.driver import run_blocking
from schedlab.events import Finished, Preempted, Restored, StepDone, SwappedOut
from schedlab.inbox import Close, Submit
from schedlab.mailbox import Mailbox
from schedlab.memory.spill import SpillStore
from schedlab.policies.fifo import Fifo
from schedlab.request import Prompt, Request, SamplingParams

MAX_MODEL_LEN = 256


def load(folder: Path, **options: Any) -> Model:
    """The model of a folder on the CPU."""
    return load_model(folder, device=torch.device("cpu"), max_model_len=MAX_MODEL_LEN, **options)


def config(**changes: Any) -> SchedulerConfig:
    """A small scheduler; `changes` to it."""
    plain: dict[str, Any] = {
        "max_num_seqs": 8,
        "max_num_batched_tokens": 64,
        "max_model_len": MAX_MODEL_LEN,
        "block_size": 8,
    }
    return SchedulerConfig(**{**plain, **changes})


def request(number: int, prompt: Iterable[int], outputs: int, **sampling: Any) -> Request:
    """A request for so many tokens."""
    return Request(number, Prompt.of_tokens(prompt), outputs, sampling=SamplingParams(**sampling))


class WatchedDevice(CudaDevice):
    """Keeps the logits of every sampled token, by request and output index, and every step's shape."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kv.fill_(float("nan"))
        self.logits: dict[tuple[int, int], torch.Tensor] = {}
        self.steps: list[tuple[list[int], int]] = []
        self.results: list[StepResult] = []
        sample = self._sampler.sample

        def watch(packed: PackedStep, logits: torch.Tensor) -> Sampled:
            for row, sequence in enumerate(packed.sequences):
                self.logits[sequence.request_id, int(packed.output_indices[row])] = logits[row].clone()
            return sample(packed, logits)

        self._sampler.sample = watch  # type: ignore[method-assign]

    def launch(self, step: Step) -> Any:
        self.steps.append(([chunk.num_tokens for chunk in step.chunks], len(step.decode.rows) if step.decode else 0))
        return super().launch(step)

    def wait(self, ticket: Any) -> StepResult:
        self.results.append(super().wait(ticket))
        return self.results[-1]


@dataclass
class Run:
    """What came out of a run."""

    device: WatchedDevice
    core: Scheduler
    outputs: dict[int, list[int]] = field(default_factory=dict)
    reasons: dict[int, tuple[str, str]] = field(default_factory=dict)
    cached: dict[int, int] = field(default_factory=dict)
    num_preempted: int = 0
    num_swapped: int = 0
    num_restored: int = 0

    def on_step_done(self, event: StepDone) -> None:
        for request_id, token in (event.tokens or {}).items():
            self.outputs.setdefault(request_id, []).append(token)

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        self.reasons[sequence.request_id] = (str(event.reason), sequence.error)
        self.cached[sequence.request_id] = sequence.num_cached_tokens

    def on_preempted(self, event: Preempted) -> None:
        self.num_preempted += 1

    def on_swapped_out(self, event: SwappedOut) -> None:
        self.num_swapped += 1

    def on_restored(self, event: Restored) -> None:
        self.num_restored += 1


def run(
    model: Model,
    requests: Iterable[Request],
    num_blocks: int = 100,
    *,
    store: SpillStore | None = None,
    device: WatchedDevice | None = None,
    **changes: Any,
) -> Run:
    """Serve `requests`, all there at once, to their ends."""
    settings, before = config(**changes), set(threading.enumerate())
    device = device or WatchedDevice(model, settings, num_blocks, store=store)
    core = Scheduler(settings, Fifo(settings), device)
    result, mailbox = Run(device, core), Mailbox()
    core.bus.add(result)
    for each in requests:
        mailbox.send(Submit(each))
    mailbox.send(Close())
    run_blocking(core, device, mailbox)
    device.close()
    assert set(threading.enumerate()) <= before
    return result
