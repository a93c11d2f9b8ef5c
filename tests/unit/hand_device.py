"""A device that does what it is told when it is told, and writes down what was asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schedlab.config import SchedulerConfig
from schedlab.core import scheduler
from schedlab.device import CopyKind, CopyOp, DeviceFacts, Step, StepResult
from schedlab.inbox import Cancel, CopyDone, Delivery, ResetCache, Submit
from schedlab.pace import ArithmeticPace
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.request import Prompt, Request, SamplingParams
from schedlab.sequence import Sequence

PLAIN = SamplingParams()


class HandTicket(NamedTuple):
    number: int


class HandDevice:
    """Every step takes a microsecond; copies end when a test says so.

    Attributes:
        steps, copies: what was launched and copied, in order.
        moved: ("save", slot, snapshot, tokens) and ("restore", snapshot, slot), in order.
        keys: chained keys of each request's outputs behind its prompt, for those that have any.
    """

    def __init__(self, num_blocks: int = 1000, state_bytes: int = 1) -> None:
        self.facts = DeviceFacts("hand", num_blocks, block_bytes=1, state_bytes=state_bytes)
        self.steps: list[Step] = []
        self.copies: list[tuple[HandTicket, CopyOp]] = []
        self.moved: list[tuple[str | int, ...]] = []
        self.keys: dict[int, list[int]] = {}
        self._now_ns = 0
        self._num_tickets = 0

    def now_ns(self) -> int:
        return self._now_ns

    def launch(self, step: Step) -> HandTicket:
        self.steps.append(step)
        self._now_ns += 1000
        return self._ticket()

    def copy(self, op: CopyOp) -> HandTicket:
        ticket = self._ticket()
        self.copies.append((ticket, op))
        return ticket

    def move_slot(self, source: int, target: int) -> None:
        self.moved.append(("move", source, target))

    def save_state(self, slot: int, snapshot: int, num_tokens: int) -> None:
        self.moved.append(("save", slot, snapshot, num_tokens))

    def restore_state(self, snapshot: int, slot: int) -> None:
        self.moved.append(("restore", snapshot, slot))

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        return 1

    def prefill_ns(self, num_tokens: int) -> int:
        return num_tokens

    def output_keys(self, sequence: Sequence, first: int, last: int, block_size: int) -> list[int]:
        prompt_blocks = sequence.num_prompt_tokens // block_size
        return self.keys.get(sequence.request_id, [])[first - prompt_blocks : last - prompt_blocks]

    def forget(self, sequence: Sequence) -> None:
        return None

    def _ticket(self) -> HandTicket:
        self._num_tickets += 1
        return HandTicket(self._num_tickets)


class Hand:
    """A scheduler on such a device, driven tick by tick."""

    def __init__(self, config: SchedulerConfig, device: HandDevice, policy: Policy | None = None) -> None:
        self.device = device
        self.core = scheduler.Scheduler(config, policy or Fifo(config), device)
        self._num_deliveries = 0

    def submit(
        self,
        request_id: int,
        keys: Iterable[int],
        tokens: int,
        session: str = "",
        outputs: int = 99,
        sampling: SamplingParams = PLAIN,
        priority: int = 0,
    ) -> None:
        """A request arrives whose prompt begins with blocks of these keys."""
        size = self.core.config.block_size
        prompt = Prompt(tokens, tuple(keys), size)
        request = Request(
            request_id, prompt, outputs, self.device.now_ns(), priority=priority, session=session, sampling=sampling
        )
        self._deliver(Submit(request))

    def cancel(self, request_id: int) -> None:
        self._deliver(Cancel(request_id))

    def reset_cache(self, *, preempt_running: bool = False) -> None:
        self._deliver(ResetCache(preempt_running))

    def end_copy(self, ticket: HandTicket, error: str = "") -> None:
        self._deliver(CopyDone(ticket, error))

    def tick(self, count: int = 1, token: int | None = None) -> None:
        """Whole ticks; decode steps are not repeated, and every row samples that token, if one is given."""
        for _ in range(count):
            self.core.begin_tick()
            for lane in self.core.plan().lanes:
                if self.core.launch(lane) is not None:
                    step = self.device.steps[-1]
                    pace = ArithmeticPace(self.device.now_ns() << 20, 1, 1 << 20)
                    tokens = None if token is None else dict.fromkeys(self.core.sequences, token)
                    self.core.commit(StepResult(1, pace, [], tokens=tokens))
                    assert step is self.device.steps[-1]
            self.core.end_tick()

    def end_all_copies(self) -> None:
        """Every copy that was begun and has not ended, in order."""
        copies, self.device.copies = self.device.copies, []
        for ticket, _ in copies:
            self.end_copy(ticket)

    def sequence(self, request_id: int) -> Sequence:
        return self.core.sequences[request_id]

    def chunks(self, request_id: int) -> list[tuple[int, int]]:
        """First position and end of each chunk of a request so far."""
        mine = [chunk for step in self.device.steps for chunk in step.chunks if chunk.sequence.request_id == request_id]
        return [(chunk.start, chunk.start + chunk.num_tokens) for chunk in mine]

    def _deliver(self, message: Submit | Cancel | CopyDone | ResetCache) -> None:
        self._num_deliveries += 1
        self.core.inbox.deliver(Delivery(self.device.now_ns(), 0, self._num_deliveries, message))
