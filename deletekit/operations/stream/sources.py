"""Batches of changes to try a sink with: files, and changes that are made up.

Law: the same batches in the same order whenever they are asked for, as a stream that starts again must have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from deletekit.errors import InvalidInputError

__all__ = ["RATE_SCHEMA", "file_batches", "rate_batches"]

RATE_SCHEMA = pa.schema(
    [pa.field("value", pa.int64(), nullable=False), pa.field("timestamp", pa.timestamp("us", "UTC"))]
)
"""Of the table that `rate_batches` are for; the names are those of Spark's rate source."""
_KEYS = 10_000
_READERS = {
    ".parquet": pq.read_table,
    ".csv": pa_csv.read_csv,
    ".json": pa_json.read_json,
    ".jsonl": pa_json.read_json,
}


def file_batches(files: Sequence[Path]) -> Iterator[pa.Table]:
    """Each file a batch, in the order of their names: Parquet, CSV or JSON lines. Raises InvalidInputError."""
    for file in sorted(files):
        reader = _READERS.get(file.suffix.lower())
        if reader is None:
            raise InvalidInputError(
                "changes are read from Parquet, CSV and JSON lines",
                kind="file-format",
                file=str(file),
                found=file.suffix,
                expected=", ".join(_READERS),
            )
        try:
            yield reader(str(file))
        except (pa.ArrowInvalid, OSError) as e:
            raise InvalidInputError("changes cannot be read", kind="rows", file=str(file), found=str(e)) from e


def rate_batches(rows: int, batches: int) -> Iterator[pa.Table]:
    """Changes of random keys, in batches of so many rows; the same whenever they are made, but for their times."""
    for number in range(batches):
        random = np.random.default_rng(number)
        yield pa.table(
            {
                "value": random.integers(0, _KEYS, rows),
                "timestamp": pa.array([datetime.now(UTC)] * rows, pa.timestamp("us", "UTC")),
                "_change_type": random.choice(["INSERT", "UPDATE_AFTER", "DELETE"], rows, p=[0.5, 0.3, 0.2]),
            }
        )
