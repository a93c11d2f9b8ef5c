"""How many examples the property tests try. SCHEDLAB_EFFORT=20 searches that much longer, and anew in every run."""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("SCHEDLAB_EFFORT", "1"))


def examples(count: int) -> settings:
    """Try `count` examples, times SCHEDLAB_EFFORT."""
    return settings(max_examples=count * FACTOR)
