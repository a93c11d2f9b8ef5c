"""Observers that ask: in the state of each plan of a run, every question about it, of policies of many configurations.

A run itself asks little: who may leave for whom only where somebody waits, is refused, and others hold what would do.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

from schedlab.config import AdmissionRule, PreemptionMode, ResumeRule, SchedulerConfig, VictimRule
from schedlab.core.scheduler import Scheduler
from schedlab.memory.swap import Tier
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.sequence import Sequence
from tests.mutants.naive_rules import NaiveRules
from tests.mutants.naive_view import DoubtedView

# Everybody is asked about in so many plans at the beginning, and then in one of so many.
FIRST_PLANS = 6
ONE_PLAN_IN = 9
MOST_NEWCOMERS = 3
VICTIMS = tuple(VictimRule)


def doubt(core: Scheduler) -> None:
    """Compare whatever the run asks its view, and ask more before its plans."""
    core.view = DoubtedView(core)
    plan, plans = core.plan, 0

    def asked() -> Any:
        nonlocal plans
        plans += 1
        if plans <= FIRST_PLANS or plans % ONE_PLAN_IN == 0:
            ask(core, plans)
        return plan()

    setattr(core, "plan", asked)  # noqa: B010 - the driver calls it by this name


def ask(core: Scheduler, turn: int) -> None:
    """Everything about everybody; `turn` chooses among the rules."""
    view, owners = core.view, list(core.view.owners())
    newcomers: list[Sequence] = [*islice(core.waiting.candidates(), MOST_NEWCOMERS), *core.parked[:1]]
    for _ in view.num_waiting, view.num_active, view.num_prefilling, view.num_parked, view.oldest_token_ns:
        pass
    for one in newcomers:
        view.commitment(one), view.cached_tokens(one), view.missing_blocks(one)
        for owner in owners:
            view.room_for(one, owner)
    for owner in owners:
        view.held_commitment(owner)
    for row in core.batch.rows:
        view.recompute_ns(row)
        for tier in Tier:
            view.swap_ns(row, tier)
    for evicts in (False, True):
        config = _other_rules(core.config, turn, evicts=evicts)
        policy = Priority(config, evict=True) if evicts else Fifo(config)
        _compare(core, policy, NaiveRules(core, config, evicts=evicts), newcomers, owners)


def _other_rules(config: SchedulerConfig, turn: int, *, evicts: bool) -> SchedulerConfig:
    """Those that a policy reads; where it asks what the ledger or a tier has, they are the run's own."""
    commits = config.admission is AdmissionRule.COMMIT
    can_swap = config.preemption is not PreemptionMode.RECOMPUTE and not commits
    return replace(
        config,
        victim=VICTIMS[turn % 3],
        immunity_tokens=turn % 4,
        watermark_blocks=0 if commits else turn // 2 % 4,
        overcommit_percent=(100, 60, 150)[turn % 3] if commits else 100,
        swap_at_admission=can_swap and not evicts,
        resume=ResumeRule.IN_LINE if evicts else config.resume,
    )


def _compare(
    core: Scheduler, policy: Policy, naive: NaiveRules, newcomers: list[Sequence], owners: list[Sequence]
) -> None:
    view = core.view
    _same("compose", policy.compose(view), naive.compose())
    for one in newcomers:
        _same("admit", policy.admit(view, one), naive.admit(one), one)
        _same("make_way", list(policy.make_way(view, one)), naive.make_way(one), one)
        if policy.config.resume is ResumeRule.SMALLEST:
            _same("resume_key", policy.resume_key(view, one), naive.resume_key(one), one)
    for victim in owners:
        _same("give_up", policy.give_up(view, victim), naive.give_up(victim), victim)
    for candidates in (owners, owners[::2], owners[1:]):
        if candidates:
            _same("yield_", policy.yield_(view, candidates), naive.yield_(candidates), candidates)


def _same(name: str, found: Any, expected: Any, *of: Any) -> None:
    assert found == expected, f"{name} of {of} is {found}, should be {expected}"
