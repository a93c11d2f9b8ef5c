"""Columns of integers to Parquet files whose bytes depend on their rows only."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

ROWS_PER_GROUP = 1 << 17


def as_numpy(column: array[int]) -> npt.NDArray[Any]:
    """The column's own memory; drop the view before anything is appended to the column again."""
    import numpy as np

    return np.frombuffer(column, dtype=np.dtype(column.typecode))


def exact_sum(values: npt.NDArray[np.int64]) -> int:
    """The sum of int64 values as a Python int, which cannot overflow."""
    low_bits = 32
    return (int((values >> low_bits).sum()) << low_bits) + int((values & ((1 << low_bits) - 1)).sum())


def write_parquet(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write each table as one row group. Equal rows give equal bytes: no dates, no pandas metadata, fixed settings.

    Raises:
        UsageError: the file cannot be written.
    """
    import pyarrow.parquet as pq

    try:
        with pq.ParquetWriter(path, schema, compression="zstd", compression_level=3, store_schema=False) as writer:
            for table in tables:
                writer.write_table(table, row_group_size=ROWS_PER_GROUP)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}; free some space or choose another --out") from error
