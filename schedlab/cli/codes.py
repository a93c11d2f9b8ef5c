"""Exit codes beside 0."""

from __future__ import annotations

USAGE_EXIT, DEFECT_EXIT, INTERRUPT_EXIT = 2, 1, 130
