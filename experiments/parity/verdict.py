"""What a parity run found, for a reader and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from backends.sim.recording import Diverged, Recording
from experiments.bench.machine import machine
from experiments.config import schedlab_version
from experiments.parity.compare import Difference
from experiments.parity.plan import Plan
from experiments.parity.run import Ran
from reports.units import clean

if TYPE_CHECKING:
    from rich.console import Console

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether both sides decided alike, and if not where they part.

    Attributes:
        what: the real device.
        difference: of the logs.
        recording: what the real device was asked.
        diverged: a question that it was not asked.
        digest: sha256 of the real log.
    """

    plan: Plan
    what: str
    real: Ran
    recording: Recording
    difference: Difference | None
    diverged: Diverged | None
    digest: str

    @property
    def is_same(self) -> bool:
        """Did both make the same decisions?"""
        return self.difference is None and self.diverged is None

    def print(self, console: Console) -> None:
        """Facts as a table, then the verdict."""
        for line in (*(f"{name:<14}  {clean(value)}" for name, value in self._facts()), *self._findings()):
            console.print(line, markup=False)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        plan, difference, diverged = self.plan, self.difference, self.diverged
        return {
            "schedlab_parity": 1,
            "schedlab_version": schedlab_version(),
            "machine": machine(),
            "real_device": self.what,
            "trace": plan.workload.facts(),
            "scheduler": {**asdict(plan.scheduler), "num_blocks": plan.num_blocks},
            "same": self.is_same,
            "ticks": self.real.num_ticks,
            **asdict(self.real.counts),
            "copies": len(self.recording.copies),
            "copies_ns": self._copies_ns,
            "bytes_compared": self.real.log_bytes,
            "sha256": self.digest,
            "difference": None if difference is None else difference._asdict(),
            "diverged": None if diverged is None else str(diverged),
            "options": plan.options.as_dict(),
        }

    @property
    def _copies_ns(self) -> int:
        return sum(copy.duration_ns for copy in self.recording.copies)

    def _facts(self) -> Iterator[tuple[str, str]]:
        counts, plan = self.real.counts, self.plan
        ended = f"{counts.finished + counts.refused:,} requests ended"
        refused = f", {counts.refused:,} of them refused" if counts.refused else ""
        yield "workload", f"{plan.workload.trace.name} ({plan.workload.title}), {ended}{refused}"
        yield "real device", self.what
        pool = f"{plan.num_blocks:,} blocks of {plan.scheduler.block_size} tokens"
        yield "scheduler", f"preset {plan.options.preset}, {pool}, preemption {plan.scheduler.preemption}"
        yield "ticks", f"{self.real.num_ticks:,}"
        pieces = f"{counts.chunked:,} with a piece of a prompt, {counts.mixed:,} with prompts beside decode rows"
        yield "steps", f"{counts.steps:,}; {pieces}"
        yield "tokens", f"{counts.prompt_tokens:,} of prompts computed, {counts.output_tokens:,} of outputs"
        yield "preemptions", f"{counts.preempted:,} to be computed again"
        yield "swaps", f"{counts.to_host:,} to the host, {counts.to_disk:,} to the disk"
        yield "cache hits", f"{counts.cache_hits:,}, {counts.cached_tokens:,} tokens"
        yield "cancelled", f"{counts.cancelled:,}"
        in_copies = f"{self._copies_ns / NS_PER_S:.3f} s in {len(self.recording.copies):,} copies"
        yield "time in device", f"{counts.device_ns / NS_PER_S:.3f} s in steps, {in_copies}"
        yield "compared", f"{self.real.log_bytes:,} bytes, {len(self.real.ticks_of_lines):,} lines"
        yield "sha256", self.digest
        yield "machine", machine()

    def _findings(self) -> Iterator[str]:
        if self.is_same:
            yield "both devices made the same decisions, to the byte"
            return
        yield "the devices made different decisions"
        if (difference := self.difference) is not None:
            whom = ", ".join(f"request {one}" for one in difference.requests) or "no request alone"
            yield f"line {difference.line}, tick {difference.tick}: {difference.decision} ({whom})"
            yield f"  real:      {difference.real or '(its log ends here)'}"
            yield f"  simulated: {difference.simulated or '(its log ends here)'}"
        if (diverged := self.diverged) is not None:
            where = f"{diverged.what} {diverged.number}"
            if diverged.what == "step" and diverged.number <= len(self.real.ticks_of_steps):
                where = f"tick {self.real.ticks_of_steps[diverged.number - 1]}, {where}"
            yield f"{where}: the simulated device was asked for something else"
            yield f"  real:      {diverged.recorded or '(nothing more)'}"
            yield f"  simulated: {diverged.asked}"
