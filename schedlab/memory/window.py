"""The window of a sequence that keeps its newest blocks on the device and the older ones on disk (scheduler.md 6.8)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Window:
    """Cursors into a sequence's blocks, counted from its first. Laws: start <= offloaded <= requested; none goes back.

    Attributes:
        start: blocks that have left the device; the table holds those behind.
        offloaded: blocks that are safe on disk, every layer of them: only these may leave.
        requested: blocks whose copy has begun.
        is_stuck: a copy failed; nothing behind it is offloaded any more.
    """

    start: int = 0
    offloaded: int = 0
    requested: int = 0
    is_stuck: bool = False

    @property
    def has_open_copies(self) -> bool:
        """Will a block be safe on disk by itself?"""
        return self.requested > self.offloaded and not self.is_stuck
