"""Looks at every answer of a policy before the scheduler uses it, and that a question has changed nothing.

What is wrong is told where it comes from, instead of where the scheduler stumbles over it later.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as List
from dataclasses import fields
from functools import wraps
from numbers import Integral
from operator import attrgetter
from typing import Any

from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.policies.base import Policy
from schedlab.policies.queues import KeyedQueue, WaitingQueue
from schedlab.policies.view import View
from schedlab.sequence import Sequence
from schedlab.testing.laws import KEY_STAYS, POLICY_ANSWERS, POLICY_LOOKS_ON
from schedlab.testing.world import PolicyFactory

# What a question may not change, of the scheduler and of the request that it is about.
_OF_SCHEDULER = ("num_waiting", "num_prefilling", "num_active", "num_parked", "free_blocks", "reserved_blocks")
_OF_REQUEST = ("state", "num_computed", "num_outputs", "slot", "reserved_blocks", "image", "window", "request")
_scheduler_state = attrgetter(*_OF_SCHEDULER)
_request_state = attrgetter(*_OF_REQUEST)
_RULES = tuple(field.name for field in fields(SchedulerConfig))
_rules = attrgetter(*_RULES)

State = tuple[Any, ...]


def answering(policy: PolicyFactory) -> PolicyFactory:
    """Makes the same policies, each of whose answers is looked at."""

    def make(config: SchedulerConfig) -> Policy:
        rules = _rules(config)
        made = policy(config)
        _check_rules("__init__", rules, config)
        for name, wrong in _ANSWERS.items():
            setattr(made, name, _checked(name, getattr(made, name), wrong, rules, config))
        setattr(made, "waiting_queue", _with_steady_keys(made))  # noqa: B010 - the scheduler calls it by this name
        setattr(made, "resume_key", _steady_while_parked(made))  # noqa: B010 - and this one
        return made

    return make


def _checked(
    name: str, ask: Callable[..., Any], wrong: Callable[..., str], rules: State, config: SchedulerConfig
) -> Callable[..., Any]:
    """The method `name`; `wrong` says of an answer and its question what is wrong with it, if anything."""

    @wraps(ask)
    def answer(view: View, *about: Any) -> Any:
        asked = list(about[0]) if about and isinstance(about[0], list) else None
        before = _state(view, about)
        found = ask(view, *about)
        if _state(view, about) != before or (asked is not None and asked != about[0]):
            raise POLICY_LOOKS_ON.broken(f"{_what_changed(name, before, _state(view, about))}")
        _check_rules(name, rules, config)
        problem = wrong(found, view, *about if asked is None else [asked])
        if problem:
            raise POLICY_ANSWERS.broken(f"`{name}` gives {problem}")
        return found

    return answer


def _check_rules(name: str, before: State, config: SchedulerConfig) -> None:
    """A frozen configuration can be written to all the same."""
    after = _rules(config)
    if after != before:
        pairs = zip(_RULES, before, after, strict=True)
        changes = ", ".join(f"{title} from {old!r} to {new!r}" for title, old, new in pairs if old != new)
        raise POLICY_LOOKS_ON.broken(f"by the end of `{name}` the policy has changed the configuration: {changes}")


def _with_steady_keys(made: Policy) -> Callable[[], WaitingQueue]:
    """The same queue; one that is ordered by a key is told when a key has changed, before it looks for the request."""
    make_queue = made.waiting_queue

    def make() -> WaitingQueue:
        queue = make_queue()
        return _SteadyQueue(made, queue.key) if type(queue) is KeyedQueue else queue

    return make


class _SteadyQueue(KeyedQueue):
    """Remembers every key as it was when the request came."""

    __slots__ = ("_first", "_policy")

    def __init__(self, policy: Policy, key: Callable[[Sequence], Any]) -> None:
        super().__init__(key)
        self._policy = policy
        self._first: dict[Sequence, Any] = {}

    def push(self, sequence: Sequence) -> None:
        self._first[sequence] = self.key(sequence)
        super().push(sequence)

    def remove(self, sequence: Sequence) -> None:
        _check_key(self._policy, "key", sequence, self._first.pop(sequence), self.key(sequence))
        super().remove(sequence)


def _steady_while_parked(made: Policy) -> Callable[[View, Sequence], Any]:
    """`resume_key` of a policy, whose answer about a sequence stays until that has returned."""
    ask = made.resume_key
    first: dict[Sequence, tuple[tuple[int, int], Any]] = {}

    def resume_key(view: View, sequence: Sequence) -> Any:
        stay, found = (sequence.num_preemptions, sequence.num_swaps), ask(view, sequence)
        if sequence not in first or first[sequence][0] != stay:
            first[sequence] = stay, found
        _check_key(made, "resume_key", sequence, first[sequence][1], found)
        return found

    return resume_key


def _check_key(policy: Policy, name: str, sequence: Sequence, before: Any, now: Any) -> None:
    if now != before:
        raise KEY_STAYS.broken(
            f"`{name}` of policy {policy.name} gave {before!r} when {sequence} came, and now {now!r}; let it follow "
            "from what does not change, or override `waiting_queue` for an order that does",
            sequence.request_id,
        )


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
