"""Every answer of a policy's view, found again from the sequences alone, whenever a policy is asked in drawn runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.config import AdmissionRule, Fusion, PreemptionMode, SchedulerConfig
from schedlab.core.swapping import swap_out
from schedlab.device import CopyKind, DeviceFacts
from schedlab.events import Restored, StepDone
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.swap import GIB, Tier
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from schedlab.sequence import Sequence, State
from tests.unit.hand_device import Hand, HandDevice

SIZE = 4
BLOCK_BYTES, STATE_BYTES = GIB // 8, GIB // 4
SWAP: dict[str, Any] = {"preemption": PreemptionMode.CHEAPEST, "swap_host_gib": 3, "swap_disk_gib": 4}
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "lanes of their own": {"fusion": Fusion.NONE},
    "steps of any size": {"max_num_batched_tokens": 5000, "prefix_cache": True},
    "commitments": {"admission": AdmissionRule.COMMIT, "watermark_tokens": 5, "overcommit_percent": 150},
    "all is committed": {"admission": AdmissionRule.COMMIT, "prefix_cache": True},
    "host": {"preemption": PreemptionMode.HOST, "swap_host_gib": 3, "prefix_cache": True},
    "disk": {**SWAP, "preemption": PreemptionMode.DISK},
    "cheapest": {**SWAP, "swap_at_admission": True, "prefix_cache": True},
    "windows": {**SWAP, "window_blocks": 2},
    "snapshots": {"prefix_cache": True, "snapshot_slots": 3, "snapshot_min_tokens": 4, "snapshot_interval_blocks": 2},
}
COPY_NS = dict(zip(CopyKind, (1, 100, 10_000, 1_000_000), strict=True))
TIERS = {
    PreemptionMode.RECOMPUTE: [],
    PreemptionMode.HOST: [Tier.HOST],
    PreemptionMode.DISK: [Tier.HOST, Tier.DISK],
    PreemptionMode.CHEAPEST: [Tier.HOST, Tier.DISK],
}


class Links(HandDevice):
    """Its times tell what was asked for."""

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        return num_bytes // BLOCK_BYTES * COPY_NS[kind]

    def prefill_ns(self, num_tokens: int) -> int:
        return num_tokens * num_tokens + 7


class Watching(Priority):
    """Has the view checked each time that it is asked for anything."""

    recount: Recount

    def compose(self, view: View) -> int:
        self.recount.check_totals(view)
        return super().compose(view)

    def admit(self, view: View, sequence: Sequence) -> bool:
        self.recount.check_newcomer(view, sequence)
        return super().admit(view, sequence)

    def yield_(self, view: View, candidates: Iterable[Sequence]) -> Sequence:
        self.recount.check_owners(view)
        return super().yield_(view, candidates)


class Recount:
    """Finds each answer again: from the live sequences with their tables, and from the steps that were done."""

    def __init__(self, hand: Hand) -> None:
        self.core, self.config = hand.core, hand.core.config
        self.state_bytes = hand.device.facts.state_bytes
        self.outputs: Counter[int] = Counter()
        self.newest_ns: dict[int, int] = {}
        hand.core.bus.add(self)

    def on_step_done(self, event: StepDone) -> None:
        rows = [row.request_id for row in event.batch.rows] if event.decode_rows else []
        for request_id in rows + [chunk.sequence.request_id for chunk in event.chunks if chunk.samples]:
            self.outputs[request_id] += 1
            self.newest_ns[request_id] = self.core.device.now_ns()

    def on_restored(self, event: Restored) -> None:
        """Nothing has been due while it was away."""
        self.newest_ns[event.sequence.request_id] = event.now_ns

    def live(self, *states: State) -> list[Sequence]:
        return [one for one in self.core.sequences.values() if one.state in states]

    def prefilling(self) -> list[Sequence]:
        """One that ended with its prompt holds its seat to the end of the tick, and computes nothing any more."""
        return [one for one in self.live(State.PREFILLING) if one not in self.core.ending]

    def holders(self) -> Counter[int]:
        """Of each block that somebody holds."""
        return Counter(block for one in self.core.sequences.values() for block in one.block_table)

    def known(self, sequence: Sequence) -> int:
        return sequence.request.prompt.num_tokens + self.outputs[sequence.request_id]

    def blocks(self, sequence: Sequence) -> int:
        return -(-self.known(sequence) // SIZE) - (sequence.window.start if sequence.window else 0)

    def found(self, sequence: Sequence) -> list[int]:
        """Blocks of the cache that it could begin with."""
        pool, snapshots = self.core.pool, self.core.snapshots
        if not isinstance(pool, CachingBlockPool):
            return []
        blocks = {key: block for block, key in enumerate(pool.keys()) if key is not None}
        keys = sequence.request.prompt.block_keys(SIZE)[: (self.known(sequence) - 1) // SIZE]
        known = list(takewhile(lambda key: key in blocks, keys))
        if snapshots is not None:
            mine = [one for one in snapshots.snapshots() if one.session in ("", sequence.request.session)]
            depths = {
                one.key: one.num_tokens // SIZE for one in mine if one.num_tokens >= self.config.snapshot_min_tokens
            }
            known = known[: max((depths[key] for key in known if key in depths), default=0)]
        return [blocks[key] for key in known]

    def commitment(self, sequence: Sequence) -> int:
        if self.config.admission is AdmissionRule.PROMPT:
            return 0
        end = sequence.request.prompt.num_tokens + sequence.request.max_tokens
        growth = self.config.watermark_tokens
        return (end if growth < 0 else min(self.known(sequence) + growth, end)) // SIZE + 1

    def room_bytes(self, tier: Tier) -> int:
        taken = 0
        for one in self.core.sequences.values():
            if one.image is not None and one.image.tier is tier:
                taken += one.image.num_blocks * BLOCK_BYTES + self.state_bytes
            if one.window is not None and tier is Tier.DISK:
                taken += one.window.requested * BLOCK_BYTES
        return {Tier.HOST: self.config.swap_host_gib, Tier.DISK: self.config.swap_disk_gib}[tier] * GIB - taken

    def check_totals(self, view: View) -> None:
        """Whatever does not ask about a sequence."""
        assert view.now_ns == self.core.device.now_ns()
        assert view.config is self.config
        assert view.num_waiting == len(self.live(State.PENDING))
        assert view.num_active == len(self.live(State.ACTIVE))
        assert view.num_prefilling == len(self.prefilling())
        assert view.num_parked == len(self.live(State.PREEMPTED, State.SWAPPED))
        seated = self.live(State.PREFILLING, State.ACTIVE, State.RESTORING)
        assert view.free_seats == self.config.max_num_seqs - len(seated)
        rows = 0 if self.config.fusion is Fusion.NONE else len(self.live(State.ACTIVE))
        assert view.token_budget == self.config.max_num_batched_tokens - rows
        self.check_owners(view)
        for sequence in self.live(State.PENDING, State.PREEMPTED, State.SWAPPED):
            self.check_newcomer(view, sequence)

    def check_owners(self, view: View) -> None:
        """What each owner holds and would cost."""
        holders, active = self.holders(), sorted(self.live(State.ACTIVE), key=lambda one: one.row_index)
        prefilling = sorted(self.prefilling(), key=lambda one: one.admission_index)
        assert list(view.owners()) == prefilling + active
        assert view.total_blocks == self.core.device.facts.num_blocks
        assert view.free_blocks == view.total_blocks - len(holders)
        assert view.reserved_blocks == sum(self.blocks(one) - len(one.block_table) for one in prefilling)
        committed = [self.commitment(one) for one in self.live(State.PREFILLING, State.ACTIVE, State.RESTORING)]
        assert view.committed_blocks == sum(committed)
        waited = [self.newest_ns[one.request_id] for one in active]
        assert view.oldest_token_ns == min(waited, default=None)
        for one in self.core.sequences.values():
            assert view.outputs(one) == self.outputs[one.request_id]
        for one in prefilling + active:
            assert view.held_commitment(one) == self.commitment(one)
        for one in active:
            self._check_cost(view, one, holders)
        images = [len(one.block_table) * BLOCK_BYTES + self.state_bytes for one in active]
        for count in range(len(active) + 1):
            fits = [sum(images[:count]) <= self.room_bytes(tier) for tier in TIERS[self.config.preemption]]
            assert view.has_swap_room(active[:count]) is any(fits)

    def check_newcomer(self, view: View, sequence: Sequence) -> None:
        """What one that owns no seat needs, has in the cache, and would get."""
        holders, found = self.holders(), self.found(sequence)
        assert view.prompt_blocks(sequence) == self.blocks(sequence)
        assert view.commitment(sequence) == self.commitment(sequence)
        assert view.cached_tokens(sequence) == len(found) * SIZE
        held = 0 if sequence.image is not None else sum(block in holders for block in found)
        assert view.missing_blocks(sequence) == self.blocks(sequence) - held
        for owner in view.owners():
            alone = [block for block in owner.block_table if holders[block] == 1 and block not in found]
            reserved = self.blocks(owner) - len(owner.block_table) if owner.state is State.PREFILLING else 0
            assert view.room_for(sequence, owner) == len(alone) + reserved

    def _check_cost(self, view: View, owner: Sequence, holders: Counter[int]) -> None:
        blocks = len(owner.block_table)
        for tier, ways in ((Tier.HOST, 100), (Tier.DISK, 100 + 10_000 + 1_000_000)):
            sent = blocks + self.state_bytes // BLOCK_BYTES
            fits = sent * BLOCK_BYTES <= self.room_bytes(tier)
            expected = sent + sent * ways * blocks // view.total_blocks if fits else None
            assert view.swap_ns(owner, tier) == expected
        shared = list(takewhile(lambda block: holders[block] > 1, owner.block_table))
        tokens = self.known(owner) - len(shared) * SIZE
        chunk = max(tokens, min(self.config.max_num_batched_tokens, 2048))
        assert view.recompute_ns(owner) == (chunk * chunk + 7) * tokens // chunk


def checked(rules: dict[str, Any], num_blocks: int) -> Hand:
    """A scheduler whose policy's view is checked."""
    config = SchedulerConfig(**{"block_size": SIZE, "max_num_seqs": 4, "max_num_batched_tokens": 24, **rules})
    device, policy = Links(), Watching(config, evict=not config.swap_at_admission)
    # With a state and no snapshots of it the cache would be of no use.
    state_bytes = 0 if config.prefix_cache and not config.snapshot_slots else STATE_BYTES
    device.facts = DeviceFacts("links", num_blocks, block_bytes=BLOCK_BYTES, state_bytes=state_bytes)
    hand = Hand(config, device, policy)
    policy.recount = Recount(hand)
    return hand


def test_one_with_an_image_needs_room_for_all_of_it_though_others_hold_its_beginning() -> None:
    hand = checked(RULES["host"], 20)
    for request_id in (0, 1):
        hand.submit(request_id, range(100, 108), 20)
        hand.tick(2)
    first, second = (hand.sequence(request_id) for request_id in (0, 1))
    assert set(first.block_table) & set(second.block_table)
    assert swap_out(hand.core, first, PreemptionMode.HOST)
    assert hand.core.view.missing_blocks(first) == hand.core.view.prompt_blocks(first) == 6
    assert hand.core.view.cached_tokens(first) == 20, "what it would find is there"


@st.composite
def scripts(draw: st.DrawFn, *names: str) -> tuple[Hand, list[str], list[tuple[int, int, int, int, str]]]:
    """A scheduler under one of the rules; what happens before each of its ticks; and what is asked for."""
    hand = checked(RULES[draw(st.sampled_from(names))], draw(st.integers(8, 18)))
    moves = ("tick", "tick", "tick", "ask", "ask", "copies", "cancel")
    asks = st.tuples(
        st.integers(1, 26), st.integers(1, 25), st.integers(0, 2), st.integers(0, 1), st.sampled_from(("", "s"))
    )
    happens = draw(st.lists(st.sampled_from(moves), min_size=40, max_size=60))
    return hand, happens, [draw(asks) for _ in range(8)]


def play(hand: Hand, moves: list[str], asks: list[tuple[int, int, int, int, str]]) -> None:
    """Let all that happen; the policy checks its view whenever it is asked, and so do we after each tick."""
    policy, asked = hand.core.policy, 0
    assert isinstance(policy, Watching)
    for move in moves:
        if move == "ask" and asked < len(asks):
            tokens, outputs, priority, is_known, session = asks[asked]
            first = 100 if is_known else 900 + asked * 10
            hand.submit(asked, range(first, first + 8), tokens, session, outputs, priority=priority)
            asked += 1
        elif move == "copies":
            hand.end_all_copies()
        elif move == "cancel" and hand.core.sequences:
            hand.cancel(next(iter(hand.core.sequences)))
        hand.tick()
        policy.recount.check_totals(hand.core.view)


drawing = settings(max_examples=40, derandomize=True, deadline=None, database=None)


@given(script=scripts("plain", "lanes of their own", "commitments"))
@drawing
def test_the_view_tells_what_owners_hold(script: Any) -> None:
    play(*script)


@given(script=scripts("steps of any size", "all is committed", "snapshots"))
@drawing
def test_the_view_tells_what_the_cache_has(script: Any) -> None:
    play(*script)


@given(script=scripts("host", "disk"))
@drawing
def test_the_view_tells_what_is_away(script: Any) -> None:
    play(*script)


@given(script=scripts("cheapest", "windows"))
@drawing
def test_the_view_tells_what_another_tier_has(script: Any) -> None:
    play(*script)
