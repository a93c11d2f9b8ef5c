"""Ends calls that do not come back.

A thread looks a few times a second at the processor time that the process has used since a watched call began or last
got further, and raises `NoReturn` in the thread of a call that has used too much of it. It needs no signals and no
timers, so it works in every thread and on every system and takes neither from those who use them. A slow or busy
machine, a debugger and a suspended one use no processor time of the process. What it cannot end is a call that is stuck
within one function written in C.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread, get_ident
from time import process_time, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

POLL_S = 0.1


class NoReturn(BaseException):
    """Raised within a call that does not come back. No `except Exception` of the call's own keeps it."""


class _Call:
    """A watched call: how far it had come when last looked at, and the processor time then.

    Attributes:
        former_hook: what told of errors that nobody can catch, before `NoReturn` was raised.
    """

    __slots__ = ("beat", "former_hook", "most_s", "seen", "since_s", "thread_id")

    def __init__(self, beat: Callable[[], int], most_s: float) -> None:
        self.beat = beat
        self.most_s = most_s
        self.seen = beat()
        self.since_s = process_time()
        self.thread_id = get_ident()
        self.former_hook: Callable[[UnraisableHookArgs], None] | None = None

    def look(self) -> None:
        """Raise in its thread if it gets no further, and again if that did not end it."""
        seen, now_s = self.beat(), process_time()
        if seen != self.seen:
            self.seen, self.since_s = seen, now_s
        elif now_s - self.since_s > self.most_s:
            self._keep_silent()
            _raise_in(self.thread_id, NoReturn)

    def end(self) -> None:
        """Nothing is raised in its thread, which calls this, from now on."""
        if self.former_hook is not None:
            _let_come(self.thread_id)
            sys.unraisablehook, self.former_hook = self.former_hook, None

    def _keep_silent(self) -> None:
        """Raised within a finaliser or a callback of the garbage collector it goes nowhere, and need not be told."""
        if self.former_hook is not None:
            return
        former_hook = self.former_hook = sys.unraisablehook

        def hook(unraisable: UnraisableHookArgs) -> None:
            if not issubclass(unraisable.exc_type, NoReturn):
                former_hook(unraisable)

        sys.unraisablehook = hook


class _Watchdog:
    """Its thread begins with the first call, for a process that has no memory left can begin none, and never ends."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: list[_Call] = []
        self._has_calls = Event()
        self._thread: Thread | None = None

    def begin(self, call: _Call) -> None:
        with self._lock:
            self._calls.append(call)
            self._has_calls.set()
            # A forked child has the object and not the thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="watchdog", daemon=True)
                self._thread.start()

    def end(self, call: _Call) -> None:
        with self._lock:
            if call in self._calls:
                self._calls.remove(call)
            if not self._calls:
                self._has_calls.clear()
        call.end()

    def _run(self) -> None:
        while True:
            self._has_calls.wait()
            sleep(POLL_S)
            with self._lock:
                for call in self._calls:
                    call.look()


_WATCHDOG = _Watchdog()


@contextmanager
def watched(beat: Callable[[], int], most_s: float) -> Iterator[None]:
    """Raise `NoReturn` in here after so much processor time in which `beat()` has not changed."""
    call = _Call(beat, most_s)
    _WATCHDOG.begin(call)
    try:
        yield
    finally:
        try:
            _WATCHDOG.end(call)
        finally:
            # Once more: `NoReturn` may have come just before its end.
            _WATCHDOG.end(call)


def _raise_in(thread_id: int, error: type[BaseException]) -> None:
    """At the thread's next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))


def _let_come(thread_id: int) -> None:
    """Catch what may still be raised in this thread.

    Python can take back an error that has not been raised yet, but CPython 3.11 then keeps asking for it at every step:
    all that follows is slower, and a function that is profiled never begins.
    """
    try:
        _raise_in(thread_id, NoReturn)
        while True:
            sleep(0)
    except NoReturn:
        return
