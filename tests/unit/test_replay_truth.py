"""What reports say about the roofline is what the truth check measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import truth
from experiments.bench.truth_check import GALLERY, RUN, figures_file, measure, page
from tests.shared_data import shared

ROOT = Path(__file__).parents[2]


def test_the_stated_errors_are_the_measured_ones() -> None:
    for hardware, stated_means in truth.figures().items():
        measured = measure(shared(RUN), hardware)
        assert list(measured) == list(stated_means)
        for name, stated in stated_means.items():
            assert measured[name].real_ms == pytest.approx(stated.real_ms, rel=1e-4)
            assert measured[name].error_percent == pytest.approx(stated.error_percent, abs=0.11), (
                "run the truth check again"
            )


def test_the_figures_are_those_of_the_gallery_and_of_their_own_file() -> None:
    assert list(truth.figures()) == list(truth.EDITIONS)
    assert page(*truth.figures().values()) == (ROOT / GALLERY).read_text("utf-8")
    assert figures_file(truth.figures()) == truth.FIGURES.read_bytes()


def test_the_sentence_has_every_figure_of_both_editions_and_says_that_the_run_names_none() -> None:
    (sentence,) = truth.sentence().splitlines()
    assert "whose edition the run does not name" in sentence
    for hardware, title in truth.EDITIONS.items():
        errors = [f"{name} {stated.error_percent:+.1f} %" for name, stated in truth.figures()[hardware].items()]
        assert f"{', '.join(errors)} with the bandwidth of {title}" in sentence
    assert "TTFT -21.3 %, TPOT -8.9 %, E2E -12.0 % with the bandwidth of the Workstation Edition" in sentence
