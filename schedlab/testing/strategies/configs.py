"""Any legal configuration, with budgets small enough to bind, and any policy for it."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st

from schedlab.config import AdmissionRule, Fusion, PreemptionMode, ResumeRule, SchedulerConfig, VictimRule
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.policies.slai import Slai
from schedlab.testing.hostile import Moody, Shifts
from schedlab.testing.world import PolicyFactory

# Room on the host and on disk, in GiB, for each way to give up memory.
TIER_SIZES = {
    PreemptionMode.RECOMPUTE: ((0, 0),),
    PreemptionMode.HOST: ((1, 0), (3, 0)),
    PreemptionMode.DISK: ((0, 1), (1, 1), (1, 3)),
    PreemptionMode.CHEAPEST: ((1, 0), (0, 1), (2, 2)),
}


# Made once: to make a strategy costs as much as to draw from it.
_SEATS = st.one_of(st.integers(1, 3), st.integers(3, 9))
_ADMISSIONS = st.sampled_from(AdmissionRule)
_FUSIONS = st.sampled_from(Fusion)
_VICTIMS = st.sampled_from(VictimRule)
_RESUMES = st.sampled_from(ResumeRule)
_BLOCK_SIZES = st.sampled_from((1, 2, 3, 4, 7, 16))
_WATERMARKS = st.sampled_from((0, 0, 1, 4, 20))
_OVERCOMMITS = st.sampled_from((100, 1, 60, 150, 400))
_IMMUNITIES = st.sampled_from((0, 1, 5, 64))
_PREEMPTIONS = st.sampled_from((PreemptionMode.RECOMPUTE, *PreemptionMode))
_WINDOWS = st.sampled_from((0, 0, 1, 2, 5))
_TIERS = {mode: st.sampled_from(sizes) for mode, sizes in TIER_SIZES.items()}
_LONG = st.sampled_from((True, True, True, False))
_EITHER = st.booleans()
_SNAPSHOT_SLOTS = st.sampled_from((0, 1, 2, 3, 6, 40))
_SNAPSHOT_INTERVALS = st.sampled_from((0, 1, 2, 5))
_SNAPSHOT_DECODES = st.sampled_from((0, 1, 1, 2, 4))
_SNAPSHOT_LEAST = st.sampled_from(((0, 0), (1, 0), (0, 1), (0, 3)))
_SNAPSHOT_WEIGHTS = st.sampled_from((0, 0, 1, 8))


@st.composite
def configs(draw: st.DrawFn, *, hybrid: bool = False) -> SchedulerConfig:
    """Any configuration that is not refused; `hybrid` = for a device whose sequences carry a state."""
    max_num_seqs = draw(_SEATS)
    chunked = draw(_EITHER)
    max_num_batched_tokens = max_num_seqs + draw(st.integers(0, 24) if chunked else st.integers(0, 100))
    admission = draw(_ADMISSIONS)
    commit = admission is AdmissionRule.COMMIT
    longest = 200 if chunked else max_num_batched_tokens
    block_size = draw(_BLOCK_SIZES)
    return SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_prefill_tokens=draw(st.integers(0, 9)) if chunked else 0,
        chunked_prefill=chunked,
        align_chunks=chunked and draw(_EITHER),
        fusion=draw(_FUSIONS),
        admission=admission,
        watermark_blocks=0 if commit else draw(_WATERMARKS),
        watermark_tokens=draw(st.integers(-1, 20)) if commit else -1,
        overcommit_percent=draw(_OVERCOMMITS) if commit else 100,
        max_bypass=draw(st.integers(0, 3)),
        victim=draw(_VICTIMS),
        resume=draw(_RESUMES),
        resume_headroom_blocks=draw(st.integers(0, 3)),
        immunity_tokens=draw(_IMMUNITIES),
        block_size=block_size,
        max_model_len=longest if draw(_LONG) else 1 + longest // 4,
        **_swap_rules(draw, commit),
        **_cache_rules(draw, block_size, hybrid),
    )


def _swap_rules(draw: st.DrawFn, commit: bool) -> dict[str, Any]:
    """Ways to give up memory, and windows."""
    preemption = draw(_PREEMPTIONS)
    window_blocks = 0 if commit else draw(_WINDOWS)
    host, disk = draw(_TIERS[preemption])
    can_swap = preemption is not PreemptionMode.RECOMPUTE and not commit
    return {
        "preemption": preemption,
        "swap_host_gib": host,
        "swap_disk_gib": max(disk, draw(st.integers(1, 2))) if window_blocks else disk,
        "window_blocks": window_blocks,
        "swap_at_admission": can_swap and draw(_EITHER),
    }


def _cache_rules(draw: st.DrawFn, block_size: int, hybrid: bool) -> dict[str, Any]:
    """The prefix cache, and snapshots where there are states to save."""
    prefix_cache = draw(_EITHER)
    rules = {"prefix_cache": prefix_cache, "cache_per_tenant": prefix_cache and draw(_EITHER)}
    return {**rules, **draw(snapshot_rules(block_size))} if hybrid and prefix_cache else rules


@st.composite
def snapshot_rules(draw: st.DrawFn, block_size: int) -> dict[str, Any]:
    """Few or many slots for snapshots, taken often or hardly ever."""
    least_tokens, least_blocks = draw(_SNAPSHOT_LEAST)
    return {
        "snapshot_slots": draw(_SNAPSHOT_SLOTS),
        "snapshot_interval_blocks": draw(_SNAPSHOT_INTERVALS),
        "snapshot_decode_blocks": draw(_SNAPSHOT_DECODES),
        "snapshot_min_tokens": least_tokens + least_blocks * block_size,
        "snapshot_depth_weight": draw(_SNAPSHOT_WEIGHTS),
    }


@st.composite
def policies(draw: st.DrawFn, config: SchedulerConfig, unit_ns: int) -> PolicyFactory:
    """Every bundled policy and the hostile ones; a few steps take `unit_ns`."""
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
    policy._patience_ns = patience_ns  # its parameter is in whole milliseconds
    return policy
