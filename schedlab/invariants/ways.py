"""Who has to make way for a newcomer, by the built-in rules in words of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.config import AdmissionRule, Fusion, PreemptionMode
from schedlab.core.caching import cached_prefix
from schedlab.events import Preempted
from schedlab.law import Law, When
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

IMPORTANT = Law(
    "the_important_one_comes_in",
    "Under a priority policy that evicts, the head of the queue waits only while even the leave of all that are less "
    "important would give it no seat or too few blocks.",
    When.EVENT,
    scenarios=(4,),
)
SWAPS_ONLY = Law(
    "who_makes_way_is_swapped_out",
    "With swap-out at admission to one tier, whoever makes way for a newcomer is swapped out: there is room for all.",
    When.EVENT,
    numbers=(42, 50),
)


def who_makes_way_is_swapped_out(core: Scheduler, event: Preempted) -> None:
    """Where the cheapest way is taken it may change from one victim to the next."""
    policy = core.policy
    is_built_in = type(policy).make_way is Policy.make_way and type(policy).give_up is Policy.give_up
    swaps = core.config.swap_at_admission and core.config.preemption is not PreemptionMode.CHEAPEST
    if event.reason == "priority" and is_built_in and swaps:
        raise SWAPS_ONLY.broken(f"{event.sequence} made way and is to be computed again", event.sequence.request_id)


class Ways:
    """What was looked at last: a head, and the count of changes then. Nothing but a change can let it in.

    A plan of an evicting policy that changed nothing costs O(owners), once for each count.
    """

    __slots__ = ("_before", "_seen")

    def __init__(self) -> None:
        self._before = 0
        self._seen: tuple[Sequence, int] | None = None

    def before_plan(self, core: Scheduler) -> None:
        self._before = core.changes

    def after_plan(self, core: Scheduler) -> None:
        """Of a plan that has let nobody in and evicted nobody."""
        policy = core.policy
        if not isinstance(policy, Priority) or not policy.evict or core.evicted or core.changes != self._before:
            return
        head = next(core.waiting.candidates(), None)
        if head is None or self._seen == (head, core.changes) or not _is_built_in(policy) or not _was_asked(core, head):
            return
        self._seen = head, core.changes
        if _would_come_in(core, head):
            raise IMPORTANT.broken(f"{head} waits behind less important ones", head.request_id)


def _is_built_in(policy: Priority) -> bool:
    kind = type(policy)
    return (kind.make_way, kind.admit, kind.compose, kind.key, kind.rank) == (
        Priority.make_way,
        Policy.admit,
        Policy.compose,
        Priority.key,
        Policy.rank,
    )


def _was_asked(core: Scheduler, head: Sequence) -> bool:
    """No preempted one stands before it, and the step has a token for it beside rows and prefills in progress."""
    config, policy = core.config, core.policy
    ranks = [(policy.key(one.request), one.arrival_index) for one in (*core.parked[:1], head)]
    if ranks[0] < ranks[-1]:
        return False
    rows = len(core.batch.rows) if config.fusion is not Fusion.NONE else 0
    tokens = config.max_num_batched_tokens - rows
    if config.fusion is Fusion.ALL:
        left = [one.num_prompt_tokens + one.num_outputs - one.num_computed for one in core.prefilling]
        tokens -= sum(min(count, config.max_prefill_tokens or count) for count in left)
        if not config.chunked_prefill:
            return not left and head.num_prompt_tokens <= tokens
    return tokens > 0


def _would_come_in(core: Scheduler, head: Sequence) -> bool:
    """Were everybody gone who is less important by the stored class."""
    owners = [*core.prefilling, *core.batch.rows]
    leaving = [owner for owner in owners if owner.request.priority > head.request.priority]
    stay = len(owners) - len(leaving) + len(core.restoring)
    if stay >= core.config.max_num_seqs:
        return False
    if core.config.admission is AdmissionRule.COMMIT:
        return _commitments_fit(core, head, leaving)
    found = cached_prefix(core, head)
    references, held = core.pool.references, set(found)
    own_blocks = sum(references(block) == 1 and block not in held for one in leaving for block in one.block_table)
    room_blocks = core.pool.free_blocks + own_blocks
    reserved_blocks = sum(one.reserved_blocks for one in core.prefilling if one not in leaving)
    watermark_blocks = core.config.watermark_blocks if stay else 0
    needed_blocks = -(-head.num_prompt_tokens // core.config.block_size) - sum(references(block) > 0 for block in found)
    return needed_blocks + reserved_blocks + watermark_blocks <= room_blocks


def _commitments_fit(core: Scheduler, head: Sequence, leaving: list[Sequence]) -> bool:
    config, ledger = core.config, core.ledger
    assert ledger is not None
    end_tokens = head.num_prompt_tokens + head.max_outputs
    if config.watermark_tokens >= 0:
        end_tokens = min(end_tokens, head.num_prompt_tokens + config.watermark_tokens)
    committed_blocks = ledger.blocks - sum(map(ledger.held_by, leaving)) + end_tokens // config.block_size + 1
    return committed_blocks <= core.pool.total_blocks * config.overcommit_percent // 100
