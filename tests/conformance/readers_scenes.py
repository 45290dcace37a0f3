"""What tests of the reader doctor share: tables with the rows that deletes hide, and verdicts of made-up engines."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import deletekit as dk
from tests.maintenance.test_compact_hard_cases import blind_keys
from tests.tables import Row, items, make

Scene = tuple[dk.Table, list[Row], dict[tuple[str, ...], int]]
"""A table, its live rows, and how many rows the kinds of deletes hide, counted by hand from rows and keys."""

E, P, V = "equality-delete", "position-delete", "deletion-vector"
BY_POSITION = {2: P, 3: V}


def verdict(engine: str, said: str, *features: str, **more: Any) -> dict[str, Any]:
    """A line of a file of verdicts."""
    return {"engine": engine, "version": "1", "verdict": said, "features": [*features], "verified": True, **more}


def verdicts_file(folder: Path, *verdicts: Mapping[str, Any]) -> Path:
    file = folder / "verdicts.json"
    file.write_text(json.dumps({"date": "2026-11-25", "results": [*verdicts]}))
    return file


def engine_without(engine: str, *kinds: str, how: str = "refuses") -> list[dict[str, Any]]:
    """Verdicts of an engine that reads every table, but for those with deletes of some kinds."""
    found = [verdict(engine, "right", version) for version in ("v1", "v2", "v3")]
    of_kinds = {kind: how if kind in kinds else "right" for kind in (E, P, V)}
    return found + [verdict(engine, said, kind, case=f"{kind}-case", words="no") for kind, said in of_kinds.items()]


def plain(catalog: dk.Catalog, version: int, mode: str) -> Scene:
    """Two files; one delete of two rows in one of them."""
    rows = [items(*((i, "ab"[i % 2], float(i)) for i in range(n, n + 5))) for n in (0, 5)]
    table = make(catalog, *rows, format_version=version)
    dk.delete(table, "id in (1, 3)", mode=mode)
    left = [r for part in rows for r in part if r["id"] not in (1, 3)]
    return table, left, {(mode,): 2}


def overlapping(catalog: dk.Catalog, version: int) -> Scene:
    """Rows that a position hides, a key hides, and both hide."""
    rows = items(*((i, None if i % 4 == 3 else "abc"[i % 4], float(i)) for i in range(12)))
    table = make(catalog, rows, format_version=version)
    dk.delete(table, "id in (0, 1, 3)", mode=BY_POSITION[version])
    dk.delete_keys(table, pa.table({"category": ["a", None]}))  # ids 0, 4, 8 and 3, 7, 11
    left = [r for r in rows if r["id"] not in (0, 1, 3, 4, 7, 8, 11)]
    return table, left, {(BY_POSITION[version],): 1, (E,): 4, (E, BY_POSITION[version]): 2}


def two_keys(catalog: dk.Catalog, version: int) -> Scene:
    """Keys of two columns."""
    rows = items((1, "a", 0.0), (1, "b", 0.0), (2, "a", 0.0), (2, None, 0.0))
    table = make(catalog, rows, format_version=version)
    dk.delete_keys(table, [{"id": 1, "category": "a"}, {"id": 2, "category": None}])
    return table, [rows[1], rows[2]], {(E,): 2}


def evolved(catalog: dk.Catalog, version: int) -> Scene:
    """A key that was renamed and promoted after the delete, and one that was dropped."""
    rows = items((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0))
    table = make(catalog, rows, format_version=version)
    dk.delete_keys(table, pa.table({"id": pa.array([1], pa.int32())}))
    dk.delete_keys(table, pa.table({"category": ["b"]}))
    dk.rename_column(table, "id", "number")
    dk.update_column(table, "number", type="long")
    dk.drop_column(table, "category")
    return table, [{"number": 3, "value": 3.0}], {(E,): 2}


def parted(catalog: dk.Catalog, version: int) -> Scene:
    """A key of one partition, as Flink writes it; its id is in other partitions too."""
    rows = items((1, "a", 1.0), (1, "b", 2.0), (2, "a", 3.0), (2, "b", 4.0), (2, "c", 5.0))
    table = make(catalog, rows, format_version=version, partition_by=["category"])
    blind_keys(table, 2, ("b",))
    return table, [r for r in rows if (r["id"], r["category"]) != (2, "b")], {(E,): 1}


def upserted(catalog: dk.Catalog, version: int) -> Scene:
    """A key and a new row with it in one commit, and a newer file with a key that was deleted before."""
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)), format_version=version)
    dk.delete_keys(table, [{"id": 3}])
    dk.upsert(table, items((2, "b", 20.0), (3, "c", 30.0)), on="id", mode="equality-delete")
    return table.refresh(), items((1, "a", 1.0), (2, "b", 20.0), (3, "c", 30.0)), {(E,): 2}


SCENES: dict[str, tuple[Callable[[dk.Catalog, int], Scene], Sequence[str]]] = {
    "overlapping": (overlapping, ["null-equals-null", "position-before-filter"]),
    "two_keys": (two_keys, ["all-columns-match", "null-equals-null"]),
    "evolved": (evolved, ["renamed-key", "promoted-key", "dropped-key", "own-equality-ids"]),
    "parted": (parted, ["partition-scope"]),
    "upserted": (upserted, ["strictly-older", "older-data-only"]),
}
"""Tables with equality deletes, and the rules of keys and scopes on which their rows depend."""
