"""Policies of tests: a gate that opens and closes with the clock, and room made for whoever is next in line."""

from __future__ import annotations

from collections.abc import Sequence as List
from typing import Any

from schedlab.config import SchedulerConfig
from schedlab.device import FOREVER_NS
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from schedlab.sequence import Sequence, State

NS_PER_MS = 1_000_000


class Throttle(Priority):
    """No prefill tokens and no admission while the clock is inside one of `closed_ms` = [from, to) pairs.

    The order is by priority, which is that of arrival when all priorities are equal.
    """

    name = "throttle"

    def __init__(self, config: SchedulerConfig, closed_ms: list[list[int]], **parameters: Any) -> None:
        super().__init__(config, **parameters)
        self._closed_ns = [(begin * NS_PER_MS, end * NS_PER_MS) for begin, end in closed_ms]

    def compose(self, view: View) -> int:
        return 0 if self._is_closed(view.now_ns) else view.token_budget

    def stable_until_ns(self, view: View) -> int:
        edges = [edge for pair in self._closed_ns for edge in pair if edge > view.now_ns]
        return min(edges, default=FOREVER_NS)

    def _is_closed(self, now_ns: int) -> bool:
        return any(begin <= now_ns < end for begin, end in self._closed_ns)


class ThrottleUnlessFull(Throttle):
    """The same, but it lets prefills through when the step before could not reach all who waited."""

    name = "throttle_unless_full"

    def __init__(self, config: SchedulerConfig, closed_ms: list[list[int]], **parameters: Any) -> None:
        super().__init__(config, closed_ms, **parameters)
        self._capacity_bound = False

    def compose(self, view: View) -> int:
        if not self._is_closed(view.now_ns):
            # The lanes ask last in a tick, when whoever could come in has come in.
            self._capacity_bound = view.num_waiting > 0
            return view.token_budget
        return view.token_budget if self._capacity_bound else 0

    def stable_until_ns(self, view: View) -> int:
        return view.now_ns


class MakeRoom(Policy):
    """Decoding rows give way to a newcomer that does not fit: those with the most blocks first, the last of equals.

    For admission=prompt: it looks at blocks, not at commitments.
    """

    name = "make_room"

    def make_way(self, view: View, sequence: Sequence) -> List[Sequence]:
        decoding = [owner for owner in view.owners() if owner.state is State.ACTIVE]
        blocks, victims = view.free_blocks - view.reserved_blocks, list[Sequence]()
        for owner in sorted(decoding, key=lambda owner: (-len(owner.block_table), -owner.admission_index)):
            if blocks >= view.missing_blocks(sequence):
                break
            victims.append(owner)
            blocks += len(owner.block_table)
        return victims if blocks >= view.missing_blocks(sequence) else ()


POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in (Throttle, ThrottleUnlessFull, MakeRoom)}
