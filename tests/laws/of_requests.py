"""Breaches of the laws of requests: arrivals, steps and ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedlab.config import Fusion
from schedlab.errors import DeviceFault
from schedlab.events import Arrived, Finished, FirstToken, Refused
from schedlab.request import FinishReason, Prompt, Request
from schedlab.sequence import Sequence
from tests.laws.breach import Breaches, first_row, first_waiting
from tests.laws.stage import LONG, Stage

REQUESTS = Breaches()
STRANGER = 99


def stranger(stage: Stage, prompt_tokens: int = 4, after_ns: int = 0) -> Sequence:
    """A request that the scheduler has not seen."""
    request = Request(STRANGER, Prompt(prompt_tokens), 5, arrival_ns=stage.now_ns + after_ns)
    return Sequence(request, STRANGER, 5)


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


@REQUESTS.of("what_happened_is_counted")
def a_swap_is_counted_that_was_none(stage: Stage) -> None:
    first_row(stage).num_swaps += 1


@REQUESTS.of("times_are_those_of_the_events")
def a_first_token_is_dated_late(stage: Stage) -> None:
    first_row(stage).first_token_ns += 1


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
