"""How a broken law is told."""

from __future__ import annotations

from schedlab.errors import InvariantViolation


def violation(law: str, numbers: str) -> InvariantViolation:
    """The error of the law called `law`; `numbers` says what was found and what should have been."""
    return InvariantViolation(f"{law}: {numbers}")
