"""Small worlds on the shadow device, without the checker of accounting, so that the shadow alone must notice."""

from __future__ import annotations

from typing import Any

from backends.sim.links import DEFAULT_LINKS, LinkSpec
from backends.sim.testbed import SimTestbed
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import CopyKind
from schedlab.invariants import Checker
from schedlab.memory.swap import GIB
from schedlab.policies.fifo import Fifo
from schedlab.testing import Node, Session, Sessions, Text, Turn, World, constant

STEP_NS = 1000
BLOCK_BYTES = GIB // 64


class Unchecked(Checker):
    """Checks nothing."""

    def attach(self, core: Scheduler) -> None:
        return None


def steps_a_block(steps: float) -> dict[CopyKind, LinkSpec]:
    """Links on which a block takes so many steps."""
    return dict.fromkeys(DEFAULT_LINKS, LinkSpec(int(BLOCK_BYTES * 1_000_000_000 / (steps * STEP_NS)), 0))


def one(prompt_tokens: int, output_tokens: int, at_step: float = 0, text: Text | None = None) -> Session:
    """A single request."""
    return Session(int(at_step * STEP_NS), (Turn(prompt_tokens, output_tokens),), text)


def said(shared_tokens: int = 1000, **rest: Any) -> Text:
    """A text that others say too, at least so much of it."""
    return Text(family=1, shared_tokens=shared_tokens, hash_block_tokens=4, **rest)


def small_world(
    num_blocks: int, *sessions: Session, links: dict[CopyKind, LinkSpec] | None = None, **rules: Any
) -> World:
    """Blocks of 4 tokens, steps of 1 us."""
    dense = rules.pop("wants_dense_slots", False)
    config = SchedulerConfig(**{"max_num_seqs": 8, "max_num_batched_tokens": 32, "block_size": 4, **rules})
    return World(config, Fifo, constant(STEP_NS), num_blocks, sessions, BLOCK_BYTES, links or steps_a_block(0.5), dense)


def run_unchecked(world: World, *, leap: bool) -> None:
    """Run to the end; nobody but the shadow looks.

    Raises:
        InvariantViolation: the shadow has noticed something.
    """
    testbed = SimTestbed()
    node = Node(testbed, world, leap=leap, checker=Unchecked())
    node.start()
    Sessions(node, world.sessions)
    testbed.run()
    assert node.bench.is_done
