"""What who runs a server sees: its cache emptied, its lines, its end when the scheduler dies."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

import resource
from pathlib import Path

from backends.sim.costs.constant import Constant
from backends.sim.filler import Filler
from backends.sim.links import DEFAULT_LINKS
from backends.sim.paced import PacedDevice
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.policies.fifo import Fifo
from schedlab.serve.metrics import ServerMetrics
from schedlab.serve.progress import Progress
from tests.serve.lab import QUICK, RawClient, Server, wait_for

assert tests.serve.needed
STREAM = {"prompt": "x", "ignore_eos": True, "stream": True, "max_tokens": 8000}


def cached(server: Server, prompt: str) -> int:
    return int(server.complete(prompt=prompt, max_tokens=1)["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_the_prefix_cache_can_be_emptied(server: Server) -> None:
    prompt = "to be forgotten " * 20
    cached(server, prompt)
    assert cached(server, prompt) > 0
    assert server.post("/reset_prefix_cache").status_code == 200
    assert cached(server, prompt) == 0
    client = RawClient(server.port, "/v1/completions", STREAM)
    client.read_until(b"data: ")
    refused = server.post("/reset_prefix_cache")
    assert refused.status_code == 409 and "reset_running_requests" in refused.json()["error"]["message"]
    assert cached(server, prompt) > 0
    assert server.post("/reset_prefix_cache?reset_running_requests=true").status_code == 200
    assert cached(server, prompt) == 0
    assert b"data: " in client.read_until(b"data: ")
    client.close()
    wait_for(lambda: server.http.get("/load").json() == {"server_load": 0})


def test_it_opens_as_many_connections_as_it_may(server: Server) -> None:
    """Each is an open file, and the tests' shell may allow fewer than the server can have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert server.metric("process_max_fds") == min(hard, 1 << 16)


def test_probes_need_no_body(server: Server) -> None:
    for path in ("/health", "/ping", "/ready"):
        assert server.http.head(path).status_code == server.http.get(path).status_code == 200


def test_a_line_tells_what_happened_since_the_last_one() -> None:
    config = SchedulerConfig(max_num_seqs=4, block_size=4)
    device = PacedDevice(Constant(step_ns=1_000_000), Filler(), DeviceFacts("paced", 100), dict(DEFAULT_LINKS))
    metrics, now_s = ServerMetrics(Scheduler(config, Fifo(config), device), "m"), [100.0]
    progress = Progress(metrics, lambda: now_s[0])
    assert progress.line() == ""
    metrics.prompt_tokens, metrics.generation_tokens = 50, 12345
    metrics.cache_queries, metrics.cache_hits = 200, 50
    now_s[0] += 10
    assert progress.line() == (
        "0 running, 0 waiting; 5.0 prompt and 1,234.5 output tokens/s; KV 0.0% used, cache hits 25.0%"
    )
    assert progress.line() == ""


DYING = """
from schedlab.policies.fifo import Fifo

class Dying(Fifo):
    name = "dying"

    def compose(self, view):
        if any(sequence.num_prompt_tokens == 7 for sequence in view.owners()):
            raise ZeroDivisionError("on purpose")
        return super().compose(view)
"""


def test_a_server_whose_scheduler_dies_says_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    server = Server("--device", "sim", *QUICK, "--policy", f"{tmp_path / 'dying.py'}:Dying")
    try:
        streaming = RawClient(server.port, "/v1/completions", STREAM)
        streaming.read_until(b"data: ")
        response = server.post("/v1/completions", prompt=[5] * 7)
        assert response.status_code == 500 and "ZeroDivisionError: on purpose" in response.json()["error"]["message"]
        rest = streaming.read_until(b"[DONE]")
        assert b"the scheduler has stopped" in rest and b"[DONE]" in rest
        assert server.wait() == 1
    finally:
        server.close()
    assert "schedlab: error: the scheduler has stopped: ZeroDivisionError: on purpose" in server.errors()
