"""The checker is no ornament: each kind of damage, done in the middle of a run, is told by the law that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from schedlab.config import AdmissionRule, Fusion, ResumeRule, SchedulerConfig, VictimRule
from schedlab.core.scheduler import Scheduler
from schedlab.errors import InvariantViolation
from schedlab.events import Finished, FirstToken
from schedlab.policies.fifo import Fifo
from schedlab.policies.view import View
from schedlab.request import FinishReason
from schedlab.sequence import Sequence, State
from schedlab.testing import Session, Turn, World, constant
from tests.property.world import run

CONFIG = SchedulerConfig(max_num_seqs=3, max_num_batched_tokens=16, block_size=4)
COMMIT = replace(CONFIG, admission=AdmissionRule.COMMIT, watermark_tokens=2)
CROWD = tuple(Session(index * 700, (Turn(3 + index, 12 + index, timeout_ns=90_000),)) for index in range(7))
CRAMPED_BLOCKS = 9


def first_row(core: Scheduler) -> Sequence:
    return next(iter(core.batch.rows))


def lose_a_block(core: Scheduler) -> None:
    first_row(core).block_table.pop()


def free_a_held_block(core: Scheduler) -> None:
    core.pool._free.append(first_row(core).block_table[0])


def free_a_block_twice(core: Scheduler) -> None:
    core.pool._free[0] = core.pool._free[-1]


def count_a_holder_too_many(core: Scheduler) -> None:
    core.pool.share(first_row(core).block_table[:1])


def swap_a_block_for_a_neighbours(core: Scheduler) -> None:
    rows = list(core.batch.rows)
    rows[0].block_table[-1] = rows[1].block_table[-1]


def forget_a_state(core: Scheduler) -> None:
    first_row(core).state = State.PREEMPTED


def lose_a_sequence(core: Scheduler) -> None:
    del core.sequences[first_row(core).request_id]


def miscount_the_context(core: Scheduler) -> None:
    core.batch._context_base += 1


def miscount_the_reservations(core: Scheduler) -> None:
    core.reserved_blocks += 1


def miscount_the_commitments(core: Scheduler) -> None:
    assert core.ledger is not None
    core.ledger.blocks -= 1


def forget_a_limit(core: Scheduler) -> None:
    core.limits._heap.sort()
    del core.limits._heap[0]
    core.limits.add(list(core.batch.rows)[-1])


def forget_the_deadlines(core: Scheduler) -> None:
    core.deadlines.clear()


def produce_a_token_too_many(core: Scheduler) -> None:
    first_row(core).joined_len += 1


def finish_twice(core: Scheduler) -> None:
    sequence = first_row(core)
    core.end(sequence, FinishReason.STOP)
    for notify in core.bus.on_finished:
        notify(Finished(core.device.now_ns(), sequence, FinishReason.STOP))


def repeat_the_first_token(core: Scheduler) -> None:
    for notify in core.bus.on_first_token:
        notify(FirstToken(core.device.now_ns(), first_row(core)))


def turn_back_the_clock(core: Scheduler) -> None:
    for notify in core.bus.on_first_token:
        notify(FirstToken(core.device.now_ns() - 1, first_row(core)))


def end_without_cause(core: Scheduler) -> None:
    sequence = first_row(core)
    sequence.error = "just so"
    core.end(sequence, FinishReason.ERROR)


def time_out_too_soon(core: Scheduler) -> None:
    core.end(first_row(core), FinishReason.TIMEOUT)


def call_it_length(core: Scheduler) -> None:
    core.end(first_row(core), FinishReason.LENGTH)


def evict_the_first(core: Scheduler) -> None:
    core.preempt(first_row(core), "decode")


def admit_the_last(core: Scheduler) -> None:
    core.config = replace(core.config, max_num_seqs=9)
    core.slots.num_slots = 9
    sequence = list(core.waiting.candidates())[-1]
    core.admit(sequence)


DAMAGES: list[tuple[Callable[[Scheduler], None], SchedulerConfig, str]] = [
    (lose_a_block, CONFIG, "blocks_hold_what_was_written"),
    (free_a_held_block, CONFIG, "tables_cover_exactly_the_tokens"),
    (free_a_block_twice, CONFIG, "blocks_are_conserved"),
    (count_a_holder_too_many, CONFIG, "references_are_holders"),
    (swap_a_block_for_a_neighbours, CONFIG, "references_are_holders"),
    (forget_a_state, CONFIG, "containers_agree_with_states"),
    (lose_a_sequence, CONFIG, "every_request_is_live_or_ended"),
    (miscount_the_context, CONFIG, "batch_aggregates_are_sums"),
    (miscount_the_reservations, CONFIG, "reservations_are_what_prefills_will_take"),
    (miscount_the_commitments, COMMIT, "ledger_is_the_sum_of_commitments"),
    (forget_a_limit, CONFIG, "limits_know_the_next_end"),
    (forget_the_deadlines, CONFIG, "deadlines_are_watched"),
    (produce_a_token_too_many, CONFIG, "each_row_gets_one_token_an_iteration"),
    (finish_twice, CONFIG, "nothing_before_arrival_or_after_the_end"),
    (repeat_the_first_token, CONFIG, "first_token_once"),
    (turn_back_the_clock, CONFIG, "times_never_go_back"),
    (end_without_cause, CONFIG, "nobody_ends_while_it_could_go_on"),
    (time_out_too_soon, CONFIG, "no_timeout_before_the_deadline"),
    (call_it_length, CONFIG, "length_means_all_outputs"),
    (evict_the_first, CONFIG, "victim_by_rule"),
    (evict_the_first, replace(CONFIG, victim=VictimRule.FEWEST_OUTPUTS), "victim_by_rule"),
    (admit_the_last, CONFIG, "nobody_is_overtaken"),
]


class Sabotage(Fifo):
    """Damages the scheduler once, when three rows decode and two requests wait."""

    name = "sabotage"

    def __init__(self, config: SchedulerConfig, damage: Callable[[Scheduler], None]) -> None:
        super().__init__(config)
        self._damage: Callable[[Scheduler], None] | None = damage

    def stable_until_ns(self, view: View) -> int:
        core = view._core
        if self._damage and core.in_flight is None and len(core.batch) == 3 and len(core.waiting) > 1:
            damage, self._damage = self._damage, None
            damage(core)
        return view.now_ns


@pytest.mark.parametrize(("damage", "config", "law"), DAMAGES)
def test_damage_is_told_by_its_law(damage: Callable[[Scheduler], None], config: SchedulerConfig, law: str) -> None:
    config = replace(config, fusion=Fusion.NONE)
    with pytest.raises(InvariantViolation, match=f"^{law}: "):
        run(World(config, partial(Sabotage, damage=damage), constant(step_ns=1000), 30, CROWD), leap=False)


def test_the_laws_hold_on_the_same_crowd_without_damage() -> None:
    for config in (CONFIG, COMMIT, replace(CONFIG, resume=ResumeRule.SMALLEST)):
        for num_blocks in (CRAMPED_BLOCKS, 30):
            outcome = run(World(config, Fifo, constant(step_ns=1000), num_blocks, CROWD), leap=True)
            assert outcome.end == "done"
