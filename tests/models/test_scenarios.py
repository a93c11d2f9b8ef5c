"""Every scenario and golden log on the real device: what was said of the simulated one holds, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

import tests.torch_needed  # noqa: F401  # isort: skip

from tests.conformance import expect_fates, expect_memory, expect_steps, harness
from tests.conformance.devices import REAL
from tests.conformance.expectation import check
from tests.conformance.scenario import Case, cases, files
from tests.conformance.waiting import INDEX
from tests.golden.update import golden_cases

# Imported for the expectations that they register.
VOCABULARIES = (expect_fates, expect_memory, expect_steps)
NOT_ON_REAL: dict[str, str] = INDEX["not_on_real"]
SCENARIOS = [case for path in files() for case in cases(path) if "config_error" not in case.expect]
CASES = [case for case in SCENARIOS if not case.waits_for] + [case for case, _ in golden_cases()]


@pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
def test_a_scenario_comes_out_on_the_real_device_as_on_the_simulated_one(case: Case, tmp_path: Path) -> None:
    if case.label in NOT_ON_REAL:
        pytest.skip(f"not on the real device: {NOT_ON_REAL[case.label]}")
    real, simulated = tmp_path / "real.jsonl", tmp_path / "simulated.jsonl"
    check(harness.run(case, leap=True, device=REAL, log=real), case.expect)
    harness.run(case, leap=False, device="sim", log=simulated)
    assert real.read_text().splitlines() == simulated.read_text().splitlines()
    assert real.read_bytes() == simulated.read_bytes()
