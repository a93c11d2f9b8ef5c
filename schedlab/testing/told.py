"""What a run raises, told as the law that it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, extract_tb

from schedlab.errors import InvariantViolation, Stalled, UsageError
from schedlab.testing.laws import POLICY_ANSWERS, SOMETHING_IS_DUE

_OURS = Path(__file__).parent.parent


@contextmanager
def told() -> Iterator[None]:
    """Errors of the scheduler, its policy and its device become broken laws; those of usage stay as they are."""
    try:
        yield
    except (InvariantViolation, UsageError):
        raise
    except Stalled as stalled:
        raise SOMETHING_IS_DUE.broken(str(stalled)) from stalled
    except Exception as error:
        raise POLICY_ANSWERS.broken(_told(error)) from error


def _told(error: Exception) -> str:
    """The error, and the last frame of its traceback; that of the policy, where it has one."""
    frames = extract_tb(error.__traceback__)
    last = frames[-1]
    in_policy = next((frame for frame in reversed(frames) if _is_of_a_policy(frame)), None)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if in_policy is None:
        return f"the scheduler cannot use an answer: {text} ({_place(last)})"
    here = "" if in_policy is last else f", from {_place(in_policy)}"
    return f"the policy raises {text} ({_place(last)}{here})"


def _is_of_a_policy(frame: FrameSummary) -> bool:
    path = Path(frame.filename)
    return _OURS / "policies" in path.parents or _OURS.parent not in path.parents


def _place(frame: FrameSummary) -> str:
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}: {(frame.line or '').strip()}"
