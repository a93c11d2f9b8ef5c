"""Breaches of the laws of requests: arrivals, admissions, victims, returns and ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sortedcontainers import SortedKeyList

from schedlab.config import Fusion, PreemptionMode, ResumeRule, VictimRule
from schedlab.errors import DeviceFault
from schedlab.events import Admitted, Arrived, Finished, FirstToken, Refused, Resumed
from schedlab.request import FinishReason, Prompt, Request
from schedlab.sequence import Sequence
from tests.laws.breach import Breaches, first_row, first_waiting, last_row
from tests.laws.stage import COMMIT, CRAMPED, CROWD, EVICTING, LONG, Stage, config

REQUESTS = Breaches()
STRANGER = 99


def stranger(stage: Stage, prompt_tokens: int = 4, after_ns: int = 0) -> Sequence:
    """A request that the scheduler has not seen."""
    request = Request(STRANGER, Prompt(prompt_tokens), 5, arrival_ns=stage.now_ns + after_ns)
    return Sequence(request, STRANGER, 5)


def someone_is_parked(stage: Stage) -> bool:
    """Since an earlier tick, and others wait."""
    core = stage.core
    evicted = stage.checker._evicted_in_plan
    return len(core.parked) > 0 and core.parked[0] not in evicted and len(core.waiting) > 0 and core.free_seats > 0


def three_wait(stage: Stage) -> bool:
    return len(stage.core.waiting) > 2


@REQUESTS.of("arrives_once")
def a_row_arrives_again(stage: Stage) -> None:
    stage.tell(Arrived(stage.now_ns, first_row(stage)))


@REQUESTS.of("arrives_in_time")
def a_request_is_seen_too_soon(stage: Stage) -> None:
    stage.tell(Arrived(stage.now_ns, stranger(stage, after_ns=1)))


@REQUESTS.of("accepted_requests_can_run")
def a_prompt_beyond_the_pool_is_accepted(stage: Stage) -> None:
    stage.tell(Arrived(stage.now_ns, stranger(stage, prompt_tokens=1000)))


@REQUESTS.of("refused_never_waits")
def a_waiting_request_is_refused(stage: Stage) -> None:
    stage.tell(Refused(stage.now_ns, first_waiting(stage), "just so"))


@REQUESTS.of("refused_never_waits")
def a_request_is_refused_without_reason(stage: Stage) -> None:
    stage.tell(Refused(stage.now_ns, stranger(stage), ""))


@REQUESTS.of("refused_requests_can_never_run")
def a_request_is_refused_that_fits(stage: Stage) -> None:
    stage.tell(Refused(stage.now_ns, stranger(stage, prompt_tokens=160), "it is too long"))


@REQUESTS.of("accepted_requests_can_run")
def a_prompt_beyond_the_model_is_accepted(stage: Stage) -> None:
    stage.core.config = replace(stage.core.config, max_model_len=8)
    stage.tell(Arrived(stage.now_ns, stranger(stage, prompt_tokens=8)))


@REQUESTS.of("nothing_before_arrival_or_after_the_end")
def a_row_ends_twice(stage: Stage) -> None:
    row = first_row(stage)
    stage.core.end(row, FinishReason.STOP)
    stage.tell(Finished(stage.now_ns, row, FinishReason.STOP))


@REQUESTS.of("first_token_once")
def the_first_token_is_repeated(stage: Stage) -> None:
    stage.tell(FirstToken(stage.now_ns, first_row(stage)))


@REQUESTS.of("times_never_go_back")
def the_clock_is_turned_back(stage: Stage) -> None:
    stage.tell(FirstToken(stage.now_ns - 1, first_row(stage)))


@REQUESTS.of("times_never_go_back")
def a_row_ends_before_its_last_token(stage: Stage) -> None:
    row = first_row(stage)
    row.first_token_ns = stage.now_ns + 1
    stage.core.end(row, FinishReason.STOP)


@REQUESTS.of("outputs_are_counted")
def an_output_is_counted_that_was_not_sampled(stage: Stage) -> None:
    def count(sequence: Any, _: object) -> None:
        sequence.num_outputs += 1

    stage.wrap("forget", before=count)


@REQUESTS.of("every_token_is_computed_once_and_again_after_preemption")
def a_token_is_computed_again_without_preemption(stage: Stage) -> None:
    def count(sequence: Any, _: object) -> None:
        sequence.num_recomputed_tokens += 1

    stage.wrap("forget", before=count)


@REQUESTS.of("step_is_within_budgets")
def the_budgets_shrink_under_the_rows(stage: Stage) -> None:
    stage.core.config = replace(stage.core.config, max_num_seqs=1, max_num_batched_tokens=1)


def decode_and_prefill(stage: Stage) -> bool:
    return len(stage.core.batch) > 0 and len(stage.core.prefilling) > 0


@REQUESTS.of("lanes_are_as_configured", LONG, ready=decode_and_prefill)
def lanes_share_a_step_that_are_not_fused(stage: Stage) -> None:
    def unfuse(_: object) -> None:
        stage.core.config = replace(stage.core.config, fusion=Fusion.NONE)

    stage.wrap("commit", before=unfuse)


@REQUESTS.of("chunk_has_its_shape", LONG, ready=decode_and_prefill)
def a_chunk_beside_rows_exceeds_its_limit(stage: Stage) -> None:
    def limit(_: object) -> None:
        stage.core.config = replace(stage.core.config, max_prefill_tokens=1)

    stage.wrap("commit", before=limit)


@REQUESTS.of("a_piece_ends_for_a_reason", LONG, ready=lambda stage: stage.core.prefilling)
def a_chunk_stops_before_its_limit(stage: Stage) -> None:
    stage.core.config = replace(stage.core.config, max_prefill_tokens=5)

    def allow_one_more(_: object) -> None:
        stage.core.config = replace(stage.core.config, max_prefill_tokens=6)

    stage.wrap("commit", before=allow_one_more)


@REQUESTS.of("admission_needs_a_seat")
def a_fourth_comes_in(stage: Stage) -> None:
    stage.core.slots.num_slots = 9
    stage.core.admit(first_waiting(stage))


@REQUESTS.of("nobody_is_overtaken")
def the_last_comes_in_first(stage: Stage) -> None:
    stage.core.config = replace(stage.core.config, max_num_seqs=9)
    stage.core.slots.num_slots = 9
    stage.core.admit(list(stage.core.waiting.candidates())[-1])


@REQUESTS.of("nobody_is_overtaken", replace(CROWD, config=replace(CROWD.config, max_bypass=1)), ready=three_wait)
def the_first_is_passed_again_and_again(stage: Stage) -> None:
    core = stage.core
    core.config = replace(core.config, max_num_seqs=9)
    core.slots.num_slots = 9
    for _ in range(2):
        second = list(core.waiting.candidates())[1]
        core.admit(second)
        core.waiting.remove(second)


@REQUESTS.of("the_line_is_kept", CRAMPED, ready=someone_is_parked)
def a_waiting_request_passes_a_preempted_one(stage: Stage) -> None:
    stage.core.admit(first_waiting(stage))


@REQUESTS.of("admission_leaves_room")
def a_request_comes_in_without_room(stage: Stage) -> None:
    stage.core.reserved_blocks += 100
    stage.tell(Admitted(stage.now_ns, first_waiting(stage)))


def nobody_makes_way(stage: Stage) -> None:
    """All that run are less important than the head of the queue."""
    core = stage.core
    for row in core.batch.rows:
        row.request = replace(row.request, priority=9)
    core.policy.make_way = lambda view, sequence: ()  # type: ignore[method-assign]


REQUESTS.of("the_important_one_comes_in", EVICTING)(nobody_makes_way)
REQUESTS.of("the_important_one_comes_in", replace(EVICTING, config=COMMIT.config))(nobody_makes_way)


@REQUESTS.of(
    "who_makes_way_is_swapped_out",
    replace(CROWD, config=config(preemption=PreemptionMode.HOST, swap_host_gib=1, swap_at_admission=True)),
)
def a_row_makes_way_and_loses_what_it_has(stage: Stage) -> None:
    stage.core.preempt(last_row(stage), "priority")


@REQUESTS.of("victim_keeps_its_outputs")
def a_victim_loses_its_outputs(stage: Stage) -> None:
    def lose(sequence: Any) -> None:
        sequence.num_outputs = 0

    stage.wrap("_forget_computed", before=lose)
    stage.core.preempt(list(stage.core.batch.rows)[-1], "decode")


@REQUESTS.of("immune_ones_stay", replace(CROWD, config=replace(CROWD.config, immunity_tokens=50)))
def an_immune_row_goes(stage: Stage) -> None:
    row = list(stage.core.batch.rows)[-1]
    row.immune_until_outputs = 1000
    stage.core.preempt(row, "decode")


@REQUESTS.of("victim_by_rule")
def the_first_in_goes(stage: Stage) -> None:
    stage.core.preempt(first_row(stage), "decode")


@REQUESTS.of("victim_by_rule", replace(CROWD, config=replace(CROWD.config, victim=VictimRule.FEWEST_OUTPUTS)))
def the_one_with_the_most_outputs_goes(stage: Stage) -> None:
    stage.core.preempt(first_row(stage), "decode")


@REQUESTS.of("preemption_keeps_outputs", CRAMPED, ready=someone_is_parked)
def a_preempted_request_returns_with_another_output(stage: Stage) -> None:
    stage.core.parked[0].num_outputs += 1
    stage.tell(Resumed(stage.now_ns, stage.core.parked[0]))


@REQUESTS.of("resume_needs_room", CRAMPED, ready=someone_is_parked)
def a_preempted_request_returns_without_room(stage: Stage) -> None:
    stage.core.reserved_blocks += 100
    stage.tell(Resumed(stage.now_ns, stage.core.parked[0]))


@REQUESTS.of("resume_in_order", CRAMPED, ready=someone_is_parked)
def another_returns_first(stage: Stage) -> None:
    stage.tell(Resumed(stage.now_ns, first_waiting(stage)))


SMALLEST = replace(CRAMPED, config=replace(CRAMPED.config, resume=ResumeRule.SMALLEST), num_blocks=8)


def two_are_parked(stage: Stage) -> bool:
    return len(stage.core.parked) > 1


@REQUESTS.of("resume_in_order", SMALLEST, ready=two_are_parked)
def the_largest_returns_first(stage: Stage) -> None:
    stage.core.parked = SortedKeyList(stage.core.parked, key=lambda one: -one.num_known)


@REQUESTS.of("finished_is_finished")
def a_row_is_said_to_have_ended(stage: Stage) -> None:
    stage.tell(Finished(stage.now_ns, first_row(stage), FinishReason.STOP))


@REQUESTS.of("finished_holds_nothing")
def a_row_ends_and_keeps_its_blocks(stage: Stage) -> None:
    stage.core._free_table = lambda sequence: 0  # type: ignore[method-assign]
    stage.core.end(first_row(stage), FinishReason.STOP)


@REQUESTS.of("ends_with_a_reason")
def an_error_says_nothing(stage: Stage) -> None:
    stage.core.end(first_row(stage), FinishReason.ERROR)


@REQUESTS.of("length_means_all_outputs")
def a_row_ends_for_a_length_that_it_has_not(stage: Stage) -> None:
    stage.core.end(first_row(stage), FinishReason.LENGTH)


@REQUESTS.of("no_timeout_before_the_deadline")
def a_row_times_out_too_soon(stage: Stage) -> None:
    stage.core.end(first_row(stage), FinishReason.TIMEOUT)


@REQUESTS.of("a_failed_step_ends_its_rows")
def rows_of_a_failed_step_end_well(stage: Stage) -> None:
    def fail(result: Any) -> None:
        result.fault = DeviceFault("it failed")

    def pardon() -> None:
        stage.core.ending.update(dict.fromkeys(stage.core.ending, FinishReason.STOP))

    stage.wrap("commit", before=fail, after=pardon)


@REQUESTS.of("nobody_ends_while_it_could_go_on")
def a_row_ends_without_cause(stage: Stage) -> None:
    first_row(stage).error = "just so"
    stage.core.end(first_row(stage), FinishReason.ERROR)
