"""schedlab: a lab for LLM-inference schedulers. One scheduler, any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlab.api import replay

__all__ = ["replay"]


def __getattr__(name: str) -> Any:
    """Load the Python API when it is first asked for, so that `import schedlab` costs nothing."""
    if name == "replay":
        from schedlab.api import replay

        return replay
    raise AttributeError(f"module 'schedlab' has no attribute {name!r}")
