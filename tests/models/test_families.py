"""Every family's logits and greedy outputs equal those of transformers, however the work is cut up."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.torch_needed import torch  # isort: skip

from schedlab.config import PreemptionMode
from schedlab.memory.spill import SpillStore
from tests.models.lab import Run, request, run
from tests.models.tiny import CASES, VOCAB, reference_logits

Pair = Callable[[str], tuple[Any, Any]]
OUTPUTS = 12


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    """Of 5 to 60 tokens, in turn short and long."""
    rng = random.Random(seed)
    return [[rng.randrange(2, VOCAB) for _ in range(5 + 55 * (number % 2) + number)] for number in range(count)]


def assert_equals(theirs: Any, given: list[list[int]], result: Run, outputs: int = OUTPUTS) -> None:
    """Same greedy tokens, and logits of every one of them within 1e-4 of the largest."""
    for number, prompt in enumerate(given):
        tokens = result.outputs[number]
        assert len(tokens) == outputs
        wanted = reference_logits(theirs, prompt + tokens)[len(prompt) - 1 : -1]
        # Each is the likeliest behind those before it, so the whole stream is the greedy one.
        assert tokens == wanted.argmax(-1).tolist(), f"request {number}"
        found = torch.stack([result.device.logits[number, index] for index in range(outputs)])
        error = (found - wanted).abs().max() / wanted.abs().max()
        assert error < 1e-4, f"request {number}: relative error {error:.2e}"


@pytest.mark.parametrize("case", CASES)
def test_whole_prompts_and_decodes(case: str, pair: Pair) -> None:
    theirs, ours = pair(case)
    given = prompts(1, seed=3) + prompts(2)
    result = run(ours, [request(n, p, OUTPUTS) for n, p in enumerate(given)], max_num_batched_tokens=512)
    assert result.device.steps[0] == ([len(prompt) for prompt in given], 0)
    assert_equals(theirs, given, result)


@pytest.mark.parametrize("case", CASES)
def test_chunks_beside_decodes_preemption_and_prefix_reuse(case: str, pair: Pair) -> None:
    """Seven prompts, two of which begin alike, in steps of 20 tokens and a pool too small for all of them."""
    theirs, ours = pair(case)
    given = prompts(6)
    given.append(given[5][:40] + given[2])
    settings = {"max_num_seqs": 4, "max_num_batched_tokens": 20, "prefix_cache": True}
    result = run(ours, [request(n, p, OUTPUTS) for n, p in enumerate(given)], 20, **settings)
    assert any(len(chunks) and rows for chunks, rows in result.device.steps)
    assert result.num_preempted
    assert result.cached[6] == 40
    assert_equals(theirs, given, result)


@pytest.mark.parametrize("case", ["llama3", "gemma3"])
@pytest.mark.parametrize("budget", [1, 7, 16, 61])
def test_chunks_of_any_size(case: str, budget: int, pair: Pair) -> None:
    theirs, ours = pair(case)
    given = prompts(2)
    result = run(ours, [request(n, p, 4) for n, p in enumerate(given)], max_num_batched_tokens=budget, max_num_seqs=1)
    assert max(sum(chunks) for chunks, _ in result.device.steps) == min(budget, 61)
    assert_equals(theirs, given, result, 4)


@pytest.mark.parametrize("case", ["qwen3", "gemma2"])
def test_a_cached_prefix_is_used_and_changes_nothing(case: str, pair: Pair) -> None:
    """The second request finds the first one's prompt, and its outputs too."""
    theirs, ours = pair(case)
    first = prompts(2)[1]
    output = run(ours, [request(0, first, OUTPUTS)]).outputs[0]
    given = [first, first + output + [5, 6, 7]]
    result = run(ours, [request(n, p, OUTPUTS) for n, p in enumerate(given)], max_num_seqs=1, prefix_cache=True)
    # All computed tokens of the first one, in whole blocks.
    assert result.cached[1] == (len(first) + OUTPUTS - 1) // 8 * 8
    assert_equals(theirs, given, result)


@pytest.mark.parametrize("tier", ["host", "disk"])
@pytest.mark.parametrize("case", ["llama3", "gemma3"])
def test_swapped_out_sequences_come_back_unchanged(case: str, tier: str, pair: Pair, tmp_path: Path) -> None:
    theirs, ours = pair(case)
    given = prompts(6)
    with SpillStore(0, 1 << 30, tmp_path) as store:
        result = run(
            ours,
            [request(n, p, 24) for n, p in enumerate(given)],
            24,
            store=store,
            preemption=PreemptionMode(tier),
            **{f"swap_{tier}_gib": 1},
        )
        assert result.num_swapped == result.num_restored > 0
        assert result.num_preempted == 0
    assert not tmp_path.exists() or not list(tmp_path.iterdir())
    assert_equals(theirs, given, result, 24)
