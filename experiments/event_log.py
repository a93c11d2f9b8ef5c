"""The decision log: one JSON line per event, a decode run as the iterations that it stands for.

Equal decisions at equal times give equal bytes, whether a run came as one event or as many. Times are in nanoseconds of
the device's clock; no wall clock is in it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO
from zlib import crc32

from schedlab.device import Chunk
from schedlab.errors import UsageError
from schedlab.events import (
    Admitted,
    Arrived,
    CacheReset,
    Finished,
    FirstToken,
    Growth,
    Preempted,
    Refused,
    Restored,
    Restoring,
    Resumed,
    StepDone,
    SwappedOut,
)
from schedlab.pace import quanta_to_ns

_BUFFER_BYTES = 1 << 20


class DecisionLines(ABC):
    """Observer: makes the lines.

    A step's line: `t` and `end` of the iteration, `chunks` as [request, first position, tokens, samples], rows that
    `decode`, `ctx` = their lengths together before it, `blocks` handed to rows before it as [request, block], blocks
    `used` during it, and how many requests `wait`, `prefill` and are `parked` meanwhile.
    """

    wants_growth = True

    @abstractmethod
    def _write(self, text: str) -> None:
        """Take whole lines."""

    def on_arrived(self, event: Arrived) -> None:
        sequence = event.sequence
        tokens = f'"prompt":{sequence.num_prompt_tokens},"max":{sequence.max_outputs}'
        self._write(f'{{"t":{event.now_ns},"ev":"arrived","id":{sequence.request_id},{tokens}}}\n')

    def on_refused(self, event: Refused) -> None:
        self._write(_line(event.now_ns, "refused", event.sequence.request_id, f',"why":{json.dumps(event.reason)}'))

    def on_admitted(self, event: Admitted) -> None:
        cached = f',"cached":{event.sequence.num_cached_tokens}'
        self._write(_line(event.now_ns, "admitted", event.sequence.request_id, cached))

    def on_preempted(self, event: Preempted) -> None:
        rest = f',"freed":{event.freed_blocks},"why":{json.dumps(event.reason)}'
        self._write(_line(event.now_ns, "preempted", event.sequence.request_id, rest))

    def on_resumed(self, event: Resumed) -> None:
        self._write(_line(event.now_ns, "resumed", event.sequence.request_id))

    def on_swapped_out(self, event: SwappedOut) -> None:
        rest = f',"to":"{event.tier.value}","blocks":{event.num_blocks}'
        self._write(_line(event.now_ns, "swapped_out", event.sequence.request_id, rest))

    def on_restoring(self, event: Restoring) -> None:
        self._write(_line(event.now_ns, "restoring", event.sequence.request_id))

    def on_restored(self, event: Restored) -> None:
        self._write(_line(event.now_ns, "restored", event.sequence.request_id))

    def on_first_token(self, event: FirstToken) -> None:
        self._write(_line(event.now_ns, "first_token", event.sequence.request_id))

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        error = f',"error":{json.dumps(sequence.error)}' if sequence.error else ""
        rest = f',"outputs":{sequence.num_outputs},"why":"{event.reason.value}"{error}'
        self._write(_line(event.now_ns, "finished", sequence.request_id, rest))

    def on_cache_reset(self, event: CacheReset) -> None:
        self._write(f'{{"t":{event.now_ns},"ev":"cache_reset","done":{"true" if event.done else "false"}}}\n')

    def on_step_done(self, event: StepDone) -> None:
        self._write("".join(_iterations(event)))


class DecisionSum(DecisionLines):
    """The CRC-32 of the log so far, and no file."""

    def __init__(self) -> None:
        self.crc = 0

    def _write(self, text: str) -> None:
        self.crc = crc32(text.encode(), self.crc)


class EventLog(DecisionLines):
    """Writes `events.jsonl`. Use it as a context manager, or close it."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            UsageError: the file cannot be written; also later, by any event and by `close`.
        """
        self._path = path
        self._failed = False
        try:
            self._file: TextIO = path.open("w", encoding="utf-8", newline="\n", buffering=_BUFFER_BYTES)
        except OSError as error:
            raise self._failure(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Write what is buffered. Does nothing more after a failed write."""
        try:
            self._file.close()
        except OSError as error:
            if not self._failed:
                raise self._failure(error) from error

    def _write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            self._failed = True
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> UsageError:
        return UsageError(f"cannot write {self._path}: {error.strerror}; free some space or choose another --out")


def _line(now_ns: int, name: str, request_id: int, rest: str = "") -> str:
    return f'{{"t":{now_ns},"ev":"{name}","id":{request_id}{rest}}}\n'


def _iterations(event: StepDone) -> Iterator[str]:
    """A line per iteration; only the first has chunks, since a step with chunks is not repeated."""
    pace, rows = event.pace, event.decode_rows
    middle = f'"ev":"step","chunks":[{",".join(map(_chunk, event.chunks))}],"decode":{rows},"ctx":'
    tail = f',"wait":{event.num_waiting},"prefill":{event.num_prefilling},"parked":{event.num_parked}}}\n'
    growth = _by_iteration(event.growth, pace.count)
    start_ns, used_blocks = quanta_to_ns(pace.start_quanta), event.used_blocks
    for iteration in range(pace.count):
        end_ns = quanta_to_ns(pace.end_quanta(iteration + 1))
        grown = next(growth)
        used_blocks += len(grown) if iteration else 0
        blocks = ",".join([f"[{request_id},{block}]" for request_id, block in grown])
        context_tokens = event.context_tokens + iteration * rows
        sums = f'{context_tokens},"blocks":[{blocks}],"used":{used_blocks}'
        yield f'{{"t":{start_ns},"end":{end_ns},{middle}{sums}{tail}'
        start_ns = end_ns


def _chunk(chunk: Chunk) -> str:
    samples = "true" if chunk.samples else "false"
    return f"[{chunk.sequence.request_id},{chunk.start},{chunk.num_tokens},{samples}]"


def _by_iteration(growth: list[Growth], count: int) -> Iterator[list[tuple[int, int]]]:
    """The (request, block) pairs of each iteration, in the order in which they were handed out."""
    position = 0
    for iteration in range(count):
        begin = position
        while position < len(growth) and growth[position].iteration == iteration:
            position += 1
        yield [(sequence.request_id, block) for _, sequence, block in growth[begin:position]]
