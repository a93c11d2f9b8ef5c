"""Bundles of rules and budgets that reproduce the scheduling of published engines, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedlab.config import AdmissionRule, Fusion, ResumeRule, VictimRule
from schedlab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Preset:
    """A policy and the configuration that goes with it.

    Attributes:
        fields: fields of `SchedulerConfig` that differ from its defaults.
        whole_prompts: the engine computes a prompt in one step, so a step has room for the model's longest one.
        watermark_percent: share of the pool that an admission leaves free.
    """

    name: str
    policy: str
    source: str
    fields: Mapping[str, Any]
    whole_prompts: bool = False
    watermark_percent: int = 0

    def configuration(self, num_blocks: int, max_model_len: int) -> dict[str, Any]:
        """Fields of `SchedulerConfig` for a pool and a model."""
        fields = {**self.fields, "max_model_len": max_model_len}
        if self.watermark_percent:
            fields["watermark_blocks"] = num_blocks * self.watermark_percent // 100
        if self.whole_prompts:
            fields["max_num_batched_tokens"] = max_model_len + fields["max_num_seqs"]
        return fields


VLLM = Preset(
    name="vllm",
    policy="fifo",
    source=(
        "vLLM V1 (docs.vllm.ai, optimization and engine arguments): decode first, chunked prefill, one mixed step, the "
        "latest running request is preempted and recomputed, a prompt is admitted when its blocks are free; 256 "
        "sequences, 8,192 tokens a step, blocks of 16"
    ),
    fields={"max_num_seqs": 256, "max_num_batched_tokens": 8192, "prefix_cache": True},
)

MET = Preset(
    name="met",
    policy="fifo",
    source=(
        "Metrale Engine 1.0.0-beta-preview: 8 sequences, prefill chunks of 8,192 on block boundaries, first chunks "
        "alone and later ones fused with decode, every token a request may produce is committed, the row with the "
        "fewest outputs is preempted, 64 tokens of immunity, smallest first with one spare block on return"
    ),
    fields={
        "max_num_seqs": 8,
        "max_num_batched_tokens": 8200,
        "max_prefill_tokens": 8192,
        "align_chunks": True,
        "fusion": Fusion.CONTINUE,
        "admission": AdmissionRule.COMMIT,
        "victim": VictimRule.FEWEST_OUTPUTS,
        "resume": ResumeRule.SMALLEST,
        "resume_headroom_blocks": 1,
        "immunity_tokens": 64,
    },
)

SARATHI = Preset(
    name="sarathi",
    policy="fifo",
    source=(
        "Agrawal et al., Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve, OSDI 2024: stall-free "
        "batches of 512 tokens, decode first, then prefills in progress, then new ones; 128 sequences and 1 % of the "
        "blocks kept free as in its public implementation"
    ),
    fields={"max_num_seqs": 128, "max_num_batched_tokens": 512},
    watermark_percent=1,
)

ORCA = Preset(
    name="orca",
    policy="fifo",
    source=(
        "Yu et al., Orca: A Distributed Serving System for Transformer-Based Generative Models, OSDI 2022: iteration-"
        "level scheduling in arrival order, whole prompts beside decoding rows, memory for max_tokens reserved at "
        "admission so that nothing is ever preempted; at most 32 requests in a batch"
    ),
    fields={"max_num_seqs": 32, "chunked_prefill": False, "admission": AdmissionRule.COMMIT},
    whole_prompts=True,
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in (VLLM, MET, SARATHI, ORCA)}
DEFAULT_PRESET = VLLM.name


def find_preset(name: str) -> Preset:
    """The preset called `name`.

    Raises:
        UsageError: there is none; the message lists them.
    """
    if name not in PRESETS:
        raise UsageError(f"no preset {name!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]
