"""Laws of how a request ends: once, for a true reason, with nothing left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.events import Finished
from schedlab.invariants.track import Track
from schedlab.law import Law, When
from schedlab.memory.blocks import blocks_for
from schedlab.memory.prefix import CachingBlockPool
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

IS_FINISHED = Law(
    "finished_is_finished",
    "A request that is reported as ended is in its last state, for the reason reported.",
    When.EVENT,
    numbers=(13,),
    scenarios=(2,),
)
HOLDS_NOTHING = Law(
    "finished_holds_nothing",
    "A request that has ended holds no block, reservation, slot, image or window, and has no place in batch or ledger.",
    When.EVENT,
    numbers=(7,),
    scenarios=(6,),
)
TIMES = Law(
    "times_never_go_back",
    "Time never goes back: not from event to event, and not from a request's arrival to its tokens and its end.",
    When.EVENT,
    scenarios=(7, 8),
)
REASON = Law(
    "ends_with_a_reason",
    "An accepted request ends done, cancelled, timed out or in error, and an error says what was wrong.",
    When.EVENT,
    numbers=(13, 19),
    scenarios=(2,),
)
LENGTH = Law(
    "length_means_all_outputs",
    "A request ends for its length only with as many outputs as it may have.",
    When.EVENT,
    numbers=(15, 19),
)
NOT_TOO_SOON = Law(
    "no_timeout_before_the_deadline", "No request times out before its deadline.", When.EVENT, numbers=(19, 20)
)
FAILED_ENDS = Law(
    "a_failed_step_ends_its_rows",
    "Whoever was in a step that failed ends with an error.",
    When.EVENT,
    numbers=(13, 73),
)
COULD_GO_ON = Law(
    "nobody_ends_while_it_could_go_on",
    "A request ends in error only after a failed step, at a shutdown, or when it needs more blocks than the pool has.",
    When.EVENT,
    numbers=(13, 73),
    scenarios=(2,),
)
NOT_CACHED = Law(
    "errors_leave_nothing_in_the_cache",
    "A request that ends in error adds nothing to the prefix cache.",
    When.EVENT,
    numbers=(21,),
)


def check_end(core: Scheduler, event: Finished, track: Track, *, is_shutdown: bool) -> None:
    """Check the laws of an end that has just happened; the track has left the batch."""
    is_over(core, event)
    reason_is_true(event)
    error_is_true(core, event, track, is_shutdown=is_shutdown)
    nothing_is_published(core, event, track)
    track.check_totals(event.sequence)


def is_over(core: Scheduler, event: Finished) -> None:
    sequence = event.sequence
    if sequence.state is not State.FINISHED or sequence.finish_reason is not event.reason:
        raise IS_FINISHED.broken(f"{sequence}, {sequence.finish_reason}, {event.reason}", sequence.request_id)
    if sequence.block_table or sequence.reserved_blocks or core.sequences.get(sequence.request_id) is sequence:
        raise HOLDS_NOTHING.broken(f"{sequence} has blocks {sequence.block_table} or is live", sequence.request_id)
    if sequence in core.batch or sequence in core.prefilling or (core.ledger and core.ledger.holds(sequence)):
        raise HOLDS_NOTHING.broken(f"{sequence} has a place in the batch, a lane or the ledger", sequence.request_id)
    if sequence.slot != NOT_YET or sequence.image is not None or sequence.window is not None:
        raise HOLDS_NOTHING.broken(
            f"{sequence} has slot {sequence.slot}, {sequence.image}, {sequence.window}", sequence.request_id
        )


def reason_is_true(event: Finished) -> None:
    sequence, request_id = event.sequence, event.sequence.request_id
    times = [sequence.request.arrival_ns, sequence.admitted_ns, sequence.first_token_ns, sequence.last_token_ns]
    times = [time for time in [*times, sequence.finished_ns, event.now_ns] if time != NOT_YET]
    if times != sorted(times):
        raise TIMES.broken(f"{sequence}: arrival, admission, tokens, end are {times}", request_id)
    if event.reason is FinishReason.REFUSED or (event.reason is FinishReason.ERROR and not sequence.error):
        raise REASON.broken(f"{sequence}: {event.reason} {sequence.error!r}", request_id)
    if event.reason is FinishReason.LENGTH and sequence.num_outputs != sequence.max_outputs:
        raise LENGTH.broken(f"{sequence}: {sequence.num_outputs} of {sequence.max_outputs}", request_id)
    deadline_ns = sequence.request.deadline_ns
    if event.reason is FinishReason.TIMEOUT and (deadline_ns is None or event.now_ns < deadline_ns):
        raise NOT_TOO_SOON.broken(f"{sequence}, whose deadline is {deadline_ns}", request_id)


def error_is_true(core: Scheduler, event: Finished, track: Track, *, is_shutdown: bool) -> None:
    sequence = event.sequence
    is_error = event.reason is FinishReason.ERROR
    if track.failed and not is_error:
        raise FAILED_ENDS.broken(f"{sequence} was in one and ends with {event.reason}", sequence.request_id)
    needed_blocks = blocks_for(sequence.num_prompt_tokens + sequence.num_outputs, core.config.block_size)
    if is_error and not (track.failed or is_shutdown or needed_blocks > core.pool.total_blocks):
        raise COULD_GO_ON.broken(
            f"{sequence} needs {needed_blocks} of {core.pool.total_blocks} blocks and ends: {sequence.error}",
            sequence.request_id,
        )


def note_unpublished(core: Scheduler, track: Track, table: list[int]) -> None:
    """The owner of `table` is about to end in error."""
    if isinstance(core.pool, CachingBlockPool):
        track.unpublished = [block for block in table if core.pool.key_of(block) is None]


def nothing_is_published(core: Scheduler, event: Finished, track: Track) -> None:
    if not track.unpublished or event.reason is not FinishReason.ERROR:
        return
    assert isinstance(core.pool, CachingBlockPool)
    published = [block for block in track.unpublished if core.pool.key_of(block) is not None]
    if published:
        raise NOT_CACHED.broken(f"{event.sequence} leaves blocks {published} to be found", event.sequence.request_id)
