"""Hypothesis strategies for worlds: any legal configuration, any policy, any cost model, crowded pools, tied times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from backends.sim.costs.base import CostModel
from backends.sim.costs.constant import Constant
from backends.sim.costs.roofline import Roofline
from backends.sim.links import LinkSpec
from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import all_models
from schedlab.config import AdmissionRule, Fusion, PreemptionMode, ResumeRule, SchedulerConfig, VictimRule
from schedlab.device import CopyKind
from schedlab.memory.blocks import blocks_for
from schedlab.memory.swap import GIB
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.policies.slai import Slai
from tests.property.policies import Moody, Shifts, scrambled
from tests.property.world import Session, Text, Turn, World

PolicyFactory = Callable[[SchedulerConfig], Policy]
# Room on the host and on disk, in GiB, for each way to give up memory.
TIER_SIZES = {
    PreemptionMode.RECOMPUTE: ((0, 0),),
    PreemptionMode.HOST: ((1, 0), (3, 0)),
    PreemptionMode.DISK: ((0, 1), (1, 1), (1, 3)),
    PreemptionMode.CHEAPEST: ((1, 0), (0, 1), (2, 2)),
}


class Erratic(CostModel):
    """Any duration for any step, from a single quantum up, without a pattern; with a window or without."""

    def __init__(self, seed: int, most_quanta: int, window_tokens: int | None = None) -> None:
        self._seed = seed
        self._most_quanta = most_quanta
        self.window_tokens = window_tokens

    def step_quanta(
        self,
        rows: int,
        context_tokens: int,
        chunks: Sequence[tuple[int, int]] = (),
        windowed_tokens: int | None = None,
    ) -> int:
        shape = (token for chunk in chunks for token in chunk)
        return 1 + scrambled(self._seed, rows, context_tokens, windowed_tokens or 0, *shape) % self._most_quanta

    def describe(self) -> dict[str, Any]:
        return {"name": "erratic", "seed": self._seed}


@st.composite
def configs(draw: st.DrawFn) -> SchedulerConfig:
    """Any configuration that is not refused, with budgets small enough to bind."""
    max_num_seqs = draw(st.one_of(st.integers(1, 3), st.integers(3, 9)))
    chunked = draw(st.booleans())
    max_num_batched_tokens = max_num_seqs + draw(st.integers(0, 24) if chunked else st.integers(0, 100))
    admission = draw(st.sampled_from(AdmissionRule))
    commit = admission is AdmissionRule.COMMIT
    longest = 200 if chunked else max_num_batched_tokens
    return SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_prefill_tokens=draw(st.integers(0, 9)) if chunked else 0,
        chunked_prefill=chunked,
        align_chunks=chunked and draw(st.booleans()),
        fusion=draw(st.sampled_from(Fusion)),
        admission=admission,
        watermark_blocks=0 if commit else draw(st.sampled_from((0, 0, 1, 4, 20))),
        watermark_tokens=draw(st.integers(-1, 20)) if commit else -1,
        overcommit_percent=draw(st.sampled_from((100, 1, 60, 150, 400))) if commit else 100,
        max_bypass=draw(st.integers(0, 3)),
        victim=draw(st.sampled_from(VictimRule)),
        resume=draw(st.sampled_from(ResumeRule)),
        resume_headroom_blocks=draw(st.integers(0, 3)),
        immunity_tokens=draw(st.sampled_from((0, 1, 5, 64))),
        block_size=draw(st.sampled_from((1, 2, 3, 4, 7, 16))),
        max_model_len=draw(st.sampled_from((longest, longest, longest, 1 + longest // 4))),
        **draw(_memory_rules(commit)),
    )


@st.composite
def _memory_rules(draw: st.DrawFn, commit: bool) -> dict[str, Any]:
    """Prefix cache, ways to give up memory, windows."""
    preemption = draw(st.sampled_from((PreemptionMode.RECOMPUTE, *PreemptionMode)))
    window_blocks = 0 if commit else draw(st.sampled_from((0, 0, 1, 2, 5)))
    host, disk = draw(st.sampled_from(TIER_SIZES[preemption]))
    prefix_cache = draw(st.booleans())
    can_swap = preemption is not PreemptionMode.RECOMPUTE and not commit
    return {
        "preemption": preemption,
        "swap_host_gib": host,
        "swap_disk_gib": max(disk, draw(st.integers(1, 2))) if window_blocks else disk,
        "window_blocks": window_blocks,
        "swap_at_admission": can_swap and draw(st.booleans()),
        "prefix_cache": prefix_cache,
        "cache_per_tenant": prefix_cache and draw(st.booleans()),
    }


@st.composite
def policies(draw: st.DrawFn, config: SchedulerConfig, unit_ns: int) -> PolicyFactory:
    """Every bundled policy and the hostile ones."""
    kind = draw(st.sampled_from(("fifo", "slai", "priority", "moody", "shifts")))
    if kind == "slai":
        return partial(_slai, patience_ns=draw(st.integers(1, 6)) * unit_ns)
    if kind == "priority":
        can_evict = config.resume is ResumeRule.IN_LINE and not config.swap_at_admission
        evict = can_evict and draw(st.booleans())
        return partial(Priority, aging_per_s=draw(st.sampled_from((0.0, 0.5, 9e5))), evict=evict)
    if kind == "moody":
        return partial(Moody, seed=draw(st.integers(0, 99)))
    if kind == "shifts":
        gate = draw(st.sampled_from(("compose", "admit")))
        return partial(Shifts, period_ns=draw(st.integers(1, 7)) * unit_ns, gate=gate)
    return Fifo


def _slai(config: SchedulerConfig, patience_ns: int) -> Slai:
    policy = Slai(config)
    policy._patience_ns = patience_ns  # the command line gives whole milliseconds only
    return policy


@st.composite
def costs(draw: st.DrawFn) -> tuple[CostModel, int]:
    """A cost model, and a time in nanoseconds that a few of its steps take."""
    kind = draw(st.sampled_from(("even", "odd", "erratic", "roofline")))
    if kind == "even":
        return Constant(step_ns=1000), 1000
    if kind == "odd":
        step_ns = draw(st.sampled_from((1000, 999.75, 333.3333, 1, 0.3)))
        per_row, per_token, per_prefill = (draw(st.sampled_from((0, 1, 0.37, 100))) for _ in range(3))
        return Constant(step_ns, per_row, per_token, per_prefill), 1000
    window_tokens = draw(st.sampled_from((None, 1, 5, 20)))
    if kind == "erratic":
        most_quanta = draw(st.sampled_from((1, 1 << 10, 1 << 31)))
        return Erratic(draw(st.integers(0, 9)), most_quanta, window_tokens), 1000
    model = draw(st.sampled_from(sorted(all_models().values(), key=lambda model: model.name)))
    if model.window_tokens is not None and window_tokens is not None:
        model = replace(model, window_tokens=window_tokens)
    return Roofline(find_hardware("h100"), model), 5_000_000


def times(unit_ns: int) -> st.SearchStrategy[int]:
    """Times that meet one another and the ends of even steps, and some that do not."""
    return st.one_of(
        st.integers(0, 30).map(lambda count: count * unit_ns), st.integers(0, 30 * unit_ns), st.integers(0, 3)
    )


@st.composite
def turns(draw: st.DrawFn, unit_ns: int) -> Turn:
    """A request with any end: natural, by its limit, by its deadline, cancelled, refused."""
    rarely = st.integers(0, 4).map(lambda number: number == 0)
    return Turn(
        prompt_tokens=draw(st.one_of(st.integers(1, 12), st.integers(1, 12), st.integers(1, 80))),
        output_tokens=draw(st.one_of(st.integers(0, 2), st.integers(0, 40))),
        max_tokens=draw(st.one_of(st.just(1 << 20), st.integers(0, 2), st.integers(0, 40))),
        priority=draw(st.integers(0, 2)),
        timeout_ns=draw(times(unit_ns)) if draw(rarely) else None,
        cancel_ns=draw(times(unit_ns)) if draw(rarely) else None,
        think_ns=draw(st.one_of(st.just(0), times(unit_ns))),
    )


@st.composite
def texts(draw: st.DrawFn, hash_block_tokens: int | None) -> Text | None:
    """Prompts that begin alike; or nothing but lengths."""
    if hash_block_tokens is None or draw(st.booleans()):
        return None
    return Text(
        family=draw(st.integers(0, 2)),
        shared_tokens=draw(st.integers(0, 60)),
        hash_block_tokens=hash_block_tokens,
        grows=draw(st.booleans()),
        salt=draw(st.sampled_from(("", "", "a", "b"))),
        tenant=draw(st.sampled_from(("", "x", "y"))),
    )


@st.composite
def links(draw: st.DrawFn, block_bytes: int, unit_ns: int) -> dict[CopyKind, LinkSpec]:
    """From far faster than a step to many steps for a block."""
    specs = {}
    for kind in CopyKind:
        per_block_ns = draw(st.sampled_from((1, unit_ns // 3 + 1, 2 * unit_ns, 20 * unit_ns)))
        latency_ns = draw(st.sampled_from((0, unit_ns // 7, 3 * unit_ns)))
        specs[kind] = LinkSpec(max(block_bytes * 1_000_000_000 // per_block_ns, 1), latency_ns)
    return specs


@st.composite
def sessions(
    draw: st.DrawFn, unit_ns: int, most: int = 14, hash_block_tokens: int | None = None
) -> tuple[Session, ...]:
    """Arrivals alone, together, in bursts; a few with later turns. Without trace blocks they have no text."""
    count = draw(st.integers(1, most))
    drawn = []
    for _ in range(count):
        num_turns = draw(st.sampled_from((1, 1, 1, 2, 3)))
        later_turns = tuple(draw(turns(unit_ns)) for _ in range(num_turns))
        drawn.append(Session(draw(times(unit_ns)), later_turns, draw(texts(hash_block_tokens))))
    return tuple(drawn)


@st.composite
def crowds(draw: st.DrawFn, unit_ns: int, hash_block_tokens: int) -> tuple[Session, ...]:
    """Short prompts with long outputs, close together: they all come in and then outgrow the pool."""
    drawn = []
    for _ in range(draw(st.integers(2, 10))):
        turn = draw(turns(unit_ns))._replace(
            prompt_tokens=draw(st.integers(1, 8)), output_tokens=draw(st.integers(4, 30)), max_tokens=1 << 20
        )
        drawn.append(Session(draw(st.integers(0, 5)) * unit_ns, (turn,), draw(texts(hash_block_tokens))))
    return tuple(drawn)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Everything at once: half of the time more than the pool can hold."""
    config = draw(configs())
    cost, unit_ns = draw(costs())
    policy = draw(policies(config, unit_ns))
    crowded = draw(st.booleans())
    size = config.block_size
    # The ids of one trace stand for equally many tokens, and its blocks fit the pool's.
    divisors = [part for part in range(1, size) if size % part == 0]
    hash_block_tokens = draw(st.sampled_from((size, size, 2 * size, *divisors)))
    arrivals = draw(
        crowds(unit_ns, hash_block_tokens) if crowded else sessions(unit_ns, hash_block_tokens=hash_block_tokens)
    )
    if crowded:
        needed = [blocks_for(turn.prompt_tokens + turn.output_tokens, size) for (_, (turn,), _) in arrivals]
        num_blocks = draw(st.integers(max(1, max(needed) - 1), max(needed) + 6))
    else:
        num_blocks = draw(st.integers(1, 60))
    block_bytes = GIB // draw(st.integers(1, 30))
    transfers = draw(links(block_bytes, unit_ns))
    return World(config, policy, cost, num_blocks, arrivals, block_bytes, transfers, draw(st.booleans()))
