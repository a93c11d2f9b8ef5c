"""A load tool of others drives the server: `aiperf`, where it is installed in an environment of its own."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.serve.lab import Server

tokenizers = pytest.importorskip("tokenizers", reason="needs the extra serve: make test-models installs it")
AIPERF = shutil.which("aiperf")
assert tests.serve.needed
pytestmark = pytest.mark.skipif(
    AIPERF is None, reason="aiperf is not on the PATH: pip install it into an environment of its own (1 GB)"
)
REQUESTS, OUTPUTS = 12, 10


def byte_tokenizer(folder: Path) -> Path:
    """A tokenizer whose tokens are bytes, since the tool wants one and would fetch the model's."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    return folder


@pytest.mark.parametrize("kind", ["completions", "chat"])
def test_aiperf_counts_what_it_asked_for(server: Server, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    told = subprocess.run(
        [
            *(str(AIPERF), "profile", "--model", "Llama-3-8B", "--url", server.url, "--endpoint-type", kind),
            *("--streaming", "--concurrency", "4", "--request-count", str(REQUESTS), "--isl", "50"),
            *("--osl", str(OUTPUTS), "--extra-inputs", "ignore_eos:true", "--use-server-token-count"),
            *("--tokenizer", str(byte_tokenizer(tmp_path)), "--ui", "none", "--artifact-dir", str(out)),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
    )
    assert told.returncode == 0, told.stdout[-3000:]
    found: dict[str, Any] = json.loads((out / "profile_export_aiperf.json").read_text())
    assert (found["request_count"]["avg"], found["error_summary"]) == (REQUESTS, [])
    assert found["output_sequence_length"]["avg"] == OUTPUTS
    assert 0 < found["time_to_first_token"]["avg"] < found["request_latency"]["avg"]
    scraped = json.loads((out / "server_metrics_export.json").read_text())["metrics"]
    assert {"vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:time_to_first_token_seconds"} <= set(scraped)
