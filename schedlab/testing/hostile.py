"""Policies that try to tell a run of decode steps from single ones."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as List

from schedlab.config import SchedulerConfig
from schedlab.policies.base import Policy
from schedlab.policies.view import View
from schedlab.sequence import Sequence
from schedlab.testing.chance import scrambled


class Moody(Policy):
    """Decides every question by the clock, in no order that makes sense, and promises nothing about later plans.

    While nobody owns a seat it decides as the base class, so that it starves nobody for ever.
    """

    name = "moody"
    may_starve = True

    def __init__(self, config: SchedulerConfig, seed: int = 0) -> None:
        super().__init__(config)
        self._seed = seed

    def compose(self, view: View) -> int:
        if not self._busy(view):
            return view.token_budget
        return scrambled(self._seed, 1, view.now_ns) % (view.token_budget + 2)

    def admit(self, view: View, sequence: Sequence) -> bool:
        if self._busy(view) and scrambled(self._seed, 2, view.now_ns, sequence.request_id) % 2:
            return False
        return super().admit(view, sequence)

    def make_way(self, view: View, sequence: Sequence) -> List[Sequence]:
        owners = list(view.owners())
        if not owners or scrambled(self._seed, 3, view.now_ns, sequence.num_preemptions) % 16:
            return ()
        return owners[-1:] if owners[-1].num_preemptions < 2 else ()

    def yield_(self, view: View, candidates: Iterable[Sequence]) -> Sequence:
        everyone = list(candidates)
        return everyone[scrambled(self._seed, 4, view.now_ns) % len(everyone)]

    def _busy(self, view: View) -> bool:
        return view.num_active > 0


class Shifts(Policy):
    """Lets requests in during every other period of the clock only, and says exactly until when that holds."""

    name = "shifts"

    def __init__(self, config: SchedulerConfig, period_ns: int = 5_000, gate: str = "compose") -> None:
        super().__init__(config)
        self._period_ns = period_ns
        self._gate = gate

    def compose(self, view: View) -> int:
        return 0 if self._gate == "compose" and self._is_closed(view) else view.token_budget

    def admit(self, view: View, sequence: Sequence) -> bool:
        return not (self._gate == "admit" and self._is_closed(view)) and super().admit(view, sequence)

    def stable_until_ns(self, view: View) -> int:
        return (view.now_ns // self._period_ns + 1) * self._period_ns

    def _is_closed(self, view: View) -> bool:
        return view.now_ns // self._period_ns % 2 == 1
