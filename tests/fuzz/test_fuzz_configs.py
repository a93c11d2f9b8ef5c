"""Options, fault plans and model configurations of any content: a configuration, or one refusal."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim.specs.hf_config import read_config
from backends.sim.specs.shape import ModelShape
from experiments.fault_file import parse_plan, read_plan
from experiments.options import NAMES, ReplayOptions, options_from
from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.fault_plan import FaultPlan
from tests.fuzz.bounded import answer_or_refusal
from tests.fuzz.values import ODD_NUMBERS, SCALARS, VALUES, damaged
from tests.property.effort import examples
from tests.unit.test_faults_plan import EVERYTHING
from tests.unit.test_specs_hf_config import LLAMA, MISTRAL, MIXTRAL, QWEN3_MOE

TABLES = ("step_failure", "device_loss", "slow_steps", "slow_links", "copy_failure", "disk_full", "departure")
KEYS = ("steps", "at", "chance", "seed", "step", "factor", "from", "to", "links", "copies", "request", "after")
DURATIONS = st.sampled_from(("0s", "1s", "250ms", "12.5s", "-1s", "1", "s", "1e9s", "99999999999h", "NaNs", "∞s"))
PLAN_VALUES = st.one_of(VALUES, DURATIONS, st.lists(DURATIONS, max_size=3), st.lists(st.sampled_from(("h2d", "d2h"))))
PLANS = st.dictionaries(
    st.sampled_from((*TABLES, "other")),
    st.one_of(
        VALUES, st.lists(st.dictionaries(st.sampled_from((*KEYS, "other")), PLAN_VALUES, max_size=5), max_size=3)
    ),
    max_size=3,
)
NUMBERS = st.one_of(st.integers(-2, 300), ODD_NUMBERS, SCALARS)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "config.json"


@examples(250)
@given(PLANS)
def test_fault_plans_of_any_content(content: dict[str, Any]) -> None:
    assert isinstance(answer_or_refusal(lambda: parse_plan(content)), FaultPlan | UsageError)


@examples(100)
@given(st.one_of(st.binary(max_size=200), damaged(EVERYTHING.encode())))
def test_fault_plan_files_of_any_bytes(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    found = answer_or_refusal(lambda: read_plan(file))
    assert not isinstance(found, UsageError) or str(file) in str(found)


@examples(250)
@given(st.dictionaries(st.sampled_from((*NAMES, "other")), st.one_of(VALUES, ODD_NUMBERS), max_size=4))
def test_options_of_any_content(given_options: dict[str, Any]) -> None:
    assert isinstance(answer_or_refusal(lambda: options_from(given_options)), ReplayOptions | UsageError)


@examples(250)
@given(st.dictionaries(st.sampled_from([one.name for one in fields(SchedulerConfig)]), NUMBERS, max_size=5))
def test_scheduler_configurations_of_any_numbers(given_fields: dict[str, Any]) -> None:
    assert isinstance(answer_or_refusal(lambda: SchedulerConfig(**given_fields)), SchedulerConfig | UsageError)


@examples(150)
@given(
    config=st.sampled_from((LLAMA, MISTRAL, MIXTRAL, QWEN3_MOE)),
    changes=st.data(),
)
def test_model_configurations_with_any_values(file: Path, config: dict[str, Any], changes: st.DataObject) -> None:
    changed = changes.draw(st.dictionaries(st.sampled_from(list(config)), st.one_of(VALUES, NUMBERS), max_size=3))
    file.write_text(json.dumps({**config, **changed}))
    _shape_or_refusal(file)


@examples(100)
@given(st.one_of(st.binary(max_size=200), damaged(json.dumps(LLAMA).encode())))
def test_model_configurations_of_any_bytes(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    _shape_or_refusal(file)


def _shape_or_refusal(file: Path) -> None:
    found = answer_or_refusal(lambda: read_config(file))
    if isinstance(found, UsageError):
        assert str(file) in str(found)
    else:
        assert isinstance(found, ModelShape)
