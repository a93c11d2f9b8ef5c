"""Planning a tick: drain the inbox, end what is due, make room for decoding, admit."""

from __future__ import annotations

from enum import StrEnum
from heapq import heappop
from typing import TYPE_CHECKING, NamedTuple

from schedlab.config import Fusion
from schedlab.core.caching import cached_prefix
from schedlab.core.reset import reset_cache
from schedlab.core.swapping import copy_ended
from schedlab.core.windows import is_freeing, slide
from schedlab.events import Arrived, Refused
from schedlab.inbox import Cancel, Close, CopyDone, ResetCache, Submit
from schedlab.memory.blocks import blocks_for
from schedlab.request import FinishReason, Request
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


class Lane(StrEnum):
    """A part of a tick that becomes at most one step. Fused lanes become one step together."""

    START = "start_prefills"
    CONTINUE = "continue_prefills"
    DECODE = "decode"
    CONTINUE_DECODE = "continue_prefills+decode"
    ALL = "start_prefills+continue_prefills+decode"


class Plan(NamedTuple):
    """Lanes to run in order; a shutdown has none and is the last."""

    lanes: tuple[Lane, ...]
    shutdown: bool = False


NOTHING = Plan(())
# After one START for each newcomer, where that lane is not fused.
PLANS: dict[Fusion, Plan] = {
    Fusion.NONE: Plan((Lane.CONTINUE, Lane.DECODE)),
    Fusion.CONTINUE: Plan((Lane.CONTINUE_DECODE,)),
    Fusion.ALL: Plan((Lane.ALL,)),
}


def begin(core: Scheduler) -> None:
    """Forget the tick before."""
    core.progress = core.evicted = False
    core.starting.clear()


def receive(core: Scheduler) -> None:
    """Take in what has come, end what is due, make room for decoding. All ends of a tick before its steps are here."""
    _drain_inbox(core)
    if core.deadlines:
        _end_overdue(core)
    if make_room_for_decoding(core):
        core.evicted = True


def make(core: Scheduler) -> Plan:
    """This tick's plan, when all that has come was received."""
    if not core.evicted and len(core.waiting):
        _admit(core)
    if core.inbox.closed and not core.sequences:
        return Plan((), shutdown=True)
    if not core.batch.rows and not core.prefilling:
        return NOTHING
    plan = PLANS[core.config.fusion]
    if core.starting and core.config.fusion is not Fusion.ALL:
        return Plan((Lane.START,) * len(core.starting) + plan.lanes)
    return plan


def _drain_inbox(core: Scheduler) -> None:
    for delivery in core.inbox.drain():
        message = delivery.message
        if isinstance(message, Submit):
            _receive(core, message.request)
        elif isinstance(message, Cancel):
            _cancel(core, message.request_id)
        elif isinstance(message, Close):
            core.inbox.closed = True
        elif isinstance(message, ResetCache):
            reset_cache(core, preempt_running=message.preempt_running)
        else:
            assert isinstance(message, CopyDone)
            copy_ended(core, message.ticket, message.error)


def _receive(core: Scheduler, request: Request) -> None:
    longest = core.config.max_model_len - request.prompt.num_tokens
    has_keys = core.config.prefix_cache and request.prompt.has_keys
    sequence = Sequence(request, core.num_arrived, min(request.max_tokens, max(longest, 0)), has_keys=has_keys)
    core.num_arrived += 1
    reason = _why_never(core, request)
    if reason:
        sequence.error = reason
        sequence.finish_reason = FinishReason.REFUSED
        sequence.finished_ns = core.device.now_ns()
        sequence.state = State.FINISHED
        if request.request_id not in core.sequences:
            core.device.forget(sequence)
        for notify_refused in core.bus.on_refused:
            notify_refused(Refused(sequence.finished_ns, sequence, reason))
        return
    core.sequences[request.request_id] = sequence
    core.waiting.push(sequence)
    core.watch_deadline(sequence)
    if core.bus.on_arrived:
        event = Arrived(core.device.now_ns(), sequence)
        for notify in core.bus.on_arrived:
            notify(event)


def _why_never(core: Scheduler, request: Request) -> str:
    tokens = request.prompt.num_tokens
    limit = core.config.max_model_len - (1 if request.max_tokens else 0)
    needed = blocks_for(tokens, core.config.block_size)
    if request.request_id in core.sequences:
        return f"a live request has the id {request.request_id} already"
    if tokens > limit:
        return f"the prompt of {tokens} tokens can never fit: max_model_len is {core.config.max_model_len}"
    if needed > core.pool.total_blocks:
        total = core.pool.total_blocks
        return f"the prompt of {tokens} tokens can never fit: it needs {needed} blocks, the pool has {total}"
    return ""


def _cancel(core: Scheduler, request_id: int) -> None:
    sequence = core.sequences.get(request_id)
    if sequence is not None:
        core.end(sequence, FinishReason.CANCELLED)


def _end_overdue(core: Scheduler) -> None:
    deadlines = core.deadlines
    while deadlines and (deadlines[0][0] <= core.device.now_ns() or deadlines[0][2].state is State.FINISHED):
        sequence = heappop(deadlines)[2]
        if sequence.state is not State.FINISHED:
            core.end(sequence, FinishReason.TIMEOUT)


def make_room_for_decoding(core: Scheduler) -> bool:
    """Slide, and preempt until the next iteration's new blocks are free; tells whether anyone had to go.

    Whoever goes may leave room on the disk, which the windows of the others use at once: asked again at the same
    instant, nothing more is done. A row that is alone in the pool waits for the copies of its window, if there are any.
    """
    batch, evicted = core.batch, False
    while True:
        if core.config.window_blocks:
            slide(core)
        if len(batch.growing(0)) <= core.pool.free_blocks:
            return evicted
        if core.ending:
            core.retire()
            continue
        if len(batch.rows) + len(core.prefilling) + len(core.restoring) == 1:
            if not is_freeing(core):
                _end_too_large(core, next(iter(batch.rows)))
            return evicted
        core.give_way(core.policy.yield_(core.view, list(core.view.owners())), "decode")
        evicted = True


def _end_too_large(core: Scheduler, sequence: Sequence) -> None:
    """A sequence that fills the whole pool alone: nobody can make room for it."""
    sequence.error = (
        f"it holds all {core.pool.total_blocks} blocks of the pool after {core.batch.outputs(sequence)} outputs "
        "and needs one more; use a larger pool or a smaller max_tokens"
    )
    core.end(sequence, FinishReason.ERROR)


def _admit(core: Scheduler) -> None:
    """Admit in the policy's order while seats, tokens and blocks last."""
    policy = core.policy
    composed = policy.compose(core.view)
    tokens = _tokens_for_newcomers(core, composed)
    line_ends_at = policy.rank(core.parked[0]) if core.in_line and core.parked else None
    admitted: list[Sequence] = []
    passed_over: list[Sequence] = []
    for sequence in core.waiting.candidates():
        if tokens <= 0 or (line_ends_at is not None and line_ends_at < policy.rank(sequence)):
            break
        wanted = _first_chunk(core, sequence, tokens)
        if not wanted:
            break
        if not _let_in(core, sequence):
            passed_over.append(sequence)
            if core.free_seats == 0 or not _may_be_passed(core, passed_over):
                break
            continue
        admitted.append(sequence)
        if core.config.fusion is Fusion.ALL:
            tokens -= wanted
        for bypassed in passed_over:
            bypassed.times_bypassed += 1
        if not _may_be_passed(core, passed_over):
            break
    for sequence in admitted:
        core.waiting.remove(sequence)
        core.starting.append(sequence)
    if composed >= core.token_budget:
        # Seats, blocks and the step's own size refused whoever still waits, not the policy's clock.
        core.refused_at = core.changes
        core.refused_until_ns = policy.stable_until_ns(core.view)


def _tokens_for_newcomers(core: Scheduler, composed: int) -> int:
    """Prefill tokens that prefills in progress leave in a step that newcomers would share; else any positive number."""
    tokens = min(composed, core.token_budget)
    if core.config.fusion is not Fusion.ALL:
        return tokens
    for sequence in core.prefilling:
        if tokens <= 0:
            break
        tokens -= _first_chunk(core, sequence, tokens) or tokens
    return tokens


def _first_chunk(core: Scheduler, sequence: Sequence, tokens: int) -> int:
    """Tokens of its prompt that a sequence takes of `tokens`; 0 if it must go whole and does not fit."""
    left = sequence.num_known - sequence.num_computed
    if sequence.has_keys and sequence.state is State.PENDING:
        left -= len(cached_prefix(core, sequence)) * core.config.block_size
    if core.config.fusion is not Fusion.ALL:
        return left
    if left > tokens and not core.config.chunked_prefill:
        return 0
    return min(left, tokens, core.config.max_prefill_tokens or left)


def _let_in(core: Scheduler, sequence: Sequence) -> bool:
    if core.free_seats > 0 and core.policy.admit(core.view, sequence):
        core.admit(sequence)
        return True
    if sequence.no_way_at == core.changes:
        return False
    victims = core.policy.make_way(core.view, sequence)
    for victim in victims:
        core.give_way(victim, "priority")
    if victims and core.policy.admit(core.view, sequence):
        core.admit(sequence)
        return True
    sequence.no_way_at = core.changes
    return False


def _may_be_passed(core: Scheduler, passed_over: list[Sequence]) -> bool:
    """Later requests may go on while everyone they pass has been passed fewer than `max_bypass` times."""
    limit = core.config.max_bypass
    return len(passed_over) <= limit and all(sequence.times_bypassed < limit for sequence in passed_over)
