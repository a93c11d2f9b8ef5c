"""What the server refuses, and that it says which field was wrong."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

import json
from typing import Any

import openai
import pytest

from tests.serve.lab import Server

assert tests.serve.needed
WRONG: dict[str, tuple[dict[str, Any], str | None]] = {
    "empty prompt": ({"prompt": ""}, "prompt"),
    "no prompts": ({"prompt": []}, "prompt"),
    "empty tokens": ({"prompt": [[]]}, "prompt"),
    "negative token": ({"prompt": [[-1]]}, "prompt"),
    "large token": ({"prompt": [10**9]}, "prompt"),
    "negative max_tokens": ({"max_tokens": -1}, "max_tokens"),
    "large max_tokens": ({"max_tokens": 10**8}, "max_tokens"),
    "long prompt": ({"prompt": "x!" * 9000}, "prompt"),
    "endless prompt": ({"prompt": "x" * 1_000_000}, "prompt"),
    "n": ({"n": 0}, "n"),
    "temperature": ({"temperature": -1}, "temperature"),
    "infinite": ({"temperature": "inf"}, "temperature"),
    "top_p": ({"top_p": 0}, "top_p"),
    "stop": ({"stop": ""}, "stop"),
    "logprobs": ({"logprobs": 21}, "logprobs"),
    "stream_options": ({"stream_options": {"include_usage": True}}, "stream_options"),
    "suffix": ({"suffix": "x"}, "suffix"),
    "grammar": ({"response_format": {"type": "json_object"}}, "response_format"),
    "prompt_logprobs": ({"prompt_logprobs": 21}, "prompt_logprobs"),
    "truncation": ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
    "request_id": ({"request_id": "two words"}, "request_id"),
    "min_tokens": ({"min_tokens": 5, "max_tokens": 2}, "min_tokens"),
    "kind": ({"max_tokens": "5"}, "max_tokens"),
    "truth": ({"max_tokens": True}, "max_tokens"),
    "a float": ({"max_tokens": 1e18}, "max_tokens"),
    "many outputs": ({"n": 1000}, "n"),
    "many stops": ({"stop": [f"s{n}" for n in range(1000)]}, "stop"),
    "long stop": ({"stop": "x" * 10**6}, "stop"),
    "stop tokens": ({"stop_token_ids": [10**9], "min_tokens": 2}, "stop_token_ids"),
    "many stop tokens": ({"stop_token_ids": list(range(1000))}, "stop_token_ids"),
    "bias": ({"logit_bias": {"5": 101}}, "logit_bias"),
    "bias of nothing": ({"logit_bias": {"99999999": 1}}, "logit_bias"),
    "penalty": ({"presence_penalty": 3}, "presence_penalty"),
    "seed": ({"seed": 1 << 70}, "seed"),
    "priority": ({"priority": 1 << 40}, "priority"),
    "deadline": ({"deadline_ms": 10**20}, "deadline_ms"),
    "mixed prompt": ({"prompt": ["a", [1]]}, "prompt"),
    "many prompts": ({"prompt": [[1]] * 2000}, "prompt"),
    "many prompts of text": ({"prompt": ["a"] * 2000}, "prompt"),
    "no prompt": ({"prompt": None}, "prompt"),
    "tenant": ({"tenant": "t" * 1000}, "tenant"),
    "tools": ({"tools": [{}]}, "tools"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_are_told_what_is_wrong(server: Server, case: str) -> None:
    fields, param = WRONG[case]
    response = server.post("/v1/completions", **{"prompt": "x", **fields})
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["code"]) == (400, "BadRequestError", 400), error
    assert error["param"] == param and error["message"]


def test_wrong_chats_and_bodies(server: Server) -> None:
    client = server.openai()
    with pytest.raises(openai.BadRequestError, match="messages"):
        client.chat.completions.create(model="Llama-3-8B", messages=[])
    with pytest.raises(openai.NotFoundError, match="The model `x` does not exist"):
        client.completions.create(model="x", prompt="x")
    assert server.http.post("/v1/completions", content=b"x" * (17 << 20)).status_code == 413
    assert server.http.get("/v1/completions").status_code == 405
    assert server.http.get("/nowhere").json()["error"]["type"] == "NotFoundError"


BODIES = {
    "open": b"{",
    "deep": b"[" * 100_000,
    "no number": b'{"prompt": NaN}',
    "no UTF-8": b"\xff",
    "UTF-16": '{"prompt": "x"}'.encode("utf-16"),
    "twice": b'{"prompt": "x", "max_tokens": 1, "max_tokens": 2}',
    "half a character": rb'{"prompt": "\ud800"}',
    "no object": b'["prompt"]',
    "fields": json.dumps({"prompt": "x", **{f"f{n}": 1 for n in range(20_000)}}).encode(),
    "prompts": b'{"prompt": [' + b"[1]," * 500_000 + b"[1]]}",
    "digits": b'{"prompt": "x", "max_tokens": ' + b"1" * 5000 + b"}",
}


@pytest.mark.parametrize("case", BODIES)
def test_bodies_that_are_no_plain_json_objects(server: Server, case: str) -> None:
    response = server.http.post("/v1/completions", content=BODIES[case])
    assert response.status_code == 400 and len(response.json()["error"]["message"]) < 1000


CHATS: dict[str, Any] = {
    "no role": [{"content": "x"}],
    "a number": [{"role": "user", "content": 1}],
    "a picture": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    "no list": "x",
    "too many": [{"role": "user", "content": ""}] * 20_000,
}


@pytest.mark.parametrize("case", CHATS)
def test_chats_that_are_none(server: Server, case: str) -> None:
    response = server.post("/v1/chat/completions", messages=CHATS[case])
    assert response.status_code == 400 and response.json()["error"]["param"] == "messages"


def test_chats_are_told_of_their_own_fields(server: Server) -> None:
    chat = [{"role": "user", "content": "x!" * 9000}]
    for fields, param in (
        ({"messages": chat}, "messages"),
        ({"messages": [{"role": "user", "content": "x"}], "max_completion_tokens": 9000}, "max_completion_tokens"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2}, "top_logprobs"),
    ):
        response = server.post("/v1/chat/completions", **fields)
        assert response.status_code == 400 and response.json()["error"]["param"] == param


def test_headers_are_checked_as_fields_are(server: Server) -> None:
    for header, value in (("X-Request-Id", "two words"), ("X-Override-Priority", "high")):
        response = server.http.post("/v1/completions", json={"prompt": "x"}, headers={header: value})
        assert response.status_code == 400 and response.json()["error"]["param"] == header.lower()
    given = {"X-Request-Id": "mine", "X-Override-Priority": "-3"}
    response = server.http.post("/v1/completions", json={"prompt": "x", "max_tokens": 1}, headers=given)
    assert response.json()["id"] == "cmpl-mine"


def test_detokenize_has_bounds_too(server: Server) -> None:
    for tokens in ([10**9], [5] * 9000, [-1], ["x"]):
        response = server.post("/detokenize", tokens=tokens)
        assert response.status_code == 400 and response.json()["error"]["param"] == "tokens"
