"""Laws that single events break: what is told of a request against what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.events import Arrived, CacheReset, Refused, SwappedOut
from schedlab.invariants.track import Track
from schedlab.law import Law, When
from schedlab.memory.prefix import CachingBlockPool
from schedlab.request import Request
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

ARRIVES_ONCE = Law("arrives_once", "A request arrives once, and waits then.", When.EVENT, numbers=(13,), scenarios=(2,))
ARRIVES_IN_TIME = Law("arrives_in_time", "No request is seen before its arrival.", When.EVENT, scenarios=(7,))
CAN_RUN = Law(
    "accepted_requests_can_run",
    "A request that can never fit into the pool or the model's length is refused as it arrives.",
    When.EVENT,
    numbers=(16,),
    scenarios=(4,),
)
REFUSED = Law(
    "refused_never_waits",
    "A request that is refused never waits, and is told why.",
    When.EVENT,
    numbers=(13,),
    scenarios=(2,),
)
REFUSED_CANNOT_RUN = Law(
    "refused_requests_can_never_run",
    "Only a request that can never fit into the pool or the model's length is refused, or one whose id is in use.",
    When.EVENT,
    numbers=(16,),
    scenarios=(4,),
)
KNOWN = Law(
    "nothing_before_arrival_or_after_the_end",
    "Nothing happens to a request before its arrival or after its end.",
    When.EVENT,
    numbers=(13,),
    scenarios=(2,),
)
OWN_PREFIX = Law(
    "a_seat_starts_behind_its_own_prefix",
    "Cached blocks that a request starts behind hold the beginning of its own text, in order.",
    When.EVENT,
    numbers=(52, 53),
    scenarios=(5,),
)
USABLE_SNAPSHOT = Law(
    "a_seat_starts_at_a_snapshot_it_may_use",
    "Where sequences carry a state, a request starts exactly at a saved state of its text that its session may use.",
    When.EVENT,
    numbers=(58,),
    scenarios=(5,),
)
KEEPS_OUTPUTS = Law(
    "preemption_keeps_outputs",
    "A preempted request returns with the outputs that it had.",
    When.EVENT,
    numbers=(41, 48),
    scenarios=(5,),
)
IMAGE = Law(
    "an_image_holds_all_blocks",
    "An image of a swapped-out request holds all the blocks that it had.",
    When.EVENT,
    numbers=(50,),
)
SWAP_KEEPS = Law(
    "a_swap_keeps_everything",
    "A restored request has the outputs and computed tokens that it left with.",
    When.EVENT,
    numbers=(42, 50),
    scenarios=(5,),
)
ONE_TOKEN = Law(
    "each_row_gets_one_token_an_iteration",
    "Each row of the decode batch gets one output for each iteration that it is in, and computes one token.",
    When.SWEEP,
    numbers=(17, 18, 35),
    scenarios=(5,),
)
FIRST_TOKEN = Law(
    "first_token_once",
    "A request has one first token, when the last token of its prompt is computed.",
    When.EVENT,
    numbers=(48,),
    scenarios=(5,),
)
SWEPT = Law(
    "timeouts_are_swept",
    "A plan leaves no request alive whose deadline has come, in whatever state it is.",
    When.TICK,
    numbers=(20,),
)
LIVE_OR_ENDED = Law(
    "every_request_is_live_or_ended",
    "Every accepted request is known until it ends, and then no more.",
    When.TICK,
    numbers=(13,),
    scenarios=(2,),
)
ENDS_ONCE = Law(
    "every_request_ends_once",
    "When the run is over, every accepted request has ended once.",
    When.AUDIT,
    numbers=(13,),
    scenarios=(2, 6),
)
LANE_TOKENS = Law(
    "lanes_and_requests_count_the_same_tokens",
    "Tokens summed over steps are those summed over requests.",
    When.AUDIT,
    numbers=(80,),
    scenarios=(8,),
)


EMPTY_CACHE = Law(
    "a_reset_cache_is_empty",
    "After a reset nothing can be found in the prefix cache, every block is free, and nobody has an image.",
    When.EVENT,
    numbers=(7,),
)


def check_arrival(core: Scheduler, event: Arrived, *, is_known: bool) -> None:
    sequence, request = event.sequence, event.sequence.request
    if is_known or sequence.state is not State.PENDING:
        raise ARRIVES_ONCE.broken(f"{sequence} arrives", request.request_id)
    if event.now_ns < request.arrival_ns:
        raise ARRIVES_IN_TIME.broken(f"{sequence} of {request.arrival_ns} ns is seen", request.request_id)
    if why := _why_it_can_never_run(core, request):
        raise CAN_RUN.broken(f"{sequence} waits with {why}", request.request_id)


def check_refusal(core: Scheduler, event: Refused, *, is_known: bool) -> None:
    sequence, request = event.sequence, event.sequence.request
    if is_known or not event.reason:
        raise REFUSED.broken(f"{sequence} is refused: {event.reason!r}", request.request_id)
    if request.request_id not in core.sequences and not _why_it_can_never_run(core, request):
        raise REFUSED_CANNOT_RUN.broken(
            f"{sequence} of {request.prompt.num_tokens} tokens could run: {event.reason!r}", request.request_id
        )


def _why_it_can_never_run(core: Scheduler, request: Request) -> str:
    """Beside its prompt there must be room for one output, if it wants any."""
    tokens, config, total = request.prompt.num_tokens, core.config, core.pool.total_blocks
    if tokens > total * config.block_size:
        return f"{tokens} tokens, {total} blocks of {config.block_size} in the pool"
    if tokens + min(request.max_tokens, 1) > config.max_model_len:
        return f"{tokens} tokens and {request.max_tokens} outputs of {config.max_model_len}"
    return ""


def check_prefix(core: Scheduler, sequence: Sequence) -> None:
    """Of a sequence that has just got a seat with cached blocks."""
    pool, keys, table = core.pool, sequence.keys or [], sequence.block_table
    assert isinstance(pool, CachingBlockPool)
    if list(map(pool.key_of, table)) != keys[: len(table)]:
        raise OWN_PREFIX.broken(f"{sequence} starts behind {len(table)} blocks of another text", sequence.request_id)
    if core.snapshots is None:
        return
    found, session = sequence.cached_snapshot, sequence.request.session
    if (
        found is None
        or found.num_tokens != sequence.num_computed
        or found.num_tokens < core.config.snapshot_min_tokens
        or found.session not in ("", session)
        or found.key != keys[len(table) - 1]
    ):
        raise USABLE_SNAPSHOT.broken(
            f"{sequence} of session {session!r} starts at {sequence.num_computed} with {found}", sequence.request_id
        )


def check_reset(core: Scheduler, event: CacheReset) -> None:
    """A reset that was refused changes nothing."""
    pool, snapshots = core.pool, core.snapshots
    saved = len(snapshots.snapshots()) if snapshots is not None else 0
    images = sum(sequence.image is not None for sequence in core.parked)
    if event.done and (pool.cached_blocks or pool.free_blocks != pool.total_blocks or saved or images):
        raise EMPTY_CACHE.broken(
            f"{pool.cached_blocks} blocks cached, {pool.free_blocks} of {pool.total_blocks} free, "
            f"{saved} states saved, {images} images kept"
        )


def check_outputs(sequence: Sequence, outputs: int) -> None:
    """Of a sequence that returns to be computed again."""
    if sequence.num_outputs != outputs:
        raise KEEPS_OUTPUTS.broken(f"{sequence}: {sequence.num_outputs}, counted {outputs}", sequence.request_id)


def check_image(event: SwappedOut) -> None:
    image = event.sequence.image
    if image is None or event.num_blocks != image.num_blocks:
        raise IMAGE.broken(f"{event.sequence}: {event.num_blocks} blocks, {image}", event.sequence.request_id)


def check_restored(sequence: Sequence, track: Track, iterations: int) -> None:
    counted = track.outputs(iterations), track.computed(iterations)
    if (sequence.num_outputs, sequence.num_computed) != counted:
        raise SWAP_KEEPS.broken(
            f"{sequence} has (outputs, tokens) {sequence.num_outputs, sequence.num_computed}, counted {counted}",
            sequence.request_id,
        )


def check_lane_tokens(of_steps: int, of_requests: int) -> None:
    if of_steps != of_requests:
        raise LANE_TOKENS.broken(f"{of_steps} tokens of steps, {of_requests} of requests")
