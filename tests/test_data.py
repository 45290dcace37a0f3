"""The sample tables are what data/PROVENANCE.md says: rebuilt from their sources, counted, and compared."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deletekit import datasets
from deletekit.errors import NotFoundError

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"


def make(script: str, target: Path) -> None:
    subprocess.run([sys.executable, DATA / script, target], check=True)


def test_flights_are_the_packages_flights(tmp_path: Path) -> None:
    rebuilt = tmp_path / "flights.parquet"
    make("make_flights.py", rebuilt)
    assert datasets.flights().equals(pq.read_table(rebuilt))


def test_flights_counts() -> None:
    flights = datasets.flights()
    assert flights.num_rows == 336_776
    assert flights.num_columns == 20
    assert flights["dep_time"].null_count == 8_255
    assert pc.min(flights["flight_id"]).as_py() == 1
    assert pc.max(flights["flight_id"]).as_py() == 336_776
    assert pc.count_distinct(flights["flight_id"]).as_py() == 336_776


def test_flights_schema() -> None:
    schema = datasets.flights().schema
    assert schema.field("flight_id") == pa.field("flight_id", pa.int64(), nullable=False)
    assert schema.field("time_hour").type == pa.timestamp("us", tz="UTC")
    strings = {"carrier", "tailnum", "origin", "dest"}
    assert {f.name for f in schema if f.type == pa.string()} == strings
    assert {str(f.type) for f in schema if f.name not in strings} == {"int64", "int32", "timestamp[us, tz=UTC]"}


def test_small_tables_are_what_their_script_makes(tmp_path: Path) -> None:
    make("make_small_tables.py", tmp_path)
    assert datasets.users().equals(pq.read_table(tmp_path / "users.parquet"))
    assert datasets.animals().equals(pq.read_table(tmp_path / "animals.parquet"))


def test_users() -> None:
    users = datasets.users()
    assert not any(field.nullable for field in users.schema)
    assert [str(t) for t in users.schema.types] == ["int32", "string", "double", "timestamp[us]"]
    assert users.to_pylist()[0] == {
        "id": 1,
        "name": "User-1",
        "value": 100.0,
        "timestamp": datetime.fromisoformat("2024-12-03T08:15:22"),
    }
    assert users["name"].to_pylist() == ["User-1", "User-2", "User-3", "User-4"]
    assert users["value"].to_pylist() == [100.0, 200.0, 300.0, 400.0]
    assert users["timestamp"].to_pylist()[3] == datetime.fromisoformat("2024-12-21T23:55:30")


def test_animals() -> None:
    animals = datasets.animals()
    assert [field.nullable for field in animals.schema] == [False, True, True]
    assert [tuple(row.values()) for row in animals.to_pylist()] == [
        (1, "marsupial", "Koala"),
        (2, "toy", "Teddy"),
        (3, None, "Grizzly"),
        (4, None, "Polar"),
    ]


@pytest.mark.parametrize("name", ["flights", "users", "animals"])
def test_provenance_names_the_committed_bytes(name: str) -> None:
    file = DATA / f"{name}.parquet"
    text = (DATA / "PROVENANCE.md").read_text(encoding="utf-8")
    rows, size, digest = re.findall(rf"^\| `{name}\.parquet` \| (.+) \| (.+) \| `(\w+)` \|$", text, re.MULTILINE)[0]
    assert int(rows.replace(",", "")) == pq.read_metadata(file).num_rows
    assert int(size.replace(",", "")) == file.stat().st_size
    assert digest == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets, "_FOLDERS", (tmp_path,))
    with pytest.raises(NotFoundError, match=re.escape(f"users.parquet; expected {tmp_path}")):
        datasets.users()
