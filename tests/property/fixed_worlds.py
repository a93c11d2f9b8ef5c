"""A few worlds without chance, and one digest of all that happens in them. Run it in another process to compare."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial

from schedlab.config import AdmissionRule, Fusion, ResumeRule, SchedulerConfig, VictimRule
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.policies.slai import Slai
from schedlab.testing import Session, Turn, World, constant, roofline
from schedlab.testing.chance import scrambled
from schedlab.testing.hostile import Moody
from tests.property.world import run


def crowd(count: int, unit_ns: int) -> tuple[Session, ...]:
    """`count` sessions of one or two turns with ties, deadlines and cancels."""
    return tuple(_session(index, unit_ns) for index in range(count))


def _session(index: int, unit_ns: int) -> Session:
    def pick(what: int, most: int) -> int:
        return scrambled(index, what) % most

    turn = Turn(
        prompt_tokens=1 + pick(1, 30),
        output_tokens=pick(2, 40),
        priority=pick(3, 3),
        timeout_ns=None if pick(4, 4) else pick(5, 60) * unit_ns,
        cancel_ns=None if pick(6, 4) else pick(7, 60) * unit_ns,
    )
    return Session(pick(8, 40) * unit_ns, (turn,) * (1 + pick(9, 2)))


def fixed_worlds() -> Iterator[World]:
    """Preemption under each rule, each fusion, clock-reading and evicting policies."""
    base = SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=40, block_size=4)
    yield World(base, Fifo, constant(1000), 24, crowd(40, 1000))
    commit = SchedulerConfig(
        max_num_seqs=8,
        max_num_batched_tokens=40,
        block_size=4,
        fusion=Fusion.NONE,
        admission=AdmissionRule.COMMIT,
        watermark_tokens=2,
        victim=VictimRule.FEWEST_OUTPUTS,
        resume=ResumeRule.SMALLEST,
        immunity_tokens=5,
    )
    yield World(commit, Slai, roofline("llama-3-8b"), 24, crowd(40, 5_000_000))
    yield World(
        base, partial(Priority, aging_per_s=0.5, evict=True), constant(333.3, per_row_ns=7), 24, crowd(40, 1000)
    )
    yield World(base, partial(Moody, seed=3), constant(1000, per_prefill_token_ns=50), 24, crowd(40, 1000))


def digest(*, leap: bool) -> str:
    """SHA-256 of the event logs and counts of every fixed world."""
    total = hashlib.sha256()
    for world in fixed_worlds():
        outcome = run(world, leap=leap)
        total.update(outcome.log + repr((outcome.tables, outcome.end, outcome.counts)).encode())
    return total.hexdigest()


if __name__ == "__main__":
    print(digest(leap=True))
