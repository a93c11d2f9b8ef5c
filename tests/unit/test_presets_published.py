"""Presets: their published numbers, legal for any pool and model, and each with its source."""

from __future__ import annotations

from typing import Any

import pytest

from schedlab.config import AdmissionRule, Fusion, ResumeRule, SchedulerConfig, VictimRule
from schedlab.errors import UsageError
from schedlab.policies.presets import DEFAULT_PRESET, PRESETS, find_preset
from schedlab.policies.registry import find_policy

PUBLISHED: dict[str, dict[str, Any]] = {
    "vllm": {"max_num_seqs": 256, "max_num_batched_tokens": 8192, "block_size": 16, "victim": VictimRule.LAST_IN},
    "met": {
        "max_num_seqs": 8,
        "max_prefill_tokens": 8192,
        "max_num_batched_tokens": 8200,
        "fusion": Fusion.CONTINUE,
        "admission": AdmissionRule.COMMIT,
        "watermark_tokens": -1,
        "victim": VictimRule.FEWEST_OUTPUTS,
        "immunity_tokens": 64,
        "resume": ResumeRule.SMALLEST,
        "resume_headroom_blocks": 1,
    },
    "sarathi": {"max_num_seqs": 128, "max_num_batched_tokens": 512, "fusion": Fusion.ALL, "watermark_blocks": 20},
    "orca": {
        "max_num_seqs": 32,
        "chunked_prefill": False,
        "admission": AdmissionRule.COMMIT,
        "overcommit_percent": 100,
    },
}


def configuration(name: str, num_blocks: int = 2000, max_model_len: int = 4096) -> SchedulerConfig:
    return SchedulerConfig(**find_preset(name).configuration(num_blocks, max_model_len))


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_a_preset_has_its_published_numbers(name: str) -> None:
    config = configuration(name)
    assert {field: getattr(config, field) for field in PUBLISHED[name]} == PUBLISHED[name]


@pytest.mark.parametrize("name", list(PRESETS))
@pytest.mark.parametrize(("num_blocks", "max_model_len"), [(1, 1), (50, 100_000), (100_000, 1_000_000)])
def test_a_preset_is_legal_for_any_pool_and_model_and_names_its_source(
    name: str, num_blocks: int, max_model_len: int
) -> None:
    preset = find_preset(name)
    assert configuration(name, num_blocks, max_model_len).max_model_len == max_model_len
    assert preset.name == name and len(preset.source) > 40
    find_policy(preset.policy)


def test_the_default_is_vllm_and_all_presets_are_known_here() -> None:
    assert DEFAULT_PRESET == "vllm"
    assert set(PUBLISHED) == set(PRESETS)


def test_whole_prompts_have_room_in_a_step_beside_every_row() -> None:
    config = configuration("orca", max_model_len=10_000)
    assert config.max_num_batched_tokens == 10_032


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no preset 'vlm'.*vllm, met, sarathi, orca"):
        find_preset("vlm")
