"""The checker is no ornament: for every law there is a damage that it tells, and it tells it by that law's name."""

from __future__ import annotations

import pytest

from schedlab.errors import InvariantViolation
from schedlab.invariants import laws
from tests.laws.breach import Breach
from tests.laws.of_cache import KEPT
from tests.laws.of_choices import CHOICES
from tests.laws.of_memory import MEMORY
from tests.laws.of_requests import REQUESTS
from tests.laws.of_state import STATE
from tests.laws.of_waiting import WAITING
from tests.laws.stage import (
    CACHE,
    COMMIT,
    CRAMPED,
    CROWD,
    DENSE,
    EVICTING,
    LONG,
    SHADOW,
    STATES,
    SWAP,
    WINDOW,
    Place,
    Scene,
    Stage,
)

BREACHES = [*MEMORY, *KEPT, *STATE, *REQUESTS, *CHOICES, *WAITING]


@pytest.mark.parametrize("law", laws(), ids=lambda law: law.name)
def test_every_law_has_a_breach(law: object) -> None:
    assert law.name in {breach.law for breach in BREACHES}, "write one"  # type: ignore[attr-defined]


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: f"{breach.law}-{breach.do.__name__}")
def test_a_breach_is_told_by_its_law(breach: Breach) -> None:
    def damage(stage: Stage) -> bool:
        if not breach.ready(stage):
            return False
        breach.do(stage)
        return True

    with pytest.raises(InvariantViolation) as found:
        Stage(breach.scene).run(damage, breach.place)
    assert found.value.law is not None
    assert found.value.law.name == breach.law, str(found.value)


@pytest.mark.parametrize(
    "scene", [CROWD, CRAMPED, COMMIT, LONG, CACHE, SWAP, WINDOW, STATES, DENSE, SHADOW, EVICTING], ids=range(11)
)
def test_the_laws_hold_without_damage(scene: Scene) -> None:
    Stage(scene).run(lambda stage: True, Place.BETWEEN)
