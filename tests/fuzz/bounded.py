"""What every reader owes whoever hands it anything: an answer or one clear refusal, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

from schedlab.errors import UsageError

MOST_BYTES = 48 << 20
MOST_MESSAGE_CHARS = 2_000
_Answer = TypeVar("_Answer")


def answer_or_refusal(read: Callable[[], _Answer]) -> _Answer | UsageError:
    """What `read` gives, or its refusal: one short message. Anything else that it raises fails the test.

    Inputs here are small, so memory beyond a constant would be memory that grows without bound.
    """
    tracemalloc.start()
    try:
        return read()
    except UsageError as error:
        assert 0 < len(str(error)) < MOST_MESSAGE_CHARS, f"a message of {len(str(error))} characters"
        return error
    finally:
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak_bytes < MOST_BYTES, f"{peak_bytes} bytes for a small input"
