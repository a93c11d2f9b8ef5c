"""First in, first out."""

from __future__ import annotations

from schedlab.policies.base import StaticPolicy


class Fifo(StaticPolicy):
    """Arrival order; a refused head is not overtaken unless `max_bypass` allows it."""

    name = "fifo"
