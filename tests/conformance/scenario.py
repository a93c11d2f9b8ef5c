"""Scenarios as data: a TOML file holds one scenario, and its cases override parts of what the cases share.

A file has `id`, `title`, `source`, an optional `note`, and the tables that `Case` names. `before_step = k` means the
time at which step k begins when steps follow one another without a pause from time 0, each lasting `step_ms`.
A request's `prompt` is a number of tokens that nobody else has, or the pieces of a text (see `Texts`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from schedlab.request import Prompt, Request, SamplingParams
from tests.conformance.texts import Texts

FOLDER = Path(__file__).parent / "scenarios"
NS_PER_MS = 1_000_000
SHARED_KEYS = frozenset(("setup", "config", "requests", "cancels", "expect", "waits_for"))
FILE_KEYS = SHARED_KEYS | {"id", "title", "source", "note", "cases"}


@dataclass(frozen=True)
class Ask:
    """One request: `output_tokens` is its natural length (None = endless), `tokens` its scripted output.

    `then` names the request whose prompt begins with this one's prompt and output: the session's next turn.
    """

    name: str
    request: Request
    at_ns: int
    output_tokens: int | None
    tokens: tuple[int, ...] | None
    then: str = ""


class Dropped(NamedTuple):
    """A cancel that arrives at `at_ns`."""

    request_id: int
    at_ns: int


@dataclass(frozen=True)
class Case:
    """One run of a scenario and what must come of it.

    Attributes:
        setup: blocks, preset, policy, parameters, the cost of steps in ms.
        config: fields of `SchedulerConfig`.
        waits_for: a feature that does not exist yet; empty = the case runs.
    """

    scenario: str
    name: str
    title: str
    setup: Mapping[str, Any]
    config: Mapping[str, Any]
    asks: tuple[Ask, ...]
    cancels: tuple[Dropped, ...]
    expect: Mapping[str, Any]
    waits_for: str

    @property
    def label(self) -> str:
        return f"{self.scenario}-{self.name}" if self.name else self.scenario


def files() -> list[Path]:
    """Every scenario file, by name."""
    return sorted(FOLDER.glob("part*/*.toml"))


def cases(path: Path) -> Iterator[Case]:
    """The cases of a file; a file without `cases` is one."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    _refuse_unknown(document, FILE_KEYS, str(path))
    shared = {key: value for key, value in document.items() if key in SHARED_KEYS}
    for own in document.get("cases", [{}]):
        _refuse_unknown(own, SHARED_KEYS | {"name"}, str(path))
        tables = _merged(shared, own)
        setup = tables.get("setup", {})
        asks = tuple(_asks(tables.get("requests", []), setup.get("step_ms", 1)))
        ids = {ask.name: ask.request.request_id for ask in asks}
        yield Case(
            scenario=document["id"],
            name=own.get("name", ""),
            title=document["title"],
            setup=setup,
            config=tables.get("config", {}),
            asks=asks,
            cancels=tuple(_dropped(cancel, ids, setup.get("step_ms", 1)) for cancel in tables.get("cancels", [])),
            expect=tables.get("expect", {}),
            waits_for=tables.get("waits_for", ""),
        )


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Tables key by key; lists and values of a case stand for the shared ones."""
    merged = dict(shared)
    for key, value in own.items():
        merged[key] = {**shared.get(key, {}), **value} if isinstance(value, dict) else value
    return merged


def _asks(rows: list[dict[str, Any]], step_ms: float) -> Iterator[Ask]:
    """`count` rows of one table are named A0, A1, ...; each arrives `every_ms` after the one before."""
    request_id, texts = 0, Texts()
    for given in rows:
        row = dict(given)
        name, count, every_ms = row.pop("name"), row.pop("count", None), row.pop("every_ms", 0)
        at_ns = _time_ns(row, step_ms)
        priorities = row.pop("priorities", [row.pop("priority", 0)] * (count or 1))
        for index in range(count or 1):
            row["priority"] = priorities[index]
            own_name = name if count is None else f"{name}{index}"
            own_id = row.get("id", request_id)
            yield _ask(own_name, own_id, at_ns + _ns(index * every_ms), row, texts)
            request_id = max(request_id, own_id) + 1


def _ask(name: str, request_id: int, at_ns: int, row: Mapping[str, Any], texts: Texts) -> Ask:
    known = {"id", "prompt", "max_tokens", "output", "tokens", "then", "priority", "deadline_ms", *SAMPLING, *NAMESPACE}
    _refuse_unknown(row, known, f"request {name}")
    prompt = row["prompt"]
    request = Request(
        request_id=request_id,
        prompt=Prompt(prompt) if isinstance(prompt, int) else texts.prompt(prompt, name),
        max_tokens=row["max_tokens"],
        arrival_ns=at_ns,
        priority=row["priority"],
        deadline_ns=_ns(row["deadline_ms"]) if "deadline_ms" in row else None,
        sampling=_sampling(row),
        **{field: row[field] for field in NAMESPACE if field in row},
    )
    tokens = tuple(row["tokens"]) if "tokens" in row else None
    return Ask(name, request, at_ns, row.get("output"), tokens, row.get("then", ""))


def _sampling(row: Mapping[str, Any]) -> SamplingParams:
    given: dict[str, Any] = {field: row[key] for key, field in SAMPLING.items() if key in row}
    for key, value in given.items():
        given[key] = tuple(value) if isinstance(value, list) else value
    return SamplingParams(**given)


NAMESPACE = ("adapter", "cache_salt", "tenant")
SAMPLING = {
    "eos": "eos_token_ids",
    "stop": "stop_token_ids",
    "min_tokens": "min_tokens",
    "ignore_eos": "ignore_eos",
    "seed": "seed",
    "prompt_logprobs": "prompt_logprobs",
}


def _dropped(cancel: Mapping[str, Any], ids: Mapping[str, int], step_ms: float) -> Dropped:
    row = dict(cancel)
    at_ns = _time_ns(row, step_ms)
    return Dropped(ids[row["request"]] if "request" in row else row["id"], at_ns)


def _time_ns(row: dict[str, Any], step_ms: float) -> int:
    if "before_step" in row:
        return _ns((row.pop("before_step") - 1) * step_ms)
    return _ns(row.pop("at_ms", 0))


def _ns(milliseconds: float) -> int:
    return round(milliseconds * NS_PER_MS)


def _refuse_unknown(table: Mapping[str, Any], known: set[str] | frozenset[str], where: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise ValueError(f"{where}: unknown {unknown}; known: {sorted(known)}")
