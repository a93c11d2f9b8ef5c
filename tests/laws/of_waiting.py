"""Breaches of the laws against waiting for nothing, and of those of how room is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedlab.config import Fusion
from schedlab.core.plan import Lane
from schedlab.request import FinishReason
from tests.laws.breach import Breaches, first_row, first_waiting, last_row
from tests.laws.of_choices import someone_is_parked
from tests.laws.of_memory import caching_pool
from tests.laws.stage import CACHE, CRAMPED, EVICTING, LONG, WINDOW, Stage, config

WAITING = Breaches()


def all_seats_are_taken(stage: Stage) -> bool:
    return len(stage.core.prefilling) > 0 and not stage.core.free_seats


def one_prefills(stage: Stage) -> bool:
    return len(stage.core.prefilling) == 1


def one_prefills_and_others_wait(stage: Stage) -> bool:
    return one_prefills(stage) and len(stage.core.waiting) > 0


def someone_slides(stage: Stage) -> bool:
    return any(row.window is not None and row.window.requested > 1 for row in stage.core.batch.rows)


def answers(stage: Stage, question: str, answer: Any) -> None:
    """From now on the policy says the same to every question of a kind."""
    setattr(stage.core.policy, question, lambda *_: answer)


@WAITING.of("who_could_come_in_comes_in")
def nobody_is_let_in(stage: Stage) -> None:
    answers(stage, "admit", False)


@WAITING.of("who_could_return_returns", CRAMPED, ready=someone_is_parked)
def nobody_is_let_back_in(stage: Stage) -> None:
    answers(stage, "admit", False)


@WAITING.of("who_could_return_returns", CRAMPED, inside=True, ready=someone_is_parked)
def one_that_never_fits_waits_on(stage: Stage) -> None:
    stage.core.parked[0].num_outputs += 1000


@WAITING.of("the_oldest_prefill_goes_on", LONG, ready=all_seats_are_taken)
def no_tokens_for_prompts(stage: Stage) -> None:
    answers(stage, "compose", 0)


WHOLE_STEPS = replace(LONG, config=config(fusion=Fusion.NONE))


@WAITING.of("who_comes_in_starts_at_once", WHOLE_STEPS, ready=one_prefills)
def newcomers_are_forgotten(stage: Stage) -> None:
    stage.wrap("plan", after=stage.core.starting.clear)


@WAITING.of("rows_go_on")
def a_step_for_rows_has_none(stage: Stage) -> None:
    stage.checker.ticks.withheld.after_launch(stage.core, Lane.DECODE, len(stage.core.batch.rows))


@WAITING.of("full_blocks_are_left_to_be_found", CACHE)
def what_a_victim_has_is_hidden(stage: Stage) -> None:
    caching_pool(stage).hide(last_row(stage).block_table)
    stage.core.preempt(last_row(stage), "decode")


@WAITING.of("the_ended_leave_before_anybody_gives_way")
def a_row_gives_way_beside_one_that_has_ended(stage: Stage) -> None:
    stage.core.ending[first_row(stage)] = FinishReason.LENGTH
    stage.core.preempt(last_row(stage), "decode")


@WAITING.of("nobody_comes_in_where_rows_gave_way")
def a_newcomer_takes_the_place_of_a_row(stage: Stage) -> None:
    def swap(*_: object) -> None:
        stage.core.preempt(last_row(stage), "prefill")
        stage.core.admit(first_waiting(stage))

    stage.wrap("plan", before=swap)


@WAITING.of("nobody_gives_way_without_need")
def a_row_gives_way_in_an_empty_pool(stage: Stage) -> None:
    stage.core.preempt(last_row(stage), "decode")


@WAITING.of("a_closed_gate_lets_nobody_in")
def a_newcomer_slips_through(stage: Stage) -> None:
    stage.core.end(first_row(stage), FinishReason.CANCELLED)
    stage.core.policy.compose = lambda view: 0  # type: ignore[method-assign]
    stage.checker.ticks.room.attach(stage.core)
    stage.core.policy.compose(stage.core.view)
    stage.core.admit(first_waiting(stage))


@WAITING.of("newcomers_take_what_prompts_in_progress_leave", LONG, ready=one_prefills_and_others_wait)
def a_newcomer_shares_a_step_that_is_full(stage: Stage) -> None:
    stage.core.config = replace(stage.core.config, max_prefill_tokens=0, max_num_seqs=9)
    stage.core.slots.num_slots = 9
    stage.core.admit(first_waiting(stage))


@WAITING.of("who_makes_way_does_so_for_somebody", EVICTING)
def a_row_makes_way_for_nobody(stage: Stage) -> None:
    answers(stage, "admit", False)
    answers(stage, "make_way", [last_row(stage)])


@WAITING.of("who_makes_way_does_so_for_somebody", EVICTING)
def more_make_way_than_are_needed(stage: Stage) -> None:
    answers(stage, "make_way", list(stage.core.batch.rows)[1:])


@WAITING.of("windows_keep_their_share", WINDOW, ready=someone_slides)
def a_window_has_slid_too_far(stage: Stage) -> None:
    stage.core.config = replace(stage.core.config, window_blocks=9)
