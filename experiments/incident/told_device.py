"""A device that knows what a recorded run learned from its own; it has neither memory nor a clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backends.sim.recording import Question
from schedlab.device import CopyKind, CopyOp, DeviceFacts, Step, Ticket
from schedlab.errors import SchedlabError
from schedlab.sequence import Sequence


class Parted(SchedlabError):
    """Played again, the run does not go on as it was recorded."""


@dataclass(frozen=True, slots=True)
class _Number:
    """Names a step or a copy of the recorded run."""

    number: int


class ToldDevice:
    """Its time is set by whoever plays the recording. Raises Parted for a question that was not asked."""

    def __init__(self, facts: DeviceFacts) -> None:
        self.facts = facts
        self.time_ns = 0
        self.tickets: dict[int, Ticket] = {}
        self.answers_ns: dict[Question, int] = {}
        self.keys: dict[tuple[int, int, int], list[int]] = {}

    def learn(self, line: Mapping[str, Any]) -> None:
        """What the scheduler will ask for before the next point."""
        if "told" in line:
            *asked, answer_ns = line["told"]
            self.answers_ns[Question(*asked)] = answer_ns
        else:
            request_id, first, last, keys = line["keys"]
            self.keys[request_id, first, last] = keys

    def now_ns(self) -> int:
        return self.time_ns

    def launch(self, step: Step) -> Ticket:
        return _Number(0)

    def copy(self, op: CopyOp) -> Ticket:
        number = len(self.tickets) + 1
        ticket = self.tickets[number] = _Number(number)
        return ticket

    def move_slot(self, source: int, target: int) -> None:
        """There is nothing in a slot."""

    def save_state(self, slot: int, snapshot: int, num_tokens: int) -> None:
        """Nor in a snapshot."""

    def restore_state(self, snapshot: int, slot: int) -> None:
        """Nor in a snapshot."""

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        return self._answer_ns(Question.of_copy(self.time_ns, len(self.tickets), kind, num_bytes))

    def prefill_ns(self, num_tokens: int) -> int:
        return self._answer_ns(Question.of_prefill(self.time_ns, len(self.tickets), num_tokens))

    def output_keys(self, sequence: Sequence, first: int, last: int, block_size: int) -> list[int]:
        try:
            return self.keys[sequence.request_id, first, last]
        except KeyError:
            raise Parted(
                f"the scheduler asks for the keys of blocks {first} to {last} of request {sequence.request_id}"
            ) from None

    def forget(self, sequence: Sequence) -> None:
        """Its keys may be asked for no more; they are few."""

    def _answer_ns(self, asked: Question) -> int:
        if asked not in self.answers_ns:
            raise Parted(f"the scheduler asks for {asked}")
        return self.answers_ns[asked]
