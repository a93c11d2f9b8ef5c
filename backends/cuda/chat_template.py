"""A model's chat template, rendered in a process of its own with bounded time and memory."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.errors import UsageError

_PROGRAM = Path(__file__).with_name("chat_process.py")
_PATIENCE_S = 5.0
# A new process imports before it answers.
_START_PATIENCE_S = 60.0
_MOST_REPLY_BYTES = 1 << 26
_CHUNK_BYTES = 1 << 16
_ANY_CHAT = [{"role": "user", "content": "Hello"}]


class ChatTemplate:
    """May be used by several threads, one at a time. The process ends with this object.

    Args:
        source: the Jinja template.
        words: further names that it may use, such as `bos_token`.
        where: what a message calls it.

    Raises UsageError for a template that cannot be compiled, or does not finish even a short chat in time.
    """

    def __init__(self, source: str, words: Mapping[str, str], where: str) -> None:
        self._given, self._where = {"source": source, "words": dict(words)}, where
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with self._lock:
                self._start()
                self._ask(_ANY_CHAT, _PATIENCE_S)
        except TimeoutError as error:
            raise UsageError(f"{where}: its chat template cannot be used: {error}") from None

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The text of a chat, up to where the model goes on.

        Raises UsageError where the template refuses the chat, fails, or takes too much time or memory.
        """
        with self._lock:
            try:
                if self._process is None:
                    self._start()
                answer = self._ask(list(messages), _PATIENCE_S)
            except TimeoutError as error:
                raise UsageError(f"the model's chat template fails at this chat: {error}") from None
        if "error" in answer:
            raise UsageError(f"the model's chat template refuses this chat: {answer['error']}")
        return answer["text"]

    def _start(self) -> None:
        # Neither this program's folder on its path, nor its terminal's signals.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        weakref.finalize(self, _end, self._process)
        answer = self._ask(self._given, _START_PATIENCE_S)
        if "error" in answer:
            self._stop()
            raise UsageError(f"{self._where}: its chat template cannot be read: {answer['error']}")

    def _ask(self, question: Any, patience_s: float) -> dict[str, str]:
        """Raises TimeoutError, and ends the process, when no answer comes."""
        assert self._process is not None
        try:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            answer: dict[str, str] = json.loads(_line(self._process.stdout.fileno(), patience_s))
            return answer
        except (BrokenPipeError, ValueError):
            self._stop()
            raise TimeoutError("it took too much memory") from None
        except TimeoutError:
            self._stop()
            raise

    def _stop(self) -> None:
        assert self._process is not None
        _end(self._process)
        self._process = None


def _line(source: int, patience_s: float) -> bytes:
    """What comes up to the next line's end. Raises TimeoutError; ValueError where the source ends."""
    deadline, size = time.monotonic() + patience_s, 0
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(source, select.POLLIN)
    while not parts or not parts[-1].endswith(b"\n"):
        left_ms = (deadline - time.monotonic()) * 1000
        if left_ms <= 0 or not poll.poll(left_ms):
            raise TimeoutError(f"it did not finish within {patience_s:g} s")
        parts.append(os.read(source, _CHUNK_BYTES))
        size += len(parts[-1])
        if not parts[-1] or size > _MOST_REPLY_BYTES:
            raise ValueError
    return b"".join(parts)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        try:
            pipe.close()
        except BrokenPipeError:
            continue
