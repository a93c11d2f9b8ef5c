"""What a caller chooses about a replay: the names of the command line's flags and of the Python API's arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any

from experiments.fault_file import parse_plan, read_plan
from experiments.metrics.slo import Slo, check_names
from experiments.values import UNITS_NS, duration_ns, pairs
from schedlab.errors import UsageError
from schedlab.memory.reserve import DEFAULT_UTILISATION_PERCENT
from schedlab.policies.presets import DEFAULT_PRESET

AUTO, ORACLE = "auto", "oracle"
DEFAULT_TRACE, STDIN = "azure-conv-like", "-"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """All that decides a replay's result; how it is run and where it is written is not here.

    Attributes:
        trace: a file or folder, `-` for standard input, or a shipped model's name.
        tp: GPUs that share the model.
        policy: None = the preset's own.
        set: fields of `SchedulerConfig` and parameters of the policy, as text.
        cost_set: parameters of the cost model, as text.
        memory_percent: share of each GPU's memory that may be used; None = 90.
        num_blocks: KV blocks of the pool; None = all that the memory holds.
        block_size: tokens a block, short for `set` block_size; None = the preset's.
        max_tokens: limit of requests that have none of their own: a number, `auto` = the smallest power of two that no
            output of the trace exceeds, `oracle` = each request's exact output length.
        rate_scale: arrivals are this many times as dense.
        limit: rows of the trace; of a modelled trace, rows drawn.
        seed: of a modelled trace; None = 0.
        slo: latency targets by name, as text with a unit.
        faults: the content of a fault plan, as `experiments.fault_file` explains it.
    """

    trace: str = DEFAULT_TRACE
    model: str = "llama-3-8b"
    hardware: str = "h100"
    tp: int = 1
    preset: str = DEFAULT_PRESET
    policy: str | None = None
    set: Mapping[str, str] = field(default_factory=dict)
    cost: str = "roofline"
    cost_set: Mapping[str, str] = field(default_factory=dict)
    memory_percent: int | None = None
    num_blocks: int | None = None
    block_size: int | None = None
    max_tokens: str = AUTO
    rate_scale: float = 1.0
    limit: int | None = None
    seed: int | None = None
    slo: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_max_tokens(self.max_tokens)
        check_names(self.slo)
        Slo.parse(self.slo_s)
        parse_plan(self.faults)

    @property
    def settings(self) -> dict[str, str]:
        """`set` with what other options are short for."""
        short = {} if self.block_size is None else {"block_size": str(self.block_size)}
        return {**self.set, **short}

    @property
    def utilisation_percent(self) -> int:
        """Share of each GPU's memory that may be used."""
        return DEFAULT_UTILISATION_PERCENT if self.memory_percent is None else self.memory_percent

    @property
    def slo_s(self) -> dict[str, float]:
        """Latency targets in seconds."""
        return {name: duration_ns(f"--slo {name}", text) / UNITS_NS["s"] for name, text in self.slo.items()}

    def as_dict(self) -> dict[str, Any]:
        """As JSON values; `options_from` reads them back."""
        return asdict(self)


NAMES = tuple(one.name for one in fields(ReplayOptions))
_MAPPINGS = ("set", "cost_set", "slo")
_KINDS: dict[str, type] = {
    **dict.fromkeys(("trace", "model", "hardware", "preset", "policy", "cost"), str),
    **dict.fromkeys(("tp", "memory_percent", "num_blocks", "block_size", "limit", "seed"), int),
}


def options_from(given: Mapping[str, Any], where: str = "") -> ReplayOptions:
    """Options from a caller's values; None means the default, and numbers may stand for their text.

    Raises:
        UsageError: an unknown name, a value of the wrong kind or out of range; `where` begins the message.
    """
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise UsageError(f"{where}{unknown[0]!r} is no option of a replay; known: {', '.join(NAMES)}")
    return ReplayOptions(**{name: _normal(where, name, value) for name, value in given.items() if value is not None})


def _normal(where: str, name: str, value: Any) -> Any:
    if name in _MAPPINGS:
        return _mapping(where, name, value)
    if name == "faults":
        return _faults(where, value)
    if name == "max_tokens":
        return str(value)
    if name == "rate_scale":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{where}rate_scale is {value!r}; give a number above 0")
        try:
            return float(value)
        except OverflowError:
            raise UsageError(f"{where}rate_scale is too large; give a number above 0") from None
    if type(value) is not _KINDS[name] and not (_KINDS[name] is str and hasattr(value, "__fspath__")):
        kind = "a whole number" if _KINDS[name] is int else "a name or a path"
        raise UsageError(f"{where}{name} is {value!r}; give {kind}")
    return _text(where, name, str(value)) if _KINDS[name] is str else value


def _faults(where: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, str | PathLike):
        raise UsageError(f"{where}faults is {value!r}; give a plan's file or its content")
    return read_plan(Path(value))


def _text(where: str, name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{where}{name} is {value!r}, which is not UTF-8: no config.json can name it; rename it"
        ) from None
    return value


def _mapping(where: str, name: str, value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return pairs(f"{where}{name}", value.split(","))
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}{name} is {value!r}; give a mapping of names to values")
    return {str(key): str(one).lower() if isinstance(one, bool) else str(one) for key, one in value.items()}


def _check_numbers(options: ReplayOptions) -> None:
    if not (math.isfinite(options.rate_scale) and options.rate_scale > 0):
        raise UsageError(f"--rate-scale is {options.rate_scale:g}; it must be above 0, and finite")
    least = {"tp": 1, "num_blocks": 1, "block_size": 1, "limit": 1, "seed": 0, "memory_percent": 1}
    for name, lowest in least.items():
        value = getattr(options, name)
        if value is not None and value < lowest:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; give at least {lowest}")
    if options.utilisation_percent > 100:
        raise UsageError(f"--memory-percent is {options.utilisation_percent}; give at most 100")
    if options.block_size is not None and "block_size" in options.set:
        raise UsageError("--block-size and --set block_size both set the tokens of a block; give one of them")
    if options.num_blocks is not None and options.memory_percent is not None:
        raise UsageError("--num-blocks and --memory-percent both set the size of the pool; give one of them")


def _check_max_tokens(text: str) -> None:
    if text in (AUTO, ORACLE):
        return
    if not (text.isascii() and text.isdigit() and 1 <= int(text) < 1 << 31):
        raise UsageError(f"--max-tokens is {text!r}; give a whole number from 1 up, or {AUTO} or {ORACLE}")
