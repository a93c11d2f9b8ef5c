"""Hypothesis without chance: the same examples on every machine and in every run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.property.effort import FACTOR

settings.register_profile(
    "fixed",
    derandomize=FACTOR == 1,
    deadline=None,
    database=None,
    max_examples=100 * FACTOR,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("fixed")
