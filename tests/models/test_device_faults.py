"""What goes wrong in a step or a copy hits whom it must and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.torch_needed import torch  # isort: skip

from schedlab.config import PreemptionMode
from schedlab.device import Step
from schedlab.errors import UsageError
from schedlab.memory.spill import DiskFull, SpillStore
from schedlab.request import Prompt, Request
from schedlab.sequence import Sequence
from tests.models.lab import MAX_MODEL_LEN, Run, WatchedDevice, config, request, run
from tests.models.test_families import assert_equals, prompts

Pair = Callable[[str], tuple[Any, Any]]


class FailingDevice(WatchedDevice):
    """Fails the forward pass of the steps of those numbers, after it has written keys and values."""

    def __init__(self, *args: Any, failing: dict[int, Exception], **options: Any) -> None:
        super().__init__(*args, **options)
        self.failing = failing

    def _run(self, step: Step, ticket: Any) -> None:
        super()._run(step, ticket)
        if len(self.steps) in self.failing:
            raise self.failing[len(self.steps)]


def test_a_prompt_whose_step_fails_ends_and_the_rows_beside_it_go_on(pair: Pair) -> None:
    theirs, ours = pair("llama3")
    given = prompts(3)
    settings = config(max_num_seqs=8, max_num_batched_tokens=24)
    memory_error = torch.OutOfMemoryError("out of memory")
    device = FailingDevice(ours, settings, 100, failing={2: memory_error})
    result = run(ours, [request(n, p, 12) for n, p in enumerate(given)], device=device, max_num_batched_tokens=24)
    failed = [n for n, reason in result.reasons.items() if reason == ("error", "out of memory")]
    assert failed == [1] and device.steps[1][1] == 1
    kept = [n for n in range(3) if n not in failed]
    result.outputs = {index: result.outputs[n] for index, n in enumerate(kept)}
    device.logits = {(kept.index(n), i): each for (n, i), each in device.logits.items() if n in kept}
    assert_equals(theirs, [given[n] for n in kept], result)


@pytest.mark.parametrize("error", [IndexError("index 7 is out of bounds"), ValueError("of no use"), MemoryError()])
def test_an_error_of_any_type_ends_the_requests_of_its_step_only(pair: Pair, error: Exception) -> None:
    theirs, ours = pair("llama3")
    given = prompts(2)
    device = FailingDevice(ours, config(max_num_seqs=1), 100, failing={1: error})
    result = run(ours, [request(n, p, 12) for n, p in enumerate(given)], device=device, max_num_seqs=1)
    assert result.reasons.pop(0) == ("error", f"{type(error).__name__}: {error}")
    result.outputs = {0: result.outputs[1]}
    device.logits = {(0, index): each for (number, index), each in device.logits.items() if number == 1}
    assert_equals(theirs, given[1:], result)


def test_nothing_succeeds_on_a_lost_device(pair: Pair) -> None:
    _, ours = pair("llama3")
    settings = config(max_num_seqs=1)
    lost = torch.AcceleratorError("an illegal memory access was encountered")
    device = FailingDevice(ours, settings, 100, failing={2: lost})
    result = run(ours, [request(n, p, 12) for n, p in enumerate(prompts(3))], device=device, max_num_seqs=1)
    assert {reason for reason, _ in result.reasons.values()} == {"error"}
    assert all("the device is lost" in error for _, error in result.reasons.values())


def test_a_token_outside_of_the_vocabulary_ends_its_request_only(pair: Pair) -> None:
    theirs, ours = pair("llama3")
    given = prompts(1)
    result = run(ours, [request(0, given[0], 12), request(1, [5, 10**9], 4)], max_num_seqs=1)
    assert result.reasons[1][0] == "error" and "token 1000000000 is not in the vocabulary" in result.reasons[1][1]
    assert_equals(theirs, given, result)


def test_an_image_that_the_disk_refuses_is_computed_again(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = pair("llama3")
    given = prompts(6)
    with SpillStore(0, 1 << 30, tmp_path) as store:

        def refuse(*_: object) -> None:
            raise DiskFull("the disk is full")

        monkeypatch.setattr(store, "put", refuse)
        result = run(
            ours,
            [request(n, p, 24) for n, p in enumerate(given)],
            24,
            store=store,
            preemption=PreemptionMode.DISK,
            swap_disk_gib=1,
        )
    assert result.num_swapped and not result.num_restored
    assert result.num_preempted == result.num_swapped
    assert_equals(theirs, given, result, 24)


def test_prompts_known_by_a_trace_only_get_equal_tokens_where_their_blocks_are_equal(pair: Pair) -> None:
    _, ours = pair("llama3")
    shared = Request(0, Prompt(24, (7, 8, 9), 8), 4), Request(1, Prompt(20, (7, 8), 8), 4)
    result = run(ours, shared, max_num_seqs=1, prefix_cache=True)
    histories = result.device.histories
    tokens = [histories.of(_sequence(each)).known(0, 20).tolist() for each in shared]
    assert tokens[0][:16] == tokens[1][:16]
    assert tokens[0][16:] != tokens[1][16:]
    assert result.cached[1] == 16


def _sequence(of: Request) -> Sequence:
    return Sequence(of, 0, 4)


def test_what_the_device_does_not_serve_is_refused(pair: Pair) -> None:
    _, ours = pair("llama3")
    with pytest.raises(UsageError, match="window_blocks is not served"):
        WatchedDevice(ours, config(window_blocks=4, swap_disk_gib=1), 10)
    with pytest.raises(UsageError, match=f"was loaded for {MAX_MODEL_LEN} tokens"):
        WatchedDevice(ours, config(max_model_len=MAX_MODEL_LEN + 1), 10)


def test_nothing_is_left_of_ended_requests(pair: Pair) -> None:
    _, ours = pair("llama3")
    result: Run = run(ours, [request(n, p, 12) for n, p in enumerate(prompts(4))])
    assert result.device.histories._live == {}
    assert result.device._copies.images._live == {}
