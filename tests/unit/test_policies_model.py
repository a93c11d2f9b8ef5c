"""What each built-in policy decides in any state, against its rule said as directly as possible."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.config import AdmissionRule, PreemptionMode, ResumeRule, SchedulerConfig, VictimRule
from schedlab.device import FOREVER_NS
from schedlab.errors import UsageError
from schedlab.memory.swap import Tier
from schedlab.policies.base import Policy, StaticPolicy
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.policies.queues import FifoQueue, KeyedQueue
from schedlab.policies.slai import FrontThenShortest, Slai
from schedlab.policies.view import View
from schedlab.request import Prompt, Request
from schedlab.sequence import Sequence, State
from tests.unit.policy_views import MadeView, Owner, owned, views, way_of
from tests.unit.sequences import waiting

drawing = settings(max_examples=80, derandomize=True, deadline=None, database=None)
PROMPT, COMMIT = AdmissionRule.PROMPT, AdmissionRule.COMMIT
SWAP: dict[str, Any] = {"swap_host_gib": 1, "swap_disk_gib": 1}
MODES = {
    PreemptionMode.RECOMPUTE: {},
    PreemptionMode.HOST: {"swap_host_gib": 1},
    PreemptionMode.DISK: SWAP,
    PreemptionMode.CHEAPEST: SWAP,
}
# As many as own a seat in a made view, at most, and as many again.
SEATS = st.integers(5, 9)


def seen(made: MadeView, config: SchedulerConfig) -> View:
    """The seats that are free or not are those of the configuration."""
    made.config = config
    return cast(View, made)


def line(rule: VictimRule, owners: list[Owner]) -> list[Owner]:
    """Who gives way, first to last."""
    if rule is VictimRule.LAST_IN:
        return sorted(owners, key=lambda one: -one.sequence.admission_index)
    if rule is VictimRule.FEWEST_OUTPUTS:
        return sorted(owners, key=lambda one: (one.outputs, one.sequence.admission_index))
    return sorted(owners, key=lambda one: (-one.sequence.request.priority, -one.sequence.admission_index))


def is_immune(one: Owner) -> bool:
    return one.outputs < one.sequence.immune_until_outputs


@given(made=views(), admission=st.sampled_from(AdmissionRule), seats=SEATS, watermark=st.integers(0, 4), data=st.data())
@drawing
def test_who_comes_in_leaves_what_is_spoken_for(
    made: MadeView, admission: AdmissionRule, seats: int, watermark: int, data: st.DataObject
) -> None:
    """Also where nobody owns a seat: then nothing is spoken for. About as much is needed as there is."""
    percent = data.draw(st.sampled_from((50, 100, 150)))
    made.free_seats = seats if not data.draw(st.integers(0, 2)) else made.free_seats
    rules: dict[str, Any] = {"watermark_blocks": watermark} if admission is PROMPT else {"overcommit_percent": percent}
    config = SchedulerConfig(max_num_seqs=seats, admission=admission, **rules)
    if admission is PROMPT:
        spoken_for = 0 if made.free_seats == seats else watermark + made.reserved_blocks
        made.needed_blocks = max(0, made.free_blocks - data.draw(st.sampled_from((0, spoken_for, spoken_for))))
        made.needed_blocks += data.draw(st.integers(0, 1))
        fits = made.needed_blocks + spoken_for <= made.free_blocks
    else:
        made.total_blocks *= data.draw(st.sampled_from((1, 40)))
        most = Fraction(made.total_blocks * percent, 100)
        made.needed_commitment = max(1, int(most) - made.committed_blocks + data.draw(st.integers(-1, 1)))
        fits = not made.committed_blocks or made.committed_blocks + made.needed_commitment <= most
    assert Fifo(config).admit(seen(made, config), waiting(99)) is fits


@given(owners=owned(least=1), rule=st.sampled_from(VictimRule), immunity=st.sampled_from((0, 8)))
@drawing
def test_who_gives_way_is_the_first_in_the_rules_line_that_is_not_immune(
    owners: list[Owner], rule: VictimRule, immunity: int
) -> None:
    """If all of them are, the first of all; without immunity in the configuration what is noted counts for nothing."""
    config = SchedulerConfig(victim=rule, immunity_tokens=immunity)
    candidates = [one for one in owners if not (immunity and is_immune(one))] or owners
    found = Fifo(config).yield_(seen(MadeView(owners), config), (one.sequence for one in owners))
    assert found is line(rule, candidates)[0].sequence


@given(
    owners=owned(least=1, most=1),
    mode=st.sampled_from((*PreemptionMode, *[PreemptionMode.CHEAPEST] * 6)),
    state=st.sampled_from((*State, *[State.ACTIVE] * 20)),
)
@drawing
def test_how_a_victim_gives_up_its_blocks(owners: list[Owner], mode: PreemptionMode, state: State) -> None:
    config = SchedulerConfig(preemption=mode, **MODES[mode])
    owners[0].sequence.state = state
    found = Fifo(config).give_up(seen(MadeView(owners), config), owners[0].sequence)
    assert found is way_of(mode, owners[0])


def test_of_ways_that_cost_the_same_the_nearest_is_taken() -> None:
    config, sequence = SchedulerConfig(preemption=PreemptionMode.CHEAPEST, **SWAP), waiting(1)
    sequence.state = State.ACTIVE
    for recompute_ns, mode in ((5, PreemptionMode.RECOMPUTE), (6, PreemptionMode.HOST)):
        owner = Owner(sequence, 1, 1, 1, recompute_ns, dict.fromkeys(Tier, 5))
        assert Fifo(config).give_up(seen(MadeView([owner]), config), sequence) is mode


@pytest.mark.parametrize("rule", list(VictimRule))
@given(
    made=views(),
    mode=st.sampled_from((PreemptionMode.HOST, PreemptionMode.DISK, PreemptionMode.CHEAPEST)),
    shut=st.sampled_from(("off", "parked", "seats", *[""] * 12)),
    short=st.tuples(st.integers(1, 3), st.sampled_from((-1, 0, 0, 1)), st.sampled_from((-1, 0, 9, 9))),
    watermark=st.integers(0, 2),
    immunity=st.sampled_from((0, 8)),
)
@drawing
def test_who_makes_way_by_swapping_is_as_few_as_are_enough_or_nobody(
    made: MadeView,
    mode: PreemptionMode,
    shut: str,
    short: tuple[int, int, int],
    rule: VictimRule,
    watermark: int,
    immunity: int,
) -> None:
    """About as many blocks are missing as some of them hold, and about as many have room elsewhere."""
    made.num_parked, made.free_seats = int(shut == "parked"), int(shut != "seats")
    config = SchedulerConfig(
        preemption=mode,
        swap_at_admission=shut != "off",
        victim=rule,
        watermark_blocks=watermark,
        immunity_tokens=immunity,
        **MODES[mode],
    )
    able = [
        one
        for one in made.owned
        if one.sequence.state is State.ACTIVE
        and not is_immune(one)
        and way_of(mode, one) is not PreemptionMode.RECOMPUTE
    ]
    held = sum(one.room_blocks for one in line(rule, able)[: short[0]])
    made.needed_blocks = max(0, made.free_blocks - made.reserved_blocks - watermark + held + short[1])
    made.swap_room_blocks = max(0, held + short[2])
    missing, expected = made.needed_blocks + watermark + made.reserved_blocks - made.free_blocks, list[Owner]()
    if not shut:
        for count in range(len(able) + 1):
            expected = line(rule, able)[:count]
            if sum(one.room_blocks for one in expected) >= missing:
                break
        else:
            expected = []
    if sum(one.room_blocks for one in expected) > made.swap_room_blocks:
        expected = []
    for policy in (Fifo(config), Priority(config)):
        found = policy.make_way(seen(made, config), waiting(99))
        assert list(found) == [one.sequence for one in expected]


@pytest.mark.parametrize("admission", list(AdmissionRule))
@given(
    made=views(),
    percent=st.sampled_from((50, 100, 150)),
    watermark=st.integers(0, 3),
    away=st.sampled_from((0, 0, 1)),
    newcomer=st.sampled_from((-2, -2, -2, 0, 1, 2)),
    short=st.tuples(st.integers(0, 5), st.integers(-1, 4), st.sampled_from((1, 40))),
)
@drawing
def test_who_is_evicted_for_an_important_one_is_as_few_as_are_enough_or_nobody(
    made: MadeView,
    admission: AdmissionRule,
    percent: int,
    watermark: int,
    away: int,
    newcomer: int,
    short: tuple[int, int, int],
) -> None:
    """The least important and of those the latest first; those on their way back own seats and are no victims."""
    seats = len(made.owned) + away + made.free_seats or 1
    made.free_seats = seats - len(made.owned) - away
    rules: dict[str, Any] = {"watermark_blocks": watermark} if admission is PROMPT else {"overcommit_percent": percent}
    config = SchedulerConfig(max_num_seqs=seats, admission=admission, **rules)
    request = replace(waiting(99).request, priority=newcomer)
    lesser = [one for one in line(VictimRule.LEAST_PRIORITY, made.owned) if one.sequence.request.priority > newcomer]
    made.needed_blocks = made.free_blocks - made.reserved_blocks - watermark + short[1]
    made.needed_blocks = max(0, made.needed_blocks + sum(one.room_blocks for one in lesser[: short[0]]))
    made.total_blocks *= short[2]
    made.needed_commitment = made.total_blocks * percent // 100 - made.committed_blocks + short[1]
    made.needed_commitment = max(1, made.needed_commitment + sum(one.held_commitment for one in lesser[: short[0]]))
    expected: list[Owner] = []
    for count in range(len(lesser) + 1):
        leaving = lesser[:count]
        if admission is PROMPT:
            kept = watermark if len(made.owned) + away > count else 0
            room = made.free_blocks - made.reserved_blocks - kept + sum(one.room_blocks for one in leaving)
            fits = made.needed_blocks <= room
        else:
            left = made.committed_blocks - sum(one.held_commitment for one in leaving)
            fits = left + made.needed_commitment <= Fraction(made.total_blocks * percent, 100)
        if fits and made.free_seats + count:
            expected = leaving
            break
    found = Priority(config, evict=True).make_way(seen(made, config), Sequence(request, 99, 9))
    assert list(found) == [one.sequence for one in expected]
    assert list(Priority(config).make_way(seen(made, config), Sequence(request, 99, 9))) == []


@given(
    asks=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 5_000_000_000)), min_size=2, max_size=6),
    aging_micro=st.sampled_from((0, 1, 250_000, 2_500_000, 999_999_999_999)),
)
@drawing
def test_whoever_waits_gains_priority_at_the_rate_of_aging(asks: list[tuple[int, int]], aging_micro: int) -> None:
    """At any instant the line is that of class less rate x time waited; equals stand as they came."""
    rate, now_ns = Fraction(aging_micro, 1_000_000), 6_000_000_000
    policy = Priority(SchedulerConfig(), aging_per_s=aging_micro / 1_000_000)
    requests = [Request(index, Prompt(1), 1, arrival_ns=at, priority=one) for index, (one, at) in enumerate(asks)]
    queue = policy.waiting_queue()
    sequences = [Sequence(request, index, 1) for index, request in enumerate(requests)]
    for sequence in reversed(sequences):
        queue.push(sequence)

    def standing(sequence: Sequence) -> tuple[Fraction, int]:
        waited = Fraction(now_ns - sequence.request.arrival_ns, 1_000_000_000)
        return sequence.request.priority - rate * waited, sequence.arrival_index

    assert [one.request_id for one in queue.candidates()] == [one.request_id for one in sorted(sequences, key=standing)]
    assert sorted(sequences, key=policy.rank) == sorted(sequences, key=standing)


@given(
    deadline_ms=st.integers(1, 500),
    waited_ns=st.none() | st.integers(0, 600_000_000),
    budget=st.integers(0, 99),
    now_ns=st.integers(600_000_000, 10**12),
    is_at_limit=st.sampled_from((None, -1, 0)),
)
@drawing
def test_slai_holds_prefill_back_while_a_token_is_four_fifths_of_the_deadline_old(
    deadline_ms: int, waited_ns: int | None, budget: int, now_ns: int, is_at_limit: int | None
) -> None:
    limit_ns = deadline_ms * 800_000
    if is_at_limit is not None:
        waited_ns = limit_ns + is_at_limit
    made = MadeView(token_budget=budget, now_ns=now_ns)
    made.oldest_token_ns = None if waited_ns is None else now_ns - waited_ns
    policy = Slai(SchedulerConfig(), tbt_deadline_ms=deadline_ms)
    assert policy.compose(cast(View, made)) == (budget if waited_ns is None or waited_ns < limit_ns else 0)


def test_slais_deadline_is_100_ms_unless_said_otherwise() -> None:
    for waited_ns, tokens in ((79_999_999, 7), (80_000_000, 0)):
        made = MadeView(token_budget=7, now_ns=10**9, oldest_token_ns=10**9 - waited_ns)
        assert Slai(SchedulerConfig()).compose(cast(View, made)) == tokens


@pytest.mark.parametrize("kind", [Policy, Fifo, Priority])
def test_others_give_prefill_the_whole_budget(kind: type[Policy]) -> None:
    for budget in (0, 1, 8192):
        assert kind(SchedulerConfig()).compose(cast(View, MadeView(token_budget=budget))) == budget


def test_a_policy_that_says_nothing_may_decide_otherwise_at_once_and_the_built_in_ones_do_not() -> None:
    view = cast(View, MadeView(now_ns=12_345))
    assert Policy(SchedulerConfig()).stable_until_ns(view) == 12_345
    for kind in (StaticPolicy, Fifo, Priority, Slai):
        assert kind(SchedulerConfig()).stable_until_ns(view) == FOREVER_NS


class ShortestPrompt(Policy):
    """A key of its own."""

    def key(self, request: Request) -> Any:
        return request.prompt.num_tokens


def test_the_line_is_that_of_the_key_and_of_arrivals_where_none_is_given() -> None:
    config = SchedulerConfig()
    sequences = [waiting(number, prompt_tokens=tokens) for number, tokens in enumerate((5, 3, 9, 3))]
    kinds = {Policy: FifoQueue, Fifo: FifoQueue, ShortestPrompt: KeyedQueue, Priority: KeyedQueue}
    for kind, queue in {**kinds, Slai: FrontThenShortest}.items():
        assert type(kind(config).waiting_queue()) is queue
    lined_up = ShortestPrompt(config).waiting_queue()
    assert isinstance(lined_up, KeyedQueue) and [lined_up.key(one)[0] for one in sequences] == [5, 3, 9, 3]
    for one in sequences:
        lined_up.push(one)
    assert [one.request_id for one in lined_up.candidates()] == [1, 3, 0, 2]
    assert [ShortestPrompt(config).rank(one) for one in sequences] == [(5, 0), (3, 1), (9, 2), (3, 3)]
    assert [one.request_id for one in sorted(sequences, key=Fifo(config).rank, reverse=True)] == [3, 2, 1, 0]


@pytest.mark.parametrize("kind", [Fifo, ShortestPrompt, Priority])
def test_who_returns_first_is_the_next_in_line_or_the_smallest(kind: type[Policy]) -> None:
    sequences = [waiting(number, prompt_tokens=tokens) for number, tokens in enumerate((17, 12, 9, 30))]
    view = cast(View, MadeView())
    in_line, smallest = (kind(SchedulerConfig(resume=rule)) for rule in ResumeRule)
    for one in sequences:
        assert in_line.resume_key(view, one) == in_line.rank(one)
        assert smallest.resume_key(view, one) == (-(-one.num_prompt_tokens // 4), one.arrival_index)


def test_a_policy_keeps_its_configuration_and_says_what_it_is() -> None:
    config = SchedulerConfig(max_num_seqs=3)
    for kind, name, may_starve in (
        (Policy, "custom", False),
        (Fifo, "fifo", False),
        (Slai, "slai", False),
        (Priority, "priority", True),
    ):
        policy = kind(config)
        assert (policy.config, policy.name, policy.may_starve) == (config, name, may_starve)
        assert policy.config is config


@pytest.mark.parametrize("rate", [-0.001, 1_000_000, float("nan"), float("inf")])
def test_a_rate_of_aging_without_meaning_is_refused(rate: float) -> None:
    with pytest.raises(UsageError, match=f"^aging_per_s is {rate}; give a rate from 0 up to 1000000$"):
        Priority(SchedulerConfig(), aging_per_s=rate)
    assert Priority(SchedulerConfig(), aging_per_s=999_999.5).evict is False


def test_evicting_beside_rules_that_it_contradicts_is_refused() -> None:
    smallest = SchedulerConfig(resume=ResumeRule.SMALLEST)
    swaps = SchedulerConfig(preemption=PreemptionMode.HOST, swap_host_gib=1, swap_at_admission=True)
    with pytest.raises(UsageError, match=r"^evict needs resume=in_line: with resume=smallest the evicted stay commit"):
        Priority(smallest, evict=True)
    with pytest.raises(UsageError, match=r"^evict and swap_at_admission both choose who leaves for a newcomer; leave"):
        Priority(swaps, evict=True)
    for config in (smallest, swaps):
        assert Priority(config).evict is False
    assert Priority(SchedulerConfig(), evict=True).evict is True


def test_a_deadline_below_a_millisecond_is_refused() -> None:
    for wrong in (0, -5):
        with pytest.raises(UsageError, match=f"^tbt_deadline_ms is {wrong}; give at least 1$"):
            Slai(SchedulerConfig(), tbt_deadline_ms=wrong)
    Slai(SchedulerConfig(), tbt_deadline_ms=1)
