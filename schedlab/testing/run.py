"""Runs a world to its end on a testbed, every law checked after every tick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from schedlab.core.plan import Plan
from schedlab.errors import Stalled
from schedlab.events import Finished, Refused
from schedlab.inbox import Cancel, Close, Delivery, ResetCache, Submit
from schedlab.invariants import Checker
from schedlab.request import FinishReason, Request
from schedlab.testing.laws import EVERY_RUN_ENDS
from schedlab.testing.testbed import Testbed, find_testbed
from schedlab.testing.world import Session, Turn, World

TURN_IDS = 1000
MOST_PLANS = 200_000
# Sources of deliveries; those of one instant come in this order.
SUBMIT, CANCEL, RESET, CLOSE = 0, 1, 5, 9


class Ending(NamedTuple):
    """How a request ended."""

    reason: FinishReason
    num_outputs: int


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        end: "done", "waits for ever", or "stalled: " and why.
        endings: of every request that ended or was refused, by id.
    """

    end: str
    endings: dict[int, Ending]
    num_accepted: int
    num_finished: int


class Node:
    """One scheduler of a testbed with its checker, and the sender of its requests.

    A request's id is `TURN_IDS` x its session + its turn. Observers are added between making and `start`.
    """

    def __init__(
        self,
        testbed: Testbed,
        world: World,
        *,
        leap: bool = True,
        checker: Checker | None = None,
        breakable: bool = False,
    ) -> None:
        self.testbed = testbed
        self.world = world
        self.bench = testbed.bench(world, leap=leap, breakable=breakable)
        self.core = self.bench.core
        self.checker = checker or Checker()
        self.checker.attach(self.core)
        self.endings: dict[int, Ending] = {}
        self.core.bus.add(self)
        _bound_plans(self.core, MOST_PLANS)

    def on_finished(self, event: Finished) -> None:
        self.endings[event.sequence.request_id] = Ending(event.reason, event.sequence.num_outputs)

    def on_refused(self, event: Refused) -> None:
        self.endings[event.sequence.request_id] = Ending(FinishReason.REFUSED, 0)

    def start(self) -> None:
        """Begin; nothing happens before the testbed runs."""
        for reset in self.world.resets:
            self.testbed.call_at(reset.at_ns, partial(self.reset_cache, reset.preempt_running))
        self.bench.start()

    def submit(self, request_id: int, session: Session) -> None:
        """Deliver the request of a session's turn now, and its cancel later."""
        now_ns, (index, number) = self.testbed.now_ns(), divmod(request_id, TURN_IDS)
        turn, text = session.turns[number], session.text
        following = session.prompt(index, number + 1) if text and text.grows else None
        self.bench.expect(request_id, turn.output_tokens, following)
        request = _request(request_id, session, turn, now_ns)
        self.core.inbox.deliver(Delivery(now_ns, SUBMIT, request_id, Submit(request)))
        if turn.cancel_ns is not None:
            self.testbed.call_at(now_ns + turn.cancel_ns, partial(self.cancel, request_id))

    def cancel(self, request_id: int) -> None:
        """The request's client leaves now."""
        if not self.bench.is_done:
            self.core.inbox.deliver(Delivery(self.testbed.now_ns(), CANCEL, request_id, Cancel(request_id)))

    def reset_cache(self, preempt_running: bool) -> None:
        """Somebody empties the prefix cache now."""
        if not self.bench.is_done:
            message = ResetCache(preempt_running)
            self.core.inbox.deliver(Delivery(self.testbed.now_ns(), RESET, 0, message))

    def close(self) -> None:
        """Nothing will follow."""
        self.core.inbox.deliver(Delivery(self.testbed.now_ns(), CLOSE, 0, Close()))

    def run_to_end(self) -> str:
        """Let the testbed go on until nothing is due. How it ended: "done", "waits for ever", "stalled: " and why."""
        try:
            self.testbed.run()
        except Stalled as stalled:
            return f"stalled: {stalled}"
        return "done" if self.bench.is_done else "waits for ever"

    def outcome(self, end: str) -> Outcome:
        """What it came to, `end` being how."""
        return Outcome(end, self.endings, self.checker.book.num_accepted, self.checker.book.num_finished)


class Sender:
    """Delivers sessions to a node, each turn when the one before it has ended."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sessions: list[Session] = []
        self._left = 0
        self._closes = False
        node.core.bus.add(self)

    def send(self, session: Session) -> None:
        """Its first turn arrives at `arrival_ns`, or now if that is past."""
        index = len(self._sessions)
        self._sessions.append(session)
        self._left += len(session.turns)
        self._node.testbed.call_at(session.arrival_ns, partial(self._submit, index, 0))

    def close(self) -> None:
        """No session will follow: the node is closed behind the last turn."""
        self._closes = True
        if not self._left:
            self._node.close()

    def on_finished(self, event: Finished) -> None:
        self._ended(event.sequence.request_id)

    def on_refused(self, event: Refused) -> None:
        self._ended(event.sequence.request_id)

    def _ended(self, request_id: int) -> None:
        index, turn = divmod(request_id, TURN_IDS)
        turns = self._sessions[index].turns
        if turn + 1 < len(turns):
            testbed = self._node.testbed
            testbed.call_at(testbed.now_ns() + turns[turn + 1].think_ns, partial(self._submit, index, turn + 1))

    def _submit(self, index: int, turn: int) -> None:
        self._node.submit(index * TURN_IDS + turn, self._sessions[index])
        self._left -= 1
        if self._closes and not self._left:
            self._node.close()


class Sessions(Sender):
    """Delivers these sessions and no others."""

    def __init__(self, node: Node, sessions: tuple[Session, ...]) -> None:
        super().__init__(node)
        for session in sessions:
            self.send(session)
        self.close()


def run(
    world: World,
    *,
    leap: bool = True,
    testbed: Testbed | None = None,
    watch: Callable[[Node], None] | None = None,
) -> Outcome:
    """One run to its end; a stall is an outcome.

    Args:
        leap: repeat decode steps in closed form.
        testbed: where it runs; None = a new simulated one, with shadow KV.
        watch: sees the node before it starts.

    Raises:
        InvariantViolation: a law does not hold.
    """
    testbed = testbed or find_testbed()()
    node = Node(testbed, world, leap=leap)
    if watch is not None:
        watch(node)
    node.start()
    Sessions(node, world.sessions)
    return node.outcome(node.run_to_end())


def alone(world: World, request_id: int) -> Ending:
    """How a request ends with nobody beside it, no fault, no deadline, no cancel and memory without end.

    Its output is as long as the output model says, unless its own limit or the model's length is shorter.
    """
    index, number = divmod(request_id, TURN_IDS)
    session = world.sessions[index]
    turn, prompt = session.turns[number], session.prompt(index, number)
    assert prompt is not None
    most = min(turn.max_tokens, world.config.max_model_len - prompt.num_tokens)
    if turn.output_tokens <= most and most:
        return Ending(FinishReason.STOP, turn.output_tokens)
    return Ending(FinishReason.LENGTH, max(most, 0))


def _request(request_id: int, session: Session, turn: Turn, now_ns: int) -> Request:
    index, number = divmod(request_id, TURN_IDS)
    prompt, text = session.prompt(index, number), session.text
    assert prompt is not None
    return Request(
        request_id,
        prompt,
        turn.max_tokens,
        arrival_ns=now_ns,
        priority=turn.priority,
        deadline_ns=None if turn.timeout_ns is None else now_ns + turn.timeout_ns,
        tenant=text.tenant if text else "",
        session=str(index) if text and text.grows else "",
        cache_salt=text.salt if text else "",
    )


def _bound_plans(core: object, most: int) -> None:
    """A run that makes more plans than that has no end."""
    plan: Callable[[], Plan] = getattr(core, "plan")  # noqa: B009 - as below
    left = [most]

    def bounded() -> Plan:
        left[0] -= 1
        if left[0] < 0:
            raise EVERY_RUN_ENDS.broken(f"{most} plans and no end")
        return plan()

    setattr(core, "plan", bounded)  # noqa: B010 - the driver calls it by this name
