"""A workload, a scheduler and a simulated device put together, run to the end, and what everyone saw of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from backends.sim.clock import SimClock
from backends.sim.costs.base import CostModel
from backends.sim.device import SimDevice
from backends.sim.links import DEFAULT_LINKS, Links, LinkSpec
from backends.sim.outputs import Lengths
from backends.sim.process import SimProcess
from backends.sim.shadow_kv import ShadowDevice
from experiments.event_log import EventLog
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import CopyKind, DeviceFacts
from schedlab.errors import Stalled
from schedlab.events import Finished, Refused, StepDone
from schedlab.inbox import Cancel, Close, Delivery, Submit
from schedlab.invariants import Checker
from schedlab.memory.blocks import blocks_for
from schedlab.policies.base import Policy
from schedlab.request import Prompt, Request
from tests.property.policies import scrambled

TURN_IDS = 1000
SESSION_IDS = 1000
SUBMIT, CANCEL, CLOSE = 0, 1, 9


class Turn(NamedTuple):
    """A request; `think_ns` passes between the end of the turn before and its arrival."""

    prompt_tokens: int
    output_tokens: int
    max_tokens: int = 1 << 20
    priority: int = 0
    timeout_ns: int | None = None
    cancel_ns: int | None = None
    think_ns: int = 0


class Text(NamedTuple):
    """What the prompts of a session say, as far as a trace would know it.

    Attributes:
        family: sessions of one family begin with the same `shared_tokens`.
        hash_block_tokens: tokens behind each id of the trace.
        grows: each prompt begins with the whole turn before it.
    """

    family: int
    shared_tokens: int
    hash_block_tokens: int
    grows: bool = False
    salt: str = ""
    tenant: str = ""

    def prompt(self, session: int, tokens: int) -> Prompt:
        """The first `tokens` tokens of the session's text. Ids that stand for other numbers of tokens are others."""
        ids = []
        for number in range(blocks_for(tokens, self.hash_block_tokens)):
            is_shared = (number + 1) * self.hash_block_tokens <= self.shared_tokens
            ids.append(scrambled(self.family if is_shared else SESSION_IDS + session, number, self.hash_block_tokens))
        return Prompt(tokens, tuple(ids), self.hash_block_tokens)


class Session(NamedTuple):
    """Turns one after another, the first at `arrival_ns`; without a text, prompts are known by their lengths only."""

    arrival_ns: int
    turns: tuple[Turn, ...]
    text: Text | None = None

    def prompt(self, index: int, turn: int) -> Prompt | None:
        """The prompt of a turn of this session, number `index` of its world; None if there is no such turn."""
        if turn >= len(self.turns):
            return None
        before = self.turns[:turn] if self.text and self.text.grows else ()
        tokens = sum(one.prompt_tokens + one.output_tokens for one in before) + self.turns[turn].prompt_tokens
        return self.text.prompt(index, tokens) if self.text else Prompt(tokens)


@dataclass(frozen=True)
class World:
    """Everything that a run follows from."""

    config: SchedulerConfig
    policy: Callable[[SchedulerConfig], Policy]
    cost: CostModel
    num_blocks: int
    sessions: tuple[Session, ...]
    block_bytes: int = 0
    links: Mapping[CopyKind, LinkSpec] = field(default_factory=lambda: DEFAULT_LINKS)
    wants_dense_slots: bool = False

    def facts(self) -> DeviceFacts:
        """Of the device that runs it."""
        return DeviceFacts(
            "sim",
            self.num_blocks,
            self.cost.window_tokens,
            block_bytes=self.block_bytes,
            wants_dense_slots=self.wants_dense_slots,
        )


@dataclass(frozen=True)
class Outcome:
    """What a run left: its event log, the tables of its chunks, how it ended, and the checker's counts.

    Attributes:
        counts: requests accepted and ended, tokens computed by prefill, and tokens computed again.
        num_ticks: of the scheduler; the only thing in which leaping may differ.
    """

    log: bytes
    tables: list[tuple[int, tuple[int, ...]]]
    end: str
    counts: tuple[int, int, int, int]
    num_ticks: int = field(compare=False)


class Tables:
    """Observer: the block table behind every chunk."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, tuple[int, ...]]] = []

    def on_step_done(self, event: StepDone) -> None:
        for chunk in event.chunks:
            self.seen.append((chunk.sequence.request_id, tuple(chunk.sequence.block_table)))


@dataclass
class Node:
    """One scheduler on one simulated device with its observers. `most_plans` bounds a run that never ends."""

    clock: SimClock
    world: World
    log_path: Path
    leap: bool
    most_plans: int = 200_000
    device_class: type[SimDevice] = SimDevice
    links_class: type[Links] = Links
    checker: Checker = field(default_factory=Checker)

    def __post_init__(self) -> None:
        world = self.world
        self.outputs = Lengths()
        links = self.links_class(self.clock, world.links)
        self.device = self.device_class(self.clock, world.cost, self.outputs, world.facts(), links)
        self.core = Scheduler(world.config, world.policy(world.config), self.device, leap=self.leap)
        if isinstance(self.device, ShadowDevice):
            self.device.attach(self.core)
        self.log = EventLog(self.log_path)
        self.tables = Tables()
        self.core.bus.add(self.log)
        self.core.bus.add(self.tables)
        self.checker.attach(self.core)
        self._bound_plans()
        self.process = SimProcess(self.clock, self.core, self.device)

    def submit(self, request_id: int, session: Session) -> None:
        """Deliver the request of a session's turn now, and its cancel later."""
        now_ns, (index, number) = self.clock.now_ns(), divmod(request_id, TURN_IDS)
        turn, text = session.turns[number], session.text
        following = session.prompt(index, number + 1) if text and text.grows else None
        self.outputs.expect(request_id, turn.output_tokens, following)
        prompt = session.prompt(index, number)
        assert prompt is not None
        deadline_ns = None if turn.timeout_ns is None else now_ns + turn.timeout_ns
        request = Request(
            request_id,
            prompt,
            turn.max_tokens,
            arrival_ns=now_ns,
            priority=turn.priority,
            deadline_ns=deadline_ns,
            tenant=text.tenant if text else "",
            session=str(index) if text and text.grows else "",
            cache_salt=text.salt if text else "",
        )
        self.core.inbox.deliver(Delivery(now_ns, SUBMIT, request_id, Submit(request)))
        if turn.cancel_ns is not None:
            self.clock.at_ns(now_ns + turn.cancel_ns, lambda _: self._cancel(request_id))

    def close(self) -> None:
        self.core.inbox.deliver(Delivery(self.clock.now_ns(), CLOSE, 0, Close()))

    def outcome(self, end: str) -> Outcome:
        self.log.close()
        checker = self.checker
        counts = checker.num_accepted, checker.num_finished, checker.prefill_tokens, checker.recomputed_tokens
        return Outcome(self.log_path.read_bytes(), self.tables.seen, end, counts, checker.num_ticks)

    def _cancel(self, request_id: int) -> None:
        if not self.process.done:
            self.core.inbox.deliver(Delivery(self.clock.now_ns(), CANCEL, request_id, Cancel(request_id)))

    def _bound_plans(self) -> None:
        plan, left = self.core.plan, [self.most_plans]

        def bounded() -> object:
            left[0] -= 1
            assert left[0], f"{self.most_plans} plans and no end"
            return plan()

        setattr(self.core, "plan", bounded)  # noqa: B010 - the driver calls it by this name


class Sessions:
    """Delivers sessions to a node, each turn when the one before it has ended, and closes it behind the last."""

    def __init__(self, node: Node, sessions: tuple[Session, ...]) -> None:
        self._node = node
        self._sessions = sessions
        self._left = sum(len(session.turns) for session in sessions)
        node.core.bus.add(self)
        for index, session in enumerate(sessions):
            node.clock.at_ns(session.arrival_ns, lambda _, index=index: self._submit(index, 0))  # type: ignore[misc]
        if not self._left:
            node.close()

    def on_finished(self, event: Finished) -> None:
        self._ended(event.sequence.request_id)

    def on_refused(self, event: Refused) -> None:
        self._ended(event.sequence.request_id)

    def _ended(self, request_id: int) -> None:
        index, turn = divmod(request_id, TURN_IDS)
        turns = self._sessions[index].turns
        if turn + 1 < len(turns):
            clock = self._node.clock
            clock.at_ns(clock.now_ns() + turns[turn + 1].think_ns, lambda _: self._submit(index, turn + 1))

    def _submit(self, index: int, turn: int) -> None:
        self._node.submit(index * TURN_IDS + turn, self._sessions[index])
        self._left -= 1
        if not self._left:
            self._node.close()


def run(
    world: World, *, leap: bool, device_class: type[SimDevice] = SimDevice, links_class: type[Links] = Links
) -> Outcome:
    """One run to its end; a stall is an outcome, a broken law an error."""
    clock = SimClock()
    with tempfile.TemporaryDirectory() as folder:
        node = Node(
            clock, world, Path(folder) / "events.jsonl", leap, device_class=device_class, links_class=links_class
        )
        Sessions(node, world.sessions)
        try:
            clock.run()
        except Stalled as stalled:
            return node.outcome(f"stalled: {stalled}")
        return node.outcome("done" if node.process.done else "waits for ever")


def assert_leap_equals_step(world: World, device_class: type[SimDevice] = SimDevice) -> Outcome:
    """Run with and without leaps; everything must be the same to the byte."""
    leapt, stepped = (run(world, leap=leap, device_class=device_class) for leap in (True, False))
    leapt_lines, stepped_lines = leapt.log.splitlines(), stepped.log.splitlines()
    for number, (ours, theirs) in enumerate(zip(leapt_lines, stepped_lines, strict=False), 1):
        assert ours == theirs, f"line {number} of the event log: leap {ours!r}, step {theirs!r}"
    assert len(leapt_lines) == len(stepped_lines)
    assert leapt.tables == stepped.tables
    assert leapt == stepped
    return leapt
