"""Where and when something was measured."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path


def machine() -> str:
    """Processor, interpreter and date."""
    cpu = next(
        (line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), platform.machine()
    )
    return f"{cpu}, Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
