"""A device whose clock stands still while the scheduler decides, and that tells what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.sim.recording import Question
from experiments.incident.form import short_keys
from schedlab.device import CopyKind, CopyOp, Device, DeviceFacts, Step, Ticket
from schedlab.sequence import Sequence


class LatchedDevice:
    """In front of a device on real time. `tell` gets whatever a scheduler learns from it beside steps and copies."""

    def __init__(self, device: Device, tell: Callable[[dict[str, Any]], None]) -> None:
        self._device, self._tell = device, tell
        self._now_ns = device.now_ns()
        self._num_copies = 0
        self.move_slot, self.forget = device.move_slot, device.forget
        self.save_state, self.restore_state = device.save_state, device.restore_state

    @property
    def facts(self) -> DeviceFacts:
        return self._device.facts

    def latch(self) -> int:
        """Look at the clock; the time is this until the next look."""
        self._now_ns = self._device.now_ns()
        return self._now_ns

    def now_ns(self) -> int:
        return self._now_ns

    def launch(self, step: Step) -> Ticket:
        return self._device.launch(step)

    def copy(self, op: CopyOp) -> Ticket:
        self._num_copies += 1
        return self._device.copy(op)

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        asked = Question.of_copy(self._now_ns, self._num_copies, kind, num_bytes)
        return self._told(asked, self._device.copy_ns(kind, num_bytes))

    def prefill_ns(self, num_tokens: int) -> int:
        asked = Question.of_prefill(self._now_ns, self._num_copies, num_tokens)
        return self._told(asked, self._device.prefill_ns(num_tokens))

    def output_keys(self, sequence: Sequence, first: int, last: int, block_size: int) -> list[int]:
        keys = self._device.output_keys(sequence, first, last, block_size)
        self._tell({"keys": [sequence.request_id, first, last, short_keys(keys)]})
        return keys

    def _told(self, asked: Question, answer_ns: int) -> int:
        self._tell({"told": [*asked, answer_ns]})
        return answer_ns
