"""With many owners of seats not every tick looks at each, but damage is told soon, and at the end in any case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedlab.errors import InvariantViolation
from schedlab.invariants import ticks
from tests.laws.stage import CROWD, Place, Scene, Stage, config

OWNERS = 40
BIG = Scene(
    replace(config(), max_num_seqs=OWNERS, max_num_batched_tokens=400),
    num_blocks=6400,
    num_requests=OWNERS,
    timeout_ns=1 << 60,
)


def all_are_rows(stage: Stage) -> bool:
    for request_id in range(OWNERS):
        stage.outputs.expect(request_id, 400, None)
    return len(stage.core.batch) == OWNERS and not stage.core.batch.newcomers


def miscount(stage: Stage) -> None:
    stage.core.batch._context_base += 1


def test_damage_among_many_is_told_within_the_ticks_that_earn_a_look() -> None:
    stage, at = Stage(BIG), []

    def damage(stage: Stage) -> bool:
        if all_are_rows(stage):
            at.append(stage.checker.book.num_ticks)
            miscount(stage)
        return bool(at)

    with pytest.raises(InvariantViolation, match=r"^batch_aggregates_are_sums: "):
        stage.run(damage, Place.BETWEEN)
    assert 1 <= stage.checker.book.num_ticks - at[0] <= OWNERS / ticks.SWEPT_PER_TICK + 1


def test_ticks_among_many_do_not_look_at_everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(ticks, "sweep", lambda core: looks.append(len(core.batch)))
    stage = Stage(BIG)
    stage.run(lambda stage: True, Place.BETWEEN)
    assert sum(looks) <= ticks.SWEPT_PER_TICK * stage.checker.book.num_ticks
    assert len(looks) > 10


def test_damage_of_the_last_tick_is_told_at_the_end() -> None:
    stage = Stage(BIG)

    def damage(stage: Stage) -> bool:
        stage.wrap("finish", before=lambda: stage.core.pool._free.pop())
        return True

    with pytest.raises(InvariantViolation, match=r"^all_blocks_come_back: "):
        stage.run(damage, Place.BETWEEN)


def test_a_violation_tells_the_time_and_the_request() -> None:
    stage = Stage(CROWD)

    def damage(stage: Stage) -> bool:
        if len(stage.core.batch) < 3:
            return False
        next(iter(stage.core.batch.rows)).block_table.pop()
        return True

    with pytest.raises(InvariantViolation) as found:
        stage.run(damage, Place.BETWEEN)
    assert found.value.now_ns == stage.now_ns > 0
    assert found.value.request_id == 0
    assert f"(request 0; at {stage.now_ns} ns; scheduler.md 15: 6, scenarios.md law 1)" in str(found.value)
