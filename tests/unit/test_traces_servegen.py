"""ServeGen clients: shares, burstiness, clients without data."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from schedlab.errors import UsageError
from tests.shared_data import shared
from traces.open import open_trace
from traces.options import ReadOptions
from traces.trace import Trace

S = 1_000_000_000


def lengths(prompts: str, outputs: str) -> dict[str, str]:
    return {"input_tokens": prompts, "output_tokens": outputs}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    steady = "\n".join(f"{start},300,1,Gamma,1,0.003" for start in range(0, 3600, 600))
    bursty = "\n".join(f"{start},100,4,Gamma,0.0625,0.16" for start in range(0, 3600, 600))
    idle = "0,0,0,,0,0\n" + "\n".join(f"{start},600,2,Weibull,0.5,0.001" for start in range(600, 3600, 600)) + "\n"
    for number, text in ((0, steady), (1, bursty), (10, idle)):
        (tmp_path / f"chunk-{number}-trace.csv").write_text(text)
    data = {"0": lengths("{10: 0.25, 20: 0.75}", "{5: 1.0}"), "21600": lengths("{}", "{}")}
    (tmp_path / "chunk-0-dataset.json").write_text(json.dumps(data))
    (tmp_path / "chunk-1-dataset.json").write_text(json.dumps({"0": lengths("{30: 1.0}", "{7: 0.5, 8: 0.5}")}))
    return tmp_path


def read(path: Path, **options: float) -> Trace:
    return open_trace(path, options=ReadOptions(**options))  # type: ignore[arg-type]


def test_rates_are_scaled_and_shares_stay(folder: Path) -> None:
    trace = read(folder, rate=20.0, duration_s=3000.0, start_s=0.0)
    tenants = Counter(record.tenant for record in trace.records())
    assert sum(tenants.values()) == pytest.approx(60_000, rel=0.03)
    assert tenants["client-0"] / sum(tenants.values()) == pytest.approx(0.75, abs=0.02)
    assert set(tenants) == {"client-0", "client-1"}


def test_burstiness_stays_when_the_rate_is_scaled_down(folder: Path) -> None:
    trace = read(folder, rate_scale=0.05, duration_s=3600.0, start_s=0.0)
    for tenant, cv in (("client-0", 1.0), ("client-1", 4.0)):
        gaps = np.diff([record.arrival_ns for record in trace.records() if record.tenant == tenant])
        assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)


def test_the_expected_number_of_requests_does_not_grow_with_burstiness(folder: Path) -> None:
    found = [
        sum(record.tenant == "client-1" for record in read(folder, rate_scale=0.001, seed=seed, start_s=0.0).records())
        for seed in range(300)
    ]
    assert np.mean(found) == pytest.approx(60, rel=0.2)


def test_a_client_without_lengths_is_left_out_and_reported_with_its_share(folder: Path) -> None:
    notes = " ".join(read(folder).report.notes)
    share = round(100 * 600 * 5 / (600 * 5 + 400 * 6))
    assert f"1 of 3 clients have no length data and are left out ({share} % of the recorded rate): 10" in notes


def test_the_rate_that_nobody_chose_is_said_with_how_to_choose_it(folder: Path) -> None:
    advice = f"10 requests/s for 600 s unless chosen otherwise: schedlab trace convert {folder} OUT.csv --rate R"
    assert any(note.startswith(advice) for note in read(folder).report.notes)
    assert "unless chosen" not in " ".join(read(folder, rate=20.0).report.notes)


def test_lengths_are_drawn_as_they_are_distributed(folder: Path) -> None:
    drawn = [r for r in read(folder, rate=30.0, duration_s=600.0).records() if r.tenant == "client-0"]
    assert {r.output_tokens for r in drawn} == {5}
    assert np.mean([r.prompt_tokens for r in drawn]) == pytest.approx(17.5, abs=0.3)


def test_requests_in_a_window_without_lengths_are_dropped_not_guessed(folder: Path) -> None:
    (folder / "chunk-1-dataset.json").write_text(json.dumps({"0": lengths("{}", "{}")}))
    trace = read(folder, rate=20.0, start_s=0.0)
    assert {record.tenant for record in trace.records()} == {"client-0"}
    assert list(trace.report.dropped) == ["no length data of the client at that time"]
    assert trace.report.add_up()


def test_the_same_seed_draws_the_same_requests(folder: Path) -> None:
    assert list(read(folder, seed=3).records()) == list(read(folder, seed=3).records())
    assert list(read(folder, seed=3).records()) != list(read(folder, seed=4).records())
    assert read(folder).is_model


@pytest.mark.parametrize(
    ("options", "message"),
    [({"rate": 0.0}, "rate is 0"), ({"rate_scale": -1.0}, "rate scale is -1"), ({"duration_s": 0.0}, "duration is 0"),
     ({"rate": 1.0, "rate_scale": 1.0}, "not both"), ({"start_s": 99999.0}, "sends anything from second 99999")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(folder: Path, options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(folder, **options).scan()


@pytest.mark.parametrize(
    "row",
    ["0,1,1,Gamma,1", "0,x,1,Gamma,1,1", "0,1,1,Pareto,1,1", "0,-1,1,Gamma,1,1", "0,1,1,Weibull,1e-9,1"],
)
def test_a_broken_window_is_refused_with_its_line(folder: Path, row: str) -> None:
    (folder / "chunk-0-trace.csv").write_text(row + "\n")
    with pytest.raises(UsageError, match=r"chunk-0-trace\.csv:1: "):
        read(folder).scan()


def test_a_dataset_that_is_code_is_not_run(folder: Path) -> None:
    data = {"0": lengths("__import__('os').getcwd()", "{5: 1.0}")}
    (folder / "chunk-0-dataset.json").write_text(json.dumps(data))
    with pytest.raises(UsageError, match="not ServeGen length data"):
        read(folder).scan()


def test_the_real_m_small_set_lacks_five_clients_with_most_of_the_rate() -> None:
    trace = open_trace(shared("traces/servegen/language/m-small"), options=ReadOptions(duration_s=120.0))
    assert trace.report.notes[0].startswith(
        "5 of 43 clients have no length data and are left out (57 % of the recorded"
    )
    assert trace.scan().rows > 500


def test_the_real_reasoning_set_is_complete() -> None:
    trace = open_trace(shared("traces/servegen/reason/deepseek-r1"), options=ReadOptions(duration_s=120.0))
    assert "drawn from 73 clients" in trace.report.notes[0]
    assert trace.report.dropped == {}
