"""pyiceberg, polars and DuckDB read what deletekit wrote, each wherever it can read that kind of delete."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.formats.content_file import FileContent
from deletekit.formats.manifest_writer import write_manifest
from deletekit.formats.manifests import read_manifest
from tests.avro_bytes import without_metadata
from tests.interop.rows import same_rows
from tests.interop.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.peers

ROWS = pa.table({"id": [1, 2]})

# DuckDB 1.5 and equality deletes: NULL in a partition ends in an internal error, keys of several or nested columns and
# of columns that evolved give other rows than Spark. Spark is the judge of these tables in test_spark_reads_ours.py.
DUCKDB_WRONG = ("keyed", "evolved", "updates_parted")

# Without its planner package polars plans through pyiceberg, and says so.
quiet_polars = pytest.mark.filterwarnings("ignore:Iceberg scan planning with the polars_iceberg plugin")


def by_pyiceberg(location: str) -> list[dict[str, Any]]:
    from pyiceberg.table import StaticTable  # noqa: PLC0415

    rows: list[dict[str, Any]] = StaticTable.from_metadata(location).scan().to_arrow().to_pylist()
    return rows


def by_polars(location: str) -> list[dict[str, Any]]:
    import polars as pl  # noqa: PLC0415

    return pl.scan_iceberg(location).collect().to_arrow().to_pylist()


DUCKDB_SCRIPT = """
import sys
import pyarrow as pa
from conformance.engines import duckdb_connection
with duckdb_connection() as connection:
    rows = connection.execute(f"SELECT * FROM iceberg_scan('{sys.argv[1]}')").to_arrow_table()
# To a file: DuckDB draws a progress bar on standard output when what it does, loading among it, takes two seconds.
with pa.ipc.new_stream(sys.argv[2], rows.schema) as stream:
    stream.write_table(rows)
"""


class DuckDBError(Exception):
    """DuckDB answered with an error, or not at all."""


def by_duckdb(location: str) -> list[dict[str, Any]]:
    """In a process of its own, which DuckDB's Iceberg extension may end with a segmentation fault, or never end."""
    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.arrow"
        command = [sys.executable, "-c", DUCKDB_SCRIPT, location, str(rows)]
        ends = []
        for _ in range(3):
            try:
                done = subprocess.run(command, capture_output=True, check=False, timeout=120)
            except subprocess.TimeoutExpired as e:
                ends.append(str(e))
                continue
            if done.returncode == 0:
                found: list[dict[str, Any]] = pa.ipc.open_stream(rows.read_bytes()).read_all().to_pylist()
                return found
            ends.append(f"{done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
            if done.returncode > 0:  # an answer
                break
    raise DuckDBError("; ".join(ends))


@pytest.mark.parametrize("version", [1, 2])
def test_a_manifest_that_lost_its_format_version(tmp_path: Path, version: int) -> None:
    """As Impala's test tables have them, or a v1 manifest in a v2 table: its rows are as new as its snapshot."""
    table = dk.create_table(dk.local_catalog(tmp_path), "n.t", ROWS.schema, format_version=2)
    dk.append(table, ROWS)
    dk.delete(table, "id = 1", mode="equality-delete")
    dk.append(table, ROWS)
    newest = dk.inspect(table)["manifests"][0]
    path = Path(newest["manifest_path"])
    if version == 1:
        spec = {"spec-id": 0, "fields": []}
        shape = {"schema_json": table.metadata.raw["schemas"][0], "spec_json": spec, "partition_types": []}
        entries = read_manifest(path.read_bytes()).entries
        path.write_bytes(write_manifest(entries, format_version=1, content=FileContent.DATA, **shape))
    path.write_bytes(without_metadata(path.read_bytes()))
    expected = [{"id": 1}, {"id": 2}, {"id": 2}]
    same_rows(dk.scan(dk.from_metadata(table.metadata_location)).to_arrow().to_pylist(), expected)
    same_rows(by_duckdb(table.metadata_location), expected)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
@pytest.mark.parametrize(
    "read", [by_pyiceberg, pytest.param(by_polars, marks=quiet_polars), by_duckdb], ids=lambda f: f.__name__
)
def test_peer_reads_the_live_rows(
    read: Callable[[str], list[dict[str, Any]]], scenario: Scenario, tmp_path: Path
) -> None:
    table, expected = scenario.make(dk.local_catalog(tmp_path), f"ours.{scenario.name}")
    if scenario.has_equality_deletes and read is not by_duckdb:
        with pytest.raises(ValueError, match="does not yet support equality deletes"):
            read(table.metadata_location)
        return
    if scenario.has_equality_deletes and scenario.name.startswith(DUCKDB_WRONG):
        with pytest.raises((AssertionError, DuckDBError)):
            same_rows(read(table.metadata_location), expected)
        return
    same_rows(read(table.metadata_location), expected)
