"""`schedlab parity`, from its flags to its verdict."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.bar import progress
from experiments.config import dump
from experiments.extras import need
from experiments.new_folder import new_folder
from experiments.options import options_from
from experiments.parity.compare import digest, first_difference
from experiments.parity.counts import Counts
from experiments.parity.plan import prepare
from experiments.parity.simulated import repeat
from experiments.parity.verdict import Verdict
from schedlab.errors import UsageError

DEVICES = ("auto", "cuda", "cpu")
DEFAULT_MODEL = "tiny"
_NEEDED = ("torch", "safetensors", "tokenizers", "gguf")


def parity(given: Mapping[str, Any], *, model: str | None, device: str, out: Path | None) -> bool:
    """Run both and print what came of it; False if they differ. `given` are options that a replay has too.

    Raises:
        UsageError: anything that a caller can mend; also without the extra `serve`, and if no step ran.
        Stalled: work is left that nothing will ever move.
    """
    need("parity", _NEEDED)
    if device not in DEVICES:
        raise UsageError(f"--device {device!r} is not known; choose one of {', '.join(DEVICES)}")
    from experiments.parity.real import RealSide
    from experiments.serve.real import wanted_model_len

    options = options_from(given)
    side = RealSide(model or DEFAULT_MODEL, device, wanted_model_len(options))
    plan = prepare(options, side.max_model_len)
    rows = plan.workload.stats.rows
    with _folder(out) as folder:
        with progress(rows, "real device") as show:
            real, recording, facts = side.run(plan, folder / "real.jsonl", show)
        _need_steps(real.counts)
        log = folder / "simulated.jsonl"
        with progress(rows, "simulated device") as show:
            diverged = repeat(plan, recording, facts, log, show)
        difference = first_difference(real.log, log, real.ticks_of_lines)
        verdict = Verdict(plan, side.what, real, recording, difference, diverged, digest(real.log))
        if out is not None:
            (folder / "parity.json").write_bytes(dump(verdict.document()))
    verdict.print(Console(highlight=False, soft_wrap=True))
    return verdict.is_same


def _need_steps(counts: Counts) -> None:
    """Two empty logs are the same bytes, and show nothing."""
    if not counts.steps:
        why = f"{counts.refused:,} of them were refused, the first is {counts.first_refusal}"
        ended = f"{counts.finished + counts.refused:,} requests ended and no step ran"
        raise UsageError(f"nothing was compared: {ended}{f'; {why}' if counts.refused else ''}")


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """The folder of the results; a temporary one if they are not wanted."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="schedlab-") as folder:
            yield Path(folder)
        return
    made = new_folder(out)
    try:
        yield made
    except UsageError:
        # Nothing was compared, so there are no results.
        shutil.rmtree(made)
        raise
