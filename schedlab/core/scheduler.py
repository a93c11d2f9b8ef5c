"""The scheduler: its state, and the moves that every phase of a tick uses.

The phases are in their own files: `plan` decides who comes in, `lanes` makes steps of them and takes their results,
`end_tick` retires and resumes. Nothing here does I/O or reads any clock but the device's.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heappush

from sortedcontainers import SortedKeyList

from schedlab.batch import DecodeBatch
from schedlab.config import AdmissionRule, Fusion, PreemptionMode, ResumeRule, SchedulerConfig
from schedlab.core import caching, end_tick, lanes, snapshots, swapping, windows
from schedlab.core.limits import OutputLimits
from schedlab.core.plan import Lane, Plan, begin, make, receive
from schedlab.core.swapping import OpenCopy
from schedlab.device import FOREVER_NS, Device, Step, StepResult, Ticket
from schedlab.errors import Stalled
from schedlab.events import IMAGE_LOST, Admitted, EventBus, Finished, Preempted, Resumed
from schedlab.inbox import Inbox
from schedlab.memory.blocks import BlockPool
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.memory.swap import GIB, SwapSpace
from schedlab.memory.window import Window
from schedlab.policies.base import Policy
from schedlab.policies.view import View
from schedlab.request import FinishReason
from schedlab.sequence import Sequence, State


class Scheduler:
    """One scheduler on one device.

    Args:
        leap: let the device repeat decode steps between decisions. Decisions are the same either way.
    """

    def __init__(self, config: SchedulerConfig, policy: Policy, device: Device, *, leap: bool = True) -> None:
        self.config = config
        self.policy = policy
        self.device = device
        self.leap = leap
        self.bus = EventBus()
        self.inbox = Inbox()
        self.view = View(self)
        self.pool = (CachingBlockPool if config.prefix_cache else BlockPool)(device.facts.num_blocks)
        self.ledger = (
            CommitmentLedger(config.block_size, config.watermark_tokens)
            if config.admission is AdmissionRule.COMMIT
            else None
        )
        # Every live sequence is in exactly one of waiting, prefilling, batch, parked, and `ending` names the owners
        # that retire at the end of this tick.
        self.sequences: dict[int, Sequence] = {}
        self.waiting = policy.waiting_queue()
        self.prefilling: OrderedDict[Sequence, None] = OrderedDict()
        self.batch = DecodeBatch(config.block_size, device.facts.window_tokens)
        self.parked = SortedKeyList(key=lambda sequence: policy.resume_key(self.view, sequence))
        self.slots = SlotTable(config.max_num_seqs)
        # Copies that still read slots which were given away since the last step.
        self.slot_readers: list[Ticket] = []
        self.snapshots = snapshots.pool_for(config, device.facts)
        self.snapshot_schedule = snapshots.schedule_for(config, self.snapshots, self.batch)
        # Sequences whose content is on its way back, with the copy that brings it.
        self.restoring: OrderedDict[Sequence, Ticket] = OrderedDict()
        self.swap = SwapSpace(config.swap_host_gib * GIB, config.swap_disk_gib * GIB)
        self.copies: dict[int, OpenCopy] = {}
        self.offloads: dict[int, Window] = {}
        self.ending: dict[Sequence, FinishReason] = {}
        self.limits = OutputLimits(self.batch)
        self.deadlines: list[tuple[int, int, Sequence]] = []
        self.reserved_blocks = 0
        self.num_arrived = 0
        self._num_admissions = 0
        # Counts every change of who owns seats or blocks: a refusal that was noted at the same count still holds, up to
        # the time that the policy named then.
        self.changes = 0
        self.refused_at = -1
        self.refused_until_ns = FOREVER_NS
        self.parked_refused_at = -1
        self.parked_refused_until_ns = FOREVER_NS
        # The tick in progress.
        self.starting: deque[Sequence] = deque()
        self.progress = False
        self.evicted = False
        self.in_flight: Step | None = None
        # Rows that got a block for the first iteration of the step in flight, the last one of their tables.
        self.in_flight_growing: list[Sequence] = []
        self.in_flight_used_blocks = 0

    @property
    def free_seats(self) -> int:
        owners = len(self.batch.rows) + len(self.prefilling) + len(self.restoring)
        return self.config.max_num_seqs - owners - (self._ending_prefills() if self.ending else 0)

    @property
    def token_budget(self) -> int:
        if self.config.fusion is Fusion.NONE:
            return self.config.max_num_batched_tokens
        return self.config.max_num_batched_tokens - len(self.batch.rows)

    @property
    def in_line(self) -> bool:
        """Do the preempted stand in one line with the waiting?"""
        return self.config.resume is ResumeRule.IN_LINE

    def parked_wait_on(self) -> bool:
        """Does the refusal of the first preempted sequence still hold?"""
        if self.parked_refused_at != self.changes:
            return False
        return self.parked_refused_until_ns == FOREVER_NS or self.device.now_ns() < self.parked_refused_until_ns

    def begin_tick(self) -> None:
        """A new tick: take in what has come and is due."""
        begin(self)
        receive(self)

    def receive(self) -> None:
        """Take in what has come since `begin_tick`, at the same instant."""
        receive(self)

    def plan(self) -> Plan:
        """What this tick runs: admits, and names the lanes."""
        return make(self)

    def launch(self, lane: Lane) -> Ticket | None:
        """Begin the lane's step; None when the lane has nothing to do."""
        step = lanes.next_step(self, lane)
        if step is None:
            return None
        self.progress = True
        self.in_flight = step
        return self.device.launch(step)

    def commit(self, result: StepResult) -> None:
        """Take in what the step in flight did."""
        step, self.in_flight = self.in_flight, None
        assert step is not None
        lanes.commit(self, step, result)

    def end_tick(self) -> None:
        """Retire, then resume; also on ticks without a step."""
        end_tick.run(self)

    def wake_ns(self) -> int:
        """When the next plan is due if nothing is delivered before: now, a timer, or never.

        Raises:
            Stalled: work is left that nothing will ever move.
        """
        now_ns = self.device.now_ns()
        if self.progress or len(self.inbox):
            return now_ns
        due_ns = self.deadlines[0][0] if self.deadlines else FOREVER_NS
        if self.sequences and (stable_until_ns := self.policy.stable_until_ns(self.view)) > now_ns:
            due_ns = min(due_ns, stable_until_ns)
        if due_ns >= FOREVER_NS and self.sequences and self.inbox.closed and not self.copies and not self.offloads:
            raise Stalled(self.why_stalled())
        return due_ns

    def finish(self) -> None:
        """End whatever is left, with an error, as a shutdown does. Runs once, after the last tick."""
        for sequence in list(self.sequences.values()):
            sequence.error = "the scheduler was shut down"
            self.end(sequence, FinishReason.ERROR)

    def why_stalled(self) -> str:
        """Which request starves, and on what."""
        starving = min(self.sequences.values(), key=lambda sequence: sequence.arrival_index)
        return (
            f"request {starving.request_id} ({starving.state}) cannot go on and nothing is due: it has "
            f"{starving.num_prompt_tokens} prompt tokens and needs {self.view.prompt_blocks(starving)} blocks; "
            f"{self.pool.free_blocks} of {self.pool.total_blocks} blocks are free ({self.reserved_blocks} reserved), "
            f"{self.free_seats} seats are free, policy {self.policy.name} gives "
            f"{self.policy.compose(self.view)} prefill tokens"
        )

    # Moves. Each keeps every sum and container in step with the state of the sequence.

    def admit(self, sequence: Sequence) -> None:
        """Give a waiting sequence a seat. The caller removes it from its queue."""
        sequence.admitted_ns = self.device.now_ns()
        sequence.move_to(State.PREFILLING)
        self._seat(sequence)
        if self.ledger:
            self.ledger.add(sequence)
        if self.bus.on_admitted:
            event = Admitted(sequence.admitted_ns, sequence)
            for notify in self.bus.on_admitted:
                notify(event)

    def resume(self, sequence: Sequence) -> None:
        """Give a preempted sequence a seat; its known tokens are computed again by the lanes."""
        sequence.immune_until_outputs = sequence.num_outputs + self.config.immunity_tokens
        self.unpark(sequence, State.PREFILLING)
        self._seat(sequence)
        for notify in self.bus.on_resumed:
            notify(Resumed(self.device.now_ns(), sequence))

    def give_way(self, sequence: Sequence, reason: str) -> None:
        """Take seat and blocks from an owner, in the way that the policy chooses for it."""
        mode = self.policy.give_up(self.view, sequence)
        if mode is PreemptionMode.RECOMPUTE or not swapping.swap_out(self, sequence, mode):
            self.preempt(sequence, reason)

    def preempt(self, sequence: Sequence, reason: str) -> None:
        """Take seat and blocks from an owner; it computes its known tokens again when it returns."""
        was_restoring, slot = sequence.state is State.RESTORING, sequence.slot
        self.unseat(sequence)
        if not was_restoring:
            self._leave_content(sequence, slot)
        self._forget_computed(sequence)
        freed_blocks = self._free_table(sequence)
        self.park(sequence, State.PREEMPTED)
        for notify in self.bus.on_preempted:
            notify(Preempted(self.device.now_ns(), sequence, freed_blocks, reason))

    def compute_again(self, sequence: Sequence, reason: str = IMAGE_LOST) -> None:
        """The content of a swapped-out sequence is lost; it waits on as one that was preempted."""
        self.parked.remove(sequence)
        self._forget_computed(sequence)
        sequence.move_to(State.PREEMPTED)
        self.parked.add(sequence)
        self.changes += 1
        self.progress = True
        for notify in self.bus.on_preempted:
            notify(Preempted(self.device.now_ns(), sequence, 0, reason))

    def park(self, sequence: Sequence, state: State) -> None:
        """A sequence without seat and blocks waits for its return."""
        if self.ledger and self.in_line:
            self.ledger.remove(sequence)
        sequence.move_to(state)
        self.parked.add(sequence)

    def unpark(self, sequence: Sequence, state: State) -> None:
        """A parked sequence returns: it owns a seat from now on."""
        self.parked.remove(sequence)
        sequence.move_to(state)
        if self.ledger and self.in_line:
            self.ledger.add(sequence)
        self.changes += 1
        self.progress = True

    def activate(self, sequence: Sequence, now_ns: int) -> None:
        """A sequence whose known tokens but the newest are computed joins the decode batch."""
        self.prefilling.pop(sequence, None)
        sequence.move_to(State.ACTIVE)
        self.batch.join(sequence, now_ns)
        self.limits.add(sequence)
        if self.snapshot_schedule is not None:
            self.snapshot_schedule.add(sequence)
        if self.ledger:
            self.ledger.start_growing(sequence)

    def retire(self) -> None:
        """End whoever has ended in this tick, in that order: at its end, or as soon as others need the blocks."""
        for sequence, reason in list(self.ending.items()):
            self.end(sequence, reason)

    def compact_slots(self) -> None:
        """Bring the slots of the decode rows together, for a device that runs fastest so."""
        for _, source, target in self.slots.moves(self.batch.rows, len(self.batch.rows)):
            self.device.move_slot(source, target)

    def end(self, sequence: Sequence, reason: FinishReason) -> None:
        """End a sequence in whatever state and give back all that it holds."""
        state, slot = sequence.state, sequence.slot
        if state in (State.PREFILLING, State.ACTIVE, State.RESTORING):
            self.unseat(sequence)
            if state is not State.RESTORING and reason is not FinishReason.ERROR:
                self._leave_content(sequence, slot)
            self._free_table(sequence)
        elif state is State.PENDING:
            self.waiting.remove(sequence)
        else:
            self.parked.remove(sequence)
        if sequence.image is not None:
            swapping.drop_image(self, sequence)
        if sequence.window is not None:
            windows.drop_window(self, sequence)
        if self.snapshots is not None:
            self.snapshots.drop(sequence.arrival_index)
        if self.ledger and self.ledger.holds(sequence):
            self.ledger.remove(sequence)
        self.ending.pop(sequence, None)
        self.forget(sequence, reason)
        if self.bus.on_finished:
            event = Finished(sequence.finished_ns, sequence, reason)
            for notify in self.bus.on_finished:
                notify(event)

    def forget(self, sequence: Sequence, reason: FinishReason) -> None:
        """The sequence is over and holds nothing."""
        sequence.move_to(State.FINISHED)
        sequence.finish_reason = reason
        sequence.finished_ns = self.device.now_ns()
        self.sequences.pop(sequence.request_id, None)
        self.device.forget(sequence)
        self.changes += 1
        self.progress = True

    def watch_deadline(self, sequence: Sequence) -> None:
        if sequence.request.deadline_ns is not None:
            heappush(self.deadlines, (sequence.request.deadline_ns, sequence.arrival_index, sequence))

    def extend_table(self, sequence: Sequence, count: int) -> None:
        """Append `count` free blocks to a prefilling sequence's table, out of its reservation."""
        sequence.block_table += self.pool.allocate(count)
        sequence.reserved_blocks -= count
        self.reserved_blocks -= count

    def _seat(self, sequence: Sequence) -> None:
        sequence.admission_index = self._num_admissions
        self._num_admissions += 1
        reader = self.slots.claim(sequence)
        if reader is not None:
            self.slot_readers.append(reader)
        if sequence.has_keys:
            caching.take_prefix(self, sequence)
        sequence.reserved_blocks = self.view.prompt_blocks(sequence) - len(sequence.block_table)
        self.reserved_blocks += sequence.reserved_blocks
        self.prefilling[sequence] = None
        self.changes += 1
        self.progress = True

    def unseat(self, sequence: Sequence) -> None:
        """An owner leaves its seat; its blocks are still in its table."""
        if sequence.window is not None:
            windows.leave(self, sequence)
        if self.restoring and sequence in self.restoring and self.device.facts.state_bytes:
            self.slots.keep_open(sequence.slot, self.restoring[sequence])
        self.slots.release(sequence)
        if sequence.state is State.ACTIVE:
            if self.ledger:
                self.ledger.stop_growing(sequence)
            self.batch.leave(sequence)
        elif sequence.state is State.PREFILLING:
            self.prefilling.pop(sequence, None)
            self.reserved_blocks -= sequence.reserved_blocks
            sequence.reserved_blocks = 0
        self.changes += 1
        self.progress = True

    def _leave_content(self, sequence: Sequence, slot: int) -> None:
        """What a sequence has computed can be found by others before it gives up its blocks."""
        if sequence.has_keys:
            caching.publish_outputs(self, sequence)
            snapshots.leave(self, sequence, slot)

    def _free_table(self, sequence: Sequence) -> int:
        ticket = self.restoring.pop(sequence, None) if self.restoring else None
        table = sequence.block_table
        freed_blocks = self.pool.release(table) if ticket is None else self.pool.release_after(table, ticket)
        sequence.block_table = []
        if sequence.has_keys:
            caching.forget_prefix(sequence)
        return freed_blocks

    def _forget_computed(self, sequence: Sequence) -> None:
        sequence.recompute_until = max(sequence.recompute_until, sequence.num_computed)
        sequence.num_computed = 0
        sequence.num_preemptions += 1
        if sequence.window is not None:
            windows.drop_window(self, sequence)

    def _ending_prefills(self) -> int:
        """Sequences that ended with their prompt and hold their seat until the end of the tick."""
        return sum(one.state is State.PREFILLING and one not in self.prefilling for one in self.ending)
