"""Cost of the prefix cache: `python -m experiments.bench.prefix [TRACE]` writes reports/gallery/prefix.md.

The trace is Mooncake's conversation trace (kvcache-ai/Mooncake, FAST'25, Apache-2.0). Steps take a constant time: what
is measured is the scheduler with its cache.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter_ns, process_time
from typing import NamedTuple

from backends.sim.clock import SimClock
from backends.sim.costs.constant import Constant
from backends.sim.device import SimDevice
from backends.sim.outputs import Lengths
from backends.sim.process import SimProcess
from experiments.arrivals import OpenLoopSource
from experiments.bench.machine import machine
from experiments.metrics.requests import RequestTable
from experiments.request_maker import RequestMaker, TokenLimit
from reports.files import replace_file
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.memory.prefix import CachingBlockPool
from schedlab.policies.fifo import Fifo
from traces.open import open_trace
from traces.record import TraceRecord

TRACE = "traces/mooncake-fast25/conversation_trace.jsonl.gz"
GALLERY = Path("reports/gallery/prefix.md")
# Distinct blocks of 512 tokens in the trace, and the share of them that the pool has room for.
TRACE_BLOCKS, TRACE_BLOCK_TOKENS, POOL_PERCENT = 182_790, 512, 25
BLOCK_SIZES = {512: "2,000", 64: "1,000", 16: "aim 500"}
MILLION, MOST_MB = 1_000_000, 400
STEP_NS, PREFILL_TOKEN_NS, MOST_MODEL_LEN = 5_000_000, 20_000, 1 << 20
ROUNDS = 3


class Speed(NamedTuple):
    """One replay: requests per second of CPU time, share of prompt tokens that hit, blocks evicted."""

    requests_per_cpu_s: float
    hit_share: float
    evicted_blocks: int


def replay(records: list[TraceRecord], block_size: int) -> Speed:
    """The whole trace through a scheduler with the cache on; reading it is not counted."""
    num_blocks = TRACE_BLOCKS * TRACE_BLOCK_TOKENS * POOL_PERCENT // 100 // block_size
    begun = process_time()
    clock, outputs, table = SimClock(), Lengths(), RequestTable()
    cost = Constant(step_ns=STEP_NS, per_prefill_token_ns=PREFILL_TOKEN_NS)
    config = SchedulerConfig(max_model_len=MOST_MODEL_LEN, prefix_cache=True, block_size=block_size)
    device = SimDevice(clock, cost, outputs, DeviceFacts("sim", num_blocks))
    core = Scheduler(config, Fifo(config), device)
    core.bus.add(table)
    process = SimProcess(clock, core, device)
    limit = TokenLimit.of("auto", max(record.output_tokens for record in records))
    OpenLoopSource(clock, core.inbox, RequestMaker(limit, MOST_MODEL_LEN, outputs), iter(records))
    clock.run()
    assert process.done and len(table) == len(records)
    hit_share = sum(table.cached_tokens) / sum(table.prompt_tokens)
    return Speed(len(records) / (process_time() - begun), hit_share, core.pool.num_evicted)


def filled_pool(num_blocks: int) -> tuple[CachingBlockPool, list[int]]:
    """A pool whose blocks all have a key, and the keys, those of one chain."""
    pool, keys = CachingBlockPool(num_blocks), [(1 << 40) + 32 * number for number in range(num_blocks)]
    table = pool.allocate(num_blocks)
    pool.publish(keys, table, 0, num_blocks)
    pool.release(table)
    return pool, keys


def lookup_ns(pool: CachingBlockPool, keys: list[int]) -> float:
    """Time of one lookup of these keys."""
    times = []
    for _ in range(7):
        begun = perf_counter_ns()
        pool.lookup(keys, len(keys))
        times.append(perf_counter_ns() - begun)
    return median(times)


def resident_mb() -> float:
    """Memory that this process holds, in MB; Linux."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def memory_mb() -> float:
    """Memory of a million cached blocks with their keys, measured in a process of its own."""
    code = (
        "from experiments.bench import prefix as p; before = p.resident_mb(); "
        f"kept = p.filled_pool({MILLION}); print(p.resident_mb() - before)"
    )
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def lines(trace: Path) -> Iterator[str]:
    """The page, line by line."""
    records = list(open_trace(trace).records())
    tokens = sum(record.prompt_tokens for record in records)
    yield "# Cost of the prefix cache"
    yield ""
    yield f"`python -m experiments.bench.prefix` on a shared machine: {machine()}."
    yield ""
    yield (
        f"Mooncake's conversation trace, {len(records):,} requests with {tokens / 1e6:.1f} M prompt tokens, on a pool "
        f"of {POOL_PERCENT} % of its {TRACE_BLOCKS:,} blocks of {TRACE_BLOCK_TOKENS} tokens; policy fifo, 256 "
        f"sequences, 8,192 tokens a step, a constant cost. Median of {ROUNDS} rounds; reading the file is not counted."
    )
    yield ""
    yield "| tokens a block | requests/s of CPU time | bar | prompt tokens hit | blocks evicted |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for block_size, bar in BLOCK_SIZES.items():
        rounds = [replay(records, block_size) for _ in range(ROUNDS)]
        speed = median(one.requests_per_cpu_s for one in rounds)
        yield f"| {block_size} | {speed:,.0f} | {bar} | {rounds[0].hit_share:.1%} | {rounds[0].evicted_blocks:,} |"
    yield ""
    yield f"A million cached blocks take {memory_mb():,.0f} MB with their keys (bar {MOST_MB} MB)."
    yield ""
    yield "| cached blocks | lookup of 100 blocks | of 1,000 | of 10,000 |"
    yield "| ---: | ---: | ---: | ---: |"
    for cached in (10_000, MILLION):
        pool, keys = filled_pool(cached)
        cells = [f"{lookup_ns(pool, keys[:most]) / 1000:,.1f} us" for most in (100, 1000, 10_000)]
        yield f"| {cached:,} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, print, and write the gallery's page."""
    shared = Path(os.environ.get("SCHEDLAB_SHARED", "../shared"))
    text = []
    for line in lines(Path(sys.argv[1]) if len(sys.argv) > 1 else shared / TRACE):
        print(line, flush=True)
        text.append(line)
    replace_file(GALLERY, ("\n".join(text) + "\n").encode())


if __name__ == "__main__":
    main()
