"""Plain data to JSON values and back: frozen dataclasses and named tuples, enums, tuples, mappings, numbers and text.

Fields that have their default are left out. What is read is checked against the types of the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from itertools import chain, groupby
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from schedlab.errors import UsageError

KIND = "do"
# Equal records in a row stand once, with their number.
TIMES = "times"
MOST_TIMES = 100_000


def to_json(value: Any) -> Any:
    """JSON values that `from_json` reads back."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) or hasattr(value, "_fields"):
        defaults = _defaults(type(value))
        found = {name: getattr(value, name) for name in _names(type(value))}
        return {name: to_json(one) for name, one in found.items() if name not in defaults or defaults[name] != one}
    if isinstance(value, Mapping):
        return {str(to_json(key)): to_json(one) for key, one in value.items()}
    return _list(value) if isinstance(value, tuple | list) else value


def _list(values: Iterable[Any]) -> list[Any]:
    found = []
    for one, alike in groupby(map(to_json, values)):
        count = len(list(alike))
        found += [{TIMES: count, **one}] if isinstance(one, dict) and count > 1 else [one] * count
    return found


def tagged(value: Any) -> dict[str, Any]:
    """One of several types, with its name."""
    return {KIND: type(value).__name__, **to_json(value)}


def from_json(kind: Any, value: Any, where: str) -> Any:
    """A value of type `kind`; `where` begins the message of an error.

    Raises:
        UsageError: it is none.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _of_union(arguments, value, where)
    if origin is tuple:
        return _tuple(arguments, value, where)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        items = _expect(dict, value, where).items()
        return {
            from_json(arguments[0], key, where): from_json(arguments[1], one, f"{where}.{key}") for key, one in items
        }
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value, where)
    return _expect(kind, value, where)


def _record(kind: Any, value: Any, where: str) -> Any:
    given = {name: one for name, one in _expect(dict, value, where).items() if name != KIND}
    hints, names = get_type_hints(kind), _names(kind)
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given and name not in _defaults(kind)]
    if unknown or missing:
        problem = f"has no field {unknown[0]!r}" if unknown else f"lacks {missing[0]!r}"
        raise UsageError(f"{where}: {kind.__name__} {problem}; its fields are {', '.join(names)}")
    return kind(**{name: from_json(hints[name], one, f"{where}.{name}") for name, one in given.items()})


def _of_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    if isinstance(value, dict) and KIND in value:
        by_name = {kind.__name__: kind for kind in kinds}
        if not isinstance(value[KIND], str) or value[KIND] not in by_name:
            raise UsageError(f"{where}: {value[KIND]!r} is none of {', '.join(by_name)}")
        return _record(by_name[value[KIND]], value, where)
    rest = [kind for kind in kinds if kind is not NoneType]
    plain = next((kind for kind in rest if type(value) is kind), rest[0])
    return from_json(plain, value, where)


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    values = _expect(list, value, where)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        records = [(_split(one, f"{where}[{at}]"), f"{where}[{at}]") for at, one in enumerate(values)]
        return tuple(chain.from_iterable([from_json(kinds[0], one, at)] * count for (one, count), at in records))
    if len(values) != len(kinds):
        raise UsageError(f"{where}: {len(values)} values; give {len(kinds)}")
    return tuple(from_json(kind, one, where) for kind, one in zip(kinds, values, strict=True))


def _split(value: Any, where: str) -> tuple[Any, int]:
    """A record and how often it stands there."""
    if not isinstance(value, dict) or TIMES not in value:
        return value, 1
    times = _expect(int, value[TIMES], f"{where}.{TIMES}")
    if not 1 <= times <= MOST_TIMES:
        raise UsageError(f"{where}.{TIMES} is {times}; give 1 to {MOST_TIMES}")
    return {name: one for name, one in value.items() if name != TIMES}, times


def _member(kind: type[Enum], value: Any, where: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{where}: {value!r}; give one of {', '.join(str(one.value) for one in kind)}") from None


def _expect(kind: type, value: Any, where: str) -> Any:
    if type(value) is int and kind is float:
        return value
    if type(value) is not kind:
        raise UsageError(f"{where}: {value!r} is no {kind.__name__}")
    return value


def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else kind._fields


def _defaults(kind: Any) -> dict[str, Any]:
    if not is_dataclass(kind):
        return dict(kind._field_defaults)
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    made = {field.name: field.default_factory() for field in fields(kind) if field.default_factory is not MISSING}
    return {**defaults, **made}
