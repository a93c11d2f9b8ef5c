"""Looks at every answer of a policy before the scheduler uses it, and that a question has changed nothing.

What is wrong is told where it comes from, instead of where the scheduler stumbles over it later.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as List
from functools import wraps
from numbers import Integral
from operator import attrgetter
from typing import Any

from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.policies.base import Policy
from schedlab.policies.view import View
from schedlab.sequence import Sequence
from schedlab.testing.laws import POLICY_ANSWERS, POLICY_LOOKS_ON
from schedlab.testing.world import PolicyFactory

# What a question may not change, of the scheduler and of the request that it is about.
_OF_SCHEDULER = ("num_waiting", "num_prefilling", "num_active", "num_parked", "free_blocks", "reserved_blocks")
_OF_REQUEST = ("state", "num_computed", "num_outputs", "slot", "reserved_blocks", "image", "window", "request")
_scheduler_state = attrgetter(*_OF_SCHEDULER)
_request_state = attrgetter(*_OF_REQUEST)

State = tuple[Any, ...]


def answering(policy: PolicyFactory) -> PolicyFactory:
    """Makes the same policies, each of whose answers is looked at."""

    def make(config: SchedulerConfig) -> Policy:
        made = policy(config)
        for name, wrong in _ANSWERS.items():
            setattr(made, name, _checked(name, getattr(made, name), wrong))
        return made

    return make


def _checked(name: str, ask: Callable[..., Any], wrong: Callable[..., str]) -> Callable[..., Any]:
    """The method `name`; `wrong` says of an answer and its question what is wrong with it, if anything."""

    @wraps(ask)
    def answer(view: View, *about: Any) -> Any:
        asked = list(about[0]) if about and isinstance(about[0], list) else None
        before = _state(view, about)
        found = ask(view, *about)
        if _state(view, about) != before or (asked is not None and asked != about[0]):
            raise POLICY_LOOKS_ON.broken(f"{_what_changed(name, before, _state(view, about))}")
        problem = wrong(found, view, *about if asked is None else [asked])
        if problem:
            raise POLICY_ANSWERS.broken(f"`{name}` gives {problem}")
        return found

    return answer


def _state(view: View, about: tuple[Any, ...]) -> tuple[State, State]:
    if about and isinstance(about[0], Sequence):
        return _scheduler_state(view), (*_request_state(about[0]), len(about[0].block_table))
    return _scheduler_state(view), ()


def _what_changed(name: str, before: tuple[State, State], after: tuple[State, State]) -> str:
    titles = (*_OF_SCHEDULER, *(f"{title} of the request" for title in _OF_REQUEST), "blocks of the request")
    pairs = zip(titles, sum(before, ()), sum(after, ()), strict=False)
    changes = [f"{title} from {old} to {new}" for title, old, new in pairs if old != new]
    return f"`{name}` has changed {', '.join(changes) or 'the list of candidates'}"


def _shown(answer: object) -> str:
    return f"{answer!r}, of type {type(answer).__name__}; it must give"


def _no_number(answer: object, *question: object) -> str:
    # The plain type first: the abstract one is slow to ask, and takes in those of array libraries.
    is_number = type(answer) is int or (isinstance(answer, Integral) and not isinstance(answer, bool))
    return "" if is_number else f"{_shown(answer)} an int"


def _no_decision(answer: object, *question: object) -> str:
    return f"{_shown(answer)} True or False, on every way out" if answer is None else ""


def _no_owners(answer: object, view: View, *question: object) -> str:
    if not isinstance(answer, list | tuple) or not all(isinstance(one, Sequence) for one in answer):
        return f"{_shown(answer)} a list of those that leave, which may be empty"
    left = set(view.owners())
    for one in answer:
        if one not in left:
            return f"{one}, which owns no seat or was named before; it must give owners, each once"
        left.remove(one)
    return ""


def _no_candidate(answer: object, view: View, candidates: List[Sequence]) -> str:
    return "" if any(answer is one for one in candidates) else f"{_shown(answer)} one of the candidates"


def _no_mode(answer: object, *question: object) -> str:
    return "" if answer in tuple(PreemptionMode) else f"{_shown(answer)} one of {', '.join(PreemptionMode)}"


_ANSWERS: dict[str, Callable[..., str]] = {
    "compose": _no_number,
    "admit": _no_decision,
    "make_way": _no_owners,
    "yield_": _no_candidate,
    "give_up": _no_mode,
    "stable_until_ns": _no_number,
}
