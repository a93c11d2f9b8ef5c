"""D05: blocks, tokens and bytes agree in every configuration, per GPU.

Sources: casys-kaist/LLMServingSim#29 <https://github.com/casys-kaist/LLMServingSim/pull/29>, #30. A token of
Llama-3-8B has 131,072 bytes of keys and values, one of Qwen2.5-7B 57,344, divided by the GPUs that share the heads.
"""

from __future__ import annotations

import pytest

from backends.sim.specs.models import find_model
from schedlab.events import Preempted
from schedlab.memory.reserve import MemoryNeeds, plan_memory
from tests.conformance import harness
from tests.conformance.made import ask, made_case

GIB = 1 << 30
BLOCK_SIZE = 16


@pytest.mark.parametrize(("model", "bytes_per_token"), [("llama-3-8b", 131_072), ("qwen2.5-7b", 57_344)])
@pytest.mark.parametrize("tp", [1, 4])
def test_d05_a_prompt_takes_whole_blocks_of_its_tokens_bytes_on_each_gpu(
    model: str, bytes_per_token: int, tp: int
) -> None:
    share = find_model(model).kv_bytes_per_token(tp)
    assert share * tp == bytes_per_token
    needs = MemoryNeeds(
        memory_bytes=GIB,
        weights_bytes=0,
        activations_bytes=0,
        kv_bytes_per_token=share,
        block_size=BLOCK_SIZE,
        max_model_len=1024,
        max_num_seqs=1,
        utilisation_percent=100,
        context_bytes=0,
    )
    plan = plan_memory(needs)
    assert plan.num_blocks == GIB // (BLOCK_SIZE * share)
    run = harness.run(made_case((ask(0, 1024, 1),), {"blocks": plan.num_blocks}), leap=True)
    taken_bytes = (run.steps[0].used_blocks or 0) * plan.block_bytes
    assert taken_bytes == 1024 // BLOCK_SIZE * BLOCK_SIZE * share
    assert run.core.pool.free_blocks == plan.num_blocks


class Freed:
    """What each preemption gave back."""

    def __init__(self) -> None:
        self.blocks: list[int] = []

    def on_preempted(self, event: Preempted) -> None:
        self.blocks.append(event.freed_blocks)


def test_d05_an_eviction_frees_the_victims_blocks_and_no_more() -> None:
    """Both hold 3 blocks of 6 and need a 4th at token 48; one goes and comes back for its 5."""
    freed = Freed()
    run = harness.run(made_case((ask(0, 40, 30), ask(1, 40, 30)), {"blocks": 6}), leap=True, observers=[freed])
    assert run.preempted == ["R1"]
    assert freed.blocks == [3]
    assert run.lived["R1"].most_blocks == 5
