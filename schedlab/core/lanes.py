"""Lanes become steps, and the results of steps become state."""

from __future__ import annotations

from itertools import chain, cycle
from typing import TYPE_CHECKING

from schedlab.batch import DecodeBatch
from schedlab.core import snapshots, stops
from schedlab.core.caching import publish_prompt
from schedlab.core.plan import Lane, make_room_for_decoding
from schedlab.device import FOREVER_NS, Chunk, Step, StepResult, Ticket
from schedlab.events import FirstToken, Growth, StepDone
from schedlab.memory.blocks import blocks_for
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET, Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def next_step(core: Scheduler, lane: Lane) -> Step | None:
    """The step of a lane; None when it has nothing to do. First chunks run alone, a lane each."""
    core.in_flight_growing = []
    if lane is Lane.START:
        return _start(core)
    if lane is Lane.CONTINUE:
        chunks = _chunks(core)
        return _step(core, chunks) if chunks else None
    return _decode(core, with_chunks=lane is not Lane.DECODE)


def _start(core: Scheduler) -> Step | None:
    config = core.config
    while core.starting:
        sequence = core.starting.popleft()
        if sequence.state is not State.PREFILLING:
            continue
        device_is_idle = not core.batch.rows and len(core.prefilling) == len(core.starting) + 1
        most = config.max_num_batched_tokens
        if config.max_prefill_tokens and not device_is_idle:
            most = min(most, config.max_prefill_tokens)
        chunk = _chunk(core, sequence, most, [])
        if chunk is not None:
            core.in_flight_used_blocks = core.pool.used_blocks
            return _step(core, (chunk,))
    return None


def _decode(core: Scheduler, *, with_chunks: bool) -> Step | None:
    growing = core.batch.growing(0)
    if len(growing) > core.pool.free_blocks:
        make_room_for_decoding(core)
        growing = core.batch.growing(0)
        if len(growing) > core.pool.free_blocks:
            return None
    core.in_flight_growing = list(growing)
    for sequence, block in zip(growing, core.pool.allocate(len(growing)), strict=True):
        sequence.block_table.append(block)
    chunks = _chunks(core) if with_chunks and core.prefilling else ()
    if not core.batch.rows:
        return _step(core, chunks) if chunks else None
    core.in_flight_used_blocks = core.pool.used_blocks
    if chunks:
        return _step(core, chunks, core.batch)
    repeat, until_ns = _run_length(core)
    return _step(core, (), core.batch, repeat, until_ns)


def _step(
    core: Scheduler,
    chunks: tuple[Chunk, ...],
    decode: DecodeBatch | None = None,
    repeat: int = 1,
    until_ns: int = FOREVER_NS,
) -> Step:
    """A step that waits for the copies that still read the blocks and slots it writes."""
    after: tuple[Ticket, ...] = ()
    if core.copies or core.offloads:
        after = core.pool.take_tickets() + tuple(core.slot_readers)
        core.slot_readers.clear()
    return Step(chunks, decode, repeat, until_ns, after)


def _run_length(core: Scheduler) -> tuple[int, int]:
    """How often the next plans would decide the same, and until when."""
    if not core.leap or not _plans_would_repeat(core):
        return 1, FOREVER_NS
    until_ns = core.deadlines[0][0] if core.deadlines else FOREVER_NS
    if len(core.waiting):
        until_ns = min(until_ns, core.refused_until_ns)
    if core.parked:
        until_ns = min(until_ns, core.parked_refused_until_ns)
    most = core.limits.next_step() - core.batch.step
    if core.config.window_blocks:
        # A row or a block that has come may send another block to disk: the next plan decides.
        has_grown = bool(core.in_flight_growing or core.batch.newcomers)
        most = 1 if has_grown else min(most, core.batch.iterations_to_growth())
    return core.batch.affordable(core.pool.ready_blocks, most), until_ns


def _plans_would_repeat(core: Scheduler) -> bool:
    """Nothing has come, prefills or ends, and whoever waits was refused by what only an ending changes."""
    if len(core.inbox) or core.prefilling or core.ending:
        return False
    if len(core.waiting) and core.refused_at != core.changes:
        return False
    return not core.parked or core.parked_refused_at == core.changes


def _chunks(core: Scheduler) -> tuple[Chunk, ...]:
    """Pieces of the prefills in progress, oldest first, that fill the step's budget."""
    tokens = min(core.policy.compose(core.view), core.token_budget)
    chunks: list[Chunk] = []
    for sequence in list(core.prefilling):
        if tokens <= 0:
            break
        if sequence.state is not State.PREFILLING or sequence in core.ending:
            continue
        chunk = _chunk(core, sequence, min(tokens, core.config.max_prefill_tokens or tokens), chunks)
        if chunk is not None:
            chunks.append(chunk)
            tokens -= chunk.num_tokens
        elif not core.config.chunked_prefill:
            break
    core.in_flight_used_blocks = core.pool.used_blocks
    return tuple(chunks)


def _chunk(core: Scheduler, sequence: Sequence, most: int, composed: list[Chunk]) -> Chunk | None:
    """The next piece of a sequence's known tokens, its blocks taken; None if it must wait or had to give way."""
    start = sequence.num_computed
    left = sequence.num_known - start
    count = min(left, most)
    if count < left:
        if not core.config.chunked_prefill:
            return None
        count = _aligned(core, start, count)
    if core.snapshots is not None:
        count = snapshots.cut_chunk(core, sequence, start, count)
    blocks = blocks_for(start + count, core.config.block_size) - len(sequence.block_table)
    if blocks > core.pool.free_blocks and not _make_room_for_chunk(core, sequence, blocks, composed):
        return None
    core.extend_table(sequence, blocks)
    return Chunk(sequence, start, count, count == left)


def _aligned(core: Scheduler, start: int, count: int) -> int:
    if not core.config.align_chunks:
        return count
    boundary = (start + count) // core.config.block_size * core.config.block_size
    return boundary - start if boundary > start else count


def _make_room_for_chunk(core: Scheduler, sequence: Sequence, blocks: int, composed: list[Chunk]) -> bool:
    """Preempt owners until `blocks` are free; False if the sequence itself had to go. Nobody in the step may go."""
    in_step = {chunk.sequence for chunk in composed}
    while blocks > core.pool.free_blocks:
        if core.ending:
            core.retire()
            continue
        victim = core.policy.yield_(core.view, [owner for owner in core.view.owners() if owner not in in_step])
        _take_back_growth(core, victim)
        core.give_way(victim, "prefill")
        if victim is sequence:
            return False
    return True


def _take_back_growth(core: Scheduler, victim: Sequence) -> None:
    """A victim's block for the step that it is not in: it holds nothing, so it is no part of what is saved."""
    if victim in core.in_flight_growing:
        core.in_flight_growing.remove(victim)
        core.pool.release([victim.block_table.pop()])


def commit(core: Scheduler, step: Step, result: StepResult) -> None:
    """Take in a step's result: rows and chunks advance, some end, finished prompts join the batch."""
    if result.fault is not None:
        _fail(core, step, str(result.fault))
        return
    now_ns = core.device.now_ns()
    context_tokens, start_step = core.batch.context_tokens, core.batch.step
    growth = _advance_rows(core, result.repeats, now_ns) if step.decode is not None else []
    if core.bus.on_step_done:
        _announce(core, step, result, context_tokens, start_step, growth)
    if step.decode is not None:
        core.batch.newcomers.clear()
        if core.snapshot_schedule is not None:
            snapshots.after_decode(core, core.snapshot_schedule)
        _end_rows(core, result)
    for chunk in step.chunks:
        _advance_chunk(core, chunk, result, now_ns)


def _advance_rows(core: Scheduler, iterations: int, now_ns: int) -> list[Growth]:
    """Hand out the blocks of the iterations after the first, in the order in which stepping would, and count.

    Returns all blocks that rows got for the step, if an observer wants to know.
    """
    batch, growth = core.batch, []
    if core.bus.wants_growth:
        growth = [Growth(0, row, row.block_table[-1]) for row in core.in_flight_growing]
    if iterations > 1:
        blocks = core.pool.allocate(batch.growth_blocks(1, iterations - 1))
        for row, block in zip(cycle(chain.from_iterable(batch.growing_from(1))), blocks, strict=False):
            row.block_table.append(block)
        if core.bus.wants_growth:
            needs = ((iteration, row) for iteration in range(1, iterations) for row in batch.growing(iteration))
            growth += [Growth(iteration, row, block) for (iteration, row), block in zip(needs, blocks, strict=True)]
    batch.step += iterations
    batch.last_step_ns = now_ns
    if core.ledger is not None:
        core.ledger.advance(iterations)
    return growth


def _announce(
    core: Scheduler, step: Step, result: StepResult, context_tokens: int, start_step: int, growth: list[Growth]
) -> None:
    batch, decoding = core.batch, step.decode is not None
    event = StepDone(
        result.pace,
        step.chunks,
        len(batch.rows) if decoding else 0,
        context_tokens if decoding else 0,
        start_step,
        batch,
        tuple(batch.newcomers) if decoding else (),
        core.in_flight_used_blocks,
        growth,
        len(core.waiting),
        len(core.prefilling),
        len(core.parked),
        result.tokens,
        core.pool.cached_blocks,
        result.logprobs,
        result.prompt_logprobs,
    )
    for notify in core.bus.on_step_done:
        notify(event)


def _end_rows(core: Scheduler, result: StepResult) -> None:
    batch = core.batch
    ended: dict[Sequence, FinishReason] = {}
    for sequence in result.ended:
        if sequence in batch.rows:
            ended[sequence] = FinishReason.STOP
    if result.tokens is not None:
        tokens = result.tokens
        for sequence in batch.rows:
            token = tokens[sequence.request_id]
            # Every row comes here in every step, and almost none any further.
            if (token in sequence.end_tokens or sequence.request.stop is not None) and stops.ends(
                sequence.request, token, batch.outputs(sequence)
            ):
                ended[sequence] = FinishReason.STOP
    for sequence in core.limits.reached():
        ended.setdefault(sequence, FinishReason.LENGTH)
    for sequence in sorted(ended, key=lambda row: row.row_index) if len(ended) > 1 else ended:
        core.ending[sequence] = ended[sequence]


def _advance_chunk(core: Scheduler, chunk: Chunk, result: StepResult, now_ns: int) -> None:
    sequence, end = chunk.sequence, chunk.start + chunk.num_tokens
    sequence.num_recomputed_tokens += max(0, min(end, sequence.recompute_until) - chunk.start)
    sequence.num_computed = end
    if sequence.has_keys:
        publish_prompt(core, sequence)
        snapshots.after_chunk(core, sequence)
    if not chunk.samples:
        return
    reason = _sample(core, sequence, result, now_ns)
    if reason is None:
        core.activate(sequence, now_ns)
    else:
        del core.prefilling[sequence]
        core.ending[sequence] = reason


def _sample(core: Scheduler, sequence: Sequence, result: StepResult, now_ns: int) -> FinishReason | None:
    """Count the token that the last known position gave; how the sequence ends with it, if it does."""
    if sequence.max_outputs == 0:
        return FinishReason.LENGTH
    if sequence in result.without_token:
        return FinishReason.STOP
    sequence.num_outputs += 1
    sequence.last_token_ns = now_ns
    if sequence.first_token_ns == NOT_YET:
        sequence.first_token_ns = now_ns
        if core.bus.on_first_token:
            event = FirstToken(now_ns, sequence)
            for notify in core.bus.on_first_token:
                notify(event)
    tokens = result.tokens
    stopped = tokens is not None and stops.ends(sequence.request, tokens[sequence.request_id], sequence.num_outputs)
    if stopped or sequence in result.ended:
        return FinishReason.STOP
    return FinishReason.LENGTH if sequence.num_outputs >= sequence.max_outputs else None


def _fail(core: Scheduler, step: Step, error: str) -> None:
    """The step failed and nothing advanced: its chunks end with an error; its decode rows too if it had no chunks.

    Rows that live on give back the blocks that they got for this step, and decode again in the next one.
    """
    failed = [chunk.sequence for chunk in step.chunks]
    if not step.chunks and step.decode is not None:
        failed = list(core.batch.rows)
        core.batch.newcomers.clear()
    for row in core.in_flight_growing:
        core.pool.release([row.block_table.pop()])
    for sequence in failed:
        sequence.error = error
        core.ending[sequence] = FinishReason.ERROR
