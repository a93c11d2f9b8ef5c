"""How far the uncalibrated roofline is from a real engine: `python -m experiments.bench.truth_check [RUN_FOLDER]`.

The real run is LLMServingSim's (casys-kaist/LLMServingSim, MIT): vLLM 0.19 serving Llama-3.1-8B in bf16 on one RTX PRO
6000 Blackwell, 300 ShareGPT requests at about 10 a second. Its folder has `meta.json` (the engine's settings) and
`requests.jsonl` (lengths and stamps of every request). The replay gets those settings, lengths and arrivals, and
nothing is fitted.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.command import Job, execute
from experiments.config import dump
from experiments.truth import EDITIONS, FIGURES, Truth
from reports.files import replace_file
from schedlab.errors import UsageError

RUN = "profiles/llmservingsim/runs/RTXPRO6000-Llama-3.1-8B-vllm-0.19"
GALLERY = Path("reports/gallery/truth_check.md")
_NS_PER_S = 1_000_000_000


def measure(folder: Path, hardware: str) -> dict[str, Truth]:
    """Mean TTFT, TPOT and E2E of the real run and of its replay. Time counts from the engine's receipt of a request.

    Raises:
        UsageError: the folder lacks its files.
    """
    try:
        settings = json.loads((folder / "meta.json").read_text("utf-8"))["engine_kwargs"]
        lines = (folder / "requests.jsonl").read_text("utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{folder}: no such run ({error.strerror}); give the folder of the real run") from error
    requests = sorted((json.loads(line) for line in lines), key=lambda request: float(request["queued_ts"]))
    real, simulated = _real_means(requests), _replayed_means(hardware, settings, requests)
    return {name: Truth(real[name], simulated[name]) for name in real}


def _real_means(requests: list[dict[str, Any]]) -> dict[str, float]:
    ttft = [request["first_token_ts"] - request["queued_ts"] for request in requests]
    e2e = [request["last_token_ts"] - request["queued_ts"] for request in requests]
    tpot = [
        (request["last_token_ts"] - request["first_token_ts"]) / (request["output_toks"] - 1)
        for request in requests
        if request["output_toks"] >= 2
    ]
    return {name: 1e3 * sum(values) / len(values) for name, values in (("TTFT", ttft), ("TPOT", tpot), ("E2E", e2e))}


def _replayed_means(hardware: str, settings: Mapping[str, Any], requests: list[dict[str, Any]]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "requests.csv"
        trace.write_text(_as_trace(requests), "utf-8")
        options = {
            "trace": trace,
            "model": settings["model"],
            "hardware": hardware,
            "tp": settings["tensor_parallel_size"],
            "preset": "vllm",
            "set": {name: settings[name] for name in ("max_num_seqs", "max_num_batched_tokens")},
        }
        summary = execute(Job(options, keep_files=False)).summary
    return {name: summary[f"{name.lower()}_ms"]["mean"] for name in ("TTFT", "TPOT", "E2E")}


def _as_trace(requests: list[dict[str, Any]]) -> str:
    first_s = requests[0]["queued_ts"]
    rows = (
        f"{round((request['queued_ts'] - first_s) * _NS_PER_S)},{request['input_toks']},{request['output_toks']}\n"
        for request in requests
    )
    return "arrival_ns,prompt_tokens,output_tokens\n" + "".join(rows)


def table(measured: Mapping[str, Truth]) -> str:
    """The comparison as a Markdown table."""
    rows = "".join(
        f"| {name} | {truth.real_ms:,.1f} ms | {truth.simulated_ms:,.1f} ms | {truth.error_percent:+.1f} % |\n"
        for name, truth in measured.items()
    )
    return f"| mean | real | replayed | off by |\n| --- | ---: | ---: | ---: |\n{rows}"


def figures_file(measured: Mapping[str, Mapping[str, Truth]]) -> bytes:
    """The bytes of `truth.FIGURES`: means to a microsecond, by edition and metric."""
    return dump(
        {
            hardware: {name: [round(mean_ms, 3) for mean_ms in truth] for name, truth in means.items()}
            for hardware, means in measured.items()
        }
    )


def page(measured: Mapping[str, Truth], other_edition: Mapping[str, Truth]) -> str:
    """The gallery's page."""
    return (
        "# Truth check of the uncalibrated roofline\n\n"
        "`python -m experiments.bench.truth_check`\n\n"
        "A real run of vLLM 0.19 (Llama-3.1-8B, bf16, one RTX PRO 6000 Blackwell, 128 sequences, 2,048 tokens a step, "
        "300 ShareGPT requests at about 10 a second; published with LLMServingSim, casys-kaist, MIT) against its "
        "replay with the same settings, lengths and arrivals. Nothing is fitted.\n\n"
        "The run does not say which edition of the GPU it used; the profiles published beside it were measured on the "
        f"Server Edition, whose data-sheet figures these are:\n\n{table(measured)}\n"
        f"With the Workstation Edition's memory bandwidth instead:\n\n{table(other_edition)}"
    )


def main() -> None:
    """Measure, print, and write the figures of `experiments.truth` and the gallery's page."""
    shared = Path(os.environ.get("SCHEDLAB_SHARED", "../shared"))
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else shared / RUN
    measured = {hardware: measure(folder, hardware) for hardware in EDITIONS}
    replace_file(FIGURES, figures_file(measured))
    text = page(*measured.values())
    print(text)
    replace_file(GALLERY, text.encode())


if __name__ == "__main__":
    main()
