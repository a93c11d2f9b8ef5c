"""Who comes in with a plan, worked out in loops over everybody: no kept sum is believed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from schedlab.config import AdmissionRule, Fusion
from schedlab.core.plan import Lane
from schedlab.core.scheduler import Scheduler
from schedlab.policies.queues import FifoQueue
from schedlab.policies.slai import FrontThenShortest, Slai
from schedlab.sequence import Sequence, State
from tests.mutants import naive_facts as facts
from tests.mutants.naive_rules import PARKED

LANES = {
    Fusion.NONE: (Lane.CONTINUE, Lane.DECODE),
    Fusion.CONTINUE: (Lane.CONTINUE_DECODE,),
    Fusion.ALL: (Lane.ALL,),
}


class NaivePlan:
    """Follows how often whoever waits was passed.

    Attributes:
        passed: how often.
    """

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self.passed: Counter[Sequence] = Counter()

    def newcomers(self) -> list[Sequence]:
        """By the admission rule, in the order of the queue, with room that each one's admission makes less."""
        core, config, size = self._core, self._core.config, self._core.config.block_size
        held, seats, committed = facts.holders(core), facts.free_seats(core), facts.committed_blocks(core)
        reserved, owners = facts.reserved_blocks(core), config.max_num_seqs - seats
        tokens = self._tokens_for_newcomers()
        line_ends_at = min(map(self.rank, facts.of_state(core, *PARKED)), default=None) if core.in_line else None
        admitted, passed = list[Sequence](), list[Sequence]()
        for one in self.queue():
            found = facts.found_blocks(core, one)
            wanted = self._share(one.num_prompt_tokens - len(found) * size, tokens)
            if tokens <= 0 or not wanted or (line_ends_at is not None and line_ends_at < self.rank(one)):
                break
            needed = facts.prompt_blocks(core, one) - sum(block in held for block in found)
            if config.admission is AdmissionRule.COMMIT:
                allowed = core.pool.total_blocks * config.overcommit_percent // 100
                fits = not committed or committed + facts.commitment(core, one) <= allowed
            else:
                kept_back = config.watermark_blocks if owners else 0
                fits = needed + kept_back <= core.pool.total_blocks - len(held) - reserved
            if not seats or not fits:
                passed.append(one)
                if not seats or not self._may_be_passed(passed):
                    break
                continue
            admitted.append(one)
            seats, owners, committed = seats - 1, owners + 1, committed + facts.commitment(core, one)
            reserved += facts.prompt_blocks(core, one) - len(found)
            held.update(dict.fromkeys(found, 1))
            tokens -= wanted if config.fusion is Fusion.ALL else 0
            self.passed.update(passed)
            if not self._may_be_passed(passed):
                break
        return admitted

    def _tokens_for_newcomers(self) -> int:
        tokens = self.composed()
        if self._core.config.fusion is not Fusion.ALL:
            return tokens
        for one in facts.prefilling(self._core):
            if tokens > 0:
                tokens -= self._share(facts.known(self._core, one) - one.num_computed, tokens) or tokens
        return tokens

    def _share(self, left: int, tokens: int) -> int:
        """What somebody with so many tokens left takes of a step that has so many; nothing where it cannot start."""
        config = self._core.config
        if config.fusion is not Fusion.ALL:
            return left
        if not config.chunked_prefill:
            return left if left <= tokens else 0
        return min(left, tokens, config.max_prefill_tokens or left)

    def composed(self) -> int:
        core = self._core
        if isinstance(core.policy, Slai):
            batch = core.batch
            times = [batch.last_step_ns if row.joined_step < batch.step else row.joined_ns for row in facts.rows(core)]
            if times and core.device.now_ns() - min(times) >= core.policy._patience_ns:
                return 0
        return facts.token_budget(core)

    def queue(self) -> list[Sequence]:
        core = self._core
        pending = facts.of_state(core, State.PENDING)
        if isinstance(core.waiting, FrontThenShortest):
            return pending[:1] + sorted(pending[1:], key=lambda one: (one.num_prompt_tokens, one.arrival_index))
        return pending if isinstance(core.waiting, FifoQueue) else sorted(pending, key=self.rank)

    def rank(self, one: Sequence) -> tuple[Any, int]:
        return self._core.policy.key(one.request), one.arrival_index

    def _may_be_passed(self, passed: list[Sequence]) -> bool:
        most = self._core.config.max_bypass
        return len(passed) <= most and all(self.passed[one] < most for one in passed)

    def lanes(self, newcomers: int) -> tuple[Lane, ...]:
        core = self._core
        if not facts.of_state(core, State.PREFILLING, State.ACTIVE):
            return ()
        own = newcomers if core.config.fusion is not Fusion.ALL else 0
        return (Lane.START,) * own + LANES[core.config.fusion]
