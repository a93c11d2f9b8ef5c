"""One replay from options to files, as the command line and the Python API share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.checks import Check
from experiments.config import check_repeats, is_config, read_config
from experiments.options import DEFAULT_TRACE, STDIN, options_from
from experiments.out_dir import CONFIG, OutDir
from experiments.replay import RunOptions, run
from experiments.result import ReplayResult
from experiments.setup import Setup, prepare
from experiments.watch import Show, StopSignal
from schedlab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Job:
    """What a caller asks for.

    Attributes:
        options: as for `ReplayOptions`; None stands for the default. With the `config.json` of an earlier run as the
            trace, no other may be given.
        out: the folder of the results; None = a fresh one.
        keep_files: write files at all.
        stoppable: Ctrl-C or SIGTERM ends the run early and its results are kept, marked as partial.
        check: what is verified while it runs; None = nothing.
        progress: shows, for a run of so many requests, how far it has come.
    """

    options: Mapping[str, Any]
    out: Path | None = None
    keep_files: bool = True
    events: bool = False
    check: Check | None = None
    leap: bool = True
    perfetto_window_ns: tuple[int, int] | None = None
    stoppable: bool = False
    progress: Callable[[int], AbstractContextManager[Show]] | None = None


def execute(job: Job) -> ReplayResult:
    """Prepare, run and write.

    Raises:
        UsageError: anything that a caller can mend.
        Stalled: requests are left that nothing will ever move.
        InvariantViolation: a law of the run does not hold (with `check`).
    """
    if job.events and not job.keep_files:
        raise UsageError("events writes a file: give the folder with out=")
    setup = _setup(job.options)
    out = _out(job, setup)
    if out is None:
        return _run(job, setup, None)
    try:
        result = _run(job, setup, out.events_draft if job.events else None)
        out.write(result)
    except BaseException:
        out.discard()
        raise
    out.close()
    result.folder = out.path
    return result


def _run(job: Job, setup: Setup, events_path: Path | None) -> ReplayResult:
    with ExitStack() as meanwhile:
        how = RunOptions(
            leap=job.leap,
            check=job.check,
            events_path=events_path,
            perfetto_window_ns=job.perfetto_window_ns,
            stop=meanwhile.enter_context(StopSignal()) if job.stoppable else None,
            show=meanwhile.enter_context(job.progress(setup.workload.stats.rows)) if job.progress else None,
        )
        return run(setup, how)


def _setup(given: Mapping[str, Any]) -> Setup:
    trace = given.get("trace") or DEFAULT_TRACE
    path = Path(trace)
    if is_config(path / CONFIG):
        raise UsageError(f"{path} holds the results of a replay; {path / CONFIG} repeats it")
    if not is_config(path):
        return prepare(options_from(given))
    others = [name for name, value in given.items() if name != "trace" and value is not None]
    if others:
        flag = f"--{others[0].replace('_', '-')}"
        raise UsageError(f"{path} repeats a run as it was; leave out {flag}, or name the trace itself")
    options, recorded = read_config(path)
    try:
        setup = prepare(options)
        check_repeats(path, recorded, setup.document)
    except UsageError as error:
        if options.trace == STDIN:
            raise UsageError(f"{path}: this run read standard input; pipe the same trace in ({error})") from None
        raise
    return setup


def _out(job: Job, setup: Setup) -> OutDir | None:
    if not job.keep_files:
        return None
    return OutDir.open(job.out) if job.out else OutDir.fresh(setup.document)
