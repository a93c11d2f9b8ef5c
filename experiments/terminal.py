"""`schedlab replay` on a terminal: what is about to run, its progress, and its results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.bar import progress
from experiments.check_command import replay_script
from experiments.checks import check_of
from experiments.command import Job, execute
from experiments.incident.command import replay_incident
from experiments.incident.replay import is_incident
from reports.perfetto import parse_window
from reports.table import print_summary
from schedlab.errors import UsageError
from schedlab.testing.script_file import is_script
from traces.words import counted

NS_PER_S = 1_000_000_000


def replay_on_terminal(
    options: Mapping[str, Any],
    *,
    out: Path | None,
    events: bool,
    check: str | None,
    leap: bool,
    perfetto_window: str | None,
) -> bool:
    """Replay, write the files and print the summary; True if Ctrl-C or SIGTERM ended it early.

    Raises:
        SchedlabError: as `experiments.command.execute` does.
    """
    trace = options.get("trace")
    others = [name for name, value in options.items() if name != "trace" and value is not None]
    if trace is not None and is_incident(Path(trace)):
        if others or not leap or perfetto_window is not None or check is not None:
            raise UsageError(f"{trace} holds a whole run; give --events and --out or no other flag")
        replay_incident(Path(trace), out, events=events)
        return False
    if trace is not None and is_script(Path(trace)):
        if (
            others
            or out is not None
            or events
            or not leap
            or perfetto_window is not None
            or check not in (None, "laws")
        ):
            raise UsageError(f"{trace} holds a whole run; give --check and no other flag")
        replay_script(Path(trace), check=check is not None)
        return False
    job = Job(
        options,
        out=out,
        events=events,
        check=check_of(check),
        leap=leap,
        perfetto_window_ns=parse_window(perfetto_window) if perfetto_window is not None else None,
        stoppable=True,
        progress=progress,
    )
    result = execute(job)
    console = Console(highlight=False, soft_wrap=True)
    print_summary(console, result.summary, result.config, result.run, result.notes)
    start_s = job.perfetto_window_ns[0] / NS_PER_S if job.perfetto_window_ns else 0.0
    if start_s >= result.summary["duration_s"] > 0:
        note = f"note: trace.perfetto.json is empty: the run was over before second {start_s:g} (--perfetto-window)"
        console.print(note, markup=False)
    if "checked_laws" in result.run:
        held = f"{result.run['checked_laws']} laws, {counted(result.run['checked_ticks'], 'tick')}"
        console.print(f"check: no law broke ({held})", markup=False)
    console.print(f"results in {result.folder}", markup=False)
    return result.partial
