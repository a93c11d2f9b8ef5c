"""Presets field by field: what each sets, and that everything else is left as it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.config import AdmissionRule, Fusion, ResumeRule, SchedulerConfig, VictimRule
from schedlab.errors import UsageError
from schedlab.policies.presets import PRESETS, Preset, find_preset

# As their sources state them; a prompt of Orca goes whole, beside a token of each of its 32 rows.
EXPECTED: dict[str, SchedulerConfig] = {
    "vllm": SchedulerConfig(max_num_seqs=256, max_num_batched_tokens=8192, prefix_cache=True, max_model_len=4000),
    "met": SchedulerConfig(
        max_num_seqs=8,
        max_num_batched_tokens=8192 + 8,
        max_prefill_tokens=8192,
        align_chunks=True,
        fusion=Fusion.CONTINUE,
        admission=AdmissionRule.COMMIT,
        victim=VictimRule.FEWEST_OUTPUTS,
        resume=ResumeRule.SMALLEST,
        resume_headroom_blocks=1,
        immunity_tokens=64,
        max_model_len=4000,
    ),
    "sarathi": SchedulerConfig(max_num_seqs=128, max_num_batched_tokens=512, watermark_blocks=12, max_model_len=4000),
    "orca": SchedulerConfig(
        max_num_seqs=32,
        max_num_batched_tokens=4000 + 32,
        chunked_prefill=False,
        admission=AdmissionRule.COMMIT,
        max_model_len=4000,
    ),
}
# What the text of each source says, so that the numbers and their origin are not parted.
STATED = {
    "vllm": ("256 sequences", "8,192 tokens a step", "blocks of 16", "docs.vllm.ai"),
    "met": ("8 sequences", "chunks of 8,192", "64 tokens of immunity", "one spare block", "Metrale Engine"),
    "sarathi": ("512 tokens", "128 sequences", "1 % of the blocks", "OSDI 2024"),
    "orca": ("at most 32 requests", "whole prompts", "max_tokens reserved", "OSDI 2022"),
}


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_preset_sets_its_fields_and_no_other(name: str) -> None:
    preset = find_preset(name)
    assert SchedulerConfig(**preset.configuration(1299, 4000)) == EXPECTED[name]
    assert (preset.name, preset.policy) == (name, "fifo")
    assert all(said in preset.source for said in STATED[name])


def test_these_are_all_and_each_is_found_by_its_name() -> None:
    assert list(PRESETS) == list(EXPECTED)
    assert all(find_preset(name) is preset for name, preset in PRESETS.items())
    with pytest.raises(UsageError, match=r"^no preset 'VLLM'; choose one of vllm, met, sarathi, orca$"):
        find_preset("VLLM")


@given(
    num_blocks=st.integers(0, 5000),
    max_model_len=st.integers(1, 5000),
    percent=st.integers(0, 100),
    is_whole=st.booleans(),
)
@settings(max_examples=60, derandomize=True, deadline=None, database=None)
def test_a_pool_and_a_model_shape_what_a_preset_leaves_open(
    num_blocks: int, max_model_len: int, percent: int, is_whole: bool
) -> None:
    own = {"max_num_seqs": 3, "watermark_blocks": 1, "max_num_batched_tokens": 7}
    preset = Preset("own", "fifo", "a test", own, whole_prompts=is_whole, watermark_percent=percent)
    expected = {
        "max_num_seqs": 3,
        "max_model_len": max_model_len,
        "watermark_blocks": max(blocks for blocks in range(num_blocks + 1) if blocks * 100 <= num_blocks * percent)
        if percent
        else 1,
        "max_num_batched_tokens": max_model_len + 3 if is_whole else 7,
    }
    assert preset.configuration(num_blocks, max_model_len) == expected
    assert preset.fields is own and len(own) == 3
