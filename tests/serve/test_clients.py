"""Clients that are slow, gone or too many, and how the server ends."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from tests.serve.lab import QUICK, RawClient, Server, events, wait_for

assert tests.serve.needed
STREAM = {"prompt": "x", "ignore_eos": True, "stream": True}


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def begin(*flags: str) -> Server:
        started.append(Server("--device", "sim", *flags))
        return started[-1]

    yield begin
    for one in started:
        one.close()


def idle(server: Server) -> bool:
    """Nothing runs or waits, and no block is in use."""
    names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    return not any(server.metric(f"vllm:{name}") for name in names)


def test_who_leaves_gives_back_the_memory_and_is_counted_once(server: Server) -> None:
    aborted = server.metric("vllm:request_success_total", finished_reason="abort")
    client = RawClient(server.port, "/v1/completions", {**STREAM, "max_tokens": 8000})
    client.read_until(b"data: ")
    assert server.metric("vllm:num_requests_running") == 1
    client.close()
    wait_for(lambda: idle(server), 1.0)
    assert server.metric("vllm:request_success_total", finished_reason="abort") == aborted + 1
    for _ in range(20):
        server.complete(max_tokens=2)
    assert server.metric("vllm:request_success_total", finished_reason="abort") == aborted + 1


def test_who_leaves_without_a_stream_gives_it_back_too(server: Server) -> None:
    client = RawClient(server.port, "/v1/completions", {**STREAM, "stream": False, "max_tokens": 8000, "n": 3})
    wait_for(lambda: server.metric("vllm:num_requests_running") == 3)
    client.close()
    wait_for(lambda: idle(server), 1.0)


def test_a_slow_client_costs_nobody_else_anything_and_gets_everything(server: Server) -> None:
    body = {**STREAM, "max_tokens": 600, "seed": 1, "logprobs": 20}
    slow = [RawClient(server.port, "/v1/completions", body, 4096) for _ in range(4)]
    assert server.complete(max_tokens=100)["usage"]["completion_tokens"] == 100
    wait_for(lambda: idle(server))
    for client in slow:
        got = client.read_until(b"[DONE]")
        # What a client has not taken is merged: fewer events than tokens, and all the text.
        assert got.count(b'"text": ') < 600
        assert got.count(b'"finish_reason": "length"') == 1
        assert sum(len(json.loads(part)["choices"][0]["logprobs"]["tokens"]) for part in documents(got)) == 600
        client.close()


def documents(got: bytes) -> list[bytes]:
    """The JSON of each event of a chunked answer."""
    return re.findall(rb"data: (\{.*\})\n", got)


def test_a_full_queue_says_come_again_and_the_important_go_first(start: Callable[..., Server]) -> None:
    server = start(*QUICK, "--policy", "priority", "--set", "max_num_seqs=1", "--max-queue", "3")
    client = RawClient(server.port, "/v1/completions", {**STREAM, "max_tokens": 8000})
    client.read_until(b"data: ")
    assert_waits_without_an_event(server)
    ends: list[int] = []

    def ask(priority: int) -> None:
        server.complete(max_tokens=150, priority=priority)
        ends.append(priority)

    threads = [threading.Thread(target=ask, args=(priority,)) for priority in (2, 3, 1)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        wait_for(lambda number=number: server.metric("vllm:num_requests_waiting") == number)  # type: ignore[misc]
    response = server.post("/v1/completions", prompt="x")
    assert response.status_code == 503 and int(response.headers["retry-after"]) >= 1
    assert response.json()["error"]["type"] == "ServiceUnavailableError"
    with pytest.raises(openai.InternalServerError):
        server.openai().completions.create(model="Llama-3-8B", prompt="x")
    client.close()
    for thread in threads:
        thread.join(20)
    assert ends == [1, 2, 3]
    wait_for(lambda: idle(server))
    server.complete(max_tokens=1)


def assert_waits_without_an_event(server: Server) -> None:
    """A chat stream that has no seat yet gets not even its role: load tools take the first event for a token."""
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    client = RawClient(server.port, "/v1/chat/completions", body)
    assert client.read_until(b"\r\n\r\n").endswith(b"\r\n\r\n")
    wait_for(lambda: server.metric("vllm:num_requests_waiting") == 1)
    client.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.socket.recv(1)
    client.close()
    wait_for(lambda: server.metric("vllm:num_requests_waiting") == 0)


def test_a_key_is_asked_for_and_priorities_need_their_policy(start: Callable[..., Server]) -> None:
    server = start(*QUICK, "--api-key", "secret", "--served-model-name", "mine")
    assert server.http.get("/health").status_code == 200
    assert server.http.get("/v1/models").status_code == 401
    with pytest.raises(openai.AuthenticationError):
        server.openai("wrong").completions.create(model="mine", prompt="x")
    client = server.openai("secret")
    assert client.completions.create(model="mine", prompt="x").model == "mine"
    with pytest.raises(openai.BadRequestError, match="--policy priority"):
        client.completions.create(model="mine", prompt="x", extra_body={"priority": 1})


def stream_in_background(server: Server, max_tokens: int, into: list[list[Any]]) -> threading.Thread:
    def run() -> None:
        with server.http.stream("POST", "/v1/completions", json={**STREAM, "max_tokens": max_tokens}) as response:
            into.append(list(events(response)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_sigterm_lets_streams_in_flight_end(start: Callable[..., Server]) -> None:
    server = start(*QUICK, "--set", "max_num_seqs=2", "--drain", "15s")
    got: list[list[Any]] = []
    threads = [stream_in_background(server, 400, got) for _ in range(3)]
    wait_for(lambda: server.metric("vllm:num_requests_waiting") == 1)
    server.terminate()
    wait_for(lambda: server.http.get("/health").status_code == 503)
    response = server.post("/v1/completions", prompt="x")
    assert response.status_code == 503 and "shutting down" in response.json()["error"]["message"]
    for thread in threads:
        thread.join(15)
    assert [stream[-1] for stream in got] == ["[DONE]"] * 3
    assert [stream[-2]["choices"][0]["finish_reason"] for stream in got] == ["length"] * 3
    assert server.wait() == 0


def test_when_the_time_is_over_streams_end_with_an_error(start: Callable[..., Server]) -> None:
    server = start(*QUICK, "--drain", "0s")
    got: list[list[Any]] = []
    thread = stream_in_background(server, 8000, got)
    wait_for(lambda: server.metric("vllm:num_requests_running") == 1)
    deaf = RawClient(server.port, "/v1/completions", {**STREAM, "max_tokens": 8000}, 4096)
    begin = time.monotonic()
    server.terminate()
    thread.join(10)
    assert got[0][-1] == "[DONE]" and "shutting down" in got[0][-2]["error"]["message"]
    assert server.wait() == 0 and time.monotonic() - begin < 5
    deaf.close()


def test_a_second_signal_ends_it_at_once(start: Callable[..., Server]) -> None:
    server = start(*QUICK, "--drain", "60s")
    client = RawClient(server.port, "/v1/completions", {**STREAM, "max_tokens": 8000})
    client.read_until(b"data: ")
    server.terminate()
    wait_for(lambda: server.http.get("/health").status_code == 503)
    server.terminate()
    server.wait()
    client.close()


def test_many_streams_at_once_are_all_whole(server: Server) -> None:
    clients = [
        RawClient(server.port, "/v1/completions", {**STREAM, "max_tokens": 30, "seed": number}) for number in range(200)
    ]
    alone = server.complete(max_tokens=30, seed=17)["choices"][0]["text"]
    for number, client in enumerate(clients):
        got = client.read_until(b"[DONE]").decode()
        assert got.count('"finish_reason": "length"') == 1
        if number == 17:
            assert "".join(part.split('"')[0] for part in got.split('"text": "')[1:]) == alone
        client.close()
    wait_for(lambda: idle(server))
