"""A bound of this process's memory, where the system has such bounds: who asks for more gets a `MemoryError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]


@contextmanager
def bounded_memory(most_bytes: int) -> Iterator[None]:
    """At most so many bytes of data while in here, or fewer where a lower bound holds already."""
    if resource is None:
        yield
        return
    before = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bound for bound in (soft, hard, most_bytes) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
