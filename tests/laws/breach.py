"""How a law is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from schedlab.sequence import Sequence
from tests.laws.stage import CROWD, Place, Scene, Stage


class Breach(NamedTuple):
    """`do` breaks `law` in `scene`, as soon as `ready` says so."""

    law: str
    do: Callable[[Stage], object]
    scene: Scene
    place: Place
    ready: Callable[[Stage], object]


Register = Callable[[Callable[[Stage], object]], Callable[[Stage], object]]


def crowded(stage: Stage) -> bool:
    """Three rows decode, all known to the checker, and two requests wait."""
    core = stage.core
    return len(core.batch) == 3 and len(core.waiting) > 1 and not core.batch.newcomers


class Breaches(list[Breach]):
    """Those of one subject; functions are added with a decorator."""

    def of(
        self,
        law: str,
        scene: Scene = CROWD,
        *,
        inside: bool = False,
        ready: Callable[[Stage], object] = crowded,
    ) -> Register:
        def add(do: Callable[[Stage], object]) -> Callable[[Stage], object]:
            self.append(Breach(law, do, scene, Place.INSIDE if inside else Place.BETWEEN, ready))
            return do

        return add


def first_row(stage: Stage) -> Sequence:
    return next(iter(stage.core.batch.rows))


def last_row(stage: Stage) -> Sequence:
    return list(stage.core.batch.rows)[-1]


def first_waiting(stage: Stage) -> Sequence:
    return next(iter(stage.core.waiting.candidates()))
