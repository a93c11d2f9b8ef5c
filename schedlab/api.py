"""The Python API: `schedlab.replay(...)`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.result import ReplayResult


def replay(
    trace: str | PathLike[str] = "azure-conv-like",
    *,
    out: str | PathLike[str] | None = None,
    events: bool = False,
    check: bool | str = False,
    leap: bool = True,
    **options: Any,
) -> ReplayResult:
    """Replay a trace on a simulated GPU, without a word on the terminal.

    Args:
        trace: a file or folder, or a shipped model's name; the `config.json` of an earlier run repeats that run.
        out: a folder for the files that the command writes; None = no files.
        events: write the decision log there too.
        check: verify the laws of the run after every tick; "shadow" = also what lies in each block of memory, so that
            a request whose output is not the one that it gives alone ends the run.
        leap: repeat decode steps in closed form; the results are the same either way.
        options: model, hardware, tp, preset, policy, set, cost, cost_set, memory_percent, num_blocks, block_size,
            max_tokens, rate_scale, limit, seed, slo and faults, as `experiments.options.ReplayOptions` explains them.

    Raises:
        UsageError: an option, a file or a combination of them is wrong.
        Stalled: requests are left that nothing will ever move.
        InvariantViolation: a law of the run does not hold (with `check`).
    """
    from experiments.checks import check_of
    from experiments.command import Job, execute

    return execute(
        Job(
            {**options, "trace": trace},
            out=None if out is None else Path(out),
            keep_files=out is not None,
            events=events,
            check=check_of(check),
            leap=leap,
        )
    )
