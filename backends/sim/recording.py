"""What a device was asked and how long it took, in order, and the same questions held against it."""

from __future__ import annotations

from collections.abc import Sequence as List
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from schedlab.device import CopyKind, CopyOp, Step
from schedlab.errors import SchedlabError
from schedlab.sequence import Sequence

_DIGEST_BYTES = 8


class Diverged(SchedlabError):
    """A run asks something else than the recorded one did.

    Attributes:
        what: "step", "copy" or "question"; number: of the step or copy, from 1; of a question, the copy that is next.
        asked, recorded: in words; recorded is None where the recording has nothing of the kind.
    """

    def __init__(self, what: str, number: int, asked: str, recorded: str | None) -> None:
        super().__init__(f"{what} {number}: asked for {asked}; the recording has {recorded or 'nothing of the kind'}")
        self.what, self.number, self.asked, self.recorded = what, number, asked, recorded


class StepShape(NamedTuple):
    """All of a step that a device acts upon.

    Attributes:
        context_tokens: of the decode rows together.
        chunks: request, first position, tokens, samples.
        after: numbers of the copies that it waits for.
        places: digest of the slots and block tables that it brings: those of its chunks and of the rows that have just
            joined. Others have changed only by growth, which is in the decision log.
    """

    rows: int
    context_tokens: int
    chunks: tuple[tuple[int, int, int, bool], ...]
    after: tuple[int, ...]
    places: str

    @classmethod
    def of(cls, step: Step) -> StepShape:
        batch = step.decode
        chunks = tuple((chunk.sequence.request_id, *chunk[1:]) for chunk in step.chunks)
        after = tuple(ticket.number for ticket in step.after)
        placed = [chunk.sequence for chunk in step.chunks] + (batch.newcomers if batch is not None else [])
        if batch is None:
            return cls(0, 0, chunks, after, _digest(placed))
        return cls(len(batch.rows), batch.context_tokens, chunks, after, _digest(placed))

    def repeated(self, times: int) -> StepShape:
        """The same rows so many iterations later."""
        return StepShape(self.rows, self.context_tokens + times * self.rows, (), (), "")

    def __str__(self) -> str:
        chunks = ", ".join(f"{count} tokens of request {one} from {start}" for one, start, count, _ in self.chunks)
        waits = f", after copies {list(self.after)}" if self.after else ""
        places = f", places {self.places}" if self.places else ""
        return f"chunks [{chunks}] and {self.rows} rows of {self.context_tokens} tokens{waits}{places}"


class RecordedStep(NamedTuple):
    """A step, the time that it took, and why it failed, if it did."""

    shape: StepShape
    duration_ns: int
    fault: str | None = None


class CopyShape(NamedTuple):
    """All of a copy that a device acts upon; `after` are the numbers of copies."""

    kind: CopyKind
    blocks: tuple[int, ...]
    num_bytes: int
    request_id: int
    after: tuple[int, ...]
    first_block: int
    slot: int

    @classmethod
    def of(cls, op: CopyOp) -> CopyShape:
        return cls(*op[:4], tuple(ticket.number for ticket in op.after), op.first_block, op.slot)

    def __str__(self) -> str:
        waits = f" after {list(self.after)}" if self.after else ""
        blocks = f" blocks {list(self.blocks)}" if self.blocks else ""
        return f"{self.kind} of request {self.request_id}, {self.num_bytes} bytes{blocks}{waits}"


class RecordedCopy(NamedTuple):
    """A copy, the time that it took, and why it failed, or ""."""

    shape: CopyShape
    duration_ns: int
    error: str = ""


class Question(NamedTuple):
    """A time that the scheduler asked for before it chose: what, when, and how many copies had begun by then.

    A scheduler that leaps asks less often, and nothing else.
    """

    now_ns: int
    num_copies: int
    words: str

    @classmethod
    def of_copy(cls, now_ns: int, num_copies: int, kind: CopyKind, num_bytes: int) -> Question:
        return cls(now_ns, num_copies, f"copy_ns of {num_bytes} bytes by {kind}")

    @classmethod
    def of_prefill(cls, now_ns: int, num_copies: int, num_tokens: int) -> Question:
        return cls(now_ns, num_copies, f"prefill_ns of {num_tokens} tokens")

    def __str__(self) -> str:
        return f"{self.words} at {self.now_ns} ns"


@dataclass
class Recording:
    """Steps and copies in order, and the answers to questions."""

    steps: list[RecordedStep] = field(default_factory=list)
    copies: list[RecordedCopy] = field(default_factory=list)
    answers_ns: dict[Question, int] = field(default_factory=dict)


class Reader:
    """Goes through a recording while the same questions come; any other one raises Diverged."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._num_steps = self._num_copies = 0

    def steps(self, asked: StepShape, most: int) -> List[RecordedStep]:
        """This step, and up to `most` in all as they follow if it is repeated; none is passed yet."""
        first = self._num_steps
        recorded = self._recording.steps[first : first + most]
        if not recorded or recorded[0].shape != asked:
            raise Diverged("step", first + 1, str(asked), str(recorded[0].shape) if recorded else None)
        if recorded[0].fault is not None:
            return recorded[:1]
        for times, step in enumerate(recorded):
            if times and (step.fault is not None or step.shape != asked.repeated(times)):
                return recorded[:times]
        return recorded

    def pass_steps(self, count: int) -> str | None:
        """So many were done; why the last of them failed, if it did."""
        self._num_steps += count
        return self._recording.steps[self._num_steps - 1].fault

    def copy(self, asked: CopyShape) -> RecordedCopy:
        number = self._num_copies
        self._num_copies += 1
        recorded = self._recording.copies[number] if number < len(self._recording.copies) else None
        if recorded is None or recorded.shape != asked:
            raise Diverged("copy", number + 1, str(asked), str(recorded.shape) if recorded else None)
        return recorded

    def answer_ns(self, asked: Question) -> int:
        answer_ns = self._recording.answers_ns.get(asked)
        if answer_ns is None:
            raise Diverged("question", self._num_copies + 1, str(asked), None)
        return answer_ns

    @property
    def num_copies(self) -> int:
        """Copies that have begun."""
        return self._num_copies

    def check_spent(self) -> None:
        """Raises Diverged unless every step and copy was asked for again."""
        kept = self._recording
        passed = (
            ("step", self._num_steps, [str(step.shape) for step in kept.steps[self._num_steps :][:1]]),
            ("copy", self._num_copies, [str(copy.shape) for copy in kept.copies[self._num_copies :][:1]]),
        )
        for what, number, left in passed:
            if left:
                raise Diverged(what, number + 1, "nothing more", left[0])


def _digest(placed: list[Sequence]) -> str:
    """Of the slots and block tables of those sequences; "" for none."""
    if not placed:
        return ""
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    for sequence in placed:
        hashed.update(repr((sequence.request_id, sequence.slot, sequence.block_table)).encode())
    return hashed.hexdigest()
