"""The list of laws is complete: every invariant of the specification is held by something that exists."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from schedlab.errors import InvariantViolation
from schedlab.invariants import Law, law_named, laws
from schedlab.invariants.coverage import NUM_INVARIANTS, Held, coverage, scenario_coverage
from schedlab.testing.laws import TESTING_LAWS

ROOT = Path(__file__).parents[2]


def test_each_of_the_80_invariants_has_one_place() -> None:
    rows = coverage()
    assert [row.number for row in rows] == list(range(1, NUM_INVARIANTS + 1))
    assert all(row.by and all(row.by) for row in rows)


def test_no_number_is_said_to_wait_and_is_checked() -> None:
    """Else a feature that has come would still stand on the list of what waits."""
    from schedlab.invariants import coverage as table

    checked = {number for law in laws() for number in law.numbers}
    assert not checked & (set(table._TESTS) | set(table._LATER))
    assert checked | set(table._TESTS) | set(table._LATER) == set(range(1, NUM_INVARIANTS + 1))


def test_tests_that_hold_an_invariant_exist() -> None:
    assert all((ROOT / name).is_file() for row in coverage() if row.held is Held.TEST for name in row.by)


def test_every_law_of_the_scenarios_is_checked_at_run_time() -> None:
    assert sorted(scenario_coverage()) == list(range(1, 9)) and all(scenario_coverage().values())


def test_names_are_unique_and_sentences_are_sentences() -> None:
    names = [law.name for law in laws()]
    assert len(set(names)) == len(names) > 80
    for law in laws():
        assert law.name.isidentifier() and law.sentence[0].isupper() and law.sentence.endswith(".")
        assert law_named(law.name) is law


def test_every_law_that_is_written_down_is_in_the_list_and_raised_somewhere() -> None:
    declared, raised = {}, set()
    for path in [*ROOT.glob("schedlab/**/*.py"), *ROOT.glob("backends/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Law":
                assert isinstance(node.args[0], ast.Constant)
                declared[node.args[0].value] = path
            elif isinstance(node, ast.Attribute) and node.attr == "broken":
                raised.add(ast.unparse(node.value).split(".")[-1])
    assert set(declared) == {law.name for law in (*laws(), *TESTING_LAWS)}
    for name, path in declared.items():
        text = path.read_text(encoding="utf-8")
        (constant,) = [line.split(" = ")[0] for line in text.split(f'"{name}"')[0].splitlines() if " = Law(" in line][
            -1:
        ]
        assert constant in raised, f"nobody raises {name}"


def test_a_violation_says_law_sentence_finding_request_and_time() -> None:
    law = Law("a_law", "Something holds.", laws()[0].when, numbers=(3, 4), scenarios=(1,))
    error = law.broken("it does not", 7)
    error.now_ns = 12
    assert str(error) == (
        "a_law: Something holds. Found: it does not (request 7; at 12 ns; scheduler.md 15: 3, 4, scenarios.md law 1)"
    )
    assert error.law is law and error.request_id == 7 and error.found == "it does not"


def test_a_plain_message_is_still_one() -> None:
    error = InvariantViolation("something is wrong")
    assert str(error) == "something is wrong" and error.law is None and error.request_id is None


@pytest.mark.parametrize("law", laws()[:3], ids=lambda law: law.name)
def test_a_violation_crosses_processes(law: Law) -> None:
    error = pickle.loads(pickle.dumps(law.broken("found", 3)))
    assert error.law == law and error.request_id == 3 and str(error) == str(law.broken("found", 3))
