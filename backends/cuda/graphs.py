"""Decode steps as recorded graphs: a step of few rows is launched by one call instead of a thousand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import torch
from torch import Tensor

from backends.cuda.model import Model
from backends.cuda.step_inputs import StepInputs

# Runs the work once more on the memory that it was recorded on, and gives what it gives.
Replay = Callable[[], Tensor]
Recorder = Callable[[Callable[[], Tensor]], Replay]

_SMALL_SIZES = (1, 2, 4)
_SIZE_STEP = 8


def padded_sizes(most_rows: int) -> list[int]:
    """The batch sizes that are recorded, up to one that holds `most_rows`: 1, 2, 4 and the multiples of 8."""
    sizes = [*_SMALL_SIZES, *range(_SIZE_STEP, most_rows + _SIZE_STEP, _SIZE_STEP)]
    return sizes[: bisect_left(sizes, most_rows) + 1]


class CudaRecorder:
    """CUDA graphs that share one pool of memory, since at most one of them runs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], Tensor]) -> Replay:
        """The first run compiles kernels, which a recording may not."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # Threads of copies may go on while this one records.
        with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
            result = work()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay


class DecodeGraphs:
    """The logits of steps that decode only, by padded batch size.

    A recording reads its inputs from fixed memory, where each step copies its own. Padding repeats the last row, so it
    writes to that row's slot the bytes that the row itself writes there, and needs no memory of its own.

    Everything is recorded when this is made, and writes to slot 0 then: no sequence has any block yet.

    Args:
        kv: the pool that steps read and write.
        most_rows: of a batch.
        most_blocks: of a row.
    """

    def __init__(self, model: Model, kv: Tensor, most_rows: int, most_blocks: int, record: Recorder) -> None:
        self._model, self._kv = model, kv
        self._sizes = padded_sizes(most_rows)
        largest = self._sizes[-1]
        token_ids, positions, slots = torch.zeros(3, largest, dtype=torch.int64, device=kv.device)
        self._inputs = StepInputs(
            token_ids,
            positions,
            slots,
            chunks=(),
            block_tables=torch.zeros(largest, most_blocks, dtype=torch.int64, device=kv.device),
            lengths=torch.ones_like(positions),
            longest=most_blocks * kv.shape[3],
            sampled=torch.arange(largest, device=kv.device),
        )
        with torch.inference_mode():
            # The largest comes first, so that the others find memory that is large enough.
            self._replays = {size: record(self._work(size)) for size in reversed(self._sizes)}

    def logits(self, inputs: StepInputs) -> Tensor:
        """[R, vocab] float32 of a step without chunks; the next call overwrites them."""
        rows = len(inputs.token_ids)
        size = self._sizes[bisect_left(self._sizes, rows)]
        fixed = self._inputs
        for name in ("token_ids", "positions", "slots", "lengths"):
            own = getattr(inputs, name)
            getattr(fixed, name)[:rows].copy_(own)
            getattr(fixed, name)[rows:size].copy_(own[-1:].expand(size - rows))
        tables, num_blocks = inputs.block_tables, inputs.block_tables.shape[1]
        fixed.block_tables[:rows, :num_blocks].copy_(tables)
        fixed.block_tables[rows:size, :num_blocks].copy_(tables[-1:].expand(size - rows, -1))
        return self._replays[size]()[:rows]

    def _work(self, size: int) -> Callable[[], Tensor]:
        fixed = self._inputs
        inputs = fixed._replace(
            token_ids=fixed.token_ids[:size],
            positions=fixed.positions[:size],
            slots=fixed.slots[:size],
            block_tables=fixed.block_tables[:size],
            lengths=fixed.lengths[:size],
            sampled=fixed.sampled[:size],
        )
        return lambda: self._model.logits(self._model.hidden(inputs, self._kv)[inputs.sampled])
