"""Cost models by name, with parameters as they are typed on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import isfinite

from backends.sim.costs.assumptions import Assumptions
from backends.sim.costs.base import CostModel
from backends.sim.costs.constant import Constant
from backends.sim.costs.roofline import Roofline
from backends.sim.specs.hardware import HardwareSpec
from backends.sim.specs.shape import ModelShape
from schedlab.errors import UsageError

COST_MODELS = ("roofline", "constant")
_CONSTANT_KEYS = ("step_ns", "per_row_ns", "per_context_token_ns", "per_prefill_token_ns")


def build_cost(
    name: str,
    hardware: HardwareSpec,
    model: ModelShape,
    tp: int = 1,
    parameters: Mapping[str, str | float] | None = None,
) -> CostModel:
    """The cost model *name* for a model on *tp* GPUs; *parameters* override its defaults.

    Raises UsageError for an unknown name, an unknown parameter or a value that is not a number.
    """
    given = parameters or {}
    if name == "roofline":
        known = tuple(field.name for field in fields(Assumptions))
        return Roofline(hardware, model, tp, Assumptions(**_whole(name, _numbers(name, given, known))))
    if name == "constant":
        return Constant(**_numbers(name, given, _CONSTANT_KEYS))
    raise UsageError(f"unknown cost model {name!r}; known: {', '.join(COST_MODELS)}")


def _numbers(name: str, given: Mapping[str, str | float], known: tuple[str, ...]) -> dict[str, float]:
    numbers = {}
    for key, value in given.items():
        if key not in known:
            raise UsageError(f"cost model {name} has no parameter {key!r}; it has {', '.join(known)}")
        numbers[key] = _number(name, key, value)
    return numbers


def _number(name: str, key: str, value: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"cost model {name}: {key} must be a number, got {value!r}") from None
    if not isfinite(number):
        raise UsageError(f"cost model {name}: {key} must be a finite number, got {value!r}")
    return int(number) if number.is_integer() else number


def _whole(name: str, numbers: Mapping[str, float]) -> dict[str, int]:
    for key, value in numbers.items():
        if not isinstance(value, int):
            raise UsageError(f"cost model {name}: {key} must be a whole number, got {value}")
    return {key: int(value) for key, value in numbers.items()}
