"""Every scenario file is a test on each device: its expectations, the laws, the same log with and without leaps."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlab.errors import UsageError
from tests.conformance import expect_fates, expect_memory, expect_steps, harness
from tests.conformance.devices import DEVICES
from tests.conformance.expectation import check
from tests.conformance.scenario import Case, cases, files

# Imported for the expectations that they register.
VOCABULARIES = (expect_fates, expect_memory, expect_steps)
CASES = [case for path in files() for case in cases(path)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
def test_scenario_comes_out_right(case: Case, device: str, tmp_path: Path) -> None:
    if case.waits_for:
        pytest.skip(f"waits for: {case.waits_for}")
    expected = dict(case.expect)
    if "config_error" in expected:
        _is_refused_at_start(case, expected["config_error"])
        return
    logs = [tmp_path / "step.jsonl", tmp_path / "again.jsonl"]
    for leap, log in zip((False, True), logs, strict=True):
        check(harness.run(case, leap=leap, device=device, log=log), expected)
    assert logs[0].read_bytes() == logs[1].read_bytes()


def _is_refused_at_start(case: Case, words: list[str]) -> None:
    with pytest.raises(UsageError) as refusal:
        harness.configuration(case)
    assert all(word in str(refusal.value) for word in words)
