"""What a scheduler's state comes to, counted anew from its live sequences: no kept sum, list or lookup is believed."""

from __future__ import annotations

from collections.abc import Sequence as List

from schedlab.config import AdmissionRule, Fusion, PreemptionMode
from schedlab.core.scheduler import Scheduler
from schedlab.device import CopyKind
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.swap import Tier
from schedlab.policies.view import COMPUTE_BOUND_TOKENS
from schedlab.sequence import Sequence, State

TIERS = {
    PreemptionMode.HOST: (Tier.HOST,),
    PreemptionMode.DISK: (Tier.DISK, Tier.HOST),
    PreemptionMode.RECOMPUTE: (),
}
SEATED = (State.PREFILLING, State.ACTIVE, State.RESTORING)


def of_state(core: Scheduler, *states: State) -> list[Sequence]:
    """Live sequences in these states, in the order of arrival."""
    live = (one for one in core.sequences.values() if one.state in states)
    return sorted(live, key=lambda one: one.arrival_index)


def prefilling(core: Scheduler) -> list[Sequence]:
    """Prompts in progress that have not ended, in the order in which they came in."""
    found = (one for one in of_state(core, State.PREFILLING) if one not in core.ending)
    return sorted(found, key=lambda one: one.admission_index)


def rows(core: Scheduler) -> list[Sequence]:
    """In the order in which they joined."""
    return sorted(of_state(core, State.ACTIVE), key=lambda one: one.row_index)


def free_seats(core: Scheduler) -> int:
    return core.config.max_num_seqs - len(of_state(core, *SEATED))


def outputs(core: Scheduler, sequence: Sequence) -> int:
    """A row has given one for each iteration since it joined."""
    if sequence.state is not State.ACTIVE:
        return sequence.num_outputs
    return sequence.joined_len - sequence.num_prompt_tokens + 1 + core.batch.step - sequence.joined_step


def known(core: Scheduler, sequence: Sequence) -> int:
    return sequence.num_prompt_tokens + outputs(core, sequence)


def prompt_blocks(core: Scheduler, sequence: Sequence) -> int:
    """For all that is known, less what a window keeps on disk."""
    blocks = 0
    while blocks * core.config.block_size < known(core, sequence):
        blocks += 1
    return blocks - (sequence.window.start if sequence.window is not None else 0)


def holders(core: Scheduler) -> dict[int, int]:
    """Of each block that anybody holds: how many do."""
    counts: dict[int, int] = {}
    for sequence in core.sequences.values():
        for block in sequence.block_table:
            counts[block] = counts.get(block, 0) + 1
    return counts


def free_blocks(core: Scheduler) -> int:
    return core.pool.total_blocks - len(holders(core))


def reserved(core: Scheduler, sequence: Sequence) -> int:
    """Blocks that a prompt in progress will still take."""
    if sequence.state is not State.PREFILLING or sequence in core.ending:
        return 0
    return prompt_blocks(core, sequence) - len(sequence.block_table)


def reserved_blocks(core: Scheduler) -> int:
    return sum(reserved(core, one) for one in prefilling(core))


def commitment(core: Scheduler, sequence: Sequence) -> int:
    if core.config.admission is not AdmissionRule.COMMIT:
        return 0
    most = sequence.num_prompt_tokens + sequence.max_outputs
    if core.config.watermark_tokens >= 0:
        most = min(most, known(core, sequence) + core.config.watermark_tokens)
    return most // core.config.block_size + 1


def committed_blocks(core: Scheduler) -> int:
    """Of all who have a seat, and of those who have lost it where they do not stand in line with the others."""
    parked = () if core.in_line else (State.PREEMPTED, State.SWAPPED)
    return sum(commitment(core, one) for one in of_state(core, *SEATED, *parked))


def token_budget(core: Scheduler) -> int:
    beside = len(of_state(core, State.ACTIVE)) if core.config.fusion is not Fusion.NONE else 0
    return core.config.max_num_batched_tokens - beside


def found_blocks(core: Scheduler, sequence: Sequence) -> list[int]:
    """What the prefix cache has of the beginning of a sequence, by a look at every block's key; all but one token.

    Where sequences carry a state, as far as the deepest one that is saved and that it may use.
    """
    pool, size = core.pool, core.config.block_size
    if not isinstance(pool, CachingBlockPool) or not sequence.reads_cache:
        return []
    blocks = {key: block for block, key in enumerate(pool.keys()) if key is not None}
    keys, most, found = _keys(pool, core, sequence), (known(core, sequence) - 1) // size, list[int]()
    for key in keys[:most]:
        if key not in blocks:
            break
        found.append(blocks[key])
    if core.snapshots is None:
        return found
    depths = [
        one.num_tokens // size
        for one in core.snapshots.snapshots()
        if one.key in keys[: len(found)]
        and one.num_tokens == (keys.index(one.key) + 1) * size
        and one.session in ("", sequence.request.session)
        and one.num_tokens >= core.config.snapshot_min_tokens
    ]
    return found[: max(depths, default=0)]


def _keys(pool: CachingBlockPool, core: Scheduler, sequence: Sequence) -> list[int]:
    if sequence.keys is not None:
        return sequence.keys
    request = sequence.request
    tenant = request.tenant if core.config.cache_per_tenant else ""
    keys = request.prompt.block_keys(core.config.block_size)
    return pool.in_namespace(keys, (request.adapter, request.cache_salt, tenant))


def missing_blocks(core: Scheduler, sequence: Sequence) -> int:
    """Free blocks that whoever comes in takes: not those of the cache that others hold, unless it brings an image."""
    if sequence.image is not None:
        return prompt_blocks(core, sequence)
    held = holders(core)
    return prompt_blocks(core, sequence) - sum(block in held for block in found_blocks(core, sequence))


def room_for(core: Scheduler, newcomer: Sequence, owner: Sequence) -> int:
    """What it alone holds and the newcomer does not need where it is, and what it has reserved."""
    held, found = holders(core), found_blocks(core, newcomer)
    own_blocks = [block for block in owner.block_table if held[block] == 1 and block not in found]
    return len(own_blocks) + reserved(core, owner)


def image_bytes(core: Scheduler, owner: Sequence) -> int:
    facts = core.device.facts
    return len(owner.block_table) * facts.block_bytes + facts.state_bytes


def room_bytes(core: Scheduler, tier: Tier) -> int:
    """What images and windows leave of a tier."""
    live = core.sequences.values()
    taken = sum(one.image.num_bytes for one in live if one.image is not None and one.image.tier is tier)
    if tier is Tier.DISK:
        windows = (one.window.requested for one in live if one.window is not None)
        taken += sum(windows) * core.device.facts.block_bytes
    return core.swap.budget_bytes[tier] - taken


def fits_together(core: Scheduler, owners: List[Sequence]) -> bool:
    needed = sum(image_bytes(core, owner) for owner in owners)
    return any(needed <= room_bytes(core, tier) for tier in TIERS.get(core.config.preemption, tuple(Tier)))


def swap_ns(core: Scheduler, owner: Sequence, tier: Tier) -> int | None:
    needed, device = image_bytes(core, owner), core.device
    if needed > room_bytes(core, tier):
        return None
    back_ns = device.copy_ns(CopyKind.HOST_TO_DEVICE, needed)
    if tier is Tier.DISK:
        back_ns += device.copy_ns(CopyKind.HOST_TO_DISK, needed) + device.copy_ns(CopyKind.DISK_TO_HOST, needed)
    share_ns = back_ns * len(owner.block_table) // core.pool.total_blocks
    return device.copy_ns(CopyKind.DEVICE_TO_HOST, needed) + share_ns


def recompute_ns(core: Scheduler, owner: Sequence) -> int:
    held, tokens = holders(core), known(core, owner)
    for block in owner.block_table:
        if held[block] == 1:
            break
        tokens -= core.config.block_size
    in_step = max(tokens, min(core.config.max_num_batched_tokens, COMPUTE_BOUND_TOKENS))
    return core.device.prefill_ns(in_step) * tokens // in_step
