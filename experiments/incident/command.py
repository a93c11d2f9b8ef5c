"""`schedlab replay` of a recorded run, on a terminal."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from experiments.bar import progress, recorded
from experiments.event_log import EventLog
from experiments.incident.replay import Incident
from experiments.new_folder import new_folder
from experiments.out_dir import EVENTS
from schedlab.errors import UsageError


def replay_incident(path: Path, out: Path | None, *, events: bool) -> None:
    """Play it again and print what came of it; with `events` the decision log goes to the new folder `out`.

    Raises:
        UsageError: the file is damaged, or the folder cannot be made.
        InvariantViolation: the scheduler decides otherwise than it did.
    """
    if events != (out is not None):
        raise UsageError(f"{path} is a recorded run: --events writes its decision log to --out; give both or neither")
    incident = Incident(path)
    with ExitStack() as open_files:
        if out is not None:
            incident.core.bus.add(open_files.enter_context(EventLog(new_folder(out) / EVENTS)))
        show = open_files.enter_context(progress(incident.total_ticks, figures=recorded, what="ticks"))
        replayed = incident.replay(show)
    counts = replayed.counts
    print(
        f"{replayed.num_ticks:,} ticks, {counts.steps:,} steps, {counts.output_tokens:,} output tokens, "
        f"{counts.finished:,} requests ended, {counts.preempted:,} preempted, {counts.to_host + counts.to_disk:,} "
        f"swapped out, {counts.cache_hits:,} cache hits"
    )
    cut = "" if replayed.is_whole else "the recording was cut off; up to its last tick "
    print(f"{cut}every decision is as it was recorded (CRC-32 of the log: {replayed.crc:08x})")
    if out is not None:
        print(f"decision log in {out / EVENTS}")
