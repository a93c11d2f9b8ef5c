"""What is kept of a run: its steps, who was where after each plan, and what became of each request."""

from __future__ import annotations

from dataclasses import dataclass, field

from schedlab.request import FinishReason


@dataclass(frozen=True)
class StepRecord:
    """One iteration: tokens computed per request, and blocks in use (of the first iteration of a run only)."""

    start_ns: int
    end_ns: int
    tokens: dict[str, int]
    used_blocks: int | None


@dataclass(frozen=True)
class Snapshot:
    """Who is where when a plan has been made, in order."""

    now_ns: int
    waiting: list[str]
    running: list[str]
    restoring: list[str]
    parked: list[str]
    used_blocks: int
    cached_blocks: int
    committed_blocks: int
    tables: dict[str, list[int]]


@dataclass
class Lived:
    """What became of one request.

    Attributes:
        computed, prefilled: tokens that steps computed, and those of them that chunks did.
        cached, cached_on_return: tokens that the prefix cache gave at the first seat, and at later ones.
        reached: the furthest token whose content it has ever had; `spared` of them it never computed itself.
    """

    arrived_ns: int | None = None
    started_ns: int | None = None
    token_ns: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    preempted_ns: list[int] = field(default_factory=list)
    resumed_ns: list[int] = field(default_factory=list)
    computed: int = 0
    prefilled: int = 0
    cached: int = 0
    cached_on_return: int = 0
    reached: int = 0
    spared: int = 0
    recomputed: int = 0
    most_blocks: int = 0
    ended_ns: int | None = None
    reason: FinishReason | None = None
    error: str = ""
