"""ServeGen clients (alibaba/ServeGen, Apache-2.0; Xiang et al., arXiv 2505.09999): a folder of rates and length
distributions, no requests.

`chunk-N-trace.csv` (no header) has a row for each window of client N: start (s), mean rate (requests/s), CV of gaps,
pattern (Gamma, Weibull, or empty when idle), shape, scale. `chunk-N-dataset.json` has length distributions for 6-hour
windows, each a Python dict in a string. Requests are drawn: the recorded rates, of thousands a second, are scaled to
`rate` in all or by `rate_scale`; shares of the clients, their windows and the shape of their gaps stay. Default: 10
requests/s for 600 s, from the busiest stretch of the recording. A client without length data is left out and reported
with its share of the rate; requests in a window whose data is empty are dropped. Prompt and output lengths are drawn
apart, since their correlation is not in the data.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.errors import UsageError
from traces.detect import Head
from traces.fields import Place, cells
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Folder, Source

if TYPE_CHECKING:
    from traces.generators.clients import Distribution

DEFAULT_RATE = 10.0
_MOST = 1e8
_CHUNK = re.compile(r"chunk-(\d+)-(trace\.csv|dataset\.json)(\.gz)?$")
_SHAPES = {False: (1e-3, 1e6), True: (0.05, 1e3)}
_PATTERNS = ("", "Gamma", "Weibull")


@dataclass(frozen=True)
class Window:
    """What a client did in one window: mean rate (requests/s), kind and shape of its gaps."""

    start_s: float
    rate: float
    weibull: bool
    shape: float


@dataclass
class Client:
    """One customer: its windows in order, and where its lengths are (None: nowhere)."""

    number: int
    windows: list[Window] = field(default_factory=list)
    dataset: Source | None = None


def chunk_files(folder: Path) -> list[Path]:
    """The files of clients in a folder, by name."""
    return sorted(path for path in folder.iterdir() if _CHUNK.match(path.name))


def matches(head: Head) -> bool:
    """Told by the names of its files, since they have no header: see `chunk_files`."""
    return False


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Draw the requests of all clients with length data, window by window."""
    from traces.generators.clients import draw

    _check(options)
    clients = load_clients(source)
    usable = [client for client in clients if client.dataset is not None]
    _note_missing(report, clients)
    window_s = _window_s(source, clients)
    start_s = _busiest_s(usable, window_s, options.duration_s) if options.start_s is None else options.start_s
    scale = _scale(source, usable, window_s, start_s, options)
    report.note(
        f"drawn from {len(usable)} clients with seed {options.seed}: {options.duration_s:g} s from second {start_s:g} "
        f"of the recording, rates times {scale:.6g}"
    )
    if options.rate is None and options.rate_scale is None:
        report.note(
            f"{DEFAULT_RATE:g} requests/s for {options.duration_s:g} s unless chosen otherwise: "
            f"schedlab trace convert {source.name} OUT.csv --rate R --duration S"
        )
    dropped: dict[str, int] = {}
    for record in draw(usable, window_s, start_s, options.duration_s, scale, options.seed, dropped):
        report.rows_read += 1
        report.rows_kept += 1
        yield record
    for reason, rows in dropped.items():
        report.rows_read += rows
        report.drop(reason, rows)


def load_clients(source: Source) -> list[Client]:
    """All clients of the folder, by number."""
    clients: dict[int, Client] = {}
    for file in source.files if isinstance(source, Folder) else []:
        found = _CHUNK.match(file.path.name)
        assert found is not None
        client = clients.setdefault(int(found.group(1)), Client(int(found.group(1))))
        if found.group(2) == "dataset.json":
            client.dataset = file
        else:
            client.windows = list(_windows(file))
    return [clients[number] for number in sorted(clients)]


def load_lengths(dataset: Source, at_s: float) -> tuple[Distribution, Distribution] | None:
    """The prompt and output distributions that hold at a second of the recording; None where the window is empty."""
    from traces.generators.clients import Distribution

    with dataset.text() as lines:
        try:
            windows = json.load(lines)
            starts = sorted((float(start), start) for start in windows)
            key = [name for start, name in starts if start <= at_s][-1]
            prompts, outputs = (ast.literal_eval(windows[key][name]) for name in ("input_tokens", "output_tokens"))
            return (Distribution.of(prompts), Distribution.of(outputs)) if prompts and outputs else None
        except IndexError:
            return None
        except (ValueError, SyntaxError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"{dataset.name}: second {at_s:g}: not ServeGen length data ({error})") from error


def _windows(file: Source) -> Iterator[Window]:
    place = Place(file.name)
    with file.text() as lines:
        for place.line, line in enumerate(lines, 1):
            if not line.strip():
                continue
            values = [value.strip() for value in cells(line)]
            if len(values) != 6:
                place.refuse("row", f"{len(values)} cells, 6 are expected (start, rate, CV, pattern, shape, scale)")
            start, rate, cv = (_number(place, name, values[at]) for at, name in enumerate(("start", "rate", "CV")))
            if values[3] not in _PATTERNS:
                place.refuse("pattern", f"{values[3]!r} is none of Gamma, Weibull or empty")
            shape = _number(place, "shape", values[4]) or (1.0 / cv**2 if cv else 1.0)
            weibull = values[3] == "Weibull"
            low, high = _SHAPES[weibull]
            if rate and not low <= shape <= high:
                place.refuse("shape", f"{shape:g} lies outside of {low:g}..{high:g}")
            yield Window(start, rate, weibull, shape)


def _number(place: Place, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        place.refuse(name, f"{value!r} is not a number")
    return number if math.isfinite(number) and number >= 0 else place.refuse(name, f"{value} is not a number from 0 up")


def _note_missing(report: ReadReport, clients: Sequence[Client]) -> None:
    missing = [client for client in clients if client.dataset is None]
    rates = {client.number: sum(window.rate for window in client.windows) for client in clients}
    total = sum(rates.values())
    if missing and total:
        share = 100 * sum(rates[client.number] for client in missing) / total
        numbers = ", ".join(str(client.number) for client in missing)
        report.note(
            f"{len(missing)} of {len(clients)} clients have no length data and are left out "
            f"({share:.0f} % of the recorded rate): {numbers}"
        )


def _window_s(source: Source, clients: Sequence[Client]) -> float:
    for client in clients:
        if len(client.windows) > 1:
            return client.windows[1].start_s - client.windows[0].start_s
    raise UsageError(f"{source.name}: no client with at least two windows")


def _rates(clients: Sequence[Client]) -> dict[float, float]:
    rates: dict[float, float] = {}
    for client in clients:
        for window in client.windows:
            rates[window.start_s] = rates.get(window.start_s, 0.0) + window.rate
    return dict(sorted(rates.items()))


def _busiest_s(clients: Sequence[Client], window_s: float, duration_s: float) -> float:
    rates = _rates(clients)
    width = max(1, round(duration_s / window_s))
    starts, values = list(rates), list(rates.values())
    sums = [sum(values[at : at + width]) for at in range(max(1, len(values) - width + 1))]
    return starts[sums.index(max(sums))] if starts else 0.0


def _check(options: ReadOptions) -> None:
    if options.rate is not None and options.rate_scale is not None:
        raise UsageError("ServeGen: give a rate or a rate scale, not both")
    for name, value in (("rate", options.rate), ("rate scale", options.rate_scale), ("duration", options.duration_s)):
        if value is not None and not 0 < value <= _MOST:
            raise UsageError(f"ServeGen: the {name} is {value:g}; it must be above 0, and at most {_MOST:g}")


def _scale(source: Source, clients: Sequence[Client], window_s: float, start_s: float, options: ReadOptions) -> float:
    end_s = start_s + options.duration_s
    requests = sum(
        rate * max(0.0, min(end_s, at + window_s) - max(start_s, at)) for at, rate in _rates(clients).items()
    )
    if not requests:
        raise UsageError(f"{source.name}: no client with length data sends anything from second {start_s:g} on")
    if options.rate_scale is not None:
        return options.rate_scale
    return (options.rate or DEFAULT_RATE) * options.duration_s / requests


FORMAT = Format(
    "servegen", "ServeGen clients (folder of chunk-N-trace.csv and chunk-N-dataset.json)", matches, read, is_model=True
)
