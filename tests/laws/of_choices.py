"""Breaches of the laws of choices: admissions, those who make way, victims and returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sortedcontainers import SortedKeyList

from schedlab.config import PreemptionMode, ResumeRule, VictimRule
from schedlab.events import Admitted, Resumed
from tests.laws.breach import Breaches, first_row, first_waiting, last_row
from tests.laws.stage import COMMIT, CRAMPED, CROWD, EVICTING, Stage, config

CHOICES = Breaches()


def someone_is_parked(stage: Stage) -> bool:
    """Since an earlier tick, and others wait."""
    core = stage.core
    evicted = stage.checker.ticks.evicted
    return len(core.parked) > 0 and core.parked[0] not in evicted and len(core.waiting) > 0 and core.free_seats > 0


def three_wait(stage: Stage) -> bool:
    return len(stage.core.waiting) > 2


def two_decode(stage: Stage) -> bool:
    return len(stage.core.batch) > 1


@CHOICES.of("admission_needs_a_seat")
def a_fourth_comes_in(stage: Stage) -> None:
    stage.core.slots.num_slots = 9
    stage.core.admit(first_waiting(stage))


@CHOICES.of("nobody_is_overtaken")
def the_last_comes_in_first(stage: Stage) -> None:
    stage.core.config = replace(stage.core.config, max_num_seqs=9)
    stage.core.slots.num_slots = 9
    stage.core.admit(list(stage.core.waiting.candidates())[-1])


@CHOICES.of("nobody_is_overtaken", replace(CROWD, config=replace(CROWD.config, max_bypass=1)), ready=three_wait)
def the_first_is_passed_again_and_again(stage: Stage) -> None:
    core = stage.core
    core.config = replace(core.config, max_num_seqs=9)
    core.slots.num_slots = 9
    for _ in range(2):
        second = list(core.waiting.candidates())[1]
        core.admit(second)
        core.waiting.remove(second)


@CHOICES.of("the_line_is_kept", CRAMPED, ready=someone_is_parked)
def a_waiting_request_passes_a_preempted_one(stage: Stage) -> None:
    stage.core.admit(first_waiting(stage))


@CHOICES.of("admission_leaves_room")
def a_request_comes_in_without_room(stage: Stage) -> None:
    stage.core.reserved_blocks += 100
    stage.tell(Admitted(stage.now_ns, first_waiting(stage)))


def nobody_makes_way(stage: Stage) -> None:
    """All that run are less important than the head of the queue."""
    core = stage.core
    for row in core.batch.rows:
        row.request = replace(row.request, priority=9)
    core.policy.make_way = lambda view, sequence: ()  # type: ignore[method-assign]


CHOICES.of("the_important_one_comes_in", EVICTING)(nobody_makes_way)
CHOICES.of("the_important_one_comes_in", replace(EVICTING, config=COMMIT.config))(nobody_makes_way)


@CHOICES.of(
    "who_makes_way_is_swapped_out",
    replace(CROWD, config=config(preemption=PreemptionMode.HOST, swap_host_gib=1, swap_at_admission=True)),
)
def a_row_makes_way_and_loses_what_it_has(stage: Stage) -> None:
    stage.core.preempt(last_row(stage), "priority")


TIERS = replace(CRAMPED, config=config(preemption=PreemptionMode.HOST, swap_host_gib=1))
CHEAPEST = replace(CRAMPED, config=config(preemption=PreemptionMode.CHEAPEST, swap_host_gib=1, swap_disk_gib=1))


@CHOICES.of("memory_is_given_up_as_configured", TIERS, ready=two_decode)
def a_row_that_could_be_swapped_is_computed_again(stage: Stage) -> None:
    stage.core.policy.give_up = lambda view, victim: PreemptionMode.RECOMPUTE  # type: ignore[method-assign]


@CHOICES.of("memory_is_given_up_as_configured", CHEAPEST, ready=two_decode)
def a_row_goes_by_a_dear_way(stage: Stage) -> None:
    stage.core.policy.give_up = lambda view, victim: PreemptionMode.DISK  # type: ignore[method-assign]


@CHOICES.of("victim_keeps_its_outputs")
def a_victim_loses_its_outputs(stage: Stage) -> None:
    def lose(sequence: Any) -> None:
        sequence.num_outputs = 0

    stage.wrap("_forget_computed", before=lose)
    stage.core.preempt(list(stage.core.batch.rows)[-1], "decode")


@CHOICES.of("immune_ones_stay", replace(CROWD, config=replace(CROWD.config, immunity_tokens=50)))
def an_immune_row_goes(stage: Stage) -> None:
    row = list(stage.core.batch.rows)[-1]
    row.immune_until_outputs = 1000
    stage.core.preempt(row, "decode")


@CHOICES.of("victim_by_rule")
def the_first_in_goes(stage: Stage) -> None:
    stage.core.preempt(first_row(stage), "decode")


@CHOICES.of("victim_by_rule", replace(CROWD, config=replace(CROWD.config, victim=VictimRule.FEWEST_OUTPUTS)))
def the_one_with_the_most_outputs_goes(stage: Stage) -> None:
    stage.core.preempt(first_row(stage), "decode")


@CHOICES.of("preemption_keeps_outputs", CRAMPED, ready=someone_is_parked)
def a_preempted_request_returns_with_another_output(stage: Stage) -> None:
    stage.core.parked[0].num_outputs += 1
    stage.tell(Resumed(stage.now_ns, stage.core.parked[0]))


@CHOICES.of("resume_needs_room", CRAMPED, ready=someone_is_parked)
def a_preempted_request_returns_without_room(stage: Stage) -> None:
    stage.core.reserved_blocks += 100
    stage.tell(Resumed(stage.now_ns, stage.core.parked[0]))


@CHOICES.of("resume_in_order", CRAMPED, ready=someone_is_parked)
def another_returns_first(stage: Stage) -> None:
    stage.tell(Resumed(stage.now_ns, first_waiting(stage)))


SMALLEST = replace(CRAMPED, config=replace(CRAMPED.config, resume=ResumeRule.SMALLEST), num_blocks=8)


def two_are_parked(stage: Stage) -> bool:
    return len(stage.core.parked) > 1


@CHOICES.of("resume_in_order", SMALLEST, ready=two_are_parked)
def the_largest_returns_first(stage: Stage) -> None:
    stage.core.parked = SortedKeyList(stage.core.parked, key=lambda one: -one.num_known)
