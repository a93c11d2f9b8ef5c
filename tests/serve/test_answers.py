"""What OpenAI's own client and plain HTTP get from the server."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

from typing import Any

import pytest

from tests.serve.lab import Server, events, wait_for

assert tests.serve.needed


def test_the_line_says_where(server: Server) -> None:
    assert server.line.startswith("schedlab: serving Llama-3-8B on http://127.0.0.1:")


def test_models_health_version(server: Server) -> None:
    (model,) = server.openai().models.list().data
    assert model.id == "Llama-3-8B"
    raw = server.http.get("/v1/models").json()["data"][0]
    assert raw["root"] == model.id and raw["max_model_len"] == 8192
    health = server.http.get("/health")
    assert (health.status_code, health.content) == (200, b"")
    assert server.http.get("/version").json()["version"]


def test_a_completion_and_its_stream_are_the_same(server: Server) -> None:
    client = server.openai()
    whole = client.completions.create(model="Llama-3-8B", prompt="one", max_tokens=20, seed=4)
    stream = client.completions.create(
        model="Llama-3-8B", prompt="one", max_tokens=20, seed=4, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == whole.choices[0].text
    assert len(whole.choices[0].text.split()) == whole.usage.completion_tokens
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]][-1] == whole.choices[0].finish_reason
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens


def test_a_chat_and_its_stream_are_the_same(server: Server) -> None:
    client = server.openai()
    asked: dict[str, Any] = {
        "model": "Llama-3-8B",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "max_completion_tokens": 12,
        "seed": 1,
    }
    whole = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(**asked, stream=True))
    assert whole.choices[0].message.role == chunks[0].choices[0].delta.role == "assistant"
    assert chunks[0].choices[0].delta.content == ""
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.choices[0].message.content
    assert whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"


def test_m13_the_role_is_no_token(server: Server) -> None:
    """A chat stream's first chunk holds only the role: neither tokens nor first tokens count it."""
    names = ("vllm:generation_tokens_total", "vllm:time_to_first_token_seconds_count")
    before = [server.metric(name) for name in names]
    stream = server.openai().chat.completions.create(
        model="Llama-3-8B",
        messages=[{"role": "user", "content": "hi"}],
        max_completion_tokens=9,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant" and not chunks[0].choices[0].delta.content
    assert chunks[-1].usage.completion_tokens == 9
    assert [after - ago for after, ago in zip(map(server.metric, names), before, strict=True)] == [9, 1]


def test_running_usage_is_in_every_event(server: Server) -> None:
    body = {
        "prompt": "x",
        "max_tokens": 5,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"continuous_usage_stats": True},
    }
    with server.http.stream("POST", "/v1/completions", json=body) as response:
        *documents, last = events(response)
    assert last == "[DONE]"
    counts = [document["usage"]["completion_tokens"] for document in documents]
    assert counts == sorted(counts) and counts[-1] == 5


def test_n_outputs_differ_and_repeat_with_the_seed(server: Server) -> None:
    first, again = (server.complete(prompt=["a", "b"], n=3, seed=7, max_tokens=6) for _ in range(2))
    texts = [choice["text"] for choice in first["choices"]]
    assert [choice["index"] for choice in first["choices"]] == list(range(6))
    assert len(set(texts)) == 6 and texts == [choice["text"] for choice in again["choices"]]
    assert first["usage"]["prompt_tokens"] == 2 and first["usage"]["completion_tokens"] == 36


def test_a_stop_string_over_tokens_ends_the_output_where_it_is(server: Server) -> None:
    text = server.complete(seed=3, max_tokens=12)["choices"][0]["text"]
    words = text.split()
    stop = f"{words[4]} {words[5][0]}"
    whole = server.complete(seed=3, max_tokens=12, stop=[stop, "never"])
    choice = whole["choices"][0]
    assert choice["text"] == text[: text.index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    assert whole["usage"]["completion_tokens"] < 12
    kept = server.complete(seed=3, max_tokens=12, stop=stop, include_stop_str_in_output=True)
    assert kept["choices"][0]["text"] == text[: text.index(stop) + len(stop)]


def test_stop_tokens_end_it_and_min_tokens_put_that_off(server: Server) -> None:
    text = server.complete(seed=3, max_tokens=12)["choices"][0]["text"]
    word = text.split()[3]
    (token,) = server.post("/tokenize", prompt=f" {word}").json()["tokens"]
    choice = server.complete(seed=3, max_tokens=12, stop_token_ids=[token])["choices"][0]
    assert choice["text"] == text[: text.index(f" {word}")] and choice["stop_reason"] == token
    later = server.complete(seed=3, max_tokens=12, stop_token_ids=[token], min_tokens=12)
    assert later["usage"]["completion_tokens"] == 12


def test_an_output_ends_of_itself_unless_it_may_not(server: Server) -> None:
    of_itself = server.complete(seed=5, max_tokens=1000, ignore_eos=False)
    assert of_itself["choices"][0]["finish_reason"] == "stop"
    assert of_itself["choices"][0]["stop_reason"] is None
    forced = server.complete(seed=5, max_tokens=300, ignore_eos=True)
    assert forced["usage"]["completion_tokens"] == 300


def test_logprobs_of_completions_and_chats(server: Server) -> None:
    choice = server.complete(max_tokens=3, logprobs=2)["choices"][0]
    logprobs = choice["logprobs"]
    assert "".join(logprobs["tokens"]) == choice["text"]
    assert logprobs["text_offset"] == [0, 4, 8] and len(logprobs["token_logprobs"]) == 3
    assert all(
        len(top) == 2 and token in top for token, top in zip(logprobs["tokens"], logprobs["top_logprobs"], strict=False)
    )
    chat = server.openai().chat.completions.create(
        model="Llama-3-8B",
        messages=[{"role": "user", "content": "hi"}],
        max_tokens=3,
        logprobs=True,
        top_logprobs=2,
    )
    content = chat.choices[0].logprobs.content
    assert "".join(bytes(entry.bytes).decode() for entry in content) == chat.choices[0].message.content
    assert all(len(entry.top_logprobs) == 2 for entry in content)


def test_echo_and_no_tokens_at_all(server: Server) -> None:
    whole = server.complete(prompt="Ünï said", echo=True, max_tokens=2)
    assert whole["choices"][0]["text"].startswith("Ünï said ")
    only = server.complete(prompt="Ünï said", echo=True, max_tokens=0)
    assert only["choices"][0]["text"] == "Ünï said" and only["usage"]["completion_tokens"] == 0
    assert server.complete(max_tokens=0)["choices"][0]["text"] == ""


@pytest.mark.parametrize("max_tokens", [0, 2])
def test_echo_with_logprobs_scores_the_prompt_too(server: Server, max_tokens: int) -> None:
    """The whole prompt is computed for it, though the cache has it; nothing foretells the first token."""
    prompt = "the fox and Ünï " * 5
    server.complete(prompt=prompt, max_tokens=1)
    whole = server.complete(prompt=prompt, echo=True, logprobs=2, max_tokens=max_tokens)
    (choice,), usage = whole["choices"], whole["usage"]
    logprobs = choice["logprobs"]
    assert choice["text"].startswith(prompt) and usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert len(logprobs["tokens"]) == usage["prompt_tokens"] + max_tokens == len(logprobs["text_offset"])
    assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
    assert all(value < 0 for value in logprobs["token_logprobs"][1:])
    assert all(len(top) == 2 for top in logprobs["top_logprobs"][1:])
    ascii_only = [
        (word, at) for word, at in zip(logprobs["tokens"], logprobs["text_offset"], strict=True) if word.isascii()
    ]
    assert all(choice["text"].startswith(word, at) for word, at in ascii_only) and len(ascii_only) > 20


def test_an_echo_is_in_the_first_event_that_a_token_brings(server: Server) -> None:
    body = {"prompt": "the fox", "echo": True, "logprobs": 0, "max_tokens": 3, "ignore_eos": True}
    whole = server.complete(**body, seed=1)["choices"][0]
    with server.http.stream("POST", "/v1/completions", json={**body, "seed": 1, "stream": True}) as response:
        *documents, _ = events(response)
    choices = [document["choices"][0] for document in documents]
    assert choices[0]["text"].startswith("the fox ") and "".join(one["text"] for one in choices) == whole["text"]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert [value for one in choices for value in one["logprobs"][name]] == whole["logprobs"][name]


def test_prompt_logprobs_by_token_id(server: Server) -> None:
    tokens = server.post("/tokenize", prompt="the fox").json()["tokens"]
    scores = server.complete(prompt="the fox", prompt_logprobs=1, max_tokens=1)["choices"][0]["prompt_logprobs"]
    assert scores[0] is None and list(scores[1]) == [str(tokens[1])]
    assert scores[1][str(tokens[1])] == {"logprob": pytest.approx(-0.69, abs=0.01), "rank": 1, "decoded_token": " fox"}
    chat = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "hi"}], prompt_logprobs=0)
    assert len(chat.json()["prompt_logprobs"]) == chat.json()["usage"]["prompt_tokens"]


def test_fields_of_vllm_are_served(server: Server) -> None:
    whole = server.complete(prompt="one two three", truncate_prompt_tokens=2, echo=True, max_tokens=1)
    assert whole["choices"][0]["text"].startswith(" three ") or whole["usage"]["prompt_tokens"] == 2
    fitting = server.complete(prompt="x!" * 9000, truncate_prompt_tokens=-1, max_tokens=100)
    assert fitting["usage"]["prompt_tokens"] == 8192 - 100
    named = server.complete(request_id="mine-7", logprobs=0, max_tokens=1, return_tokens_as_token_ids=True)
    assert named["id"] == "cmpl-mine-7" and named["choices"][0]["logprobs"]["tokens"][0].startswith("token_id:")
    full = server.complete(prompt=[5] * 8192, max_tokens=0)
    assert full["usage"] == {**full["usage"], "prompt_tokens": 8192, "completion_tokens": 0}


def test_prompts_may_be_tokens(server: Server) -> None:
    tokens = server.post("/tokenize", prompt="the old Ünï").json()
    assert tokens["count"] == len(tokens["tokens"]) and tokens["max_model_len"] == 8192
    assert server.post("/detokenize", tokens=tokens["tokens"]).json() == {"prompt": "the old Ünï"}
    whole = server.complete(prompt=[tokens["tokens"], [5, 6]], echo=True, max_tokens=1)
    assert whole["choices"][0]["text"].startswith("the old Ünï")
    assert whole["usage"]["prompt_tokens"] == tokens["count"] + 2


def test_a_prompt_again_is_cached_the_same_in_both_modes(server: Server) -> None:
    prompt = "the fox and the dog " * 8
    server.complete(prompt=prompt, max_tokens=8)
    whole = server.complete(prompt=prompt, max_tokens=8)["usage"]
    body = {"prompt": prompt, "max_tokens": 8, "stream": True, "stream_options": {"include_usage": True}}
    with server.http.stream("POST", "/v1/completions", json={**body, "ignore_eos": True}) as response:
        usage = list(events(response))[-2]["usage"]
    assert usage == whole
    assert 0 < usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]


def test_a_deadline_ends_an_output_with_what_there_is(server: Server) -> None:
    whole = server.complete(max_tokens=4000, deadline_ms=200)
    choice = whole["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("abort", "deadline")
    assert 0 < whole["usage"]["completion_tokens"] < 4000


def test_unknown_fields_are_let_through_with_a_warning(server: Server) -> None:
    server.complete(max_tokens=1, colour="red", tools=[], best_of=None)
    server.complete(max_tokens=1, colour="blue")
    server.complete(max_tokens=1, flavour="sweet")
    wait_for(lambda: "'flavour'" in server.errors())
    assert server.errors().count("'colour'") == 1


def test_metrics_have_both_names_and_add_up(server: Server) -> None:
    before = server.metric("vllm:generation_tokens_total")
    server.complete(prompt="the cat", max_tokens=7)
    assert server.metric("vllm:generation_tokens_total") - before == 7
    for prefix in ("vllm", "schedlab"):
        assert server.metric(f"{prefix}:time_to_first_token_seconds_count") > 0
        assert server.metric(f"{prefix}:num_requests_running") == 0
        assert server.metric(f"{prefix}:kv_cache_usage_perc") == 0
    assert server.metric("vllm:request_success_total", finished_reason="length") > 0
