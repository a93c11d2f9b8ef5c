"""`/metrics`: counters of an observer on the scheduler's thread, read as Prometheus text when somebody asks.

Every figure has our name and, where vLLM has the same figure, that name too (and the name that it had before, where
dashboards still ask for that), so that dashboards made for it work.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from schedlab.core.scheduler import Scheduler
from schedlab.events import Admitted, Arrived, Finished, FirstToken, Preempted, Refused, StepDone
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET

_NS_PER_S = 1_000_000_000
_LABELS = ("model_name", "engine")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)
_TOKENS = tuple(float(1 << power) for power in range(18))
_VLLM_REASONS = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length", FinishReason.ERROR: "error"}


class Buckets:
    """A histogram: one thread adds, any may read."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def cumulative(self) -> tuple[list[tuple[str, float]], float]:
        """Counts at or below each bound, and the sum of the values."""
        total, rows = 0, []
        for bound, count in zip((*self._bounds, float("inf")), list(self._counts), strict=True):
            total += count
            rows.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
        return rows, self._sum


class ServerMetrics:
    """Observer of everything that `/metrics` tells."""

    def __init__(self, core: Scheduler, model: str) -> None:
        self._core = core
        # vLLM counts the engines behind one server; here is one.
        self._labels = (model, "0")
        self._registry = CollectorRegistry()
        self._registry.register(_Families(self))
        ProcessCollector(registry=self._registry)
        self.ends = dict.fromkeys(FinishReason, 0)
        self.arrived = self.preemptions = self.steps = 0
        self.prompt_tokens = self.generation_tokens = self.recomputed_tokens = 0
        self.cache_queries = self.cache_hits = 0
        self.ttft, self.itl, self.e2e = Buckets(_SECONDS), Buckets(_SECONDS), Buckets(_SECONDS)
        self.queue, self.prefill, self.decode = Buckets(_SECONDS), Buckets(_SECONDS), Buckets(_SECONDS)
        self.tpot, self.inference = Buckets(_SECONDS), Buckets(_SECONDS)
        self.limits = Buckets(_TOKENS)
        self.prompt_sizes, self.output_sizes, self.step_tokens = Buckets(_TOKENS), Buckets(_TOKENS), Buckets(_TOKENS)

    @property
    def num_running(self) -> int:
        """Requests with a seat."""
        core = self._core
        return len(core.batch.rows) + len(core.prefilling) + len(core.restoring)

    @property
    def num_waiting(self) -> int:
        """Requests without one."""
        return len(self._core.waiting) + len(self._core.parked)

    @property
    def kv_usage(self) -> float:
        """Share of KV blocks in use, 0 to 1."""
        return self._core.pool.used_blocks / self._core.pool.total_blocks

    def on_arrived(self, event: Arrived) -> None:
        self.arrived += 1
        self.limits.add(event.sequence.request.max_tokens)

    def on_refused(self, event: Refused) -> None:
        self.ends[FinishReason.REFUSED] += 1

    def on_preempted(self, event: Preempted) -> None:
        self.preemptions += 1

    def on_admitted(self, event: Admitted) -> None:
        sequence = event.sequence
        self.queue.add((event.now_ns - sequence.request.arrival_ns) / _NS_PER_S)
        if sequence.reads_cache:
            self.cache_queries += sequence.num_prompt_tokens

    def on_first_token(self, event: FirstToken) -> None:
        sequence = event.sequence
        self.prompt_tokens += sequence.num_prompt_tokens
        self.cache_hits += sequence.num_cached_tokens
        self.generation_tokens += 1
        self.ttft.add((event.now_ns - sequence.request.arrival_ns) / _NS_PER_S)

    def on_step_done(self, event: StepDone) -> None:
        self.steps += event.pace.count
        self.generation_tokens += event.decode_rows * event.pace.count
        chunk_tokens = sum(chunk.num_tokens for chunk in event.chunks)
        self.generation_tokens += sum(chunk.samples and chunk.sequence.num_outputs > 0 for chunk in event.chunks)
        self.step_tokens.add(event.decode_rows + chunk_tokens)
        if event.decode_rows:
            seconds = (event.pace.last_quanta - event.pace.start_quanta) / (_NS_PER_S << 20)
            self.itl.add(seconds / event.pace.count, event.decode_rows * event.pace.count)

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        self.ends[event.reason] += 1
        self.recomputed_tokens += sequence.num_recomputed_tokens
        if event.reason not in (FinishReason.STOP, FinishReason.LENGTH):
            return
        arrival_ns, first_ns = sequence.request.arrival_ns, sequence.first_token_ns
        self.e2e.add((event.now_ns - arrival_ns) / _NS_PER_S)
        self.prompt_sizes.add(sequence.num_prompt_tokens)
        self.output_sizes.add(sequence.num_outputs)
        if first_ns == NOT_YET:
            return
        self.prefill.add((first_ns - sequence.admitted_ns) / _NS_PER_S)
        self.inference.add((event.now_ns - sequence.admitted_ns) / _NS_PER_S)
        self.decode.add((event.now_ns - first_ns) / _NS_PER_S)
        if sequence.num_outputs > 1:
            self.tpot.add((sequence.last_token_ns - first_ns) / (sequence.num_outputs - 1) / _NS_PER_S)

    def text(self) -> bytes:
        """All figures as they stand, and those of the process."""
        return bytes(generate_latest(self._registry))

    def families(self) -> Iterator[Metric]:
        """Each figure under its names."""
        core = self._core
        yield from self._gauge("num_requests_running", "Requests with a seat", self.num_running)
        yield from self._gauge("num_requests_waiting", "Requests without", self.num_waiting)
        yield from self._gauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1", self.kv_usage)
        yield self._one_gauge("vllm:gpu_cache_usage_perc", "Former name of kv_cache_usage_perc", self.kv_usage)
        counters = {
            "num_preemptions": ("Sequences that gave up memory", self.preemptions),
            "prompt_tokens": ("Prompt tokens of requests with a first token", self.prompt_tokens),
            "generation_tokens": ("Output tokens", self.generation_tokens),
            "prefix_cache_queries": ("Prompt tokens looked up in the prefix cache", self.cache_queries),
            "prefix_cache_hits": ("Prompt tokens found there", self.cache_hits),
        }
        for name, (text, value) in counters.items():
            yield from self._counter(name, text, value)
        yield from self._ends()
        histograms = {
            "time_to_first_token_seconds": self.ttft,
            "inter_token_latency_seconds": self.itl,
            "request_time_per_output_token_seconds": self.tpot,
            "e2e_request_latency_seconds": self.e2e,
            "request_queue_time_seconds": self.queue,
            "request_prefill_time_seconds": self.prefill,
            "request_decode_time_seconds": self.decode,
            "request_inference_time_seconds": self.inference,
            "request_params_max_tokens": self.limits,
            "request_prompt_tokens": self.prompt_sizes,
            "request_generation_tokens": self.output_sizes,
            "iteration_tokens_total": self.step_tokens,
        }
        for name, buckets in histograms.items():
            for full in self._names(name):
                yield self._one_histogram(full, name.replace("_", " "), buckets)
        yield self._one_histogram("vllm:time_per_output_token_seconds", "Former name of inter token latency", self.itl)
        yield self._one_counter("schedlab:steps", "Steps of the device", self.steps)
        yield self._one_counter("schedlab:requests_arrived", "Requests accepted", self.arrived)
        yield self._one_counter(
            "schedlab:recomputed_tokens", "Tokens of ended requests computed twice", self.recomputed_tokens
        )
        info = {
            "block_size": str(core.config.block_size),
            "num_gpu_blocks": str(core.pool.total_blocks),
            "enable_prefix_caching": str(core.config.prefix_cache),
            **dict(zip(_LABELS, self._labels, strict=True)),
        }
        yield InfoMetricFamily("vllm:cache_config", "The pool", info)

    def _names(self, name: str) -> tuple[str, str]:
        return f"schedlab:{name}", f"vllm:{name}"

    def _gauge(self, name: str, text: str, value: float) -> Iterator[Metric]:
        for full in self._names(name):
            yield self._one_gauge(full, text, value)

    def _one_gauge(self, full: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(full, text, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Iterator[Metric]:
        for full in self._names(name):
            yield self._one_counter(full, text, value)

    def _one_counter(self, full: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(full, text, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _ends(self) -> Iterator[Metric]:
        ours = CounterMetricFamily("schedlab:request_ends", "Requests that ended", labels=(*_LABELS, "reason"))
        theirs = CounterMetricFamily(
            "vllm:request_success", "Requests that ended", labels=(*_LABELS, "finished_reason")
        )
        aborted = 0
        for reason, count in self.ends.items():
            ours.add_metric((*self._labels, reason.value), count)
            if reason in _VLLM_REASONS:
                theirs.add_metric((*self._labels, _VLLM_REASONS[reason]), count)
            elif reason is not FinishReason.REFUSED:
                aborted += count
        theirs.add_metric((*self._labels, "abort"), aborted)
        yield ours
        yield theirs

    def _one_histogram(self, full: str, text: str, buckets: Buckets) -> Metric:
        family = HistogramMetricFamily(full, text, labels=_LABELS)
        rows, total = buckets.cumulative()
        family.add_metric(self._labels, rows, total)
        return family


class _Families(Collector):
    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.families()
