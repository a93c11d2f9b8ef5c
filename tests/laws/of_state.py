"""Breaches of the laws of states, sums and ticks."""

from __future__ import annotations

from typing import Any

from schedlab.events import RESET
from schedlab.request import FinishReason
from schedlab.sequence import State
from tests.laws.breach import Breaches, first_row, first_waiting, last_row
from tests.laws.stage import COMMIT, LONG, Stage

STATE = Breaches()


@STATE.of("tick_is_over", inside=True)
def someone_ends_and_stays(stage: Stage) -> None:
    stage.core.ending[first_row(stage)] = FinishReason.STOP


@STATE.of("seats_within_limit", inside=True)
def someone_is_restored_without_seat(stage: Stage) -> None:
    stage.core.restoring[first_waiting(stage)] = object()  # type: ignore[assignment]


@STATE.of("containers_add_up", inside=True)
def a_request_is_lost_from_the_queue(stage: Stage) -> None:
    stage.core.waiting.remove(first_waiting(stage))


@STATE.of("containers_agree_with_states", inside=True)
def a_row_is_preempted_in_name(stage: Stage) -> None:
    first_row(stage).state = State.PREEMPTED


@STATE.of("reservations_are_what_prefills_will_take", inside=True)
def a_reservation_is_forgotten(stage: Stage) -> None:
    stage.core.reserved_blocks += 1


@STATE.of("lengths_within_limits", inside=True)
def a_row_has_all_its_outputs_and_goes_on(stage: Stage) -> None:
    first_row(stage).max_outputs = 1


@STATE.of("ledger_is_the_sum_of_commitments", COMMIT, inside=True)
def a_commitment_is_forgotten(stage: Stage) -> None:
    assert stage.core.ledger is not None
    stage.core.ledger.blocks -= 1


@STATE.of("batch_aggregates_are_sums", inside=True)
def the_context_is_miscounted(stage: Stage) -> None:
    stage.core.batch._context_base += 1


@STATE.of("rows_keep_their_order", inside=True)
def a_row_steps_back(stage: Stage) -> None:
    stage.core.batch.rows.move_to_end(first_row(stage))


@STATE.of("newcomers_are_rows", inside=True)
def an_old_row_is_announced(stage: Stage) -> None:
    stage.core.batch.newcomers.append(first_row(stage))


@STATE.of("limits_know_the_next_end", inside=True)
def a_limit_is_forgotten(stage: Stage) -> None:
    heap = stage.core.limits._heap
    heap.sort()
    del heap[0]
    stage.core.limits.add(last_row(stage))


@STATE.of("waiting_are_pending", inside=True)
def a_waiting_request_has_computed_something(stage: Stage) -> None:
    first_waiting(stage).num_computed = 4


@STATE.of("the_queue_keeps_its_order", inside=True)
def the_first_goes_to_the_end_of_the_queue(stage: Stage) -> None:
    stage.core.waiting.move_to_end(first_waiting(stage))  # type: ignore[attr-defined]


@STATE.of("deadlines_are_watched", inside=True)
def deadlines_are_forgotten(stage: Stage) -> None:
    stage.core.deadlines.clear()


@STATE.of("timeouts_are_swept")
def deadlines_are_watched_too_late(stage: Stage) -> None:
    deadlines = stage.core.deadlines
    deadlines[:] = [(due_ns + 1_000_000, index, sequence) for due_ns, index, sequence in deadlines]
    # They end by themselves before, were they not stopped.
    for sequence in stage.core.sequences.values():
        stage.outputs.expect(sequence.request_id, 100_000, None)


@STATE.of("every_request_is_live_or_ended", inside=True)
def a_live_request_is_forgotten(stage: Stage) -> None:
    del stage.core.sequences[first_row(stage).request_id]


@STATE.of("each_row_gets_one_token_an_iteration")
def a_row_gets_a_token_too_many(stage: Stage) -> None:
    first_row(stage).joined_len += 1


@STATE.of("a_tick_has_its_phases")
def a_plan_comes_without_a_tick(stage: Stage) -> None:
    stage.core.plan()


@STATE.of("one_step_is_in_flight")
def a_step_begins_beside_another(stage: Stage) -> None:
    stage.core.in_flight = object()  # type: ignore[assignment]


@STATE.of("nobody_moves_while_a_step_runs")
def a_row_is_preempted_in_the_middle_of_a_step(stage: Stage) -> None:
    stage.core.in_flight = object()  # type: ignore[assignment]
    stage.core.preempt(last_row(stage), "decode")


@STATE.of("one_decode_step_a_tick")
def every_lane_runs_twice(stage: Stage) -> None:
    plan = stage.core.plan

    def twice() -> Any:
        planned = plan()
        return planned._replace(lanes=planned.lanes * 2)

    stage.core.plan = twice  # type: ignore[method-assign]


@STATE.of("who_ends_goes_before_who_returns")
def someone_returns_before_others_end(stage: Stage) -> None:
    core = stage.core

    def leave_and_return() -> None:
        victim = max(core.view.owners(), key=lambda one: one.admission_index)
        if victim not in core.ending:
            core.preempt(victim, RESET)
            core.resume(victim)

    stage.wrap("retire", before=leave_and_return)


@STATE.of("ticks_bring_something_about")
def nothing_is_ever_launched(stage: Stage) -> None:
    stage.core.launch = lambda lane: None  # type: ignore[method-assign]
    stage.core.wake_ns = lambda: stage.now_ns  # type: ignore[method-assign]


@STATE.of("counters_never_fall", inside=True)
def arrivals_are_forgotten(stage: Stage) -> None:
    stage.core.num_arrived = 0


@STATE.of("nothing_is_left")
def a_reservation_is_left(stage: Stage) -> None:
    def reserve() -> None:
        stage.core.reserved_blocks += 1

    stage.wrap("finish", before=reserve)


@STATE.of("every_request_ends_once")
def a_shutdown_forgets_everybody(stage: Stage) -> None:
    stage.core.end = lambda sequence, reason: None  # type: ignore[method-assign]
    stage.core.finish()


@STATE.of("lanes_and_requests_count_the_same_tokens")
def a_token_of_a_step_is_nobodys(stage: Stage) -> None:
    stage.checker.book.prefill_tokens += 1


@STATE.of("rows_are_the_batch", ready=lambda stage: stage.core.batch.newcomers)
def a_new_row_is_not_announced(stage: Stage) -> None:
    def forget(_: object) -> None:
        stage.core.batch.newcomers.clear()

    stage.wrap("commit", before=forget)


def two_prefill(stage: Stage) -> bool:
    return len(stage.core.prefilling) > 1


@STATE.of("the_oldest_prefill_goes_on_first", LONG, ready=two_prefill)
def the_oldest_prefill_goes_last(stage: Stage) -> None:
    stage.core.prefilling.move_to_end(next(iter(stage.core.prefilling)))


@STATE.of("chunks_tile_the_known_tokens", LONG, ready=lambda stage: stage.core.prefilling)
def a_token_is_skipped(stage: Stage) -> None:
    next(iter(stage.core.prefilling)).num_computed += 1
