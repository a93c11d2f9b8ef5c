"""The budgets and rules of a scheduler: one frozen record, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from schedlab.errors import UsageError

MOST_DEPTH_WEIGHT = 8


class Fusion(StrEnum):
    """Which lanes of a tick run in one step."""

    NONE = "none"
    CONTINUE = "continue"
    ALL = "all"


class AdmissionRule(StrEnum):
    """What must be available before a waiting request comes in."""

    PROMPT = "prompt"
    COMMIT = "commit"


class VictimRule(StrEnum):
    """Who gives up memory."""

    LAST_IN = "last_in"
    FEWEST_OUTPUTS = "fewest_outputs"
    LEAST_PRIORITY = "least_priority"


class PreemptionMode(StrEnum):
    """How a victim gives up its blocks."""

    RECOMPUTE = "recompute"
    HOST = "host"
    DISK = "disk"
    CHEAPEST = "cheapest"


class ResumeRule(StrEnum):
    """Who returns first among the preempted."""

    IN_LINE = "in_line"
    SMALLEST = "smallest"


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Budgets and rules of one scheduler.

    Attributes:
        max_num_seqs: most sequences that own a seat (prefilling and active) at any time.
        max_num_batched_tokens: most tokens in one step, decode rows included.
        max_prefill_tokens: most prefill tokens of one request in a step that carries others too; 0 = the step's limit.
        chunked_prefill: a prompt may be computed in pieces; otherwise whole in one step.
        align_chunks: a piece that is not the last ends on a block boundary when one lies inside it.
        fusion: none = each lane its own steps; continue = prefills in progress share the decode step, first chunks run
            alone; all = first chunks too.
        admission: prompt = blocks for the prompt must be free; commit = the sum of what every sequence may grow to
            must fit in the pool.
        watermark_blocks: (prompt) blocks that an admission must leave free while anything runs.
        watermark_tokens: (commit) growth that is reserved for each sequence beyond its tokens; -1 = all it may produce.
        overcommit_percent: (commit) commitments may reach this share of the pool.
        max_bypass: how often a refused head may be overtaken by later requests that fit; 0 = never.
        victim: who is preempted when blocks run out.
        resume: in_line = preempted ones stand in the same line as the waiting; smallest = fewest blocks first, in a
            line of their own that new requests may pass.
        resume_headroom_blocks: blocks that must be free beyond those that a returning sequence needs.
        immunity_tokens: outputs that a resumed sequence may produce before it may be a victim again.
        max_model_len: longest prompt + output.
        preemption: recompute = a victim's content is computed again; host, disk = it is copied there and back; cheapest
            = whichever of them takes the least time as the links and the device stand.
        swap_host_gib, swap_disk_gib: room per GPU for swapped-out content; a full disk falls back on the host, a full
            host on recomputing.
        swap_at_admission: a newcomer that lacks blocks may have active sequences swapped out, chosen as `victim` says,
            while nobody waits for a return: who leaves for a newcomer is back before the next one does.
        window_blocks: a decoding sequence keeps so many of its newest blocks on the device and the others on disk; 0 =
            all on the device.
        prefix_cache: blocks keep their content after their holders have gone, for prompts that begin alike.
        cache_per_tenant: prompts of different tenants share nothing.
        snapshot_slots: states of sequences that can be kept beside the cached blocks, where sequences carry a state; a
            prompt skips cached blocks only up to one of them. 0 = none, and then nothing is skipped.
        snapshot_interval_blocks: chunks end, and their state is saved for everybody, at multiples of so many blocks;
            0 = only near the end of a prompt, for its own session.
        snapshot_decode_blocks: a decode row's state is saved each time that it fills so many blocks; 0 = never.
        snapshot_min_tokens: a state of fewer tokens is not worth a slot.
        snapshot_depth_weight: what a token of depth counts beside one use or save, when one is to be evicted; 0..8.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_prefill_tokens: int = 0
    chunked_prefill: bool = True
    align_chunks: bool = False
    fusion: Fusion = Fusion.ALL
    admission: AdmissionRule = AdmissionRule.PROMPT
    watermark_blocks: int = 0
    watermark_tokens: int = -1
    overcommit_percent: int = 100
    max_bypass: int = 0
    victim: VictimRule = VictimRule.LAST_IN
    resume: ResumeRule = ResumeRule.IN_LINE
    resume_headroom_blocks: int = 0
    immunity_tokens: int = 0
    block_size: int = 16
    max_model_len: int = 1 << 30
    preemption: PreemptionMode = PreemptionMode.RECOMPUTE
    swap_host_gib: int = 0
    swap_disk_gib: int = 0
    swap_at_admission: bool = False
    window_blocks: int = 0
    prefix_cache: bool = False
    cache_per_tenant: bool = False
    snapshot_slots: int = 0
    snapshot_interval_blocks: int = 256
    snapshot_decode_blocks: int = 4
    snapshot_min_tokens: int = 256
    snapshot_depth_weight: int = 0

    def __post_init__(self) -> None:
        self._refuse_other_kinds()
        for name in ("max_num_seqs", "max_num_batched_tokens", "block_size", "max_model_len", "overcommit_percent"):
            self._at_least(name, 1)
        for name in (
            "max_prefill_tokens",
            "watermark_blocks",
            "max_bypass",
            "resume_headroom_blocks",
            "immunity_tokens",
            "swap_host_gib",
            "swap_disk_gib",
            "window_blocks",
            "snapshot_slots",
            "snapshot_interval_blocks",
            "snapshot_decode_blocks",
            "snapshot_min_tokens",
            "snapshot_depth_weight",
        ):
            self._at_least(name, 0)
        self._at_least("watermark_tokens", -1)
        self._refuse_conflicts()

    @property
    def uses_swap(self) -> bool:
        """May anything be copied to the host or the disk?"""
        return self.preemption is not PreemptionMode.RECOMPUTE or self.window_blocks > 0

    def _refuse_other_kinds(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if type(value) is not kind:
                raise UsageError(f"{field.name} is {value!r}; give a value of type {kind.__name__}")

    def _at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value < least:
            raise UsageError(f"{name} is {value}; give at least {least}")

    def _refuse_conflicts(self) -> None:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise UsageError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is below max_num_seqs ({self.max_num_seqs}): "
                "a decode step of all rows would not fit; raise the first or lower the second"
            )
        if not self.chunked_prefill and self.max_prefill_tokens:
            raise UsageError("max_prefill_tokens limits chunks, and chunked_prefill is off; leave one of them out")
        if not self.chunked_prefill and self.align_chunks:
            raise UsageError("align_chunks shapes chunks, and chunked_prefill is off; leave one of them out")
        if not self.chunked_prefill and self.max_model_len > self.max_num_batched_tokens:
            raise UsageError(
                f"with chunked_prefill off a prompt must fit in one step: max_model_len ({self.max_model_len}) exceeds "
                f"max_num_batched_tokens ({self.max_num_batched_tokens})"
            )
        self._refuse_idle_swap_space()
        if self.swap_at_admission and self.preemption is PreemptionMode.RECOMPUTE:
            raise UsageError(
                "swap_at_admission swaps sequences out, and preemption=recompute never does; choose another"
            )
        if self.swap_at_admission and self.admission is AdmissionRule.COMMIT:
            raise UsageError(
                "swap_at_admission needs admission=prompt: with commit a newcomer takes its blocks as it computes its "
                "prompt, from whoever `victim` names"
            )
        if self.cache_per_tenant and not self.prefix_cache:
            raise UsageError("cache_per_tenant parts the prefix cache, and prefix_cache is off; leave one of them out")
        if self.snapshot_slots and not self.prefix_cache:
            raise UsageError("snapshot_slots serve the prefix cache, and prefix_cache is off; leave one of them out")
        if self.snapshot_depth_weight > MOST_DEPTH_WEIGHT:
            raise UsageError(f"snapshot_depth_weight is {self.snapshot_depth_weight}; give at most {MOST_DEPTH_WEIGHT}")
        if self.admission is AdmissionRule.COMMIT and self.watermark_blocks:
            raise UsageError("watermark_blocks belongs to admission=prompt; with commit use watermark_tokens")
        if self.admission is AdmissionRule.PROMPT and self.watermark_tokens >= 0:
            raise UsageError("watermark_tokens belongs to admission=commit; with prompt use watermark_blocks")
        if self.admission is AdmissionRule.PROMPT and self.overcommit_percent != 100:
            raise UsageError("overcommit_percent belongs to admission=commit; leave it out with prompt")

    def _refuse_idle_swap_space(self) -> None:
        space = {"swap_host_gib": self.swap_host_gib, "swap_disk_gib": self.swap_disk_gib}
        used = {
            PreemptionMode.RECOMPUTE: (),
            PreemptionMode.HOST: ("swap_host_gib",),
            PreemptionMode.DISK: ("swap_disk_gib", "swap_host_gib"),
            PreemptionMode.CHEAPEST: ("swap_host_gib", "swap_disk_gib"),
        }[self.preemption]
        if self.window_blocks:
            if not self.swap_disk_gib:
                raise UsageError("window_blocks keeps older blocks on disk and needs room there: set swap_disk_gib")
            if self.admission is AdmissionRule.COMMIT:
                raise UsageError("window_blocks needs admission=prompt: a commitment counts every block on the device")
            used = (*used, "swap_disk_gib")
        for name, gib in space.items():
            if gib and name not in used:
                raise UsageError(f"{name} is {gib}, and preemption={self.preemption} never uses it; leave one out")
        if used and not any(space[name] for name in used):
            raise UsageError(f"preemption={self.preemption} needs room: set {' or '.join(used)}")
