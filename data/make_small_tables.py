"""Make users.parquet and animals.parquet, the four-row tables of the lessons.

Run as `python data/make_small_tables.py [folder]`.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent


def users() -> pa.Table:
    """Four users; every column is required."""
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("name", pa.string(), nullable=False),
            pa.field("value", pa.float64(), nullable=False),
            pa.field("timestamp", pa.timestamp("us"), nullable=False),
        ]
    )
    times = ["2024-12-03 08:15:22", "2024-12-07 14:32:45", "2024-12-15 19:08:11", "2024-12-21 23:55:30"]
    rows = [
        {"id": i, "name": f"User-{i}", "value": 100.0 * i, "timestamp": datetime.fromisoformat(time)}
        for i, time in enumerate(times, start=1)
    ]
    return pa.Table.from_pylist(rows, schema)


def animals() -> pa.Table:
    """Four animals, two of them without a category: what NULL = NULL in an equality delete is about."""
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("category", pa.string()),
            pa.field("name", pa.string()),
        ]
    )
    return pa.table(
        [[1, 2, 3, 4], ["marsupial", "toy", None, None], ["Koala", "Teddy", "Grizzly", "Polar"]], schema=schema
    )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, table in {"users": users(), "animals": animals()}.items():
        target = folder / f"{name}.parquet"
        pq.write_table(table, target, compression="zstd")
        print(f"{target}: {table.num_rows} rows, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
