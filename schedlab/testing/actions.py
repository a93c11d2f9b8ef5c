"""What can be done to a scheduler under test, as data, so that a run is a world and a list of actions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

from schedlab.device import CopyKind
from schedlab.testing.answers import answering
from schedlab.testing.coverage import Coverage
from schedlab.testing.laws import EVERY_RUN_ENDS, MOST_CALL_S
from schedlab.testing.liveness import Liveness
from schedlab.testing.run import Node, Sender
from schedlab.testing.testbed import Testbed, find_testbed
from schedlab.testing.told import told
from schedlab.testing.world import Session, World

MOST_TICKS_AT_THE_END = 20_000


class Submit(NamedTuple):
    """A session begins now; its later turns follow of themselves."""

    session: Session


class Cancel(NamedTuple):
    """The client of a request leaves; of those that live the `number`-th, counted round."""

    number: int


class Tick(NamedTuple):
    """So many ticks pass, or fewer if nothing is due before."""

    ticks: int = 1


class Advance(NamedTuple):
    """So much time passes."""

    time_ns: int


class FailStep(NamedTuple):
    """The step under way fails, or the next one."""


class FailCopy(NamedTuple):
    """The next copy on a link fails."""

    kind: CopyKind


class Rotate(NamedTuple):
    """Other weights: the prefix cache is emptied; with `preempt_running` all who own something start over."""

    preempt_running: bool


Action = Submit | Cancel | Tick | Advance | FailStep | FailCopy | Rotate


@dataclass(frozen=True)
class Script:
    """A run to the end: the world's own sessions from its start, then the actions, then nothing more comes."""

    world: World
    actions: tuple[Action, ...] = ()
    leap: bool = True


class Stage:
    """A node under every law: those of the checker, of the shadow KV and of liveness. Takes one action at a time.

    Args:
        most_call_s: processor time without the end of a tick after which a call counts as one that does not return.

    Raises (from every method): InvariantViolation; a policy that raises or does not return breaks a law too.
    """

    def __init__(
        self,
        world: World,
        *,
        leap: bool = True,
        testbed: Testbed | None = None,
        coverage: Coverage | None = None,
        most_call_s: float = MOST_CALL_S,
    ) -> None:
        self.testbed = testbed or find_testbed()()
        self._most_call_s = most_call_s
        with told(most_call_s=most_call_s, may_refuse=True):
            # A policy that writes to its configuration writes to that of this run alone.
            watched = replace(world, config=copy(world.config), policy=answering(world.policy))
            self.node = Node(self.testbed, watched, leap=leap, breakable=True)
        self.core = self.node.core
        if coverage is not None:
            coverage.attach(self.core)
        self.liveness = Liveness(self.core)
        self._sender = Sender(self.node)
        with self._told():
            self.node.start()
            for session in world.sessions:
                self._sender.send(session)

    def act(self, action: Action) -> None:
        """Do one thing."""
        with self._told():
            getattr(self, f"_{type(action).__name__.lower()}")(action)

    def finish(self) -> None:
        """Nothing more comes: run to the end."""
        with self._told():
            self._sender.close()
            last_tick = self.liveness.num_ticks + MOST_TICKS_AT_THE_END
            while self.liveness.num_ticks < last_tick and self.testbed.step():
                pass
            self._check_due()
            if not self.node.bench.is_done:
                raise EVERY_RUN_ENDS.broken(f"it runs on after {MOST_TICKS_AT_THE_END} ticks")

    def _told(self) -> AbstractContextManager[None]:
        return told(lambda: self.liveness.num_ticks, self._most_call_s)

    def _submit(self, action: Submit) -> None:
        self._sender.send(action.session._replace(arrival_ns=self.testbed.now_ns()))

    def _cancel(self, action: Cancel) -> None:
        live = list(self.core.sequences)
        if live:
            self.node.cancel(live[action.number % len(live)])

    def _tick(self, action: Tick) -> None:
        last_tick, step = self.liveness.num_ticks + action.ticks, self.testbed.step
        while self.liveness.num_ticks < last_tick and step():
            pass
        self._check_due()

    def _advance(self, action: Advance) -> None:
        self.testbed.run(self.testbed.now_ns() + action.time_ns)
        self._check_due()

    def _failstep(self, action: FailStep) -> None:
        self.node.bench.fail_step()

    def _failcopy(self, action: FailCopy) -> None:
        self.node.bench.fail_copy(action.kind)

    def _rotate(self, action: Rotate) -> None:
        self.node.reset_cache(action.preempt_running)

    def _check_due(self) -> None:
        if self.testbed.is_idle:
            self.liveness.check_due()


def play(script: Script, *, watch: Callable[[Stage], None] | None = None) -> Stage:
    """Run a script to its end; `watch` sees the stage before anything happens.

    Raises:
        InvariantViolation: a law does not hold.
    """
    stage = Stage(script.world, leap=script.leap)
    if watch is not None:
        watch(stage)
    for action in script.actions:
        stage.act(action)
    stage.finish()
    return stage
