"""`schedlab bench`, from its flags to the table and the report."""

from __future__ import annotations

import asyncio
import datetime
import platform
import time
from collections.abc import Iterator, Mapping
from os import cpu_count
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.bar import measured as in_real_time
from experiments.bar import progress
from experiments.config import dump, schedlab_version
from experiments.load.client import Load, Outcome
from experiments.load.http import Failed, Target, document
from experiments.load.measured import Measured
from experiments.metrics.tables import write_parquet
from experiments.new_folder import new_folder
from experiments.notes import PARTIAL
from experiments.options import ReplayOptions, options_from
from experiments.watch import Progress, Show
from experiments.workload import Workload, open_workload
from reports.files import replace_file
from reports.html import write_report
from reports.table import print_summary
from schedlab.errors import UsageError
from traces.words import counted, printable

_ASKING_S = 20.0
_MOST_ERRORS = 5


def bench(
    url: str,
    given: Mapping[str, Any],
    *,
    model: str | None,
    api_key: str | None,
    max_concurrency: int | None,
    timeout_s: float,
    out: Path | None,
) -> bool:
    """Run the trace and print what came of it; True if Ctrl-C ended it early.

    Raises UsageError for anything wrong with the options, the trace or the server's address, and when every request
    failed.
    """
    if max_concurrency is not None and max_concurrency < 1:
        raise UsageError(f"--max-concurrency is {max_concurrency}; give at least 1")
    options = options_from(given)
    if "://" in options.trace and "://" not in url:
        raise UsageError(f"{options.trace} is a server and {url} none; name the server first, then the trace")
    target = Target.of(url, api_key)
    workload = open_workload(options)
    name = asyncio.run(_model(target, model))
    folder = None if out is None else new_folder(out)
    measured, started = Measured(), time.perf_counter()
    with progress(workload.stats.rows, "bench", in_real_time) as show:
        told = _Told(measured, workload.stats.rows, show)
        partial = _run(Load(target, name, max_concurrency, timeout_s, told.add), workload)
    run = _run_facts(time.perf_counter() - started)
    config = _config(url, name, workload, options, max_concurrency)
    summary = {"partial": partial, **measured.summary(options.slo_s)}
    notes = list(_notes(measured, workload, partial=partial))
    console = Console(highlight=False, soft_wrap=True)
    print_summary(console, summary, config, run, notes)
    if folder is not None:
        _write(folder, measured, summary, config, run, notes)
        console.print(f"results in {folder}", markup=False)
    if not partial:
        _refuse_failure(measured)
    return partial


def _run(load: Load, workload: Workload) -> bool:
    """True if it was interrupted; what has ended until then counts."""
    try:
        asyncio.run(load.run(workload.records()))
    except KeyboardInterrupt:
        return True
    return False


async def _model(target: Target, wanted: str | None) -> str:
    """The model to ask for: the one that is wanted, or the first that the server names."""
    if wanted is not None:
        return wanted
    try:
        async with asyncio.timeout(_ASKING_S):
            models = await document(target, "/v1/models")
        return str(models["data"][0]["id"])
    except (OSError, TimeoutError, Failed) as error:
        said = str(error) or type(error).__name__
        raise UsageError(f"{target.host}:{target.port} does not name its models ({said}); is it running?") from None
    except (KeyError, IndexError, TypeError):
        raise UsageError(f"{target.host}:{target.port} names no model; give one with --model") from None


class _Told:
    """Outcomes on their way to the figures and the progress bar."""

    def __init__(self, measured: Measured, total: int, show: Show) -> None:
        self._measured, self._total, self._show = measured, total, show
        self._started = time.perf_counter()
        self._output_tokens = 0

    def add(self, outcome: Outcome) -> None:
        self._measured.add(outcome)
        self._output_tokens += outcome.output_tokens
        wall_s = time.perf_counter() - self._started
        self._show(Progress(len(self._measured.requests), self._total, self._output_tokens, outcome.end_ns, wall_s))


def _write(
    folder: Path,
    measured: Measured,
    summary: dict[str, Any],
    config: dict[str, Any],
    run: dict[str, Any],
    notes: list[str],
) -> None:
    import pyarrow as pa

    for name, content in (("config.json", config), ("summary.json", summary), ("run.json", run)):
        replace_file(folder / name, dump(content))
    measured.requests.write_parquet(folder / "requests.parquet")
    timeline = measured.timeline()
    table = pa.Table.from_pandas(timeline, preserve_index=False)
    write_parquet(folder / "timeline.parquet", table.schema, [table])
    write_report(folder / "report.html", measured.requests.to_frame(), timeline, summary, config, run, notes)


def _notes(measured: Measured, workload: Workload, *, partial: bool) -> Iterator[str]:
    if partial:
        yield PARTIAL
    yield from workload.origin()
    yield "measured from the client's side; what only the server knows is left out"
    yield from (
        f"{counted(count, 'request')} failed: {error}" for error, count in measured.worst_errors()[:_MOST_ERRORS]
    )


def _refuse_failure(measured: Measured) -> None:
    """Raises UsageError when every request failed."""
    errors = measured.worst_errors()
    if errors and sum(measured.errors.values()) == len(measured.requests):
        raise UsageError(f"every request failed, most of them with: {printable(errors[0][0])}")


def _config(
    url: str, model: str, workload: Workload, options: ReplayOptions, max_concurrency: int | None
) -> dict[str, Any]:
    return {
        "schedlab_bench": 1,
        "schedlab_version": schedlab_version(),
        "trace": workload.facts(),
        "model": {"name": model},
        "hardware": {"name": url},
        "max_concurrency": max_concurrency,
        "rate_scale": options.rate_scale,
        "slo": dict(options.slo),
    }


def _run_facts(wall_s: float) -> dict[str, Any]:
    return {
        "wall_s": round(wall_s, 3),
        "machine": f"{platform.machine()}, {cpu_count()} CPUs, {platform.system()}",
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
