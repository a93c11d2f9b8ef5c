"""Generators: their statistics with a fixed seed and wide tolerances, and the same requests every time."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from schedlab.errors import UsageError
from tests.shared_data import shared
from traces.fit import fit
from traces.generators.lengths import Lognormal
from traces.generators.spec import generate
from traces.models import FOLDER, load_model, model_names
from traces.open import open_trace
from traces.options import ReadOptions
from traces.source import Source
from traces.summary import summarise
from traces.trace import Trace

ARRIVALS = ["poisson", "gamma:4", "gamma:0.5", "weibull:3", "onoff:4,16", "diurnal:0.9,500", "clients:5,1,2"]
DATA = Path(__file__).parent / "data" / "traces"


def gaps_of(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.diff([record.arrival_ns for record in trace.records()])


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_arrivals_have_the_rate_asked_for_never_go_back_and_repeat(arrivals: str) -> None:
    trace = generate(arrivals, "fixed:10,2", 40_000, seed=7, rate=8.0)
    records = list(trace.records())
    stamps = [record.arrival_ns for record in records]
    assert len(records) == 40_000
    assert stamps == sorted(stamps)
    assert stamps[0] >= 0
    assert 40_000 / (stamps[-1] / 1e9) == pytest.approx(8.0, rel=0.12)
    assert records == list(generate(arrivals, "fixed:10,2", 40_000, seed=7, rate=8.0).records())
    assert records != list(generate(arrivals, "fixed:10,2", 40_000, seed=8, rate=8.0).records())


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_the_first_requests_do_not_depend_on_how_many_are_asked_for(arrivals: str) -> None:
    many = generate(arrivals, "lognormal:100,1,50,1", 40_000, seed=1, rate=8.0)
    few = generate(arrivals, "lognormal:100,1,50,1", 20_000, seed=1, rate=8.0)
    assert list(few.records()) == list(islice(many.records(), 20_000))
    assert few.sha256 != many.sha256


@pytest.mark.parametrize(
    ("arrivals", "cv"), [("poisson", 1.0), ("gamma:4", 4.0), ("gamma:0.5", 0.5), ("weibull:3", 3.0)]
)
def test_gaps_have_the_coefficient_of_variation_asked_for(arrivals: str, cv: float) -> None:
    gaps = gaps_of(generate(arrivals, "fixed:1,0", 60_000, seed=3, rate=10.0))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.06)


def test_bursts_are_dense_and_silences_long() -> None:
    gaps = gaps_of(generate("onoff:4,16", "fixed:1,0", 60_000, seed=3, rate=8.0)) / 1e9
    assert np.median(gaps) == pytest.approx(np.log(2) / 40, rel=0.05), "within a burst the rate is 8 x 20 / 4"
    silences = gaps[gaps > 1.0]
    assert silences.mean() == pytest.approx(16, rel=0.15)
    assert len(silences) / (gaps.sum() / 20) == pytest.approx(1.0, abs=0.15), (
        "one silence in each 20 s, few too short to count"
    )


def test_a_day_swings_around_its_mean() -> None:
    stamps = np.array(
        [r.arrival_ns for r in generate("diurnal:0.9,400", "fixed:1,0", 60_000, seed=2, rate=10.0).records()]
    )
    phases = np.histogram(stamps / 1e9 % 400, bins=4, range=(0, 400))[0] / len(stamps)
    expected = [0.25 + 0.9 / (2 * np.pi)] * 2 + [0.25 - 0.9 / (2 * np.pi)] * 2
    assert phases == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("arrivals", ["clients:3,1,2", "gamma:2"])
def test_the_notes_say_what_a_trace_was_drawn_from(arrivals: str) -> None:
    (note,) = generate(arrivals, "fixed:5,1", 9, seed=7, rate=2.5).report.notes
    assert note == f"modelled, not original: {arrivals} arrivals at 2.5 requests/s, fixed:5,1 lengths, seed 7"


def test_clients_share_the_rate_by_their_rank() -> None:
    records = generate("clients:3,1,1", "fixed:1,0", 30_000, seed=5, rate=10.0).records()
    counts = dict.fromkeys(("client-0", "client-1", "client-2"), 0)
    for record in records:
        counts[record.tenant] += 1
    assert [count / 30_000 for count in counts.values()] == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.02)


def test_lognormal_lengths_have_their_medians_and_correlation() -> None:
    prompts, outputs = next(Lognormal(400, 1.0, 100, 0.5, 0.7).chunks(np.random.Generator(np.random.PCG64(1))))
    assert (np.median(prompts), np.median(outputs)) == pytest.approx((400, 100), rel=0.05)
    assert np.corrcoef(np.log(prompts), np.log(np.maximum(outputs, 1)))[0, 1] == pytest.approx(0.7, abs=0.03)
    assert prompts.min() >= 1


def test_uniform_lengths_reach_both_ends() -> None:
    records = list(generate("poisson", "uniform:1-3,0-2", 2_000, seed=0, rate=1.0).records())
    assert {r.prompt_tokens for r in records} == {1, 2, 3}
    assert {r.output_tokens for r in records} == {0, 1, 2}


def test_lengths_can_be_drawn_from_a_file_and_stay_pairs() -> None:
    records = list(generate("poisson", str(DATA / "vidur_lengths.csv"), 500, seed=0, rate=1.0).records())
    assert {r[1:3] for r in records} == {(3772, 54), (100, 10)}
    records = list(generate("poisson", str(DATA / "vidur.csv"), 500, seed=0, rate=1.0).records())
    assert {r[1:3] for r in records} == {(100, 10), (200, 20)}


@pytest.mark.parametrize(
    ("arrivals", "lengths", "rate", "rows", "message"),
    [("poisson", "fixed:1,1", None, 5, "give the mean rate"), ("poisson", "fixed:1,1", 0.0, 5, "must be above 0"),
     ("poisson", "fixed:1,1", -2.0, 5, "must be above 0"), ("gamma", "fixed:1,1", 1.0, 5, "is written gamma:CV"),
     ("gamma:0", "fixed:1,1", 1.0, 5, "CV of gamma gaps is 0"), ("zipf", "fixed:1,1", 1.0, 5, "known are poisson"),
     ("poisson", "fixed:1", 1.0, 5, "is written fixed:P,O"), ("poisson", "fixed:0,1", 1.0, 5, "at least 1 prompt"),
     ("poisson", "fixed:1.5,1", 1.0, 5, "whole tokens"),
     ("poisson", "uniform:5-2,1-2", 1.0, 5, "low must not be above"),
     ("poisson", "lognormal:1,1,1,1,2", 1.0, 5, "correlation is 2"),
     ("poisson", "nowhere.csv", 1.0, 5, "known are fixed"),
     ("poisson", "fixed:1,1", 1.0, 0, "rows is 0"), ("diurnal:2", "fixed:1,1", 1.0, 5, "amplitude is 2"),
     ("clients:0,1,1", "fixed:1,1", 1.0, 5, "1 to 1000 clients"), ("onoff:0,5", "fixed:1,1", 1.0, 5, "on_s is 0")],
)  # fmt: skip
def test_a_wrong_specification_is_refused_with_the_right_one(
    arrivals: str, lengths: str, rate: float | None, rows: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        generate(arrivals, lengths, rows, 0, rate)


def test_a_model_can_lend_its_gaps_at_another_rate() -> None:
    trace = generate("azure-conv-like", "fixed:1,1", 20_000, seed=0, rate=100.0)
    assert 20_000 / (trace.scan().span_ns / 1e9) == pytest.approx(100.0, rel=0.05)


@pytest.mark.parametrize(
    ("name", "rows", "span_s", "cv", "peak", "prompts", "outputs"),
    [("conv", 19_366, 3502, 1.09, 16, 22_361_870, 4_088_665), ("code", 8_819, 3436, 13.2, 67, 18_059_974, 245_896)],
)
def test_the_shipped_models_behave_like_their_originals(
    name: str, rows: int, span_s: float, cv: float, peak: int, prompts: int, outputs: int
) -> None:
    model = open_trace(f"azure-{name}-like")
    summary = summarise(model)
    assert summary.rows == rows
    assert summary.span_s == pytest.approx(span_s, rel=0.05)
    assert summary.gap_cv == pytest.approx(cv, rel=0.15)
    assert summary.peak_per_s == pytest.approx(peak, rel=0.5)
    assert summary.prompt_tokens == pytest.approx(prompts, rel=0.03)
    assert summary.output_tokens == pytest.approx(outputs, rel=0.03)
    assert model.is_model
    assert "modelled, not original" in model.report.notes[0]
    assert any("CC BY 4.0" in note for note in model.report.notes)


def test_the_code_model_is_silent_most_of_the_time_like_its_original() -> None:
    stamps = np.array([record.arrival_ns for record in open_trace("azure-code-like").records()])
    seconds = np.bincount(stamps // 10**9)
    assert (seconds == 0).mean() == pytest.approx(2521 / 3436, abs=0.08)
    assert seconds.var() / seconds.mean() == pytest.approx(13.2, rel=0.3)


@pytest.mark.parametrize("name", ["conv", "code"])
def test_the_shipped_models_are_what_the_fit_of_the_public_files_gives(name: str) -> None:
    trace = open_trace(shared(f"traces/azure-2023/AzureLLMInferenceTrace_{name}.csv"))
    shipped = json.loads((FOLDER / f"azure-{name}-like.json").read_text())
    assert json.loads(json.dumps(fit(trace, f"azure-{name}-like"))) == shipped


def test_rows_and_seed_of_a_model_are_options() -> None:
    first = open_trace("azure-conv-like", options=ReadOptions(rows=100, seed=0))
    other = open_trace("azure-conv-like", options=ReadOptions(rows=100, seed=1))
    assert len(list(first.records())) == 100
    assert list(first.records()) != list(other.records())
    assert first.sha256 != other.sha256
    assert next(iter(first.records())).arrival_ns == 0


def test_a_model_file_is_opened_by_its_path_and_a_broken_one_refused(tmp_path: Path) -> None:
    assert model_names() == ["azure-code-like", "azure-conv-like"]
    copy = tmp_path / "mine.json"
    model = json.loads((FOLDER / "azure-conv-like.json").read_text())
    copy.write_text(json.dumps(model))
    assert list(open_trace(copy).records()) == list(open_trace("azure-conv-like").records())
    model["arrivals"]["gaps_ns"][3] = 1e18
    copy.write_text(json.dumps(model))
    with pytest.raises(UsageError, match="quantile table"):
        load_model(Source(copy))
    copy.write_text('{"schedlab_model": 1}')
    with pytest.raises(UsageError, match="not a schedlab model"):
        open_trace(copy)


def test_a_fit_needs_rows(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 100"):
        fit(open_trace(DATA / "vidur.csv"), "x")


@pytest.mark.parametrize(
    ("arrivals", "lengths", "rate", "rows", "seed", "message"),
    [("gamma:1e300", "fixed:1,1", 1.0, 5, 0, "CV of gamma gaps"), ("gamma:nan", "fixed:1,1", 1.0, 5, 0, "is nan"),
     ("weibull:nan", "fixed:1,1", 1.0, 5, 0, "CV of Weibull gaps"), ("weibull:-1", "fixed:1,1", 1.0, 5, 0, "is -1"),
     ("clients:nan,1,1", "fixed:1,1", 1.0, 5, 0, "N is nan"), ("clients:1.5,1,1", "fixed:1,1", 1.0, 5, 0, "N is 1.5"),
     ("clients:inf,1,1", "fixed:1,1", 1.0, 5, 0, "N is inf"),
     ("clients:100000,1,1", "fixed:1,1", 1.0, 5, 0, "1 to 1000 clients"),
     ("clients:3,1,1", "fixed:1,1", 1.0, 5, -1, "seed is -1"),
     ("poisson", "fixed:nan,1", 1.0, 5, 0, "whole tokens"), ("poisson", "fixed:inf,1", 1.0, 5, 0, "whole tokens"),
     ("poisson", "fixed:1,1e30", 1.0, 5, 0, "at most 1073741824"),
     ("poisson", "uniform:1-1e30,1-2", 1.0, 5, 0, "at most 1073741824"),
     ("poisson", "lognormal:1e300,1,1,1", 1.0, 5, 0, "prompt_median"),
     ("poisson", "lognormal:1,1e300,1,1", 1.0, 5, 0, "prompt_sigma"),
     ("poisson", "fixed:1,1", 1e-300, 5, 0, "--rate is 1e-300"), ("poisson", "fixed:1,1", 1e400, 5, 0, "--rate is inf"),
     ("poisson", "fixed:1,1", 1.0, 10**20, 0, "rows is 1"),
     ("onoff:1,1", "fixed:1,1", 1e-4, 5, 0, "requests a burst")],
)  # fmt: skip
def test_an_extreme_specification_is_refused(
    arrivals: str, lengths: str, rate: float, rows: int, seed: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        generate(arrivals, lengths, rows, seed, rate)


@pytest.mark.parametrize("arrivals", ["poisson", "gamma:3", "onoff:1e12,1e12", "diurnal:1", "clients:3,1,1"])
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.filterwarnings("error")
def test_a_rate_that_reaches_past_the_clock_is_refused_and_no_stamp_wraps(arrivals: str, rows: int) -> None:
    trace = generate(arrivals, "fixed:1,1", rows, 0, 1e-9)
    try:
        trace.scan()
    except UsageError as error:
        assert "146 years" in str(error)
        return
    stamps = [record.arrival_ns for record in trace.records()]
    assert rows == 1 and stamps == sorted(stamps) and stamps[0] >= 0
