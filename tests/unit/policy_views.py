"""A scheduler's state as a policy sees it, made up: owners, room, and what each would cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from schedlab.config import PreemptionMode
from schedlab.memory.swap import Tier
from schedlab.sequence import Sequence, State
from tests.unit.sequences import waiting


@dataclass
class Owner:
    """One that owns a seat, with all that a policy may ask of it."""

    sequence: Sequence
    outputs: int
    room_blocks: int
    held_commitment: int
    recompute_ns: int
    swap_ns: dict[Tier, int | None]


@dataclass
class MadeView:
    """Answers of a `View` that nobody computes; `asked_swap_room` is whom it was last asked about."""

    owned: list[Owner] = field(default_factory=list)
    free_seats: int = 0
    num_parked: int = 0
    total_blocks: int = 0
    free_blocks: int = 0
    reserved_blocks: int = 0
    committed_blocks: int = 0
    needed_blocks: int = 0
    needed_commitment: int = 0
    swap_room_blocks: int = 0
    token_budget: int = 0
    now_ns: int = 0
    oldest_token_ns: int | None = None
    config: Any = None

    def of(self, sequence: Sequence) -> Owner:
        return next(one for one in self.owned if one.sequence is sequence)

    def owners(self) -> Iterator[Sequence]:
        return iter([one.sequence for one in self.owned])

    def outputs(self, sequence: Sequence) -> int:
        return self.of(sequence).outputs

    def missing_blocks(self, sequence: Sequence) -> int:
        return self.needed_blocks

    def prompt_blocks(self, sequence: Sequence) -> int:
        return -(-sequence.num_prompt_tokens // 4)

    def commitment(self, sequence: Sequence) -> int:
        return self.needed_commitment

    def held_commitment(self, owner: Sequence) -> int:
        return self.of(owner).held_commitment

    def room_for(self, newcomer: Sequence, owner: Sequence) -> int:
        assert all(one.sequence is not newcomer for one in self.owned)
        return self.of(owner).room_blocks

    def has_swap_room(self, owners: Iterable[Sequence]) -> bool:
        return sum(self.of(one).room_blocks for one in owners) <= self.swap_room_blocks

    def recompute_ns(self, owner: Sequence) -> int:
        return self.of(owner).recompute_ns

    def swap_ns(self, owner: Sequence, tier: Tier) -> int | None:
        return self.of(owner).swap_ns[tier]


NS = st.integers(0, 3)
SWAP_NS = st.sampled_from((None, 0, 1, 2, 3))


@st.composite
def owned(draw: st.DrawFn, most: int = 5, least: int = 0) -> list[Owner]:
    """Owners, prefilling ones first, who came in some other order than they stand in."""
    count = draw(st.integers(least, most))
    admissions = draw(st.permutations(range(count)))
    found = []
    for number, admission_index in enumerate(admissions):
        sequence = waiting(number, priority=draw(st.integers(-1, 3)))
        sequence.admission_index = admission_index
        sequence.state = draw(st.sampled_from((State.ACTIVE, State.ACTIVE, State.ACTIVE, State.PREFILLING)))
        sequence.immune_until_outputs = draw(st.sampled_from((0, 0, 2, 3)))
        swaps = {tier: draw(SWAP_NS) for tier in Tier}
        found.append(
            Owner(sequence, draw(st.integers(0, 4)), draw(st.integers(0, 5)), draw(st.integers(1, 6)), draw(NS), swaps)
        )
    return sorted(found, key=lambda one: one.sequence.state is State.ACTIVE)


@st.composite
def views(draw: st.DrawFn, most_owners: int = 5) -> MadeView:
    """Any state: not all of the seats that are taken need be owners' (some are on their way back)."""
    return MadeView(
        owned=draw(owned(most_owners, draw(st.sampled_from((0, 1, 2, 3, 3))))),
        free_seats=draw(st.integers(0, 2)),
        num_parked=draw(st.sampled_from((0, 0, 0, 1))),
        total_blocks=draw(st.integers(1, 30)),
        free_blocks=draw(st.integers(0, 9)),
        reserved_blocks=draw(st.integers(0, 4)),
        committed_blocks=draw(st.sampled_from((0, 1, 7, 12, 20))),
        needed_blocks=draw(st.integers(0, 14)),
        needed_commitment=draw(st.integers(1, 25)),
        swap_room_blocks=draw(st.integers(0, 12)),
        token_budget=draw(st.integers(0, 64)),
        now_ns=draw(st.integers(0, 10**9)),
    )


def way_of(mode: PreemptionMode, owner: Owner) -> PreemptionMode:
    """How a victim gives up its blocks under that setting: the least time, in the order of the setting's own list."""
    if owner.sequence.state is not State.ACTIVE:
        return PreemptionMode.RECOMPUTE
    if mode is not PreemptionMode.CHEAPEST:
        return mode
    ways = [(owner.recompute_ns, 0, PreemptionMode.RECOMPUTE)]
    for order, (way, tier) in enumerate(((PreemptionMode.HOST, Tier.HOST), (PreemptionMode.DISK, Tier.DISK)), 1):
        swap_ns = owner.swap_ns[tier]
        if swap_ns is not None:
            ways.append((swap_ns, order, way))
    return sorted(ways)[0][2]
