"""The stateful machine: a scheduler with one policy, to which anything is done in any order, under every law."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from schedlab.device import CopyKind
from schedlab.errors import InvariantViolation
from schedlab.memory.swap import GIB
from schedlab.testing.actions import (
    Action,
    Advance,
    Cancel,
    FailCopy,
    FailStep,
    Rotate,
    Script,
    Stage,
    Submit,
    Tick,
)
from schedlab.testing.strategies.configs import configs
from schedlab.testing.strategies.devices import links
from schedlab.testing.strategies.worlds import trace_blocks
from schedlab.testing.tally import Tally
from schedlab.testing.world import UNLIMITED, Cost, PolicyFactory, Session, Text, Turn, World, constant

UNIT_NS = 1000
MOST_BLOCKS = 64
# Stands for the tokens of a trace's block until the machine knows its pool's.
ANY_BLOCK = 1


class Fate(NamedTuple):
    """How a request may end but by itself; the fields of a `Turn` behind its lengths."""

    max_tokens: int = UNLIMITED
    priority: int = 0
    timeout_ns: int | None = None
    cancel_ns: int | None = None


# Few draws a rule: they are what a rule costs.
FATES = st.sampled_from(
    (
        Fate(),
        Fate(priority=1),
        Fate(priority=2),
        Fate(max_tokens=0),
        Fate(max_tokens=1),
        Fate(max_tokens=9, priority=1),
        Fate(timeout_ns=0),
        Fate(timeout_ns=5 * UNIT_NS, priority=1),
        Fate(timeout_ns=20 * UNIT_NS),
        Fate(cancel_ns=0),
        Fate(cancel_ns=7 * UNIT_NS),
        Fate(cancel_ns=30 * UNIT_NS + 1, priority=2),
    )
)
SAID = st.sampled_from(
    (
        None,
        *(Text(family, shared, ANY_BLOCK) for family in (0, 1) for shared in (8, 60)),
        Text(0, 60, ANY_BLOCK, salt="a"),
        Text(0, 60, ANY_BLOCK, tenant="x"),
        Text(0, 60, ANY_BLOCK, tenant="y"),
    )
)


class PolicyMachine(RuleBasedStateMachine):
    """Of one policy; `machine_for` makes the class."""

    policy: PolicyFactory
    tally: Tally

    def __init__(self) -> None:
        super().__init__()
        self._stage: Stage | None = None
        self._actions: list[Action] = []

    @initialize(data=st.data())
    def start(self, data: Any) -> None:
        world, self._leap, self._hash_block_tokens = data.draw(setups(type(self).policy))
        self._world = world
        self._stage = self._guarded(lambda: self.tally.begin_example(world, leap=self._leap))

    @rule(prompt_tokens=st.integers(1, 60), output_tokens=st.integers(0, 40), fate=FATES, said=SAID)
    def submit(self, prompt_tokens: int, output_tokens: int, fate: Fate, said: Text | None) -> None:
        turn = Turn(prompt_tokens, output_tokens, *fate)
        self._submit(Session(0, (turn,), said))

    @rule(prompt_tokens=st.integers(1, 30), output_tokens=st.integers(1, 40), turns=st.integers(2, 4), fate=FATES)
    def converse(self, prompt_tokens: int, output_tokens: int, turns: int, fate: Fate) -> None:
        turn = Turn(prompt_tokens, output_tokens, *fate, think_ns=prompt_tokens % 3 * UNIT_NS)
        self._submit(Session(0, (turn,) * turns, Text(0, 20, ANY_BLOCK, grows=True)))

    @rule(count=st.integers(2, 9), prompt_tokens=st.integers(1, 9), output_tokens=st.integers(4, 30), said=SAID)
    def crowd(self, count: int, prompt_tokens: int, output_tokens: int, said: Text | None) -> None:
        """All come in and then outgrow the pool together."""
        for number in range(count):
            self._submit(Session(0, (Turn(prompt_tokens, output_tokens, priority=number % 3),), said))

    @rule(number=st.integers(0, 20))
    def cancel(self, number: int) -> None:
        self._do(Cancel(number))

    @rule(count=st.integers(1, 8))
    def tick(self, count: int) -> None:
        self._do(Tick(count))

    @rule(count=st.integers(1, 8))
    def tick_on(self, count: int) -> None:
        self._do(Tick(count))

    @rule(time_ns=st.sampled_from((1, UNIT_NS - 1, UNIT_NS, 3 * UNIT_NS, 20 * UNIT_NS, 90 * UNIT_NS)))
    def advance(self, time_ns: int) -> None:
        self._do(Advance(time_ns))

    @rule()
    def fail_step(self) -> None:
        self._do(FailStep())

    @precondition(lambda self: self._world.config.uses_swap)
    @rule(kind=st.sampled_from(CopyKind))
    def fail_copy(self, kind: CopyKind) -> None:
        self._do(FailCopy(kind))

    @precondition(lambda self: self._world.config.prefix_cache)
    @rule(preempt_running=st.booleans())
    def rotate(self, preempt_running: bool) -> None:
        self._do(Rotate(preempt_running))

    def teardown(self) -> None:
        """Shut down: whatever lives must end, and everything come back."""
        stage = self._stage
        if stage is not None:
            self._guarded(stage.finish)
            self.tally.end_example(stage)
            self.tally.play_again(self._script(), stage)

    def _script(self) -> Script:
        return Script(self._world, tuple(self._actions), self._leap)

    def _submit(self, session: Session) -> None:
        text = session.text
        if text is not None:
            session = session._replace(text=text._replace(hash_block_tokens=self._hash_block_tokens))
        self._do(Submit(session))

    def _do(self, action: Action) -> None:
        stage = self._stage
        assert stage is not None
        self._actions.append(action)
        self.tally.num_rules += 1
        self._guarded(lambda: stage.act(action))

    def _guarded(self, act: Any) -> Any:
        """Note what broke a law; nothing more is done to that scheduler."""
        try:
            return act()
        except InvariantViolation as error:
            stage, self._stage = self._stage, None
            self.tally.note(self._script(), error)
            if stage is not None:
                self.tally.end_example(stage)
            raise


def machine_for(policy: PolicyFactory, tally: Tally | None = None) -> type[PolicyMachine]:
    """The machine of a policy, for `hypothesis.stateful.run_state_machine_as_test` or as a `TestCase`."""
    fields = {"policy": staticmethod(policy), "tally": tally or Tally()}
    return type(f"Machine_{getattr(policy, '__name__', 'policy')}", (PolicyMachine,), fields)


@st.composite
def setups(draw: st.DrawFn, policy: PolicyFactory) -> tuple[World, bool, int]:
    """A small world without requests, whether it leaps, and the tokens of its trace's blocks."""
    hybrid = draw(st.booleans())
    config = draw(configs(hybrid=hybrid))
    if draw(st.booleans()):
        cost = constant(UNIT_NS)
    else:
        cost = Cost("erratic", {"seed": draw(st.integers(0, 9)), "most_quanta": UNIT_NS << 21})
    block_bytes = GIB // draw(st.integers(1, 30))
    world = World(
        config,
        policy,
        cost,
        draw(st.one_of(st.integers(1, 16), st.integers(8, MOST_BLOCKS))),
        block_bytes=block_bytes,
        links=draw(links(block_bytes, UNIT_NS)),
        wants_dense_slots=draw(st.booleans()),
    )
    if hybrid:
        world = replace(world, state_bytes=GIB // draw(st.integers(1, 40)))
    return world, draw(st.booleans()), draw(trace_blocks(config.block_size))
