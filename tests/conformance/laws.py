"""The laws of scenarios.md, part 1, that hold after every event and at every tick of any run."""

from __future__ import annotations

from collections import Counter

from schedlab.core.scheduler import Scheduler
from schedlab.memory.prefix import CachingBlockPool
from schedlab.policies.fifo import Fifo
from schedlab.sequence import Sequence, State


def after_event(core: Scheduler) -> None:
    """Blocks add up and seats are within their number, in the middle of a tick too."""
    held = len({block for sequence in core.sequences.values() for block in sequence.block_table})
    assert held == core.pool.used_blocks, f"tables hold {held} blocks, the pool counts {core.pool.used_blocks}"
    assert held + core.pool.free_blocks == core.pool.total_blocks
    seats = len(core.batch) + len(core.prefilling) + len(core.restoring)
    assert seats <= core.config.max_num_seqs, f"{seats} own a seat"


def after_tick(core: Scheduler) -> None:
    """Every sequence is in one place that fits its state, every block in one place, every sum is right."""
    _one_place_each(core)
    _blocks_are_somewhere(core)
    if isinstance(core.pool, CachingBlockPool):
        _cache_is_closed(core, core.pool)
    _swap_space_is_taken_by_images(core)
    assert not core.ending, f"{list(core.ending)} have not retired"
    assert core.reserved_blocks == sum(sequence.reserved_blocks for sequence in core.sequences.values())
    assert core.reserved_blocks >= 0
    if core.ledger is not None:
        committed = sum(core.ledger.held_by(sequence) for sequence in core.sequences.values())
        assert core.ledger.blocks == committed, f"the ledger says {core.ledger.blocks}, its parts are {committed}"
    assert core.batch.context_tokens == sum(core.batch.length(row) for row in core.batch.rows)


def at_end(core: Scheduler) -> None:
    """Nothing is held any more."""
    assert core.pool.used_blocks == 0 and core.reserved_blocks == 0
    assert not core.sequences and not len(core.waiting) and not core.parked
    assert not core.batch and not core.prefilling and not core.restoring
    assert not any(core.swap.used_bytes.values()), f"images are left: {core.swap.used_bytes}"
    assert core.ledger is None or core.ledger.blocks == 0


def fifo_admission(core: Scheduler, newcomer: Sequence) -> None:
    """Under fifo nobody passes an earlier one: a preempted one never, a waiting one `max_bypass` times at most."""
    if not isinstance(core.policy, Fifo):
        return
    if core.in_line:
        assert all(newcomer.arrival_index < parked.arrival_index for parked in core.parked), (
            f"{newcomer} jumps the line"
        )
    passed = [one for one in core.waiting.candidates() if one.arrival_index < newcomer.arrival_index]
    passed = [one for one in passed if one.state is State.PENDING]
    assert len(passed) <= core.config.max_bypass, f"{newcomer} passes {passed}"
    assert all(one.times_bypassed < core.config.max_bypass for one in passed), f"{newcomer} passes {passed} once more"


def _one_place_each(core: Scheduler) -> None:
    places: dict[State, list[Sequence]] = {
        State.PENDING: list(core.waiting.candidates()),
        State.PREFILLING: list(core.prefilling),
        State.ACTIVE: list(core.batch.rows),
        State.PREEMPTED: [one for one in core.parked if one.state is State.PREEMPTED],
        State.SWAPPED: [one for one in core.parked if one.state is State.SWAPPED],
        State.RESTORING: list(core.restoring),
    }
    found = [sequence for everyone in places.values() for sequence in everyone]
    assert len(found) == len(core.sequences), f"{found} are in a container, {list(core.sequences)} are live"
    assert set(found) == set(core.sequences.values())
    for state, everyone in places.items():
        assert all(sequence.state is state for sequence in everyone), f"{state}: {everyone}"
    for sequence in (*places[State.PENDING], *core.parked):
        assert not sequence.block_table and not sequence.reserved_blocks, f"{sequence} waits and holds memory"


def _blocks_are_somewhere(core: Scheduler) -> None:
    """Each block is held, idle or empty, and has as many references as tables name it."""
    pool = core.pool
    holders = Counter(block for sequence in core.sequences.values() for block in sequence.block_table)
    unheld = [*pool.free_list(), *(pool.idle_list() if isinstance(pool, CachingBlockPool) else ())]
    assert sorted([*holders, *unheld]) == list(range(pool.total_blocks)), "a block is lost or in two places"
    assert all(pool.references(block) == count for block, count in holders.items()), f"references of {holders}"
    assert not any(pool.references(block) for block in unheld)


def _cache_is_closed(core: Scheduler, pool: CachingBlockPool) -> None:
    """What can be found is full and found whole; what nobody can find is empty."""
    keyed = [block for block in range(pool.total_blocks) if pool.key_of(block) is not None]
    assert len(keyed) == pool.cached_blocks
    assert all(pool.key_of(block) is None for block in pool.free_list())
    assert all(pool.key_of(block) is not None for block in pool.idle_list())
    for sequence in core.sequences.values():
        keys, table = sequence.keys or [], sequence.block_table
        for index, block in enumerate(table):
            key = pool.key_of(block)
            assert key is None or key == keys[index], f"{sequence} holds block {block} of another text"
            assert key is not None or index >= sequence.published_blocks, f"{sequence}: block {block} has no key"


def _swap_space_is_taken_by_images(core: Scheduler) -> None:
    taken = dict.fromkeys(core.swap.used_bytes, 0)
    for sequence in core.sequences.values():
        if sequence.image is not None:
            taken[sequence.image.tier] += sequence.image.num_bytes
            assert sequence.state in (State.SWAPPED, State.RESTORING), f"{sequence} has an image"
    assert core.config.window_blocks or taken == core.swap.used_bytes, f"{taken} of {core.swap.used_bytes}"
    assert all(used <= core.swap.budget_bytes[tier] for tier, used in core.swap.used_bytes.items())
