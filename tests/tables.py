"""What tests of verbs share: small tables, and what holds of them; tests/stored.py reads what they consist of."""

import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

import deletekit as dk
from deletekit.commit.swap import commit_metadata
from tests.storage import ON_S3, catalog_on, files_below, server

Row = dict[str, Any]

ITEMS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("category", pa.string()),
        pa.field("value", pa.float64()),
    ]
)
MODES = {
    1: ("copy-on-write",),
    2: ("copy-on-write", "position-delete", "equality-delete"),
    3: ("copy-on-write", "deletion-vector", "equality-delete"),
}
"""The modes that each format version takes."""
VERSION_AND_MODE = [(version, mode) for version, modes in MODES.items() for mode in modes]

_numbers = count()


MAINTENANCE: list[Callable[[dk.Table], Any]] = [
    lambda t: dk.compact(t, rewrite_all=True),
    dk.convert_equality_deletes,
    dk.rewrite_position_deletes,
    dk.rewrite_manifests,
    dk.remove_dangling_deletes,
]
"""What changes files and no row. A v1 table takes the first only."""


@event.listens_for(Engine, "connect")
def _no_waits_for_the_disk(connection: object, _record: object) -> None:
    """Let SQLite's commits outlive a killed process as always, but no power cut: tests do not wait for the disk."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


@contextmanager
def new_catalog(directory: Path) -> Iterator[dk.Catalog]:
    """Open an embedded catalog, or one on S3; its SQLite connections are closed at the end, or Python warns."""
    if ON_S3:
        with catalog_on(directory, server()) as catalog:
            yield catalog
        return
    catalog = dk.local_catalog(directory)
    try:
        yield catalog
    finally:
        catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


def make(catalog: dk.Catalog, *files: Sequence[Row] | pa.Table, schema: Any = ITEMS, **options: Any) -> dk.Table:
    """Create a table with one append for each of `files`."""
    schema = schema.schema if isinstance(schema, pa.Table) else schema
    table = dk.create_table(catalog, f"test.t{next(_numbers)}", schema, **options)
    for rows in files:
        dk.append(table, rows)
    return table


def set_by_another_writer(table: dk.Table, properties: Mapping[str, str]) -> None:
    """Set properties as a writer does that looks at no value."""
    commit_metadata(table, lambda _: [{"action": "set-properties", "updates": dict(properties)}])


def items(*rows: tuple[Any, ...]) -> list[Row]:
    """Rows of `ITEMS`."""
    return [dict(zip(ITEMS.names, row, strict=True)) for row in rows]


def order(row: Row) -> str:
    """Sort rows of any types, None included."""
    return repr(sorted(row.items()))


def live(table: dk.Table, *args: Any, **options: Any) -> list[Row]:
    """Rows of a scan, sorted."""
    return sorted(dk.scan(table, *args, **options).to_arrow().to_pylist(), key=order)


def ids(table: dk.Table, *args: Any, **options: Any) -> list[int]:
    """Column `id` of a scan, sorted."""
    return sorted(dk.scan(table, *args, columns=["id"], **options).to_arrow().column("id").to_pylist())


def expected(rows: Sequence[Row]) -> list[Row]:
    """Rows in the order of `live`."""
    return sorted(rows, key=order)


# --- what is on disk --------------------------------------------------------------------------------------------------


def files_of(table: dk.Table) -> set[str]:
    """Every file below the table's location."""
    return files_below(table.location)


@contextmanager
def unchanged(table: dk.Table) -> Iterator[None]:
    """Hold that the table is at the same metadata file and consists of the same files afterwards."""
    location, files = table.refresh().metadata_location, files_of(table)
    yield
    assert table.refresh().metadata_location == location
    assert files_of(table) == files


@contextmanager
def raises(error: type[dk.DeletekitError], kind: str, **attributes: Any) -> Iterator[None]:
    """Hold that the block raises this class and kind, with these attributes."""
    with pytest.raises(error) as caught:
        yield
    found = {name: getattr(caught.value, name) for name in ("kind", *attributes)}
    assert found == {"kind": kind, **attributes}, caught.value


@dataclass
class Refusal:
    """What `refused` caught, once its block is over."""

    error: dk.DeletekitError = field(init=False)


@contextmanager
def refused(table: dk.Table, error: type[dk.DeletekitError], kind: str, **attributes: Any) -> Iterator[Refusal]:
    """Hold that the block raises exactly this class and kind, with these attributes, and leaves the table as it was."""
    refusal = Refusal()
    with unchanged(table), pytest.raises(error) as caught:
        yield refusal
    refusal.error = caught.value
    assert type(caught.value) is error
    assert caught.value.kind == kind, caught.value
    for name, value in attributes.items():
        assert getattr(caught.value, name) == value, f"{name} of: {caught.value}"


def lose_answers(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each commit land, and its answer be lost."""
    commit = type(catalog).commit

    def without_answer(*arguments: Any) -> None:
        commit(*arguments)
        raise dk.CommitStateUnknownError("no answer")

    monkeypatch.setattr(type(catalog), "commit", without_answer)


def same(a: Any, b: Any) -> bool:
    """Equality with NaN equal to NaN, and 0.0 unequal to -0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)
