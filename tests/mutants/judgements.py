"""Attacks on single decisions of a policy, in views that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from schedlab.config import AdmissionRule, PreemptionMode, ResumeRule, SchedulerConfig, VictimRule
from schedlab.memory.swap import Tier
from schedlab.policies.fifo import Fifo
from schedlab.policies.slai import FrontThenShortest, Slai
from schedlab.request import Prompt, Request
from schedlab.sequence import Sequence, State
from tests.mutants.attack import Attack

SEATS = 4


def view(**facts: Any) -> Any:
    """A view of nothing but these facts."""
    return SimpleNamespace(**facts)


def sequences(*prompt_tokens: int) -> Iterator[Sequence]:
    """In the order of their arrival, which is that of their admission too."""
    for index, tokens in enumerate(prompt_tokens):
        sequence = Sequence(Request(index, Prompt(tokens), 9), index, 9)
        sequence.admission_index = index
        yield sequence


def prompts_leave_what_is_spoken_for() -> None:
    """What just fits comes in, a block more does not: beside others 2 reserved blocks and a watermark of 3 stay."""
    config = SchedulerConfig(max_num_seqs=SEATS, watermark_blocks=3)
    (one,) = sequences(4)
    for free_seats, most in ((SEATS - 1, 5), (SEATS, 10)):
        for needed in (most, most + 1):
            facts = {"free_blocks": 10, "reserved_blocks": 2 if free_seats < SEATS else 0, "free_seats": free_seats}
            found = Fifo(config).admit(view(config=config, missing_blocks=lambda _, n=needed: n, **facts), one)
            assert found is (needed <= most), f"{needed} blocks with {free_seats} seats free: {found}"


def commitments_stay_within_the_pool() -> None:
    """Half as much again as 10 blocks is promised, and to the first whatever it asks for."""
    config = SchedulerConfig(max_num_seqs=SEATS, admission=AdmissionRule.COMMIT, overcommit_percent=150)
    (one,) = sequences(4)
    for committed, needed, fits in ((9, 6, True), (9, 7, False), (0, 15, True), (0, 16, True)):
        for size in (1, 1000):
            more = 0 if fits else 1 - size
            blocks = needed * size + more
            facts = {"committed_blocks": committed * size, "total_blocks": 10 * size}
            found = Fifo(config).admit(view(config=config, commitment=lambda _, n=blocks: n, **facts), one)
            assert found is fits, f"{blocks} blocks beside {committed * size}: {found}"


def the_immune_do_not_give_way() -> None:
    """Whoever has as many outputs as it was immune for gives way, one with an output less does not."""
    config = SchedulerConfig(immunity_tokens=4, victim=VictimRule.LAST_IN)
    first, second, third = sequences(4, 4, 4)
    second.immune_until_outputs, third.immune_until_outputs = 7, 8
    seen = view(outputs=lambda _: 7)
    assert Fifo(config).yield_(seen, [first, second, third]) is second
    assert Fifo(config).yield_(seen, [third]) is third, "somebody must"


def victims_are_chosen_by_rule() -> None:
    """Whoever came last; whoever has the fewest outputs, and of those the one that came first."""
    owners = list(sequences(4, 4, 4))
    seen = view(outputs=lambda one: (5, 3, 3)[one.admission_index])
    for rule, index in ((VictimRule.LAST_IN, 2), (VictimRule.FEWEST_OUTPUTS, 1)):
        found = Fifo(SchedulerConfig(victim=rule)).yield_(seen, owners)
        assert found is owners[index], f"{found} gives way by {rule}"


def memory_is_given_up_the_cheapest_way() -> None:
    """Each of the three in turn; a tier without room is no way."""
    config = SchedulerConfig(preemption=PreemptionMode.CHEAPEST, swap_host_gib=1, swap_disk_gib=1)
    (one,) = sequences(4)
    one.state = State.ACTIVE
    for recompute_ns, host_ns, disk_ns, mode in (
        (1, 2, 3, PreemptionMode.RECOMPUTE),
        (3, 1, 2, PreemptionMode.HOST),
        (3, 2, 1, PreemptionMode.DISK),
        (2, None, 3, PreemptionMode.RECOMPUTE),
    ):
        swaps = {Tier.HOST: host_ns, Tier.DISK: disk_ns}
        seen = view(recompute_ns=lambda _, ns=recompute_ns: ns, swap_ns=lambda _, tier, of=swaps: of[tier])
        found = Fifo(config).give_up(seen, one)
        assert found is mode, f"{recompute_ns}, {host_ns} or {disk_ns} ns: {found}"


def the_smallest_returns_first() -> None:
    config = SchedulerConfig(resume=ResumeRule.SMALLEST)
    parked = sorted(
        sequences(9, 4, 4, 6),
        key=lambda one: Fifo(config).resume_key(view(prompt_blocks=lambda of: of.num_prompt_tokens), one),
    )
    assert [one.arrival_index for one in parked] == [1, 2, 3, 0]


def the_front_goes_before_the_shortest() -> None:
    """Whoever came first, then by length; whoever is removed is gone."""
    queue, everybody = FrontThenShortest(), list(sequences(7, 9, 3, 5))
    for one in everybody:
        queue.push(one)
    assert [one.arrival_index for one in queue.candidates()] == [0, 2, 3, 1]
    queue.remove(everybody[0])
    assert [one.arrival_index for one in queue.candidates()] == [1, 2, 3]
    queue.remove(everybody[2])
    assert [one.arrival_index for one in queue.candidates()] == [1, 3]


def slai_is_patient_for_four_fifths() -> None:
    policy = Slai(SchedulerConfig(), tbt_deadline_ms=100)
    for oldest_ns, tokens in ((None, 64), (1_000_001, 64), (1_000_000, 0)):
        found = policy.compose(view(oldest_token_ns=oldest_ns, now_ns=81_000_000, token_budget=64))
        assert found == tokens, f"a token of {oldest_ns} ns leaves {found} tokens"


ATTACKS = (
    prompts_leave_what_is_spoken_for,
    commitments_stay_within_the_pool,
    the_immune_do_not_give_way,
    victims_are_chosen_by_rule,
    memory_is_given_up_the_cheapest_way,
    the_smallest_returns_first,
    the_front_goes_before_the_shortest,
    slai_is_patient_for_four_fifths,
)


def judgement_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"judgement: {attack.__name__}", attack) for attack in ATTACKS]
