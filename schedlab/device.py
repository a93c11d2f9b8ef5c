"""The abstract device: what a scheduler may ask of anything that executes steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from schedlab.batch import DecodeBatch
from schedlab.errors import DeviceFault
from schedlab.pace import Pace
from schedlab.sequence import NOT_YET, Sequence

FOREVER_NS = 1 << 62


class Ticket(Protocol):
    """Names something that the device has begun and not yet ended: a step or a copy."""

    @property
    def number(self) -> int: ...


class CopyKind(StrEnum):
    """Which link a copy takes."""

    DEVICE_TO_HOST = "d2h"
    HOST_TO_DEVICE = "h2d"
    HOST_TO_DISK = "host_to_disk"
    DISK_TO_HOST = "disk_to_host"


class CopyOp(NamedTuple):
    """Move bytes of an image, for device links those of `blocks`; begins only when every ticket in `after` has ended.

    `request_id` names the image: a request has one at a time. `first_block` says which of the request's blocks the
    first of `blocks` is, and for a copy from the disk to the host the first that is wanted. `slot`, if any, is where
    the state lies that is part of the image.
    """

    kind: CopyKind
    blocks: tuple[int, ...]
    num_bytes: int
    request_id: int
    after: tuple[Ticket, ...] = ()
    first_block: int = 0
    slot: int = NOT_YET


class Chunk(NamedTuple):
    """Compute `num_tokens` known tokens of a sequence from position `start`; `samples` if they are the last known."""

    sequence: Sequence
    start: int
    num_tokens: int
    samples: bool

    @property
    def scored(self) -> range:
        """Positions whose scores tell the log-probability of the prompt's next token, if its request wants those."""
        sequence, end = self.sequence, self.start + self.num_tokens
        wanted = sequence.request.sampling.prompt_logprobs is not None
        return range(self.start, min(end, sequence.num_prompt_tokens - 1) if wanted else self.start)


class Step(NamedTuple):
    """One launch: prefill chunks and the decode batch, in one forward pass.

    A step without chunks may be repeated up to `repeat` times. The device stops after the first iteration in which a
    row ends, or that ends at or after `until_ns`, or at or after a delivery to the inbox; it may stop sooner.
    Law: a step touches no block with an open ticket that it does not name in `after`.
    """

    chunks: tuple[Chunk, ...]
    decode: DecodeBatch | None
    repeat: int = 1
    until_ns: int = FOREVER_NS
    after: tuple[Ticket, ...] = ()


class TokenLogprobs(NamedTuple):
    """The log-probability of an output, how many tokens are at least as likely, and the likeliest, best first."""

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]


class PromptLogprobs(NamedTuple):
    """Of the tokens of a prompt at positions `first`, `first + 1`, ..."""

    first: int
    entries: list[TokenLogprobs]


@dataclass(slots=True)
class StepResult:
    """What a step did.

    Attributes:
        repeats: iterations done, at least 1.
        pace: when each iteration ended.
        ended: sequences whose output ended with this step's last iteration, in any order.
        without_token: the ones of `ended` that ended before their first token (an empty output).
        tokens: the newest token of each row that sampled, by request id, from a device that has tokens.
        fault: the step failed; no row advanced.
        logprobs: of the rows in `tokens` whose requests want them, by request id.
        prompt_logprobs: of the chunks whose requests want them, by request id.
    """

    repeats: int
    pace: Pace
    ended: list[Sequence]
    without_token: tuple[Sequence, ...] = ()
    tokens: dict[int, int] | None = None
    fault: DeviceFault | None = None
    logprobs: dict[int, TokenLogprobs] | None = None
    prompt_logprobs: dict[int, PromptLogprobs] | None = None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a scheduler must know of a device.

    Attributes:
        num_blocks: blocks that can really be handed out.
        wants_dense_slots: it keeps state by slot and runs fastest on slots without gaps.
        block_bytes: size of one of them on each GPU, for copies, which every GPU makes for its own share.
        state_bytes: size of the state beside its blocks that each sequence carries in its slot, on each GPU; 0 = none.
            A chunk from position 0 begins with an empty one.
        window_tokens: how far back the windowed layers of its model look; None = all layers look at everything.
    """

    name: str
    num_blocks: int
    window_tokens: int | None = None
    block_bytes: int = 0
    state_bytes: int = 0
    wants_dense_slots: bool = False


class Device(Protocol):
    """Executes steps and copies, and owns time and bytes. The scheduler owns accounting."""

    @property
    def facts(self) -> DeviceFacts: ...

    def now_ns(self) -> int:
        """The device's clock. It never goes back."""
        ...

    def launch(self, step: Step) -> Ticket:
        """Begin a step. At most one step is in flight."""
        ...

    def copy(self, op: CopyOp) -> Ticket:
        """Begin a copy; its end is delivered to the inbox."""
        ...

    def move_slot(self, source: int, target: int) -> None:
        """Move what is kept in slot `source` to `target`, which is free. No step is in flight."""
        ...

    def save_state(self, slot: int, snapshot: int, num_tokens: int) -> None:
        """Copy the state in `slot`, as it was when `num_tokens` tokens were computed, to the snapshot's slot.

        That is as the step that has just ended left it, or one of its iterations. A device that cannot look back at
        one does not repeat steps. No step is in flight; the scheduler may give `slot` away at once, since saves and
        restores take effect in the order of the calls and before the step that follows.
        """
        ...

    def restore_state(self, snapshot: int, slot: int) -> None:
        """Copy a snapshot to `slot`, whose sequence goes on from there. In order as above, so a save that is called
        later may overwrite the snapshot; and behind the copies that the step that follows names in `after`."""
        ...

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        """Time until a copy that began now would have ended, behind those that have its link before it."""
        ...

    def prefill_ns(self, num_tokens: int) -> int:
        """Time to compute so many tokens from nothing, as far as the device can tell."""
        ...

    def output_keys(self, sequence: Sequence, first: int, last: int, block_size: int) -> list[int]:
        """Chained keys of blocks `first` .. `last - 1` of a sequence, which outputs have filled; fewer if not known."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended: drop whatever the device keeps for it."""
        ...


class BlockingDevice(Device, Protocol):
    """A device on real time, whose caller waits for it.

    Attributes:
        on_copy_done: told of each copy that has ended, with an error or "", on any thread.
    """

    on_copy_done: list[Callable[[Ticket, str], None]]

    def wait(self, ticket: Ticket) -> StepResult:
        """Block until the step in flight has ended."""
        ...

    def close(self) -> None:
        """Block until its threads have ended, which end when all copies have. Nothing is launched or copied then."""
        ...
