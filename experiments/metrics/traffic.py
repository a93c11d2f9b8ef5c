"""What copies cost: bytes and time on each link, and how much of that time the device computed meanwhile."""

from __future__ import annotations

from collections import deque
from typing import Any

from backends.sim.links import CopyTicket
from experiments.metrics.stats import clean, present, ratio
from schedlab.device import CopyKind
from schedlab.events import Restored, StepDone, SwappedOut
from schedlab.memory.swap import Tier
from schedlab.pace import QUANTA_PER_NS

_QUANTA_PER_S = QUANTA_PER_NS * 1_000_000_000


class _Link:
    """One direction of one link. Its copies never overlap one another, nor do steps, so one pass over both does."""

    __slots__ = ("busy_quanta", "copies", "failed", "num_bytes", "overlap_quanta", "pending")

    def __init__(self) -> None:
        self.copies = 0
        self.failed = 0
        self.num_bytes = 0
        self.busy_quanta = 0
        self.overlap_quanta = 0
        # Copies, as (start, end), that steps to come may still overlap.
        self.pending: deque[tuple[int, int]] = deque()

    def pass_step(self, start: int, end: int) -> None:
        """Compute has gone on from `start` to `end`."""
        pending = self.pending
        while pending and pending[0][0] < end:
            begun, ended = pending[0]
            self.overlap_quanta += max(0, min(end, ended) - max(start, begun))
            if ended > end:
                return
            pending.popleft()

    def to_dict(self) -> dict[str, Any]:
        return present(
            copies=self.copies,
            bytes=self.num_bytes,
            busy_s=clean(self.busy_quanta / _QUANTA_PER_S),
            overlap_share=ratio(self.overlap_quanta, self.busy_quanta),
            failed=self.failed or None,
        )


class Traffic:
    """Observer of the scheduler and, by `copy_begun`, of the links. Counts are the same however decode runs are cut.

    A copy counts with all its bytes and time when its place on the link is known. Reads of blocks that windows have on
    disk are part of a step and take no place on a link; they are counted by themselves.

    Attributes:
        swapped_out: images by tier. restored: sequences that came back with theirs.
        far_block_reads: blocks on disk, read once for each iteration.
    """

    def __init__(self) -> None:
        self._links = {kind: _Link() for kind in CopyKind}
        self._busy_links: list[_Link] = []
        self.swapped_out = dict.fromkeys(Tier, 0)
        self.restored = 0
        self.far_block_reads = 0

    def copy_begun(self, copy: CopyTicket) -> None:
        """A copy has got its place on a link."""
        link = self._links[copy.kind]
        if not link.copies:
            self._busy_links.append(link)
        link.copies += 1
        link.failed += bool(copy.error)
        link.num_bytes += copy.num_bytes
        link.busy_quanta += copy.end_quanta - copy.start_quanta
        link.pending.append((copy.start_quanta, copy.end_quanta))

    def on_step_done(self, event: StepDone) -> None:
        if event.decode_rows:
            self.far_block_reads += event.batch.far_blocks * event.pace.count
        if self._busy_links:
            end = event.pace.end_quanta(event.pace.count)
            for link in self._busy_links:
                link.pass_step(event.pace.start_quanta, end)

    def on_swapped_out(self, event: SwappedOut) -> None:
        self.swapped_out[event.tier] += 1

    def on_restored(self, event: Restored) -> None:
        self.restored += 1

    def to_dict(self) -> dict[str, Any]:
        """Keys in a fixed order; links without copies are left out."""
        return {
            "swapped_out": {tier.value: count for tier, count in self.swapped_out.items()},
            "restored": self.restored,
            "links": {kind.value: link.to_dict() for kind, link in self._links.items() if link.copies},
            "far_block_reads": self.far_block_reads,
        }
