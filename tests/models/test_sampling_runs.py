"""A seeded request gives the same tokens whoever is beside it and whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tests.torch_needed  # noqa: F401  # isort: skip

from schedlab.errors import UsageError
from schedlab.request import SamplingParams
from tests.models.lab import request, run
from tests.models.test_families import prompts
from tests.models.tiny import reference_logits

Pair = Callable[[str], tuple[Any, Any]]
SEEDED = {"seed": 42, "temperature": 0.8, "top_p": 0.95}


def test_neighbours_chunks_and_preemption_do_not_change_a_seeded_request(pair: Pair) -> None:
    """Scenario K12."""
    _, ours = pair("llama3")
    given = prompts(6)
    alone = run(ours, [request(3, given[3], 24, **SEEDED)]).outputs[3]
    greedy = [request(n, p, 24) for n, p in enumerate(given)]
    beside_greedy = run(ours, [*greedy[:3], request(3, given[3], 24, **SEEDED)])
    assert beside_greedy.outputs[3] == alone
    others = [request(n, p, 24, seed=n, temperature=1.2, top_k=9) for n, p in enumerate(given) if n != 3]
    crowded = run(ours, [*others, request(3, given[3], 24, **SEEDED)], 20, max_num_batched_tokens=20)
    assert crowded.num_preempted
    assert crowded.outputs[3] == alone


def test_another_seed_gives_another_output(pair: Pair) -> None:
    _, ours = pair("llama3")
    prompt = prompts(1)[0]
    four = run(ours, [request(n, prompt, 16, seed=n, temperature=1.0) for n in range(4)])
    assert len({tuple(tokens) for tokens in four.outputs.values()}) == 4


def test_logprobs_come_with_each_token(pair: Pair) -> None:
    _, ours = pair("llama3")
    requests = [request(0, prompts(1)[0], 3, logprobs=2), request(1, prompts(2)[1], 3)]
    result = run(ours, requests)
    found = [each.logprobs for each in result.device.results if each.logprobs]
    assert [list(each) for each in found] == [[0], [0], [0]]
    for index, each in enumerate(found):
        scores = result.device.logits[0, index].log_softmax(-1)
        best = scores.topk(2)
        assert each[0].logprob == pytest.approx(float(best.values[0]), abs=1e-5)
        assert each[0].rank == 1
        assert [token for token, _ in each[0].top] == best.indices.tolist()


def test_prompt_logprobs_are_those_of_the_whole_prompt_however_it_is_computed(pair: Pair) -> None:
    """In one chunk, in chunks beside others, and again after a preemption; never from the cache."""
    theirs, ours = pair("llama3")
    prompt = prompts(4)[3]
    wanted = reference_logits(theirs, prompt).log_softmax(-1)
    for blocks, changes in ((100, {}), (100, {"max_num_batched_tokens": 9}), (14, {"prefix_cache": True})):
        others = [request(n, prompts(3)[n], 30) for n in range(3)]
        result = run(ours, [*others, request(3, prompt, 20, prompt_logprobs=2)], blocks, **changes)
        scored = {}
        for each in result.device.results:
            for first, entries in (each.prompt_logprobs or {}).values():
                scored.update(enumerate(entries, first))
        assert sorted(scored) == list(range(1, len(prompt))) and result.cached[3] == 0
        for position, entry in scored.items():
            assert entry.logprob == pytest.approx(float(wanted[position - 1, prompt[position]]), abs=1e-4)
            assert [token for token, _ in entry.top] == wanted[position - 1].topk(2).indices.tolist()
            assert entry.rank == int((wanted[position - 1] >= wanted[position - 1, prompt[position]]).sum())
    assert result.num_preempted


def test_a_request_cannot_end_before_its_least_tokens(pair: Pair) -> None:
    _, ours = pair("qwen3")
    prompt = prompts(1)[0]
    first = run(ours, [request(0, prompt, 1)]).outputs[0][0]
    ended = run(ours, [request(0, prompt, 8, eos_token_ids=(first,))])
    assert (ended.outputs[0], ended.reasons[0]) == ([first], ("stop", ""))
    kept = run(ours, [request(0, prompt, 8, eos_token_ids=(first,), min_tokens=5)]).outputs[0]
    assert first not in kept[:4] and len(kept) >= 5
    ignored = run(ours, [request(0, prompt, 8, eos_token_ids=(first,), ignore_eos=True)]).outputs[0]
    assert ignored[0] == first and len(ignored) == 8


def test_a_prompt_of_no_outputs_gives_none(pair: Pair) -> None:
    _, ours = pair("qwen3")
    result = run(ours, [request(0, prompts(1)[0], 0)])
    assert result.reasons == {0: ("length", "")}


@pytest.mark.parametrize(
    ("field", "value"), [("temperature", -1.0), ("top_p", 0.0), ("top_k", -1), ("min_p", 1.5), ("logprobs", -1)]
)
def test_parameters_without_meaning_are_refused(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{field} is {value}"):
        SamplingParams(**{field: value})


def test_what_a_slot_keeps_moves_with_its_sequence(pair: Pair) -> None:
    _, ours = pair("qwen3")
    rows = run(ours, [request(0, prompts(1)[0], 4, seed=5, temperature=0.5, min_tokens=2)]).device.rows
    kept = {name: rows.__dict__[name][0].tolist() for name in vars(rows) if hasattr(rows.__dict__[name], "tolist")}
    rows.move(0, 3)
    moved = {name: rows.__dict__[name][3].tolist() for name in kept}
    assert moved == kept and kept["seeds"] == 5 and kept["min_tokens"] == 2
