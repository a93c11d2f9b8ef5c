"""What a whole run amounts to, as a plain dictionary: counts, latencies, throughput, goodput and device use.

A figure that does not exist (a rate over no time, the mean of nothing) is left out; nothing is ever NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.metrics.latency import TokenGaps
from experiments.metrics.requests import RequestTable
from experiments.metrics.slo import Slo, measure
from experiments.metrics.stats import clean, present, ratio, table_of_histogram, table_of_values
from experiments.metrics.tables import as_numpy, exact_sum
from experiments.metrics.usage import Usage
from schedlab.pace import QUANTA_PER_NS, ns_to_quanta
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
COMPLETE = (FinishReason.STOP, FinishReason.LENGTH)


class Summary:
    """Reads the observers of one run. Cancelled and interrupted runs are summed up as far as they got.

    Latencies, each over the requests that have it:
        ttft: arrival to first token. queue: arrival to first admission.
        e2e: arrival to end, of requests that ended by stop or length.
        tpot: first to last token over outputs - 1, of requests with at least 2 outputs.
        itl: all gaps between tokens; percentiles by nearest rank from buckets less than 0.8 % wide.
    The other percentiles interpolate linearly between ranks, on integer nanoseconds.
    """

    def __init__(
        self,
        requests: RequestTable,
        gaps: TokenGaps,
        usage: Usage,
        num_blocks: int | None = None,
        slo: Mapping[str, float] | None = None,
    ) -> None:
        """`num_blocks` is the pool's size; `slo` maps ttft, tpot, itl or e2e to seconds.

        Raises:
            UsageError: `slo` names something else or a time that is not positive.
        """
        self.requests = requests
        self.gaps = gaps
        self.usage = usage
        self.num_blocks = num_blocks
        self.slo = Slo.parse(slo) if slo else None
        first_ns = usage.first_arrival_ns
        self.duration_quanta = 0 if first_ns is None else max(usage.last_quanta - ns_to_quanta(first_ns), 0)

    def to_dict(self) -> dict[str, Any]:
        """Keys in a fixed order; values are strings, ints, finite floats and such dictionaries."""
        document: dict[str, Any] = {
            "requests": self._counts(),
            "duration_s": clean(self._seconds),
            **self._latencies(),
            "throughput": self._throughput(),
            "kv_use": self._kv_use(),
            "batch": self._batch(),
            **self._totals(),
        }
        if self.slo:
            document["goodput"] = measure(self.slo, self.requests, self.gaps, self._seconds)
        return document

    @property
    def _seconds(self) -> float:
        return self.duration_quanta / (QUANTA_PER_NS * NS_PER_S)

    def _counts(self) -> dict[str, Any]:
        ended = {str(reason): int(self.requests.ended_by(reason).sum()) for reason in FinishReason}
        refused = ended.pop(str(FinishReason.REFUSED))
        return {
            "arrived": self.usage.arrived + refused,
            "refused": refused,
            "finished": ended,
            "unfinished": self.usage.arrived - sum(ended.values()),
        }

    def _latencies(self) -> dict[str, dict[str, Any]]:
        table = self.requests
        arrival, last = as_numpy(table.arrival_ns), as_numpy(table.last_token_ns)
        first, admitted = as_numpy(table.first_token_ns), as_numpy(table.admitted_ns)
        outputs = as_numpy(table.output_tokens)
        started, several, complete = first != NOT_YET, outputs >= 2, table.ended_by(*COMPLETE)
        finished = as_numpy(table.finished_ns)
        return {
            "ttft_ms": table_of_values((first - arrival)[started], NS_PER_MS),
            "tpot_ms": table_of_values((last - first)[several] / (outputs[several] - 1), NS_PER_MS),
            "itl_ms": table_of_histogram(self.gaps.histogram, NS_PER_MS * QUANTA_PER_NS),
            "e2e_ms": table_of_values((finished - arrival)[complete], NS_PER_MS),
            "queue_ms": table_of_values((admitted - arrival)[admitted != NOT_YET], NS_PER_MS),
        }

    def _prompt_done(self) -> npt.NDArray[np.bool_]:
        started: npt.NDArray[np.bool_] = as_numpy(self.requests.first_token_ns) != NOT_YET
        return started | self.requests.ended_by(*COMPLETE)

    def _throughput(self) -> dict[str, float]:
        table, usage = self.requests, self.usage
        prompt_tokens = exact_sum(as_numpy(table.prompt_tokens)[self._prompt_done()])
        rates = {
            "requests_per_s": int(table.ended_by(*COMPLETE).sum()),
            "output_tokens_per_s": usage.output_tokens,
            "total_tokens_per_s": usage.output_tokens + prompt_tokens,
        }
        return {name: clean(total / self._seconds) for name, total in rates.items()} if self.duration_quanta else {}

    def _kv_use(self) -> dict[str, Any]:
        """Blocks in use over the time in steps, and as shares of the pool."""
        usage, pool = self.usage, self.num_blocks or 0
        return present(
            mean=ratio(usage.block_quanta, usage.busy_quanta * pool),
            peak=ratio(usage.peak_blocks, pool),
            mean_blocks=ratio(usage.block_quanta, usage.busy_quanta),
            peak_blocks=usage.peak_blocks if usage.busy_quanta else None,
        )

    def _batch(self) -> dict[str, Any]:
        """Decode rows per iteration that has any."""
        usage = self.usage
        mean = ratio(usage.decode_tokens, usage.decode_steps)
        return present(mean=mean, peak=usage.peak_rows if usage.decode_steps else None)

    def cache(self, cached_blocks: int, evicted_blocks: int) -> dict[str, Any]:
        """Hits of the prefix cache, each request's once; those of a preempted one's return have a counter of their own.

        The share is that of the prompts of all requests that were admitted.
        """
        table = self.requests
        hits = as_numpy(table.cached_tokens)
        looked_up = as_numpy(table.prompt_tokens)[as_numpy(table.admitted_ns) != NOT_YET]
        return present(
            hit_tokens=exact_sum(hits),
            hit_share=ratio(exact_sum(hits), exact_sum(looked_up)),
            hit_requests=int((hits > 0).sum()),
            hit_tokens_on_return=table.cached_tokens_on_return,
            cached_blocks=cached_blocks,
            evicted_blocks=evicted_blocks,
        )

    def _totals(self) -> dict[str, Any]:
        table, usage = self.requests, self.usage
        return present(
            steps=usage.steps,
            iterations_per_s=clean(usage.steps / self._seconds) if self.duration_quanta else None,
            busy_share=ratio(usage.busy_quanta, self.duration_quanta),
            preemptions=usage.preemptions,
            recomputed_tokens=table.recomputed_tokens,
            swaps=sum(table.swaps),
            prompt_tokens=exact_sum(as_numpy(table.prompt_tokens)[self._prompt_done()]),
            cached_tokens=exact_sum(as_numpy(table.cached_tokens)),
            computed_prefill_tokens=usage.computed_prefill_tokens,
            output_tokens=usage.output_tokens,
        )
