"""No scenario is forgotten: each has a file, or a test elsewhere, or both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.scenario import FOLDER, cases, files
from tests.conformance.waiting import INDEX, MISSING, waiting
from tests.conformance.waiting import main as waiting_list
from tests.shared_data import shared

ROOT = Path(__file__).parents[2]


def test_every_scenario_is_somewhere_and_nothing_else_is() -> None:
    with_file = {f"{path.parent.name}/{path.stem}" for path in files()}
    wanted = {f"{part}/{one}" for part in ("part1", "part2") for one in INDEX[part]}
    elsewhere = {f"{'part2' if one.isdigit() else 'part1'}/{one}" for one in INDEX["tested"]}
    assert with_file | elsewhere == wanted


def test_a_file_says_which_scenario_it_is_and_every_case_runs_or_waits() -> None:
    for path in files():
        assert path.parent.parent == FOLDER
        own = list(cases(path))
        assert {case.scenario for case in own} == {path.stem}
        assert len({case.name for case in own}) == len(own)
        for case in own:
            assert bool(case.waits_for) != bool(case.expect), f"{case.label} neither expects nor waits, or does both"


def test_every_wait_is_for_a_missing_feature_of_the_index_and_none_is_listed_for_nobody() -> None:
    assert list(waiting()) == list(MISSING)
    assert all(waiting().values()), "a feature that nobody waits for is in the list"


@pytest.mark.parametrize("feature", MISSING)
def test_nobody_waits_for_a_feature_that_exists(feature: str) -> None:
    place, waiters = MISSING[feature]["comes_with"], " ".join(waiting()[feature])
    path, _, words = place.partition("::")
    file = ROOT / path
    exists = file.exists() and (not words or words in file.read_text(encoding="utf-8"))
    assert not exists, f"{place} exists: write {waiters} and take {feature!r} out of index.toml"


def test_the_printed_list_names_each_feature_and_all_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    waiting_list()
    printed = capsys.readouterr().out
    for feature, labels in waiting().items():
        assert f"{feature}: {MISSING[feature]['what']}\n    {' '.join(labels)}\n" in printed


@pytest.mark.parametrize("scenario", INDEX["tested"])
def test_what_is_tested_elsewhere_has_a_test_there(scenario: str) -> None:
    for place in INDEX["tested"][scenario]:
        file, start = place.split("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {start}[_(]", text, re.MULTILINE), f"{scenario}: {file} has no test {start}..."


def test_the_index_names_all_scenarios_of_the_collections() -> None:
    """Where the collections are at hand."""
    text = shared("spec/scenarios.md").read_text(encoding="utf-8")
    first, second = text.split("# Part 2.")
    assert re.findall(r"^### ([SMDT]\d\d)$", first, re.MULTILINE) == INDEX["part1"]
    assert [f"{int(number):03}" for number in re.findall(r"^(\d+)\. ", second, re.MULTILINE)] == INDEX["part2"]


def test_what_the_real_device_leaves_out_are_cases_that_run() -> None:
    labels = {case.label for path in files() for case in cases(path) if not case.waits_for}
    assert set(INDEX["not_on_real"]) <= labels
