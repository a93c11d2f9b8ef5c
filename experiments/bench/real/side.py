"""One side of a comparison, in a process of its own, so that neither changes the other's allocator or threads."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from time import perf_counter, process_time
from types import TracebackType
from typing import NamedTuple, Self

from schedlab.errors import SchedlabError

_LONGEST_WAIT_S = 3_600.0


class Load(NamedTuple):
    """Chats, all there at once: random tokens as prompts, exact numbers of outputs; `at_a_time` are served together."""

    prompts: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]
    at_a_time: int


class Taken(NamedTuple):
    """Seconds of wall time and of all the process's threads that a load took."""

    wall_s: float
    cpu_s: float


Serve = Callable[[Load], None]


class Side:
    """`prepare()`, called in the new process with its threads set, gives what serves a load."""

    def __init__(self, prepare: Callable[[], Serve], num_threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._answers, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, prepare, num_threads), daemon=True)
        self._process.start()
        theirs.close()

    def serve(self, load: Load) -> Taken:
        """Serve it to its end.

        Raises SchedlabError if the process does not answer.
        """
        self._answers.send(load)
        try:
            if self._answers.poll(_LONGEST_WAIT_S):
                return Taken(*self._answers.recv())
        except EOFError:
            pass
        raise SchedlabError(f"a side of the comparison gave no answer; its process ended with {self._process.exitcode}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.join()


def _work(loads: Connection, prepare: Callable[[], Serve], num_threads: int) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(num_threads)
    serve = prepare()
    while True:
        load = loads.recv()
        wall_s, cpu_s = perf_counter(), process_time()
        serve(load)
        loads.send((perf_counter() - wall_s, process_time() - cpu_s))


def _end_with_parent() -> None:
    """A parent that is killed cannot end its sides."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
