"""Hypothesis without chance: the same examples on every machine and in every run."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("search", parent=settings.get_profile("fixed"), derandomize=False, max_examples=3000)
settings.load_profile(os.environ.get("SCHEDLAB_HYPOTHESIS", "fixed"))
