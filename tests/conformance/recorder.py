"""An observer that keeps what a scenario may ask about, and checks delivery and memory while it does."""

from __future__ import annotations

from collections.abc import Iterable

from schedlab.core.scheduler import Scheduler
from schedlab.device import Chunk
from schedlab.events import (
    Admitted,
    Arrived,
    Finished,
    FirstToken,
    Preempted,
    Refused,
    Restored,
    Restoring,
    Resumed,
    StepDone,
    SwappedOut,
)
from schedlab.memory.blocks import blocks_for
from schedlab.pace import quanta_to_ns
from schedlab.request import FinishReason
from schedlab.sequence import Sequence
from tests.conformance import laws
from tests.conformance.records import Lived, Snapshot, StepRecord
from tests.conformance.scenario import NS_PER_MS, Ask


class Recorder:
    """Keeps steps, starts, preemptions, ends and snapshots by the names of the requests."""

    def __init__(self, core: Scheduler, asks: tuple[Ask, ...]) -> None:
        self.core = core
        self.steps: list[StepRecord] = []
        self.snapshots: list[Snapshot] = []
        self.starts: list[str] = []
        self.resumes: list[str] = []
        self.preempted: list[str] = []
        self.swapped: list[str] = []
        self.restored: list[str] = []
        self.ends: list[str] = []
        self.lived: dict[str, Lived] = {ask.name: Lived() for ask in asks}
        self.num_events = 0
        # Two requests may have one id, so their names go by the objects.
        self._names = {id(ask.request): ask.name for ask in asks}
        self._empty = {ask.name for ask in asks if ask.output_tokens == 0}
        self._now_ns = 0

    def planned(self) -> None:
        """The end of a plan: who comes in has come in."""
        core = self.core
        self.snapshots.append(
            Snapshot(
                now_ns=core.device.now_ns(),
                waiting=self._all_names(core.waiting.candidates()),
                running=self._all_names(core.view.owners()),
                restoring=self._all_names(core.restoring),
                parked=self._all_names(core.parked),
                used_blocks=core.pool.used_blocks,
                cached_blocks=core.pool.cached_blocks,
                committed_blocks=core.view.committed_blocks,
                tables={self._name(owner): list(owner.block_table) for owner in core.view.owners()},
            )
        )

    def at_ms(self, time_ms: float) -> Snapshot:
        """The last plan at or before a time."""
        return [one for one in self.snapshots if one.now_ns <= time_ms * NS_PER_MS][-1]

    def on_arrived(self, event: Arrived) -> None:
        lived = self._note(event.now_ns, event.sequence)
        assert lived.arrived_ns is None
        lived.arrived_ns = event.now_ns

    def on_refused(self, event: Refused) -> None:
        lived = self._note(event.now_ns, event.sequence)
        self._end(lived, event.now_ns, FinishReason.REFUSED, event.reason)

    def on_admitted(self, event: Admitted) -> None:
        lived = self._note(event.now_ns, event.sequence)
        assert lived.started_ns is None, "admitted twice"
        laws.fifo_admission(self.core, event.sequence)
        lived.started_ns = event.now_ns
        lived.cached = self._take_cached(event.sequence, lived)
        self.starts.append(self._name(event.sequence))

    def on_preempted(self, event: Preempted) -> None:
        self._note(event.now_ns, event.sequence).preempted_ns.append(event.now_ns)
        self.preempted.append(self._name(event.sequence))

    def on_resumed(self, event: Resumed) -> None:
        lived = self._note(event.now_ns, event.sequence)
        lived.resumed_ns.append(event.now_ns)
        lived.cached_on_return += self._take_cached(event.sequence, lived)
        self.resumes.append(self._name(event.sequence))

    def on_swapped_out(self, event: SwappedOut) -> None:
        self._note(event.now_ns, event.sequence)
        self.swapped.append(f"{self._name(event.sequence)}:{event.tier}")

    def on_restoring(self, event: Restoring) -> None:
        self._note(event.now_ns, event.sequence)

    def on_restored(self, event: Restored) -> None:
        self._note(event.now_ns, event.sequence)
        self.restored.append(self._name(event.sequence))

    def on_first_token(self, event: FirstToken) -> None:
        lived = self._note(event.now_ns, event.sequence)
        assert lived.token_ns == [event.now_ns]

    def on_finished(self, event: Finished) -> None:
        lived, sequence = self._note(event.now_ns, event.sequence), event.sequence
        assert sequence.num_outputs == len(lived.token_ns), f"{sequence}: {sequence.num_outputs} outputs counted"
        lived.recomputed = sequence.num_recomputed_tokens
        if event.reason in (FinishReason.STOP, FinishReason.LENGTH):
            once = sequence.num_prompt_tokens + max(sequence.num_outputs - 1, 0)
            found = lived.computed + lived.spared
            assert found == once + lived.recomputed, f"{sequence}: {lived.computed} tokens computed"
        assert sequence.num_cached_tokens == lived.cached, f"{sequence}: {sequence.num_cached_tokens} cached tokens"
        assert sequence.num_cached_tokens_on_return == lived.cached_on_return
        self._end(lived, event.now_ns, event.reason, sequence.error)
        self.ends.append(self._name(sequence))

    def on_step_done(self, event: StepDone) -> None:
        self._tell_time(quanta_to_ns(event.pace.end_quanta(event.pace.count)))
        self._record_iterations(event)
        if event.decode_rows:
            for row in event.batch.rows:
                self._decode(event, row)
        for chunk in event.chunks:
            self._chunk(event, chunk)
        laws.after_event(self.core)

    def _record_iterations(self, event: StepDone) -> None:
        tokens = {self._name(chunk.sequence): chunk.num_tokens for chunk in event.chunks}
        rows = [self._name(row) for row in event.batch.rows] if event.decode_rows else []
        assert len(rows) == event.decode_rows and not set(rows) & set(tokens), "a request twice in a step"
        tokens |= dict.fromkeys(rows, 1)
        assert all(count > 0 for count in tokens.values()) and tokens, "a step without tokens"
        assert sum(tokens.values()) <= self.core.config.max_num_batched_tokens
        ends = [quanta_to_ns(event.pace.end_quanta(i)) for i in range(event.pace.count + 1)]
        for index in range(event.pace.count):
            assert ends[index] < ends[index + 1], "a step takes time"
            used = event.used_blocks if index == 0 else None
            self.steps.append(StepRecord(ends[index], ends[index + 1], tokens, used))

    def _decode(self, event: StepDone, row: Sequence) -> None:
        count, length = event.pace.count, event.batch.length(row)
        self._compute(row, length - count, count)
        lived = self.lived[self._name(row)]
        assert event.batch.outputs(row) - count == len(lived.token_ns), f"{row}: a token is lost or comes twice"
        lived.token_ns += [quanta_to_ns(event.pace.end_quanta(i)) for i in range(1, count + 1)]
        if event.tokens is not None:
            lived.tokens.append(event.tokens[row.request_id])

    def _chunk(self, event: StepDone, chunk: Chunk) -> None:
        sequence, end = chunk.sequence, chunk.start + chunk.num_tokens
        assert chunk.start == sequence.num_computed, f"{sequence}: a chunk out of place"
        assert chunk.samples == (end == sequence.num_known), f"{sequence}: sampled before all its tokens are back"
        self._compute(sequence, chunk.start, chunk.num_tokens)
        lived = self.lived[self._name(sequence)]
        lived.prefilled += chunk.num_tokens
        assert sequence.num_outputs == len(lived.token_ns)
        has_token = sequence.max_outputs > 0 and self._name(sequence) not in self._empty
        if not (chunk.samples and has_token):
            return
        lived.token_ns.append(quanta_to_ns(event.pace.end_quanta(1)))
        if event.tokens is not None:
            lived.tokens.append(event.tokens[sequence.request_id])

    def _take_cached(self, sequence: Sequence, lived: Lived) -> int:
        """Tokens that a sequence which has just got a seat need not compute."""
        cached = sequence.num_computed
        assert cached == len(sequence.block_table) * self.core.config.block_size
        assert cached < sequence.num_known, f"{sequence} has nothing left to compute"
        lived.spared += max(0, cached - lived.reached)
        lived.reached = max(lived.reached, cached)
        return cached

    def _compute(self, sequence: Sequence, start: int, count: int) -> None:
        held, needed = len(sequence.block_table), blocks_for(start + count, self.core.config.block_size)
        assert held == needed, f"{sequence} holds {held} blocks, needs {needed}"
        lived = self.lived[self._name(sequence)]
        lived.computed += count
        lived.reached = max(lived.reached, start + count)
        lived.most_blocks = max(lived.most_blocks, len(sequence.block_table))

    def _note(self, now_ns: int, sequence: Sequence) -> Lived:
        self._tell_time(now_ns)
        laws.after_event(self.core)
        return self.lived[self._name(sequence)]

    def _tell_time(self, now_ns: int) -> None:
        assert now_ns >= self._now_ns, f"the clock went back from {self._now_ns} to {now_ns}"
        self._now_ns = now_ns
        self.num_events += 1

    def _end(self, lived: Lived, now_ns: int, reason: FinishReason, error: str) -> None:
        assert lived.reason is None, "ended twice"
        lived.ended_ns, lived.reason, lived.error = now_ns, reason, error

    def _all_names(self, sequences: Iterable[Sequence]) -> list[str]:
        return [self._name(sequence) for sequence in sequences]

    def _name(self, sequence: Sequence) -> str:
        return self._names[id(sequence.request)]
