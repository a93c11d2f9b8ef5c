"""A view whose every answer is compared with one that is counted anew."""

from __future__ import annotations

from collections.abc import Sequence as List
from typing import Any

from schedlab.memory.swap import Tier
from schedlab.policies.view import View
from schedlab.sequence import Sequence, State
from tests.mutants import naive_facts as facts


class DoubtedView(View):
    """Compares while nobody who has ended is still there: what counts of those until the tick ends is not laid down."""

    __slots__ = ()

    def _same(self, name: str, found: Any, expected: Any, *of: Any) -> Any:
        assert found == expected or self._core.ending, f"{name} of {of} is {found}, should be {expected}"
        return found

    @property
    def num_waiting(self) -> int:
        return int(self._same("num_waiting", super().num_waiting, self._count(State.PENDING)))

    @property
    def num_active(self) -> int:
        return int(self._same("num_active", super().num_active, self._count(State.ACTIVE)))

    @property
    def num_prefilling(self) -> int:
        return int(self._same("num_prefilling", super().num_prefilling, self._count(State.PREFILLING)))

    @property
    def num_parked(self) -> int:
        expected = self._count(State.PREEMPTED, State.SWAPPED)
        return int(self._same("num_parked", super().num_parked, expected))

    @property
    def free_seats(self) -> int:
        return int(self._same("free_seats", super().free_seats, facts.free_seats(self._core)))

    @property
    def token_budget(self) -> int:
        return int(self._same("token_budget", super().token_budget, facts.token_budget(self._core)))

    @property
    def free_blocks(self) -> int:
        return int(self._same("free_blocks", super().free_blocks, facts.free_blocks(self._core)))

    @property
    def reserved_blocks(self) -> int:
        return int(self._same("reserved_blocks", super().reserved_blocks, facts.reserved_blocks(self._core)))

    @property
    def committed_blocks(self) -> int:
        return int(self._same("committed_blocks", super().committed_blocks, facts.committed_blocks(self._core)))

    @property
    def oldest_token_ns(self) -> int | None:
        batch, found = self._core.batch, super().oldest_token_ns
        times = (
            batch.last_step_ns if row.joined_step < batch.step else row.joined_ns for row in facts.rows(self._core)
        )
        self._same("oldest_token_ns", found, min(times, default=None))
        return found

    def commitment(self, sequence: Sequence) -> int:
        found, expected = super().commitment(sequence), facts.commitment(self._core, sequence)
        return int(self._same("commitment", found, expected, sequence))

    def held_commitment(self, owner: Sequence) -> int:
        found, expected = super().held_commitment(owner), facts.commitment(self._core, owner)
        return int(self._same("held_commitment", found, expected, owner))

    def prompt_blocks(self, sequence: Sequence) -> int:
        found, expected = super().prompt_blocks(sequence), facts.prompt_blocks(self._core, sequence)
        return int(self._same("prompt_blocks", found, expected, sequence))

    def missing_blocks(self, sequence: Sequence) -> int:
        found, expected = super().missing_blocks(sequence), facts.missing_blocks(self._core, sequence)
        return int(self._same("missing_blocks", found, expected, sequence))

    def room_for(self, newcomer: Sequence, owner: Sequence) -> int:
        found, expected = super().room_for(newcomer, owner), facts.room_for(self._core, newcomer, owner)
        return int(self._same("room_for", found, expected, newcomer, owner))

    def cached_tokens(self, sequence: Sequence) -> int:
        expected = len(facts.found_blocks(self._core, sequence)) * self.config.block_size
        return int(self._same("cached_tokens", super().cached_tokens(sequence), expected, sequence))

    def has_swap_room(self, owners: List[Sequence]) -> bool:
        expected = facts.fits_together(self._core, owners)
        return bool(self._same("has_swap_room", super().has_swap_room(owners), expected, owners))

    def swap_ns(self, owner: Sequence, tier: Tier) -> int | None:
        found = super().swap_ns(owner, tier)
        self._same("swap_ns", found, facts.swap_ns(self._core, owner, tier), owner, tier)
        return found

    def recompute_ns(self, owner: Sequence) -> int:
        found, expected = super().recompute_ns(owner), facts.recompute_ns(self._core, owner)
        return int(self._same("recompute_ns", found, expected, owner))

    def outputs(self, sequence: Sequence) -> int:
        return int(self._same("outputs", super().outputs(sequence), facts.outputs(self._core, sequence), sequence))

    def _count(self, *states: State) -> int:
        return len(facts.of_state(self._core, *states))
