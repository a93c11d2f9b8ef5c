"""How a trace is to be read. Every option has one meaning for every format that it applies to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadOptions:
    """Options of `open_trace`.

    strict            refuse a file whose rows are out of order instead of sorting it
    shift_negative    move the earliest stamp to 0 and keep the gaps, where negative stamps are otherwise refused
    session_gap_ns    sessions that have no common clock (Weka) start this far apart, in file order
    rows              rows of a model (None: as many as the original had)
    seed              seed of a model and of the requests drawn from ServeGen clients
    rate              ServeGen: requests per second of all clients together after scaling (None: 10 with no rate_scale)
    rate_scale        ServeGen: factor on every client's rate, instead of `rate`
    duration_s        ServeGen: simulated seconds to draw
    start_s           ServeGen: where in the recorded days to begin
    """

    strict: bool = False
    shift_negative: bool = False
    session_gap_ns: int = 60_000_000_000
    rows: int | None = None
    seed: int = 0
    rate: float | None = None
    rate_scale: float | None = None
    duration_s: float = 600.0
    start_s: float | None = None


DEFAULTS = ReadOptions()
