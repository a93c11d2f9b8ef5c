"""A world: everything that a run follows from, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schedlab.config import SchedulerConfig
from schedlab.device import CopyKind
from schedlab.errors import UsageError
from schedlab.fault_plan import FaultPlan
from schedlab.memory.blocks import blocks_for
from schedlab.policies.base import Policy
from schedlab.request import Prompt
from schedlab.testing.chance import scrambled

UNLIMITED = 1 << 20
# Text of a family, then of a session: no family has so high a number.
SESSION_IDS = 1000
PolicyFactory = Callable[[SchedulerConfig], Policy]


class Turn(NamedTuple):
    """A request; `think_ns` passes between the end of the turn before and its arrival."""

    prompt_tokens: int
    output_tokens: int
    max_tokens: int = UNLIMITED
    priority: int = 0
    timeout_ns: int | None = None
    cancel_ns: int | None = None
    think_ns: int = 0


class Text(NamedTuple):
    """What the prompts of a session say, as far as a trace would know it.

    Attributes:
        family: sessions of one family begin with the same `shared_tokens`.
        hash_block_tokens: tokens behind each id of the trace, the same for the whole family.
        grows: each prompt begins with the whole turn before it.
    """

    family: int
    shared_tokens: int
    hash_block_tokens: int
    grows: bool = False
    salt: str = ""
    tenant: str = ""

    def prompt(self, session: int, tokens: int) -> Prompt:
        """The first `tokens` tokens of the session's text."""
        ids = []
        for number in range(blocks_for(tokens, self.hash_block_tokens)):
            is_shared = (number + 1) * self.hash_block_tokens <= self.shared_tokens
            ids.append(scrambled(self.family if is_shared else SESSION_IDS + session, number))
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


class Reset(NamedTuple):
    """Somebody empties the prefix cache, as after a change of weights; see `schedlab.inbox.ResetCache`."""

    at_ns: int
    preempt_running: bool


class Cost(NamedTuple):
    """How long steps take: a cost model of the device by its name, and its parameters."""

    name: str
    parameters: Mapping[str, float | str]


def constant(step_ns: float, **parameters: float) -> Cost:
    """The same time for every step, and more per row, context token or prefill token where given."""
    return Cost("constant", {"step_ns": step_ns, **parameters})


def roofline(model: str, hardware: str = "h100") -> Cost:
    """The time that a model takes on a GPU, by data sheet."""
    return Cost("roofline", {"model": model, "hardware": hardware})


@dataclass(frozen=True)
class World:
    """A policy with its configuration, a device with its faults, and all that comes.

    Attributes:
        links: bytes per second and latency in ns of each link; those that are left out are the device's own.
        state_bytes: size of the state that each sequence carries beside its blocks; 0 = none.
        faults: what goes wrong with the device. Clients that leave are turns with `cancel_ns`.

    Raises:
        UsageError: sessions of one family differ in `hash_block_tokens`, so that equal ids would mean different texts.
    """

    config: SchedulerConfig
    policy: PolicyFactory
    cost: Cost
    num_blocks: int
    sessions: tuple[Session, ...] = ()
    block_bytes: int = 0
    links: Mapping[CopyKind, tuple[int, int]] = field(default_factory=dict)
    wants_dense_slots: bool = False
    state_bytes: int = 0
    faults: FaultPlan = field(default_factory=FaultPlan)
    resets: tuple[Reset, ...] = ()

    def __post_init__(self) -> None:
        if self.faults.departures:
            raise UsageError("a world's clients leave by Turn.cancel_ns; leave departures out of its fault plan")
        sizes: dict[int, int] = {}
        for session in self.sessions:
            if session.text is not None:
                size = session.text.hash_block_tokens
                if sizes.setdefault(session.text.family, size) != size:
                    raise UsageError(
                        f"family {session.text.family} has blocks of {sizes[session.text.family]} and of {size} "
                        "tokens; give each size a family of its own"
                    )
