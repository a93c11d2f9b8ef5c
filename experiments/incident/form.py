"""The file of a recorded run: JSON lines, each what the scheduler was told at one point.

The first line says who decided: `policy`, the SHA-256 of its file (null: this project's own), its `settings`, the
`scheduler`'s configuration, the device's `facts`. Then

- `tick`: the time of a tick, its `inbox`, and `log`, the CRC-32 of the decision log so far;
- `receive`: the time at which more of that tick's `inbox` was taken in;
- `step`: begin and end of a step, the time `now` at which its result was taken in, `ended`, the requests that the model
  or a stop rule ended with it, and `fault`, why it failed, or null;
- `keys`: a request, the first block, the last block, and the keys of the blocks in between that outputs have filled;
- `told`: a time that the policy asked for, as `Question` has it, and the answer;
- `end`: the CRC-32 of the whole decision log.

All times are nanoseconds of the device's clock. What a tick or a step asks for stands behind the line before it. Keys
are cut to 62 bits and salts are hashed, so that the file has no text and no secret.
"""

from __future__ import annotations

from collections.abc import Sequence as List
from hashlib import blake2b
from typing import Any

from schedlab.device import Ticket
from schedlab.errors import UsageError
from schedlab.inbox import Cancel, Close, CopyDone, Delivery, Message, ResetCache, Submit
from schedlab.request import Prompt, Request, SamplingParams

FORMAT = "schedlab_incident"
# A trace's ids are whole numbers below 2^62; the chance that two of a million different blocks collide is 10^-7.
_KEY_BITS, _CHAIN_BITS = 62, 128


def short_keys(keys: List[int]) -> list[int]:
    """Equal where the keys are."""
    return [key >> (_CHAIN_BITS - _KEY_BITS) for key in keys]


def delivery_row(delivery: Delivery, block_size: int) -> list[Any]:
    """A delivery as JSON values."""
    return [*delivery[:3], *_message_row(delivery.message, block_size)]


def delivery_of(row: List[Any], block_size: int, tickets: dict[int, Ticket]) -> Delivery:
    """The delivery of a row; `tickets` are those of the copies, by number."""
    time_ns, source, number, name, *rest = row
    return Delivery(time_ns, source, number, _message_of(name, rest, block_size, tickets))


def _message_row(message: Message, block_size: int) -> list[Any]:
    match message:
        case Submit(request):
            return ["submit", _request_row(request, block_size)]
        case Cancel(request_id):
            return ["cancel", request_id]
        case CopyDone(ticket, error):
            return ["copied", ticket.number, error]
        case ResetCache(preempt_running):
            return ["reset", preempt_running]
        case Close():
            return ["close"]


def _message_of(name: str, rest: List[Any], block_size: int, tickets: dict[int, Ticket]) -> Message:
    match name:
        case "submit":
            return Submit(_request_of(rest[0], block_size))
        case "cancel":
            return Cancel(rest[0])
        case "copied":
            return CopyDone(tickets[rest[0]], rest[1])
        case "reset":
            return ResetCache(rest[0])
        case "close":
            return Close()
    raise UsageError(f"message {name!r} is not known")


def _request_row(request: Request, block_size: int) -> dict[str, Any]:
    prompt = request.prompt
    return {
        "id": request.request_id,
        "prompt": prompt.num_tokens,
        "keys": short_keys(prompt.block_keys(block_size)) if prompt.has_keys else None,
        "max_tokens": request.max_tokens,
        "arrival_ns": request.arrival_ns,
        "priority": request.priority,
        "deadline_ns": request.deadline_ns,
        "tenant": request.tenant,
        "session": request.session,
        "adapter": request.adapter,
        "scored": request.sampling.prompt_logprobs is not None,
        "salt": blake2b(request.cache_salt.encode(), digest_size=8).hexdigest() if request.cache_salt else "",
    }


def _request_of(row: dict[str, Any], block_size: int) -> Request:
    keys = row["keys"]
    prompt = Prompt(row["prompt"]) if keys is None else Prompt(row["prompt"], tuple(keys), block_size)
    return Request(
        row["id"],
        prompt,
        row["max_tokens"],
        arrival_ns=row["arrival_ns"],
        priority=row["priority"],
        deadline_ns=row["deadline_ns"],
        tenant=row["tenant"],
        session=row["session"],
        adapter=row["adapter"],
        cache_salt=row["salt"],
        sampling=SamplingParams(prompt_logprobs=0 if row["scored"] else None),
    )
