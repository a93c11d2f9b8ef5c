"""Event streams made by hand from small scripts: what observers are tested on, without a scheduler or a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from backends.sim.links import CopyTicket
from schedlab.batch import DecodeBatch
from schedlab.device import Chunk, CopyKind
from schedlab.events import (
    Admitted,
    Arrived,
    EventBus,
    Finished,
    FirstToken,
    Growth,
    Preempted,
    Refused,
    Restored,
    Restoring,
    Resumed,
    StepDone,
    SwappedOut,
)
from schedlab.memory.swap import Tier
from schedlab.pace import ArithmeticPace, Pace, SteppedPace, ns_to_quanta, quanta_to_ns
from schedlab.request import FinishReason, Prompt, Request
from schedlab.sequence import NOT_YET, Sequence, State

MS = 1_000_000


def whole(count: int) -> list[int]:
    """A decode run arrives as one event."""
    return [count]


def single(count: int) -> list[int]:
    """A decode run arrives as one event per iteration."""
    return [1] * count


@dataclass
class EventScript:
    """Moves of a scheduler, each emitting what it would emit. Time is in quanta; iterations last what the caller says.

    Attributes:
        split: how many iterations go into each event of a run; the sizes add up to the run's length.
        stepped: give paces as lists instead of progressions.
        on_copy: told of the copies of swaps, each behind the one before it on its link.
    """

    bus: EventBus
    block_size: int = 4
    split: Callable[[int], list[int]] = whole
    stepped: bool = False
    now: int = 0
    used_blocks: int = 0
    waiting: list[Sequence] = field(default_factory=list)
    prefilling: list[Sequence] = field(default_factory=list)
    parked: list[Sequence] = field(default_factory=list)
    swapped: list[Sequence] = field(default_factory=list)
    restoring: list[Sequence] = field(default_factory=list)
    on_copy: list[Callable[[CopyTicket], None]] = field(default_factory=list)
    copies: list[CopyTicket] = field(default_factory=list)
    sequences: list[Sequence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.batch = DecodeBatch(self.block_size)

    @property
    def now_ns(self) -> int:
        return quanta_to_ns(self.now)

    def wait(self, quanta: int) -> None:
        self.now += quanta

    def arrive(self, prompt_tokens: int, tenant: str = "", session: str = "") -> Sequence:
        sequence = self._new(prompt_tokens, tenant, session)
        self.waiting.append(sequence)
        self._emit("on_arrived", Arrived(self.now_ns, sequence))
        return sequence

    def refuse(self, prompt_tokens: int) -> None:
        sequence = self._new(prompt_tokens, "", "")
        sequence.state = State.FINISHED
        self._emit("on_refused", Refused(self.now_ns, sequence, 'too "long"'))

    def admit(self, sequence: Sequence) -> None:
        self.waiting.remove(sequence)
        sequence.admitted_ns = self.now_ns
        sequence.move_to(State.PREFILLING)
        self.prefilling.append(sequence)
        self._emit("on_admitted", Admitted(self.now_ns, sequence))

    def resume(self, sequence: Sequence) -> None:
        self.parked.remove(sequence)
        sequence.move_to(State.PREFILLING)
        self.prefilling.append(sequence)
        self._emit("on_resumed", Resumed(self.now_ns, sequence))

    def chunk(self, sequence: Sequence, tokens: int, duration: int, with_decode: bool) -> None:
        """Compute up to `tokens` of a prefilling sequence, the decode rows beside it if asked."""
        left = sequence.num_known - sequence.num_computed
        tokens = min(tokens, left)
        chunk = Chunk(sequence, sequence.num_computed, tokens, tokens == left)
        needed = -(-(chunk.start + tokens) // self.block_size) - len(sequence.block_table)
        sequence.block_table += self._blocks(needed)
        self._step((chunk,), 1, duration, 0, bool(with_decode and self.batch))
        sequence.num_computed += tokens
        if chunk.samples:
            self._sample(sequence)

    def decode(self, iterations: int, first: int, growth: int = 0) -> None:
        """A run of the whole batch, in as many events as `split` says."""
        done = 0
        for part in self.split(iterations):
            self._step((), part, first + growth * done, growth, True)
            done += part

    def preempt(self, sequence: Sequence) -> None:
        self._unseat(sequence)
        freed = self._free(sequence)
        sequence.move_to(State.PREEMPTED)
        sequence.num_preemptions += 1
        sequence.num_recomputed_tokens += sequence.num_computed
        sequence.num_computed = 0
        self.parked.append(sequence)
        self._emit("on_preempted", Preempted(self.now_ns, sequence, freed, "decode"))

    def swap_out(self, sequence: Sequence, duration: int) -> None:
        """A row leaves for the host; its copy takes `duration` once it has the link."""
        self._unseat(sequence)
        num_blocks = self._free(sequence)
        sequence.move_to(State.SWAPPED)
        sequence.num_swaps += 1
        self.swapped.append(sequence)
        self._copy(CopyKind.DEVICE_TO_HOST, sequence, num_blocks, duration)
        self._emit("on_swapped_out", SwappedOut(self.now_ns, sequence, Tier.HOST, num_blocks, num_blocks * 100))

    def begin_restore(self, sequence: Sequence, duration: int) -> None:
        self.swapped.remove(sequence)
        sequence.move_to(State.RESTORING)
        self.restoring.append(sequence)
        sequence.block_table = self._blocks(-(-sequence.num_computed // self.block_size))
        self._copy(CopyKind.HOST_TO_DEVICE, sequence, len(sequence.block_table), duration)
        self._emit("on_restoring", Restoring(self.now_ns, sequence))

    def end_restore(self, sequence: Sequence) -> None:
        self.restoring.remove(sequence)
        sequence.move_to(State.ACTIVE)
        self.batch.join(sequence, self.now_ns)
        self._emit("on_restored", Restored(self.now_ns, sequence))

    def finish(self, sequence: Sequence, reason: FinishReason = FinishReason.STOP) -> None:
        self._unseat(sequence)
        self._free(sequence)
        sequence.move_to(State.FINISHED)
        sequence.finish_reason = reason
        sequence.finished_ns = self.now_ns
        self._emit("on_finished", Finished(self.now_ns, sequence, reason))

    def _new(self, prompt_tokens: int, tenant: str, session: str) -> Sequence:
        number = len(self.sequences)
        request = Request(number, Prompt(prompt_tokens), 1 << 20, self.now_ns, tenant=tenant, session=session)
        sequence = Sequence(request, number, request.max_tokens)
        self.sequences.append(sequence)
        return sequence

    def _sample(self, sequence: Sequence) -> None:
        sequence.num_outputs += 1
        sequence.last_token_ns = self.now_ns
        if sequence.first_token_ns == NOT_YET:
            sequence.first_token_ns = self.now_ns
            self._emit("on_first_token", FirstToken(self.now_ns, sequence))
        self.prefilling.remove(sequence)
        sequence.move_to(State.ACTIVE)
        self.batch.join(sequence, self.now_ns)

    def _step(self, chunks: tuple[Chunk, ...], count: int, first: int, growth: int, decoding: bool) -> None:
        batch, handed_out = self.batch, []
        context_tokens, start_step = batch.context_tokens, batch.step
        used_blocks = self.used_blocks
        for iteration in range(count if decoding else 0):
            for row in batch.growing(iteration):
                row.block_table += self._blocks(1)
                handed_out.append(Growth(iteration, row, row.block_table[-1]))
            if iteration == 0:
                used_blocks = self.used_blocks
        pace = self._pace(count, first, growth)
        self.now = pace.end_quanta(count)
        if decoding:
            batch.step += count
            batch.last_step_ns = self.now_ns
        event = StepDone(
            pace=pace,
            chunks=chunks,
            decode_rows=len(batch) if decoding else 0,
            context_tokens=context_tokens if decoding else 0,
            start_step=start_step,
            batch=batch,
            newcomers=tuple(batch.newcomers) if decoding else (),
            used_blocks=used_blocks,
            growth=handed_out,
            num_waiting=len(self.waiting),
            num_prefilling=len(self.prefilling),
            num_parked=len(self.parked) + len(self.swapped),
            tokens=None,
        )
        if decoding:
            batch.newcomers.clear()
        self._emit("on_step_done", event)

    def _pace(self, count: int, first: int, growth: int) -> Pace:
        if self.stepped:
            return SteppedPace(self.now, count, lambda i: first + growth * (i - 1))
        return ArithmeticPace(self.now, count, first, growth)

    def _blocks(self, count: int) -> list[int]:
        self.used_blocks += count
        return list(range(self.used_blocks, self.used_blocks + count))

    def _free(self, sequence: Sequence) -> int:
        freed = len(sequence.block_table)
        self.used_blocks -= freed
        sequence.block_table = []
        return freed

    def _unseat(self, sequence: Sequence) -> None:
        if sequence in self.batch:
            self.batch.leave(sequence)
        for owners in (self.waiting, self.prefilling, self.parked, self.swapped, self.restoring):
            if sequence in owners:
                owners.remove(sequence)

    def _copy(self, kind: CopyKind, sequence: Sequence, num_blocks: int, duration: int) -> None:
        start = max([self.now, *(copy.end_quanta for copy in self.copies if copy.kind is kind)])
        copy = CopyTicket(len(self.copies) + 1, kind, sequence.request_id, num_blocks * 100, start, start + duration)
        self.copies.append(copy)
        for notify in self.on_copy:
            notify(copy)

    def _emit(self, name: str, event: object) -> None:
        for notify in getattr(self.bus, name):
            notify(event)


def play(script: EventScript, operations: list[tuple[str, int, int]]) -> None:
    """Run drawn operations; one that fits nothing at the moment is skipped. Everyone ends at the end."""
    for name, which, size in operations:
        _play_one(script, name, which, size)
    for sequence in script.sequences:
        if sequence.state is not State.FINISHED:
            script.finish(sequence, FinishReason.CANCELLED)


OPERATIONS = (
    *("arrive", "refuse", "admit", "resume", "chunk", "mixed", "decode", "preempt", "finish", "wait"),
    *("enter", "return", "swap", "restore", "restored"),
)


def _play_one(script: EventScript, name: str, which: int, size: int) -> None:
    pools = {
        "admit": script.waiting,
        "resume": script.parked,
        "return": script.parked,
        "chunk": script.prefilling,
        "mixed": script.prefilling,
        "swap": [*script.batch.rows],
        "restore": script.swapped,
        "restored": script.restoring,
        "preempt": [*script.batch.rows, *script.prefilling],
        "finish": [*script.batch.rows, *script.waiting, *script.parked, *script.swapped],
    }
    if name in pools and not pools[name]:
        return
    chosen = pools[name][which % len(pools[name])] if name in pools else None
    duration = ns_to_quanta(1 + which * 7 * MS) + which
    if name == "arrive":
        script.arrive(1 + size, tenant=f"t{which % 3}", session=f's"{which}')
    elif name == "enter":
        entering = script.arrive(1 + size)
        script.admit(entering)
        script.chunk(entering, 1 + size, duration, with_decode=which % 2 == 0)
    elif name == "return":
        script.resume(chosen)
        script.chunk(chosen, chosen.num_known, duration, with_decode=which % 2 == 0)
    elif name == "refuse":
        script.refuse(1 + size)
    elif name == "wait":
        script.wait(duration * size)
    elif name == "decode":
        if script.batch:
            script.decode(size, duration, growth=which * 1000)
    elif name == "swap":
        script.swap_out(chosen, duration * size)
    elif name == "restore":
        script.begin_restore(chosen, duration * size)
    elif name == "restored":
        script.end_restore(chosen)
    elif name in ("chunk", "mixed"):
        script.chunk(chosen, size, duration, with_decode=name == "mixed")
    elif name == "finish":
        script.finish(chosen, list(FinishReason)[which % 4])
    else:
        getattr(script, name)(chosen)
