"""S19, F.68, G.79 and I.91: a key says which tokens and which namespace, and nothing about how they were computed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedlab.memory.prefix import CachingBlockPool
from schedlab.request import Prompt
from schedlab.token_keys import chained_keys
from tests.conformance import harness
from tests.conformance.made import ask, made_case
from tests.conformance.scenario import Ask
from tests.conformance.texts import Texts


def _keys_left_by(ask: Ask, **config: object) -> list[int | None]:
    run = harness.run(made_case((ask,), {"blocks": 8}, {"prefix_cache": True, "max_num_seqs": 5, **config}), leap=True)
    assert isinstance(run.core.pool, CachingBlockPool)
    return [run.core.pool.key_of(block) for block in range(8)]


@pytest.mark.parametrize("budget", [5, 24, 33])
@pytest.mark.parametrize("aligned", [False, True])
def test_s19_the_keys_left_behind_do_not_depend_on_the_pieces(budget: int, aligned: bool) -> None:
    """inference-sim/inference-sim#209. Blocks 0 .. 4 hold 80 tokens, whatever the pieces."""
    prompt = Texts().prompt([("common", 80)], "A")
    whole = _keys_left_by(ask(0, prompt, 1), max_num_batched_tokens=1000)
    assert whole == [*prompt.block_keys(16), None, None, None]
    assert _keys_left_by(ask(0, prompt, 1), max_num_batched_tokens=budget, align_chunks=aligned) == whole


def test_068_a_namespace_changes_every_key_of_a_prompt_and_an_empty_one_none() -> None:
    """Upstream the salt enters the first block only and the rest through the chain; here each key carries it."""
    pool, keys = CachingBlockPool(4), Texts().prompt([("common", 64)], "A").block_keys(16)
    base, salted = pool.in_namespace(keys, ("", "", "")), pool.in_namespace(keys, ("", "x", ""))
    assert base == keys
    assert not set(base) & set(salted) and len(set(salted)) == 4
    assert pool.in_namespace(keys, ("", "x", "")) == salted
    table = pool.allocate(4)
    pool.publish(salted, table, 0, 4)
    for first in range(4):
        assert pool.lookup(base[first:], 4) == []
        assert pool.lookup(salted[first:], 4) == table[first:]


@pytest.mark.parametrize("seed", ["0", "1", "2", "3", "random"])
def test_079_keys_of_tokens_are_the_same_in_every_process(seed: str) -> None:
    """The hash is a cryptographic one with a fixed root; there is no other, so no operator has a seed to set."""
    program = "from schedlab.token_keys import chained_keys; print(chained_keys(range(48), 16))"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, env=environment, cwd=root, capture_output=True, text=True
    )
    keys = chained_keys(range(48), 16)
    assert found.stdout.strip() == str(keys)
    assert len(set(keys)) == 3 and chained_keys(range(1, 49), 16)[0] != keys[0]


def test_091_equal_blocks_at_different_depths_have_different_keys() -> None:
    """Tokens 1 2 3 4 1 2 3 4 in blocks of 4: the second key depends on the first."""
    texts = Texts()
    word = [(str(token), 1) for token in (1, 2, 3, 4)]
    once, twice = texts.prompt(word, "").block_keys(4), texts.prompt([*word, *word], "").block_keys(4)
    assert len(set(twice)) == 2
    assert twice[0] == once[0]


@pytest.mark.parametrize(("theirs", "ours"), [(16, 16), (16, 8), (16, 4), (8, 16), (4, 16), (1, 16)])
def test_091_keys_from_a_traces_blocks_agree_on_common_beginnings_only(theirs: int, ours: int) -> None:
    """Two prompts of 64 tokens whose first 32 are equal."""
    half = 32 // theirs
    first = Prompt(64, tuple(range(2 * half)), theirs).block_keys(ours)
    second = Prompt(64, (*range(half), *range(100, 100 + half)), theirs).block_keys(ours)
    assert len(first) == len(second) == 64 // ours == len(set(first)) == len(set(second))
    assert [a == b for a, b in zip(first, second, strict=True)] == [True] * (32 // ours) + [False] * (32 // ours)
