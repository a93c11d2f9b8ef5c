"""The real device: each step of the scheduler as one forward pass of a model, on a GPU or on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns

import torch
from torch import Tensor

from backends.cuda.copies import CopyEngine, CopyTicket
from backends.cuda.graphs import CudaRecorder, DecodeGraphs, Recorder
from backends.cuda.histories import Histories
from backends.cuda.host_memory import want_huge_pages
from backends.cuda.model import Model
from backends.cuda.packing import PackedStep, Packer
from backends.cuda.prompt_scores import prompt_logprobs
from backends.cuda.row_table import RowTable
from backends.cuda.sampler import Sampled, Sampler
from schedlab.config import SchedulerConfig
from schedlab.device import CopyKind, CopyOp, DeviceFacts, PromptLogprobs, Step, StepResult, Ticket
from schedlab.errors import DeviceFault, DeviceLost, SchedlabError, UsageError
from schedlab.memory.spill import SpillStore
from schedlab.pace import ArithmeticPace, ns_to_quanta
from schedlab.sequence import Sequence

# Assumed of a device that has computed nothing yet.
_FIRST_NS_PER_TOKEN = 100_000.0


@dataclass(slots=True)
class StepTicket:
    """The step in flight. Its tokens are ready on the device, or on their way to the host when `readback` has ended."""

    number: int
    begin_ns: int
    packed: PackedStep | None = None
    sampled: Sampled | None = None
    host_tokens: Tensor | None = None
    readback: torch.cuda.Event | None = None
    prompt_logprobs: dict[int, PromptLogprobs] | None = None
    fault: DeviceFault | None = None


class CudaDevice:
    """Runs steps on a model, and swaps its blocks to the host and the disk. Driven by `run_blocking`.

    A step whose forward pass fails gives a fault and advances nothing; what it wrote is written again by the next one.

    Attributes:
        kv: [layers, 2, num_blocks, block_size, kv heads, head size], keys before values.

    Args:
        num_blocks: KV blocks, see `plan_for`.
        store: where images go that leave the host for the disk; None = there is no disk tier.
        clock: nanoseconds; never goes back.
        record: how decode steps are recorded; None = as CUDA graphs on a GPU, and not at all on a CPU.

    Raises UsageError for a configuration that this device does not serve.
    """

    def __init__(
        self,
        model: Model,
        config: SchedulerConfig,
        num_blocks: int,
        *,
        store: SpillStore | None = None,
        clock: Callable[[], int] = monotonic_ns,
        record: Recorder | None = None,
    ) -> None:
        _refuse(config, model)
        spec, block_size, device = model.spec, config.block_size, model.device
        self.model = model
        shape = (spec.layers, 2, num_blocks, block_size, spec.kv_heads, spec.head_dim)
        self.kv = want_huge_pages(torch.empty(shape, dtype=model.dtype, device=device))
        block_bytes = block_size * spec.kv_bytes_per_token(model.dtype.itemsize)
        self.facts = DeviceFacts(f"{device.type} {spec.name}", num_blocks, block_bytes=block_bytes)
        # No sequence is longer than the pool, whatever the model could do.
        longest = min(config.max_model_len, num_blocks * block_size)
        self.rows = RowTable(config.max_num_seqs, longest, block_size, device)
        self.histories = Histories(spec.vocab)
        self._packer = Packer(self.rows, self.histories, device)
        self._sampler = Sampler(self.rows, self.histories, model.operations, device)
        self._copies = CopyEngine(self.kv, model.operations, store)
        self.on_copy_done = self._copies.on_done
        record = CudaRecorder() if record is None and self.kv.is_cuda else record
        most_blocks = self.rows.block_tables.shape[1]
        self._graphs = DecodeGraphs(model, self.kv, config.max_num_seqs, most_blocks, record) if record else None
        self._clock, self._begin_ns = clock, clock()
        self._num_launches = 0
        self._ns_per_token = _FIRST_NS_PER_TOKEN
        self._lost = ""

    def now_ns(self) -> int:
        """Since the device was made."""
        return self._clock() - self._begin_ns

    def launch(self, step: Step) -> StepTicket:
        """Begin a step when the copies that it names have ended. On a CPU it is over when this returns."""
        self._num_launches += 1
        ticket = StepTicket(self._num_launches, self.now_ns())
        try:
            if self._lost:
                raise DeviceLost(self._lost)
            self._copies.wait(step.after)
            self._run(step, ticket)
        except DeviceFault as error:
            ticket.fault = error
        except Exception as error:
            # torch and numpy raise errors of any type, and one that left this thread would end every request.
            ticket.fault = self._fault(error)
        return ticket

    def wait(self, ticket: Ticket) -> StepResult:
        """Block until the step in flight has ended."""
        assert isinstance(ticket, StepTicket)
        tokens: list[int] = []
        if ticket.fault is None:
            try:
                tokens = self._read_back(ticket)
            except RuntimeError as error:
                ticket.fault = self._fault(error)
        elapsed_ns = max(1, self.now_ns() - ticket.begin_ns)
        pace = ArithmeticPace(ns_to_quanta(ticket.begin_ns), 1, ns_to_quanta(elapsed_ns))
        packed, sampled = ticket.packed, ticket.sampled
        if ticket.fault is not None or packed is None or sampled is None:
            return StepResult(1, pace, [], fault=ticket.fault)
        self._ns_per_token = elapsed_ns / len(packed.inputs.token_ids)
        self.histories.append(packed.sequences, tokens)
        newest = dict(zip([sequence.request_id for sequence in packed.sequences], tokens, strict=True))
        return StepResult(1, pace, [], tokens=newest, logprobs=sampled.logprobs, prompt_logprobs=ticket.prompt_logprobs)

    def copy(self, op: CopyOp) -> CopyTicket:
        """Begin a copy; `on_copy_done` is told of its end."""
        return self._copies.copy(op)

    def finish_copies(self, tickets: tuple[Ticket, ...]) -> None:
        """Block until these copies have ended, well or not."""
        self._copies.wait(tickets)

    def move_slot(self, source: int, target: int) -> None:
        self.rows.move(source, target)

    def save_state(self, slot: int, snapshot: int, num_tokens: int) -> None:
        """Sequences carry no state beside their blocks here, so there is nothing to save."""

    def restore_state(self, snapshot: int, slot: int) -> None:
        """Nor to restore."""

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        """By the rate of the last copy on that link."""
        return self._copies.copy_ns(kind, num_bytes)

    def prefill_ns(self, num_tokens: int) -> int:
        """By the rate of the last step."""
        return int(num_tokens * self._ns_per_token)

    def output_keys(self, sequence: Sequence, first: int, last: int, block_size: int) -> list[int]:
        """Keys of the tokens that were sampled, chained to those of the prompt."""
        return self.histories.of(sequence).keys(first, last, block_size)

    def forget(self, sequence: Sequence) -> None:
        self.histories.forget(sequence.request_id)
        self._copies.images.drop(sequence.request_id)

    def close(self) -> None:
        """Block until all copies and their threads have ended."""
        self._copies.close()

    def _run(self, step: Step, ticket: StepTicket) -> None:
        """Forward pass and sampling; on a GPU this only puts them in line."""
        self._note_rows(step)
        packed = ticket.packed = self._packer.pack(step)
        with torch.inference_mode():
            if self._graphs is not None and not step.chunks:
                logits = self._graphs.logits(packed.inputs)
            else:
                logits = self._with_chunks(step, packed, ticket)
            sampled = self._sampler.sample(packed, logits)
            tokens = self.histories.scripted(packed.sequences, packed.output_indices, sampled.tokens)
            sampled = ticket.sampled = sampled._replace(tokens=tokens)
            self.rows.last_tokens[torch.from_numpy(packed.slots).to(self.model.device)] = sampled.tokens
            ticket.host_tokens = sampled.tokens
            if self.kv.is_cuda:
                ticket.host_tokens = torch.empty(len(packed.slots), dtype=torch.int64, pin_memory=True)
                ticket.host_tokens.copy_(sampled.tokens, non_blocking=True)
                ticket.readback = torch.cuda.Event()
                ticket.readback.record()

    def _with_chunks(self, step: Step, packed: PackedStep, ticket: StepTicket) -> Tensor:
        hidden = self.model.hidden(packed.inputs, self.kv)
        ticket.prompt_logprobs = prompt_logprobs(step.chunks, packed.inputs.chunks, hidden, self.model, self.histories)
        return self.model.logits(hidden[packed.inputs.sampled])

    def _note_rows(self, step: Step) -> None:
        for chunk in step.chunks:
            if chunk.start == 0 or chunk.samples:
                self.rows.welcome(chunk.sequence)
            self._copies.images.drop(chunk.sequence.request_id)
        if step.decode is not None:
            self.rows.grow(step.decode)
            for sequence in step.decode.newcomers:
                known = sequence.num_computed + 1
                self.rows.join(sequence, int(self.histories.of(sequence).known(known - 1, known)[0]))

    def _read_back(self, ticket: StepTicket) -> list[int]:
        if ticket.readback is not None:
            ticket.readback.synchronize()
        assert ticket.host_tokens is not None
        tokens: list[int] = ticket.host_tokens.tolist()
        return tokens

    def _fault(self, error: Exception) -> DeviceFault:
        """Out of memory and the like hit one step; an error of the accelerator itself means that it is lost."""
        if isinstance(error, torch.AcceleratorError):
            self._lost = f"the device is lost: {error}"
            return DeviceLost(self._lost)
        is_told = isinstance(error, RuntimeError | SchedlabError)
        return DeviceFault(str(error) if is_told else f"{type(error).__name__}: {error}")


def _refuse(config: SchedulerConfig, model: Model) -> None:
    if config.window_blocks:
        raise UsageError("window_blocks is not served by this device: it reads every block of a row in each step")
    if config.max_model_len > model.max_model_len:
        raise UsageError(
            f"max_model_len is {config.max_model_len}, and the model {model.spec.name} was loaded for "
            f"{model.max_model_len} tokens; give at most that"
        )
