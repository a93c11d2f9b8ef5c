"""Wrong plans and ends of ticks: arrivals, deadlines, cancels, admission, returns, sleep."""

from __future__ import annotations

from schedlab.core import end_tick, plan
from schedlab.core.scheduler import Scheduler
from schedlab.inbox import Inbox
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "no return on idle ticks",
        "parked sequences come back only while somebody decodes",
        edit(end_tick.run, "if core.parked and", "if core.parked and core.batch.rows and"),
        defect=1,
    ),
    mutant(
        "deadlines of rows only",
        "a deadline holds only while its request decodes",
        edit(
            plan._end_overdue,
            "if sequence.state is not State.FINISHED:",
            "if sequence.state is State.ACTIVE:",
        ),
        defect=4,
    ),
    mutant(
        "no deadline while parked",
        "a deadline is not looked at while its request is parked",
        edit(
            plan._end_overdue,
            "if sequence.state is not State.FINISHED:",
            "if sequence.state not in (State.FINISHED, State.PREEMPTED, State.SWAPPED):",
        ),
        defect=4,
    ),
    mutant(
        "no cancel while swapped",
        "a client that goes while its request is swapped out is not noticed",
        edit(
            plan._cancel,
            "if sequence is not None:",
            "if sequence is not None and sequence.state is not State.SWAPPED:",
        ),
        defect=5,
    ),
    mutant(
        "no cancel while prefilling",
        "a client that goes during prefill is not noticed",
        edit(
            plan._cancel,
            "if sequence is not None:",
            "if sequence is not None and sequence.state is not State.PREFILLING:",
        ),
        defect=5,
    ),
    mutant(
        "no cancel while waiting",
        "a client that goes before its request starts is not noticed",
        edit(
            plan._cancel,
            "if sequence is not None:",
            "if sequence is not None and sequence.state is not State.PENDING:",
        ),
        defect=5,
    ),
    mutant(
        "prefills take no seat",
        "only decoding sequences count against the seats",
        edit(Scheduler.free_seats, "len(self.batch.rows) + len(self.prefilling) + ", "len(self.batch.rows) + "),
        defect=8,
    ),
    mutant(
        "restored ones take no seat",
        "sequences on their way back do not count against the seats",
        edit(Scheduler.free_seats, " + len(self.restoring)", ""),
        defect=8,
    ),
    mutant(
        "shutdown is a normal end",
        "a shutdown tells clients that they were served",
        edit(Scheduler.finish, "FinishReason.ERROR", "FinishReason.STOP"),
        defect=25,
    ),
    mutant(
        "lost wake-up",
        "the end of a sequence does not undo a refusal",
        edit(Scheduler.forget, "self.changes += 1", "pass"),
        edit(Scheduler.unseat, "self.changes += 1", "pass"),
    ),
    mutant(
        "timers are forgotten",
        "an idle scheduler does not wake for a deadline",
        edit(Scheduler.wake_ns, "self.deadlines[0][0] if self.deadlines else FOREVER_NS", "FOREVER_NS"),
    ),
    mutant(
        "the policy's clock is forgotten",
        "an idle scheduler does not wake when the policy's gate opens",
        edit(Scheduler.wake_ns, "due_ns = min(due_ns, stable_until_ns)", "pass"),
    ),
    mutant(
        "the head is passed for ever",
        "later requests pass a refused head whatever max_bypass says",
        edit(plan._may_be_passed, "len(passed_over) <= limit and all(", "True or all("),
    ),
    mutant(
        "passed once too often",
        "a refused head is passed once more than max_bypass",
        edit(plan._may_be_passed, "sequence.times_bypassed < limit", "sequence.times_bypassed <= limit"),
    ),
    mutant(
        "passing is not counted",
        "nobody counts how often a head was passed",
        edit(plan._admit, "bypassed.times_bypassed += 1", "pass"),
    ),
    mutant(
        "the parked are passed",
        "a newcomer passes the preempted that stand before it in one line",
        edit(plan._admit, "or (line_ends_at is not None and line_ends_at < policy.rank(sequence))", ""),
    ),
    mutant(
        "admitted after an eviction",
        "newcomers take the blocks that rows have just given up",
        edit(plan.make, "if not core.evicted and len(core.waiting):", "if len(core.waiting):"),
    ),
    mutant(
        "budget exceeded by one",
        "a mixed step may have a token more than its budget",
        edit(Scheduler.token_budget, "- len(self.batch.rows)", "- len(self.batch.rows) + 1"),
    ),
    mutant(
        "reservation not returned",
        "a prefill that leaves keeps its reservation in the sum",
        edit(Scheduler.unseat, "self.reserved_blocks -= sequence.reserved_blocks", "pass"),
    ),
    mutant(
        "reservation not drawn on",
        "blocks that a prefill takes stay reserved",
        edit(Scheduler.extend_table, "self.reserved_blocks -= count", "pass"),
    ),
    mutant(
        "resume ignores reservations",
        "a returning sequence takes blocks that prefills in progress will need",
        edit(end_tick._fits, "core.pool.free_blocks - core.reserved_blocks", "core.pool.free_blocks"),
    ),
    mutant(
        "no headroom on return",
        "a sequence returns without the headroom that is asked for",
        edit(end_tick._fits, "+ headroom", ""),
    ),
    mutant(
        "returns before its turn",
        "a preempted sequence passes a waiting request that ranks before it",
        edit(end_tick._is_behind_the_waiting, "core.policy.rank(head) < core.policy.rank(sequence)", "False"),
    ),
    mutant(
        "evicted though alone",
        "a sequence that fills the pool alone gives way to itself",
        edit(plan.make_room_for_decoding, "== 1:", "== 0:"),
    ),
    mutant(
        "inbox in order of calls",
        "messages of one instant are taken in the order in which they were brought",
        edit(Inbox.drain, "deliveries.sort(key=lambda delivery: delivery[:3])", "pass"),
    ),
    mutant(
        "the last message first",
        "the inbox is read backwards",
        edit(
            Inbox.drain,
            "deliveries.sort(key=lambda delivery: delivery[:3])",
            "deliveries.sort(key=lambda delivery: delivery[:3], reverse=True)",
        ),
    ),
    mutant(
        "an id twice",
        "a request may have the id of a live one",
        edit(plan._why_never, "if request.request_id in core.sequences:", "if False:"),
    ),
    mutant(
        "longer than the model",
        "a prompt may be as long as the model, with no room for an output",
        edit(plan._why_never, "(1 if request.max_tokens else 0)", "0"),
    ),
    mutant(
        "outputs beyond the model",
        "outputs go on behind max_model_len",
        edit(plan._receive, "min(request.max_tokens, max(longest, 0))", "request.max_tokens"),
    ),
)
