"""Leap equals step on slices of public traces, on every bundled model, and under pressure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice

import pytest

from backends.sim.specs.models import all_models
from schedlab.config import SchedulerConfig
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.policies.presets import PRESETS
from schedlab.policies.priority import Priority
from schedlab.policies.slai import Slai
from schedlab.testing import Session, Turn, World, roofline
from schedlab.testing.hostile import Moody, Shifts
from tests.property.world import assert_leap_equals_step
from tests.shared_data import shared
from traces.open import open_trace

CONVERSATION = "azure-2023/AzureLLMInferenceTrace_conv.csv"
CODE = "azure-2023/AzureLLMInferenceTrace_code.csv"
MOONCAKE = "mooncake-fast25/conversation_trace.jsonl.gz"
MS = 1_000_000


def slice_of(
    name: str, first: int, count: int, speed: int, *, turns: int = 1, think_ns: int = 0
) -> tuple[Session, ...]:
    """`count` records, `speed` times as fast; each `turns` of them in a row become one closed-loop session."""
    records = list(islice(open_trace(shared(f"traces/{name}")).records(), first, first + count))
    start_ns = records[0].arrival_ns
    return tuple(
        Session(
            (records[index].arrival_ns - start_ns) // speed,
            tuple(
                Turn(record.prompt_tokens, record.output_tokens, priority=number % 3, think_ns=think_ns)
                for number, record in enumerate(records[index : index + turns])
            ),
        )
        for index in range(0, count, turns)
    )


@pytest.mark.parametrize("name", list(all_models()))
def test_every_bundled_model(name: str) -> None:
    cost = roofline(name)
    config = SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=2048)
    outcome = assert_leap_equals_step(World(config, Fifo, cost, 500, slice_of(CONVERSATION, 100, 14, 10)))
    assert outcome.end == "done"
    assert outcome.num_ticks < outcome.log.count(b'"ev":"step"') / 3, "the first run leaps, and its log does not tell"


@pytest.mark.parametrize(
    "policy", [Fifo, Slai, partial(Priority, aging_per_s=0.1, evict=True), Moody, partial(Shifts, period_ns=700 * MS)]
)
@pytest.mark.parametrize("name", [CONVERSATION, CODE, MOONCAKE])
def test_every_policy_with_a_pool_that_is_too_small(name: str, policy: Callable[[SchedulerConfig], Policy]) -> None:
    sessions = slice_of(name, 500, 60 if name is not MOONCAKE else 25, 40)
    cost = roofline("llama-3-8b")
    longest = max(turn.prompt_tokens + turn.output_tokens for session in sessions for turn in session.turns)
    outcome = assert_leap_equals_step(World(SchedulerConfig(), policy, cost, longest // 16 + 40, sessions))
    assert outcome.end == "done"
    assert outcome.counts[:2] == (len(sessions), len(sessions))
    assert b'"ev":"preempted"' in outcome.log or name is not CONVERSATION


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset(name: str) -> None:
    config = SchedulerConfig(**PRESETS[name].configuration(num_blocks=900, max_model_len=8192))
    cost = roofline("llama-3-8b", "a100-80")
    outcome = assert_leap_equals_step(World(config, Fifo, cost, 900, slice_of(CONVERSATION, 2000, 60, 10)))
    assert outcome.end == "done"


def test_a_windowed_model_whose_rows_cross_the_window() -> None:
    cost = roofline("mistral-7b-v0.1")
    sessions = slice_of(CONVERSATION, 0, 400, 10)
    crossing = [session for session in sessions if 3700 < session.turns[0].prompt_tokens < 4096]
    assert len(crossing) > 2
    assert assert_leap_equals_step(World(SchedulerConfig(), Fifo, cost, 2000, tuple(crossing[:20]))).end == "done"


@pytest.mark.parametrize("think_ns", [0, 250 * MS])
def test_closed_loop_sessions_whose_next_turn_follows_the_end(think_ns: int) -> None:
    cost = roofline("llama-3-8b")
    sessions = slice_of(CONVERSATION, 1000, 60, 20, turns=4, think_ns=think_ns)
    config = SchedulerConfig(max_num_seqs=16)
    assert assert_leap_equals_step(World(config, Fifo, cost, 600, sessions)).end == "done"
