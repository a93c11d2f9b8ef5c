"""Who is hit when a step fails (scheduler.md 2.10): whoever was in it, and nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backends.sim.device import StepTicket
from backends.sim.shadow_kv import ShadowDevice
from schedlab.device import StepResult
from schedlab.errors import DeviceFault
from tests.conformance import harness
from tests.conformance.devices import DEVICES, STRICTEST
from tests.conformance.made import ask, made_case
from tests.conformance.recorder import Recorder
from tests.conformance.scenario import Ask
from tests.conformance.texts import Texts

SEPARATE = {"fusion": "none", "max_num_seqs": 2}


def _run(monkeypatch: pytest.MonkeyPatch, asks: tuple[Ask, ...], config: dict[str, object], failing: int) -> Recorder:
    """Launch number `failing` (from 1) fails at its end."""

    class FaultyDevice(ShadowDevice):
        def _result(self, ticket: StepTicket) -> StepResult:
            if ticket.number != failing:
                return super()._result(ticket)
            return StepResult(1, ticket.pace.truncated(1), [], fault=DeviceFault("the device has gone"))

    monkeypatch.setitem(DEVICES, STRICTEST, FaultyDevice)
    return harness.run(made_case(asks, {}, config), leap=False)


def _reasons(run: Recorder) -> dict[str, str]:
    return {name: str(lived.reason) for name, lived in run.lived.items()}


def test_a_failed_decode_step_ends_its_rows_and_the_waiting_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(monkeypatch, (ask(0, 8, 9), ask(1, 8, 9), ask(2, 8, 3)), SEPARATE, failing=4)
    assert _reasons(run) == {"R0": "error", "R1": "error", "R2": "length"}
    assert run.lived["R0"].error == "the device has gone"
    assert {name: len(lived.token_ns) for name, lived in run.lived.items()} == {"R0": 2, "R1": 2, "R2": 3}


def test_a_failed_prefill_ends_its_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = (ask(0, 8, 9), ask(1, 8, 3, at_ns=3_000_000))
    run = _run(monkeypatch, asks, SEPARATE, failing=4)
    assert _reasons(run) == {"R0": "length", "R1": "error"}
    assert run.starts == ["R0", "R1"] and len(run.lived["R0"].token_ns) == 9


def test_a_prompt_that_failed_is_not_computed_on_in_the_same_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"fusion": "continue", "max_num_seqs": 4, "max_num_batched_tokens": 8}
    run = _run(monkeypatch, (ask(0, 20, 1),), config, failing=1)
    assert _reasons(run) == {"R0": "error"}
    assert not run.steps


def test_a_row_that_joined_before_a_failed_prefill_still_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """R0 has its first token when R1's prefill, the next step of the same tick, fails."""
    run = _run(monkeypatch, (ask(0, 8, 4), ask(1, 8, 4)), SEPARATE, failing=2)
    assert _reasons(run) == {"R0": "length", "R1": "error"}
    assert len(run.lived["R0"].token_ns) == 4


def test_nothing_of_a_failed_step_or_of_whoever_ended_with_an_error_can_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R0's second piece of 32 fails behind a good one; R1 has the same text and finds the good piece only."""
    prompt = Texts().prompt([("common", 96)], "")
    asks = (ask(0, prompt, 4), ask(1, prompt, 4, at_ns=10_000_000))
    config: dict[str, object] = {"prefix_cache": True, "max_num_batched_tokens": 32, "max_num_seqs": 4}
    run = _run(monkeypatch, asks, config, failing=2)
    assert _reasons(run) == {"R0": "error", "R1": "length"}
    assert run.lived["R1"].cached == 32
    assert len(run.lived["R1"].token_ns) == 4


def test_outputs_of_whoever_ended_with_an_error_cannot_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """R0's prompt of 32 is in the cache before its decoding fails; the 20 outputs that the next turn knows are not."""
    texts = Texts()
    first, second = texts.prompt([("talk", 32)], ""), texts.prompt([("talk", 60)], "")
    asks = (replace(ask(0, first, 28), then="R1"), ask(1, second, 4, at_ns=50_000_000))
    run = _run(monkeypatch, asks, {"prefix_cache": True}, failing=20)
    assert _reasons(run) == {"R0": "error", "R1": "length"}
    assert run.lived["R1"].cached == 32


def test_a_failed_mixed_step_ends_its_prefill_and_its_rows_decode_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduler.md 2.10. R0's row had just been given a block for the failed step; it takes no second one for it."""
    asks = (ask(0, 15, 9), ask(1, 8, 3, at_ns=1_500_000))
    config = {"fusion": "all", "max_num_seqs": 4, "max_num_batched_tokens": 64}
    run = _run(monkeypatch, asks, config, failing=3)
    assert _reasons(run) == {"R0": "length", "R1": "error"}
    assert len(run.lived["R0"].token_ns) == 9
