"""Records of a trace to requests: their limits, and the lengths that only the simulated device may know."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from backends.sim.outputs import Lengths
from experiments.options import AUTO, ORACLE
from schedlab.events import Finished
from schedlab.request import FinishReason, Prompt, Request, SamplingParams
from traces.record import TraceRecord


class TokenLimit(NamedTuple):
    """What `max_tokens` is for requests that bring no limit of their own.

    `tokens` is None for `oracle`: each gets its exact output length.
    """

    rule: str
    tokens: int | None

    @classmethod
    def of(cls, rule: str, longest_output_tokens: int) -> TokenLimit:
        """The limit of a rule as it is typed, for a trace with that longest output."""
        if rule == ORACLE:
            return cls(rule, None)
        return cls(rule, power_of_two(longest_output_tokens) if rule == AUTO else int(rule))

    def sentence(self) -> str:
        """The rule for a reader."""
        if self.tokens is None:
            return "max_tokens is an oracle: the scheduler was told every output length, which no server knows"
        source = "the smallest power of two that covers the trace's longest output" if self.rule == AUTO else "as given"
        return f"max_tokens is {self.tokens:,} ({source}) unless a row has its own, and never beyond max_model_len"


def power_of_two(tokens: int) -> int:
    """The smallest power of two at or above `tokens`, at least 1."""
    return 1 << max(tokens - 1, 0).bit_length()


class RequestMaker:
    """Makes requests and tells the output model their lengths. An observer: it counts outputs that a limit cut.

    Attributes:
        cut_requests, cut_tokens: outputs that ended at a limit, and the tokens of the trace that they lack.
        notify_made: called with each request.
    """

    def __init__(self, limit: TokenLimit, max_model_len: int, outputs: Lengths) -> None:
        self._limit_tokens = limit.tokens
        self._max_model_len = max_model_len
        self._expect = outputs.expect
        self._sampling = SamplingParams()
        self._lacking: dict[int, int] = {}
        self.cut_requests = 0
        self.cut_tokens = 0
        self.notify_made: Callable[[Request], None] | None = None

    def make(
        self, request_id: int, record: TraceRecord, arrival_ns: int, following: TraceRecord | None = None
    ) -> Request:
        """The request of a record; `following` is the session's next turn, which may tell what the output became."""
        prompt_tokens, output_tokens = record.prompt_tokens, record.output_tokens
        max_tokens = output_tokens if self._limit_tokens is None else self._limit_tokens
        if record.max_tokens >= 0:
            max_tokens = record.max_tokens
        if following is not None and _goes_on(record, following):
            self._expect(request_id, output_tokens, _prompt(following))
        else:
            self._expect(request_id, output_tokens)
        lacking = output_tokens - min(max_tokens, self._max_model_len - prompt_tokens)
        if lacking > 0:
            self._lacking[request_id] = lacking
        request = Request(
            request_id,
            _prompt(record),
            max_tokens,
            arrival_ns,
            record.priority,
            None,
            record.tenant,
            record.session,
            sampling=self._sampling,
        )
        if self.notify_made is not None:
            self.notify_made(request)
        return request

    def on_finished(self, event: Finished) -> None:
        if event.reason is FinishReason.LENGTH:
            lacking = self._lacking.pop(event.sequence.request_id, 0)
            self.cut_requests += lacking > 0
            self.cut_tokens += lacking


def _prompt(record: TraceRecord) -> Prompt:
    return Prompt(record.prompt_tokens, record.hash_ids, record.hash_block_tokens)


def _goes_on(record: TraceRecord, following: TraceRecord) -> bool:
    """Does the next prompt begin with this one and its output? Only then are its ids those of what the output fills."""
    ids, next_ids = record.hash_ids, following.hash_ids
    if ids is None or next_ids is None or record.hash_block_tokens != following.hash_block_tokens:
        return False
    full_blocks = min(record.prompt_tokens // record.hash_block_tokens, len(ids))
    is_longer = following.prompt_tokens >= record.prompt_tokens + record.output_tokens
    return is_longer and next_ids[:full_blocks] == ids[:full_blocks]
