"""What reports say about the roofline is what the truth check measures."""

from __future__ import annotations

import pytest

from experiments import truth
from experiments.bench.truth_check import RUN, measure
from tests.shared_data import shared


def test_the_stated_errors_are_the_measured_ones() -> None:
    measured = measure(shared(RUN))
    assert list(measured) == list(truth.ROOFLINE)
    for name, stated in truth.ROOFLINE.items():
        assert measured[name].real_ms == pytest.approx(stated.real_ms, rel=1e-4)
        assert measured[name].error_percent == pytest.approx(stated.error_percent, abs=0.11), (
            "run the truth check again"
        )


def test_the_sentence_has_every_figure() -> None:
    for name, stated in truth.ROOFLINE.items():
        assert f"{name} {stated.error_percent:+.1f} %" in truth.sentence()
