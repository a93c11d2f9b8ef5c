"""What a sequence takes from the prefix cache and what it leaves there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.memory.prefix import CachingBlockPool
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def cached_prefix(core: Scheduler, sequence: Sequence) -> list[int]:
    """Blocks of the longest known beginning of a sequence that holds none; at least one token stays to be computed.

    O(blocks of that beginning), and O(1) while the cache has not changed since the last time.
    """
    pool = core.pool
    if not sequence.has_keys:
        return []
    assert isinstance(pool, CachingBlockPool)
    version = pool.version + (core.snapshots.version if core.snapshots is not None else 0)
    if sequence.cached_prefix_version != version:
        sequence.cached_prefix_version = version
        sequence.cached_prefix = _look_up(core, pool, sequence)
    return sequence.cached_prefix


def take_prefix(core: Scheduler, sequence: Sequence) -> None:
    """Start a sequence with keys that has just got a seat behind its cached prefix."""
    found = cached_prefix(core, sequence)
    if core.snapshots is not None:
        core.snapshots.count_cut(sequence.num_found_blocks - len(found))
    if not found:
        return
    assert isinstance(core.pool, CachingBlockPool)
    core.pool.hold(found)
    if core.snapshots is not None and sequence.cached_snapshot is not None:
        core.snapshots.use(sequence.cached_snapshot, sequence.request.session)
        core.device.restore_state(sequence.cached_snapshot.slot, sequence.slot)
    sequence.block_table = list(found)
    sequence.published_blocks = len(found)
    sequence.num_computed = len(found) * core.config.block_size
    if sequence.num_preemptions:
        sequence.num_cached_tokens_on_return += sequence.num_computed
    else:
        sequence.num_cached_tokens = sequence.num_computed


def publish_prompt(core: Scheduler, sequence: Sequence) -> None:
    """Full blocks that a chunk has just computed can be found from now on."""
    pool, keys = core.pool, sequence.keys
    if not keys:
        return
    assert isinstance(pool, CachingBlockPool)
    full_blocks = min(sequence.num_computed // core.config.block_size, len(keys))
    if full_blocks > sequence.published_blocks:
        pool.publish(keys, sequence.block_table, sequence.published_blocks, full_blocks)
        sequence.published_blocks = full_blocks
        # Whoever was refused may need fewer blocks now.
        core.changes += 1


def publish_outputs(core: Scheduler, sequence: Sequence) -> None:
    """The same for a sequence that gives up its blocks: those that outputs have filled, where the device knows keys.

    Never for one that ends with an error. What it published before are blocks of steps that succeeded.
    """
    if sequence.keys is None or (sequence.window and sequence.window.start):
        return
    learn_output_keys(core, sequence, sequence.num_computed // core.config.block_size)
    publish_prompt(core, sequence)


def learn_output_keys(core: Scheduler, sequence: Sequence, full_blocks: int) -> None:
    """Ask the device for the keys of the first `full_blocks` blocks that are not known yet."""
    pool, keys = core.pool, sequence.keys
    if keys is not None and full_blocks > len(keys):
        assert isinstance(pool, CachingBlockPool)
        more = core.device.output_keys(sequence, len(keys), full_blocks, core.config.block_size)
        keys += pool.in_namespace(more, _namespace(core, sequence))


def forget_prefix(sequence: Sequence) -> None:
    """The sequence holds no blocks any more."""
    sequence.published_blocks = 0
    sequence.cached_prefix_version = -1


def _look_up(core: Scheduler, pool: CachingBlockPool, sequence: Sequence) -> list[int]:
    """Known blocks from the beginning; where sequences carry a state, as far as the deepest snapshot among them."""
    keys, size = _keys(core, pool, sequence), core.config.block_size
    found = pool.lookup(keys, (sequence.num_known - 1) // size if sequence.reads_cache else 0)
    if core.snapshots is None:
        return found
    sequence.num_found_blocks = len(found)
    snapshot = core.snapshots.lookup(keys, len(found) * size, sequence.request.session)
    sequence.cached_snapshot = snapshot
    return found[: snapshot.num_tokens // size] if snapshot is not None else []


def _keys(core: Scheduler, pool: CachingBlockPool, sequence: Sequence) -> list[int]:
    if sequence.keys is None:
        keys = sequence.request.prompt.block_keys(core.config.block_size)
        sequence.keys = pool.in_namespace(keys, _namespace(core, sequence))
    return sequence.keys


def _namespace(core: Scheduler, sequence: Sequence) -> tuple[str, str, str]:
    """Adapter, salt and tenant: only prompts that agree in all of them share blocks."""
    request = sequence.request
    return request.adapter, request.cache_salt, request.tenant if core.config.cache_per_tenant else ""
