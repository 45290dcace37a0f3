"""Changes replayed: the rows at one snapshot and the changes give the rows at another, for every pair of snapshots."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.tables import MODES, make, new_catalog

Rows = Counter[str]
ABOUT = ("_change_type", "_change_ordinal", "_commit_snapshot_id", "_row_id")


def bag(rows: list[dict[str, Any]]) -> Rows:
    return Counter(repr(sorted((k, v) for k, v in row.items() if k not in ABOUT)) for row in rows)


def replayed(rows: Rows, changes: list[dict[str, Any]]) -> Rows:
    """Apply changes in order; a delete takes exactly one row of these values away."""
    out = Counter(rows)
    for change in changes:
        (key,) = bag([change])
        if change["_change_type"] in ("delete", "update_before"):
            assert out[key] > 0, f"no such row to take away: {change}"
            out[key] -= 1
        else:
            assert change["_change_type"] in ("insert", "update_after"), change
            out[key] += 1
    return +out


def upserted(rows: list[dict[str, Any]], changes: list[dict[str, Any]]) -> Rows:
    """Apply changes by key `id`."""
    by_key = {row["id"]: row for row in rows}
    for change in changes:
        if change["_change_type"] == "delete":
            del by_key[change["id"]]
        else:
            assert (change["id"] in by_key) == (change["_change_type"] == "update_after"), change
            by_key[change["id"]] = change
    return bag(list(by_key.values()))


def history(table: dk.Table, choose: random.Random, steps: int) -> None:
    """Write commits of every kind. Keys stay unique."""
    known: set[int] = {r["id"] for r in dk.scan(table, columns=["id"]).to_arrow().to_pylist()}
    for _ in range(steps):
        modes = MODES.get(table.metadata.format_version, ("copy-on-write",))
        mode = choose.choice(modes)
        act = choose.choice(["append", "delete", "delete", "update", "upsert", "keys", "maintain", "schema", "upgrade"])
        some = choose.sample(sorted(known), min(len(known), choose.randint(1, 4))) if known else []
        fresh = [choose.randint(0, 60) for _ in range(choose.randint(1, 5))]
        rows = [{"id": i, "grp": choose.choice("ab"), "v": choose.randint(0, 3)} for i in dict.fromkeys(fresh)]
        if act == "append":
            rows = [r for r in rows if r["id"] not in known]
            if rows:
                dk.append(table, rows)
            known |= {r["id"] for r in rows}
        elif act == "delete" and some:
            dk.delete(table, f"id in ({', '.join(map(str, some))})", mode=mode)
            known -= set(some)
        elif act == "update" and some:
            where = f"id in ({', '.join(map(str, some))})"
            dk.update(table, {"v": choose.randint(0, 3)}, where=where, mode=mode)
        elif act == "upsert":
            dk.upsert(table, rows, key=["id"], mode=mode)
            known |= {r["id"] for r in rows}
        elif act == "keys" and table.metadata.format_version > 1:
            dk.delete_keys(table, [{"id": i} for i in [*some, 99]])
            known -= set(some)
        elif act == "maintain":
            maintain(table, choose)
        elif act == "schema":
            name = f"c{len(table.metadata.schemas)}"
            dk.add_column(table, name, "int")
        elif act == "upgrade" and table.metadata.format_version == 2 and choose.random() < 0.5:
            dk.upgrade_format_version(table, 3)


def maintain(table: dk.Table, choose: random.Random) -> None:
    if table.metadata.format_version == 1:
        dk.compact(table, rewrite_all=True)
        return
    what: list[Any] = [
        lambda: dk.compact(table, rewrite_all=True),
        lambda: dk.convert_equality_deletes(table),
        lambda: dk.rewrite_position_deletes(table),
        lambda: dk.rewrite_manifests(table),
        lambda: dk.remove_dangling_deletes(table),
    ]
    choose.choice(what)()


def check(table: dk.Table) -> None:
    metadata = table.refresh().metadata
    line = [s.snapshot_id for s in metadata.ancestors(metadata.current_snapshot.snapshot_id)][::-1]
    schema = metadata.schema
    rows_at: dict[int | None, list[dict[str, Any]]] = {None: []}
    for i in line:
        rows_at[i] = at(table, i, [f.name for f in schema.fields])
    starts: list[int | None] = [None, *line]
    for number, start in enumerate(starts):
        for end in line[number:]:
            old, new = rows_at[start], rows_at[end]
            names = [f.name for f in metadata.schema_of(metadata.snapshot_by_id(end)).fields]
            old, new = ([{n: r[n] for n in names} for r in rows] for rows in (old, new))
            for mode in ("all", "net"):
                found = dk.changes(table, start, end, mode=mode).to_arrow().to_pylist()
                assert replayed(bag(old), found) == bag(new), (mode, start, end)
            by_key = dk.changes(table, start, end, key="id").to_arrow().to_pylist()
            assert replayed(bag(old), by_key) == bag(new), (start, end)
            found = dk.changes(table, start, end, mode="upsert", key="id").to_arrow().to_pylist()
            assert upserted(old, found) == bag(new), (start, end)


def at(table: dk.Table, snapshot_id: int, names: list[str]) -> list[dict[str, Any]]:
    """Rows of a snapshot, with None for columns that it did not have."""
    rows = dk.scan(table, snapshot_id=snapshot_id).to_arrow().to_pylist()
    return [{n: row.get(n) for n in names} for row in rows]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_pair_of_snapshots(tmp_path: Path, version: int, seed: int) -> None:
    choose = random.Random(seed * 10 + version)
    with new_catalog(tmp_path) as catalog:
        schema = pa.schema([("id", pa.int64()), ("grp", pa.string()), ("v", pa.int64())])
        by = ["grp"] if seed % 2 else []
        table = make(catalog, schema=schema, format_version=version, partition_by=by)
        dk.append(table, [{"id": i, "grp": "ab"[i % 2], "v": i % 3} for i in range(8)])
        history(table, choose, 10)
        check(table)
