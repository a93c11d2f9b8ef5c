"""What a policy sees of a scheduler: read-only and live, never a copy."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as List
from itertools import takewhile
from typing import TYPE_CHECKING

from schedlab.config import SchedulerConfig
from schedlab.core.caching import cached_prefix
from schedlab.core.swapping import TIERS, image_bytes
from schedlab.device import CopyKind
from schedlab.memory.blocks import blocks_for
from schedlab.memory.swap import Tier
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


# Several times what makes a step compute-bound on any GPU: its FLOPs over its bytes/s come to 100 to 400 tokens at two
# bytes a weight.
COMPUTE_BOUND_TOKENS = 2048


class View:
    """Everything that a decision may depend on. All but `owners` is O(1)."""

    __slots__ = ("_core",)

    def __init__(self, core: Scheduler) -> None:
        self._core = core

    @property
    def now_ns(self) -> int:
        return self._core.device.now_ns()

    @property
    def config(self) -> SchedulerConfig:
        return self._core.config

    @property
    def num_waiting(self) -> int:
        return len(self._core.waiting)

    @property
    def num_active(self) -> int:
        return len(self._core.batch)

    @property
    def num_prefilling(self) -> int:
        return len(self._core.prefilling)

    @property
    def num_parked(self) -> int:
        """Preempted sequences."""
        return len(self._core.parked)

    @property
    def free_seats(self) -> int:
        return self._core.free_seats

    @property
    def token_budget(self) -> int:
        """Prefill tokens that the next step has room for beside the decode rows that share it."""
        return self._core.token_budget

    @property
    def total_blocks(self) -> int:
        return self._core.pool.total_blocks

    @property
    def free_blocks(self) -> int:
        return self._core.pool.free_blocks

    @property
    def reserved_blocks(self) -> int:
        """Free blocks that the prefills in progress will still take."""
        return self._core.reserved_blocks

    @property
    def committed_blocks(self) -> int:
        """The sum of commitments; 0 under `admission=prompt`."""
        ledger = self._core.ledger
        return ledger.blocks if ledger else 0

    def commitment(self, sequence: Sequence) -> int:
        """Blocks that `sequence` would add to the sum of commitments."""
        ledger = self._core.ledger
        if ledger is None:
            return 0
        return ledger.blocks_of(sequence.num_known, sequence.num_prompt_tokens + sequence.max_outputs)

    def held_commitment(self, owner: Sequence) -> int:
        """Blocks that an owner's end would take off the sum of commitments."""
        ledger = self._core.ledger
        return ledger.held_by(owner) if ledger else 0

    def prompt_blocks(self, sequence: Sequence) -> int:
        """Blocks for all known tokens of a sequence that is not active; those of a window on disk need none."""
        far_blocks = sequence.window.start if sequence.window is not None else 0
        return blocks_for(sequence.num_known, self._core.config.block_size) - far_blocks

    def missing_blocks(self, sequence: Sequence) -> int:
        """Free blocks that a sequence without any takes when it comes in: all but the cached ones that others hold.

        One with an image needs room for its next token too, or it might leave again as it came.
        """
        if sequence.image is not None or not sequence.has_keys:
            return self.prompt_blocks(sequence)
        found = cached_prefix(self._core, sequence)
        return self.prompt_blocks(sequence) - sum(map(self._core.pool.is_held, found))

    def room_for(self, newcomer: Sequence, owner: Sequence) -> int:
        """Blocks that a newcomer could have if an owner left: those that it alone holds, and what it has reserved.

        Not those that the newcomer finds in the cache: it needs them where they are. O(blocks of both).
        """
        references, found = self._core.pool.references, set(cached_prefix(self._core, newcomer))
        own_blocks = sum(references(block) == 1 and block not in found for block in owner.block_table)
        return own_blocks + owner.reserved_blocks

    def has_swap_room(self, owners: List[Sequence]) -> bool:
        """Would the images of all these active sequences fit together into one tier that the configuration swaps to?"""
        num_bytes = sum(image_bytes(self._core, owner) for owner in owners)
        tiers = TIERS.get(self.config.preemption, tuple(Tier))
        return any(self._core.swap.has_room(tier, num_bytes) for tier in tiers)

    def swap_ns(self, owner: Sequence, tier: Tier) -> int | None:
        """What copying an active sequence to `tier` and back costs, as the links stand; None without room there.

        The next step waits for the blocks, so the way out counts whole. On the rest of the way the others go on: it
        counts in proportion to the share of the pool that the sequence needs and that stands still with it.
        """
        core = self._core
        num_bytes = image_bytes(core, owner)
        if not core.swap.has_room(tier, num_bytes):
            return None
        rest = [CopyKind.HOST_TO_DEVICE]
        if tier is Tier.DISK:
            rest += [CopyKind.HOST_TO_DISK, CopyKind.DISK_TO_HOST]
        rest_ns = sum(core.device.copy_ns(kind, num_bytes) for kind in rest)
        out_ns = core.device.copy_ns(CopyKind.DEVICE_TO_HOST, num_bytes)
        return out_ns + rest_ns * len(owner.block_table) // core.pool.total_blocks

    def recompute_ns(self, owner: Sequence) -> int:
        """What computing an active sequence's known tokens again costs, without those whose blocks others hold too.

        Its own blocks go to those who need room now, so the cache will not have them. The tokens share a step with
        others, so a few do not pay alone for reading all weights: they cost their part of a step that is full, or as
        large as keeps the device computing.
        """
        tokens = owner.num_prompt_tokens + self.outputs(owner) - self._shared_tokens(owner)
        full_tokens = min(self._core.config.max_num_batched_tokens, COMPUTE_BOUND_TOKENS)
        chunk_tokens = max(tokens, full_tokens)
        return self._core.device.prefill_ns(chunk_tokens) * tokens // chunk_tokens

    def _shared_tokens(self, owner: Sequence) -> int:
        """Tokens in the blocks at the beginning of a table that others hold too. O(those)."""
        references = self._core.pool.references
        shared_blocks = sum(1 for _ in takewhile(lambda block: references(block) > 1, owner.block_table))
        return shared_blocks * self._core.config.block_size

    def cached_tokens(self, sequence: Sequence) -> int:
        """Known tokens of a waiting or preempted sequence that the prefix cache has."""
        return len(cached_prefix(self._core, sequence)) * self._core.config.block_size

    @property
    def oldest_token_ns(self) -> int | None:
        """When the active row that has waited longest got its newest token; None without active rows."""
        return self._core.batch.oldest_token_ns() if self._core.batch.rows else None

    def outputs(self, sequence: Sequence) -> int:
        """Output tokens of any sequence so far."""
        batch = self._core.batch
        return batch.outputs(sequence) if sequence in batch else sequence.num_outputs

    def owners(self) -> Iterator[Sequence]:
        """Sequences that own a seat: prefilling, then active, each in order. O(seats)."""
        yield from self._core.prefilling
        yield from self._core.batch.rows
