"""What a client saw, in the tables and figures of a replay."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from experiments.load.client import Outcome
from experiments.metrics.latency import TokenGaps
from experiments.metrics.requests import RequestTable
from experiments.metrics.summary import Summary
from experiments.metrics.usage import Usage
from schedlab.events import Finished
from schedlab.pace import ns_to_quanta
from schedlab.request import FinishReason, Prompt, Request
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    import pandas as pd

_INTERVAL_NS = 1_000_000_000
# A client knows nothing of these.
_OF_THE_SERVER = (
    *("queue_ms", "kv_use", "batch", "steps", "iterations_per_s", "busy_share", "preemptions"),
    *("recomputed_tokens", "swaps", "computed_prefill_tokens"),
)


class Measured:
    """Gathers outcomes. Gaps are those between events: a server that merges tokens shows fewer and longer ones."""

    def __init__(self) -> None:
        self.requests = RequestTable()
        self._gaps = TokenGaps()
        self._usage = Usage()
        self._output_tokens = 0
        self._changes: dict[int, list[int]] = {}
        self.errors: dict[str, int] = {}

    def add(self, outcome: Outcome) -> None:
        """One request has ended, or was cut off: then what came of it counts, but it has no row."""
        usage, stamps = self._usage, outcome.token_ns
        usage.arrived += 1
        first = usage.first_arrival_ns
        usage.first_arrival_ns = outcome.sent_ns if first is None else min(first, outcome.sent_ns)
        usage.last_quanta = max(usage.last_quanta, ns_to_quanta(outcome.end_ns))
        self._output_tokens += outcome.output_tokens
        for before, after in pairwise(stamps):
            self._gaps.histogram.add(ns_to_quanta(after - before))
        if outcome.reason is not None:
            self.requests.on_finished(Finished(outcome.end_ns, _sequence(outcome), outcome.reason))
        self._note(outcome)
        if outcome.error:
            self.errors[outcome.error] = self.errors.get(outcome.error, 0) + 1

    def worst_errors(self) -> list[tuple[str, int]]:
        """Each error and how many requests it ended, the most frequent first."""
        return sorted(self.errors.items(), key=lambda item: -item[1])

    def summary(self, slo_s: dict[str, float]) -> dict[str, Any]:
        """As `summary.json`, without what only the server knows."""
        document = Summary(self.requests, self._gaps, self._usage, None, slo_s).to_dict()
        document["output_tokens"] = self._output_tokens
        rates, seconds = document["throughput"], document["duration_s"]
        if rates:
            rates["output_tokens_per_s"] = self._output_tokens / seconds
            rates["total_tokens_per_s"] = (self._output_tokens + document["prompt_tokens"]) / seconds
        return {name: value for name, value in document.items() if name not in _OF_THE_SERVER}

    def timeline(self) -> pd.DataFrame:
        """One row per second: requests with a first token and without, and the tokens that came in it."""
        import numpy as np
        import pandas as pd

        last = max(self._changes, default=-1)
        rows = np.array([self._changes.get(at, [0, 0, 0, 0]) for at in range(last + 1)], dtype=np.int64).reshape(-1, 4)
        nothing = np.zeros(last + 1, dtype=np.int64)
        return pd.DataFrame(
            {
                "t_ns": np.arange(1, last + 2, dtype=np.int64) * _INTERVAL_NS,
                "running": rows[:, 0].cumsum(),
                "waiting": rows[:, 1].cumsum(),
                "parked": nothing,
                "kv_blocks": nothing,
                "prompt_tokens": rows[:, 2],
                "output_tokens": rows[:, 3],
                "steps": nothing,
            }
        )

    def _note(self, outcome: Outcome) -> None:
        """Changes of running and waiting, prompt and output tokens, by second."""
        self._change(outcome.sent_ns, 1, 1)
        first_ns = outcome.token_ns[0] if outcome.token_ns else outcome.end_ns
        self._change(first_ns, 1, -1)
        if outcome.token_ns:
            self._change(first_ns, 0, 1)
            self._change(outcome.end_ns, 0, -1)
            self._change(first_ns, 2, outcome.prompt_tokens)
        for stamp in outcome.token_ns:
            self._change(stamp, 3, 1)

    def _change(self, at_ns: int, column: int, amount: int) -> None:
        self._changes.setdefault(at_ns // _INTERVAL_NS, [0, 0, 0, 0])[column] += amount


def _sequence(outcome: Outcome) -> Sequence:
    """The scheduler's record of it, with the client's times."""
    record = outcome.record
    request = Request(
        outcome.number,
        Prompt(max(outcome.prompt_tokens, 1)),
        max(record.output_tokens, 1),
        outcome.sent_ns,
        tenant=record.tenant,
        session=record.session,
    )
    sequence = Sequence(request, outcome.number, request.max_tokens)
    sequence.num_outputs = outcome.output_tokens
    sequence.num_cached_tokens = outcome.cached_tokens
    if outcome.token_ns:
        sequence.first_token_ns, sequence.last_token_ns = outcome.token_ns[0], outcome.token_ns[-1]
    if outcome.reason in (FinishReason.STOP, FinishReason.LENGTH):
        sequence.admitted_ns = outcome.sent_ns
    return sequence
