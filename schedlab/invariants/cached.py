"""Laws of the prefix cache and of snapshots of states, where a run has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.invariants.owners import computed_tokens
from schedlab.law import Law, When
from schedlab.memory.prefix import CachingBlockPool
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

COMPUTED = Law(
    "only_computed_blocks_are_published",
    "A block can be found in the prefix cache only once all its tokens are computed.",
    When.SWEEP,
    numbers=(55,),
)
KEYS = Law(
    "keys_and_blocks_agree",
    "Whatever the prefix cache finds under a key is the one block that has that key; empty blocks have none.",
    When.AUDIT,
    numbers=(3, 53),
)
OWN_KEYS = Law(
    "tables_hold_blocks_of_their_own_text",
    "Published blocks of a table have the keys of their request's own text, in order.",
    When.AUDIT,
    numbers=(52, 55),
)
NAMESPACE = Law(
    "blocks_are_shared_within_a_namespace",
    "Requests that differ in adapter, salt or (where asked) tenant share no block, and only full blocks are shared.",
    When.AUDIT,
    numbers=(5, 53),
)
SNAPSHOTS = Law(
    "snapshots_have_a_slot_each",
    "Each snapshot of a state has one slot that exists, at a block boundary, and no two have the same key.",
    When.AUDIT,
    numbers=(58,),
)


def only_computed_blocks_are_published(core: Scheduler) -> None:
    pool, size = core.pool, core.config.block_size
    if not isinstance(pool, CachingBlockPool):
        return
    for sequence in core.view.owners():
        computed = computed_tokens(core, sequence)
        is_partial = computed % size > 0
        if sequence.published_blocks * size > computed or (
            is_partial and pool.key_of(sequence.block_table[-1]) is not None
        ):
            raise COMPUTED.broken(
                f"{sequence} has published {sequence.published_blocks} blocks of {size}, {computed} tokens computed",
                sequence.request_id,
            )


def keys_and_blocks_agree(core: Scheduler) -> None:
    pool = core.pool
    if not isinstance(pool, CachingBlockPool):
        return
    keyed = {block: key for block, key in enumerate(pool.keys()) if key is not None}
    if pool.lookup(list(keyed.values()), len(keyed)) != list(keyed):
        for block, key in keyed.items():
            if pool.lookup([key], 1) != [block]:
                raise KEYS.broken(f"block {block} has a key that finds {pool.lookup([key], 1)}")
    if len(keyed) != pool.cached_blocks:
        raise KEYS.broken(f"{len(keyed)} blocks have a key, {pool.cached_blocks} can be found")
    for block in pool.free_list():
        if pool.key_of(block) is not None:
            raise KEYS.broken(f"block {block} is empty and has a key")


def tables_hold_blocks_of_their_own_text(core: Scheduler) -> None:
    pool = core.pool
    if not isinstance(pool, CachingBlockPool):
        return
    for sequence in core.view.owners():
        far_blocks = sequence.window.start if sequence.window is not None else 0
        keys = (sequence.keys or [])[far_blocks : sequence.published_blocks]
        if list(map(pool.key_of, sequence.block_table[: len(keys)])) != keys:
            raise OWN_KEYS.broken(
                f"the first {len(keys)} blocks of {sequence} have keys of another text", sequence.request_id
            )


def blocks_are_shared_within_a_namespace(core: Scheduler) -> None:
    pool = core.pool
    if not isinstance(pool, CachingBlockPool):
        return
    holders: dict[int, Sequence] = {}
    for sequence in core.view.owners():
        for block in sequence.block_table:
            other = holders.setdefault(block, sequence)
            if other is sequence:
                continue
            if pool.key_of(block) is None or _namespace(core, other) != _namespace(core, sequence):
                raise NAMESPACE.broken(
                    f"{other} of {_namespace(core, other)} and {sequence} of {_namespace(core, sequence)} share block "
                    f"{block}, key {pool.key_of(block)}",
                    sequence.request_id,
                )


def _namespace(core: Scheduler, sequence: Sequence) -> tuple[str, str, str]:
    request = sequence.request
    return request.adapter, request.cache_salt, request.tenant if core.config.cache_per_tenant else ""


def snapshots_have_a_slot_each(core: Scheduler) -> None:
    pool = core.snapshots
    if pool is None:
        return
    snapshots = pool.snapshots()
    slots = {one.slot for one in snapshots}
    keys = [one.key for one in snapshots if one.key is not None]
    if len(slots) != len(snapshots) or pool.used_slots != len(slots) or not slots <= set(range(pool.num_slots)):
        raise SNAPSHOTS.broken(f"{len(snapshots)} snapshots in slots {sorted(slots)}, {pool.used_slots} used")
    if len(set(keys)) != len(keys) or any(one.num_tokens % core.config.block_size for one in snapshots):
        raise SNAPSHOTS.broken(f"depths {[one.num_tokens for one in snapshots]}, {len(set(keys))} of {len(keys)} keys")


CACHE_CHECKS = (only_computed_blocks_are_published,)
CACHE_AUDITS = (
    keys_and_blocks_agree,
    tables_hold_blocks_of_their_own_text,
    blocks_are_shared_within_a_namespace,
    snapshots_have_a_slot_each,
)
