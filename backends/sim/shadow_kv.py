"""The shadow KV: a simulated device that knows what lies where, so that every mistake with memory changes an output.

A sequence writes the value of each of its tokens to the place that its block table names, and what it samples depends
on everything that it reads back through the table, on disk and in its slot: whole tables at the start and the end of a
run, while inside a run each row extends what it has read by its own writes. At its end a request's outputs must be
those that it gives alone. The cost is two comparisons of each table per run.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as List
from types import SimpleNamespace
from typing import NamedTuple

from backends.sim.clock import SimClock
from backends.sim.costs.base import CostModel
from backends.sim.device import SimDevice, StepTicket
from backends.sim.links import CopyTicket, Links
from backends.sim.outputs import OutputModel
from backends.sim.shadow_blocks import BlockStates, Held, poison, poisoning
from backends.sim.shadow_content import MASK
from backends.sim.shadow_images import Images
from backends.sim.shadow_states import EMPTY, SlotStates
from backends.sim.shadow_witness import Witness
from schedlab.core.scheduler import Scheduler
from schedlab.device import CopyKind, CopyOp, DeviceFacts, Step, StepResult, Ticket
from schedlab.events import EVENT_METHODS, Admitted, Resumed, StepDone
from schedlab.invariants.contents import HAS_BLOCK, OPEN_BLOCK
from schedlab.memory.blocks import blocks_for
from schedlab.sequence import NOT_YET, Sequence


class Arrival(NamedTuple):
    """What a copy to the device will have brought when it ends."""

    op: CopyOp
    held: list[Held | None]
    slot: int
    slot_digest: int


class ShadowDevice(SimDevice):
    """A simulated device that keeps a digest of every block, image and slot. It decides and costs the same.

    Raises (from within the run): InvariantViolation, when a request's outputs are not those that it gives alone, and
    when a step or a copy touches a block under an open copy that it does not wait for.
    """

    def __init__(
        self, clock: SimClock, cost: CostModel, outputs: OutputModel, facts: DeviceFacts, links: Links | None = None
    ) -> None:
        super().__init__(clock, cost, outputs, facts, links)
        self.blocks = BlockStates(facts.num_blocks)
        self.images = Images()
        self.states = SlotStates(carried=facts.state_bytes > 0)
        self._witnesses: dict[int, Witness] = {}
        self._arrivals: dict[int, Arrival] = {}
        self._without_token: tuple[Sequence, ...] = ()
        self.links.on_done.append(self._arrive)

    def attach(self, core: Scheduler) -> None:
        """Follow `core`, whose device this is, from before its first plan: its pool is replaced by one that poisons."""
        self._core = core
        core.pool = poisoning(core.pool, self.blocks.hand_out)
        # Kinds of devices may have callbacks of their own that are named like events.
        core.bus.add(SimpleNamespace(**{name: getattr(self, name) for name in EVENT_METHODS if hasattr(self, name)}))

    def launch(self, step: Step) -> StepTicket:
        begin_quanta = self._begin(step.after)
        if step.decode is not None:
            for row in step.decode.rows:
                self._read(row, step.decode.length(row), begin_quanta)
        for chunk in step.chunks:
            self._read(chunk.sequence, chunk.start, begin_quanta)
        return super().launch(step)

    def copy(self, op: CopyOp) -> CopyTicket:
        ticket, begin_quanta = super().copy(op), self._begin(op.after)
        request_id, first = op.request_id, op.first_block
        if op.kind is CopyKind.DEVICE_TO_HOST:
            slot_digest = self.states.digests[self._witnesses[request_id].slot]
            self.images.save(op, [self.blocks.get(block) for block in op.blocks], slot_digest, ticket)
        elif op.kind is CopyKind.HOST_TO_DISK:
            self.images.write(op, ticket)
        elif op.kind is CopyKind.DISK_TO_HOST:
            self.images.stage(op, begin_quanta, ticket)
        else:
            self._may_write(op.blocks, begin_quanta, f"a copy for request {request_id}")
            witness = self._witnesses[request_id]
            witness.slot = self._core.sequences[request_id].slot
            held, slot_digest = self.images.take(request_id, first, len(op.blocks), begin_quanta)
            self._arrivals[ticket.number] = Arrival(op, held, witness.slot, slot_digest)
            self.states.may_write(witness.slot, begin_quanta, f"a copy for request {request_id}")
        self.states.keep_busy(op.slot, ticket.end_quanta)
        self.blocks.keep_busy(op.blocks, ticket.end_quanta)
        return ticket

    def move_slot(self, source: int, target: int) -> None:
        super().move_slot(source, target)
        self.states.move(source, target)
        for witness in self._witnesses.values():
            if witness.slot == source:
                witness.slot = target

    def save_state(self, slot: int, snapshot: int, num_tokens: int) -> None:
        super().save_state(slot, snapshot, num_tokens)
        self.states.save(slot, snapshot, num_tokens)

    def restore_state(self, snapshot: int, slot: int) -> None:
        super().restore_state(snapshot, slot)
        self.states.restore(snapshot, slot)

    def forget(self, sequence: Sequence) -> None:
        witness = self._witnesses.pop(sequence.request_id, None)
        self.images.forget(sequence.request_id)
        super().forget(sequence)
        if witness is not None:
            witness.check(sequence)

    def on_admitted(self, event: Admitted) -> None:
        """A request begins; what the cache has of it brings its slot's state at that depth."""
        sequence, size = event.sequence, self._core.config.block_size
        self._witnesses[sequence.request_id] = Witness(
            sequence.request, self.outputs, size, per_tenant=self._core.config.cache_per_tenant
        )
        self._take_slot(sequence)

    def on_resumed(self, event: Resumed) -> None:
        """A request is computed again; images of it are of no use."""
        self.images.forget(event.sequence.request_id)
        self._take_slot(event.sequence)

    def on_step_done(self, event: StepDone) -> None:
        """Everybody writes, then everybody reads and samples."""
        begin_quanta, count, size = event.pace.start_quanta, event.pace.count, self._core.config.block_size
        rows = [(row, event.batch.length(row)) for row in event.batch.rows] if event.decode_rows else []
        for row, length in rows:
            self._write(row, length - count, count, size, begin_quanta)
        for chunk in event.chunks:
            self._write(chunk.sequence, chunk.start, chunk.num_tokens, size, begin_quanta)
        for row, length in rows:
            self._read(row, length, begin_quanta)
            self._witnesses[row.request_id].sample(count)
        for chunk in event.chunks:
            sequence = chunk.sequence
            self._read(sequence, chunk.start + chunk.num_tokens, begin_quanta)
            if chunk.samples and sequence.max_outputs and sequence not in self._without_token:
                self._witnesses[sequence.request_id].sample(1)

    def _result(self, ticket: StepTicket) -> StepResult:
        result = super()._result(ticket)
        self._without_token = result.without_token
        return result

    def _begin(self, after: Iterable[Ticket]) -> int:
        """The soonest time at which something begins that waits for these copies."""
        return max([self.clock.now_quanta(), *map(self.links.end_quanta, after)])

    def _take_slot(self, sequence: Sequence) -> None:
        """A slot begins anew. The scheduler lets nobody write to it before copies that still do have ended."""
        for number, arrival in self._arrivals.items():
            if arrival.slot == sequence.slot:
                self._arrivals[number] = arrival._replace(slot=NOT_YET)
        witness = self._witnesses[sequence.request_id]
        witness.slot = sequence.slot
        digests = self.blocks.digests
        self.states.begin(sequence.slot, witness, sum(digests[block] for block in sequence.block_table) & MASK)

    def _may_write(self, blocks: List[int], begin_quanta: int, who: str) -> None:
        """Law: nobody writes a block under an open copy that he does not wait for."""
        busy_until = self.blocks.busy_until
        if not busy_until:
            return
        for block in blocks:
            if busy_until.get(block, 0) > begin_quanta:
                raise OPEN_BLOCK.broken(
                    f"{who} writes block {block} from {begin_quanta} quanta on, and a copy that it does not name in "
                    f"`after` uses it until {busy_until[block]}",
                )

    def _write(self, sequence: Sequence, start: int, count: int, size: int, begin_quanta: int) -> None:
        witness, request_id = self._witnesses[sequence.request_id], sequence.request_id
        table, far_blocks = sequence.block_table, sequence.window.start if sequence.window else 0
        first, last = start // size, blocks_for(start + count, size)
        if not far_blocks <= first <= last <= far_blocks + len(table):
            raise HAS_BLOCK.broken(
                f"{sequence} writes {count} tokens from {start} with {len(table)} blocks, {far_blocks} more on disk",
                request_id,
            )
        self._may_write(table[first - far_blocks : last - far_blocks], begin_quanta, f"request {request_id}")
        self.states.may_write(sequence.slot, begin_quanta, f"request {request_id}")
        total, position, end = 0, start, start + count
        for index in range(first, last):
            offset, stop = position - index * size, min((index + 1) * size, end)
            value = witness.value(position, stop)
            self.blocks.write(table[index - far_blocks], offset, stop - position, value, (request_id, index))
            total += value
            position = stop
        self.states.write(sequence.slot, total, end)

    def _read(self, sequence: Sequence, tokens: int, begin_quanta: int) -> None:
        """Look at everything of the first `tokens` tokens: far blocks, the table, the slot."""
        witness = self._witnesses[sequence.request_id]
        wanted, wanted_sum = witness.content.sums(tokens)
        table, far_blocks = sequence.block_table, sequence.window.start if sequence.window else 0
        held = list(map(self.blocks.digests.__getitem__, table[: max(len(wanted) - far_blocks, 0)]))
        far = [self._far(sequence.request_id, index, begin_quanta) for index in range(far_blocks)]
        if far:
            held = [one.digest for one in far] + held
        slot_digest = self.states.digests.get(sequence.slot, EMPTY)
        if held == wanted and slot_digest == wanted_sum:
            return
        witness.deviate(self._what_is_wrong(sequence, held, wanted, far), (*held, slot_digest))

    def _far(self, request_id: int, index: int, begin_quanta: int) -> Held:
        return self.images.on_disk(request_id, index, begin_quanta) or poison(index)

    def _what_is_wrong(self, sequence: Sequence, held: list[int], wanted: list[int], far: list[Held]) -> str:
        """The first block that is not as it should be, or the slot."""
        index = next((at for at, right in enumerate(wanted) if at >= len(held) or held[at] != right), None)
        if index is None:
            return f"slot {sequence.slot} does not hold the state that the tokens read before leave"
        if index < len(far):
            place, found = "its place on disk", str(far[index])
        elif index < len(held):
            block = sequence.block_table[index - len(far)]
            place, found = f"block {block}", str(self.blocks.get(block))
        else:
            place, found = "no block", "nothing"
        return (
            f"{place} held {found} where it should hold block {index} of request {sequence.request_id} "
            f"(digest {wanted[index]:016x})"
        )

    def _arrive(self, ticket: CopyTicket) -> None:
        """A copy to the device has ended. What the image lacked, or the link lost, is poison."""
        arrival = self._arrivals.pop(ticket.number, None)
        if arrival is None:
            return
        for block, held in zip(arrival.op.blocks, arrival.held, strict=True):
            self.blocks.put(block, poison(block) if ticket.error or held is None else held)
        witness = self._witnesses.get(arrival.op.request_id)
        if witness is not None and witness.slot == arrival.slot:
            self.states.arrive(arrival.slot, arrival.slot_digest, witness)
