"""The changed rows of several data files go to one file, with the rows that are new: against a plain model.

What copy-on-write rewrites stays a file by itself.
"""

from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.deletes import delete_modes
from deletekit.engines.local import LocalEngine
from tests.invariants import check_table
from tests.stored import entries, live_files, parquet
from tests.tables import VERSION_AND_MODE, make

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.float64()), ("tags", pa.list_(pa.int32()))])
VALUES = [0.0, -0.0, None, float("nan"), 1.5]
PARTS = ["a", None, "b"]
Model = dict[int, tuple[Any, ...]]


def rows(ids: list[int], name: str = "") -> pa.Table:
    parts = [PARTS[i % 3] for i in ids]
    columns = [ids, parts, [VALUES[(i + len(name)) % 5] for i in ids], [None if i % 4 == 0 else [i, None] for i in ids]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def model_of(table: pa.Table) -> Model:
    """The rows by id, as text: NaN equals itself, and -0.0 is not 0.0."""
    return {row["id"]: repr(row) for row in table.to_pylist()}  # type: ignore[misc]


def lineage(table: dk.Table) -> dict[int, tuple[int, int]]:
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    found = dk.scan(table, columns=columns).to_arrow().to_pydict()
    return dict(zip(found["id"], zip(*(found[n] for n in columns[1:]), strict=True), strict=True))


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("layout", ["one file", "small files", "nothing waits", "sorted"])
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_a_merge(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, version: int, mode: str, layout: str) -> None:
    if layout == "nothing waits":
        monkeypatch.setattr(delete_modes, "_WAITING_BYTES", 1)
        monkeypatch.setattr(delete_modes, "_LEFT_BYTES", 1)
    ordered = layout == "sorted"
    properties = {"write.target-file-size-bytes": "1000"} if layout == "small files" else {}
    old = [rows(list(range(at, at + 100))) for at in range(0, 600, 100)]
    options: dict[str, Any] = {"properties": properties, "sort_by": ["value desc", "id"] if ordered else ()}
    table = make(catalog, *old[:3], schema=SCHEMA, format_version=version, partition_by="part", **options)
    dk.drop_partition_field(table, "part")
    dk.append(table, old[3])
    dk.add_partition_field(table, "bucket(2, id)")
    dk.append(table, pa.concat_tables(old[4:]))
    before, model = lineage(table) if version == 3 else {}, model_of(pa.concat_tables(old))
    changed, gone, new = list(range(5, 600, 7)), list(range(3, 600, 50)), [1000, 1001, 1002]
    source = pa.concat_tables([rows([*changed, *new], "x"), rows([i for i in gone if i not in changed])])
    clauses = [dk.Clause("delete", where=f"source.id in ({', '.join(map(str, gone))})"), dk.Clause("update")]
    done = dk.merge(table, source, on="id", when_matched=clauses, mode=mode, engine=LocalEngine(2))
    model |= model_of(rows([*changed, *new], "x"))
    model = {i: row for i, row in model.items() if i not in gone}
    assert model_of(dk.scan(table).to_arrow().select(SCHEMA.names)) == model
    check_table(table)
    if version == 3:
        check_lineage(table, before, {*changed} - {*gone}, new, keeps=mode != "equality-delete")
    assert {f.spec_id for f in done.added_data_files} == {table.metadata.spec.spec_id}
    shares = mode != "copy-on-write" and layout in ("one file", "sorted")
    assert (len(done.added_data_files) == 2) == shares, "a file for each bucket"
    if ordered:
        for file in done.added_data_files:
            check_order(parquet(file.file_path).to_pylist())


def check_lineage(
    table: dk.Table, before: dict[int, tuple[int, int]], changed: set[int], new: list[int], *, keeps: bool
) -> None:
    """A row that stays keeps both; one that changes its id, if the mode knows it; a new one has a new id."""
    found, number = lineage(table), max(e["inherited"] for e in entries(table, 0))
    ids = [row_id for row_id, _ in found.values()]
    assert len(set(ids)) == len(ids)
    first_new = max(row_id for row_id, _ in before.values()) + 1
    for i, pair in found.items():
        if i in changed and keeps:
            assert pair == (before[i][0], number)
        elif i in changed or i in new:
            assert pair[0] >= first_new
            assert pair[1] == number
        else:
            assert pair == before[i]


def check_order(found: list[dict[str, Any]]) -> None:
    """NaN is the largest, -0.0 before 0.0, NULL last in a descending order."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        value = row["value"]
        rank = [-0.0, 0.0, 1.5].index(value) if value is not None and value == value else 3
        rank = 1 if repr(value) == "0.0" else 0 if repr(value) == "-0.0" else rank
        return (1, 0, row["id"]) if value is None else (0, -rank, row["id"])

    assert [key(row) for row in found] == sorted(key(row) for row in found)


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_an_update_of_all_rows(catalog: dk.Catalog, version: int, mode: str) -> None:
    """Data files without a live row left are removed, and what their rows become is one file, or one for each."""
    table = make(catalog, *(rows([n, n + 1]) for n in range(0, 20, 2)), schema=SCHEMA, format_version=version)
    before = lineage(table) if version == 3 else {}
    done = dk.update(table, {"part": "z"}, where="id >= 0", mode=mode)
    number = 10 if mode == "copy-on-write" else 1
    assert len(done.added_data_files) == number
    assert dk.scan(table, "part = 'z'").count() == len(dk.scan(table).to_arrow()) == 20
    check_table(table)
    if version == 3:
        check_lineage(table, before, set(range(20)), [], keeps=mode != "equality-delete")
    if mode != "equality-delete":
        assert len(live_files(table, 0)) == number


def test_a_merge_that_fails_leaves_no_file(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_modes, "_LEFT_BYTES", 1)
    table = make(catalog, rows([1, 2]), rows([3, 4]), schema=SCHEMA, format_version=3)
    monkeypatch.setattr("deletekit.verbs.shared.row_changes.write_rows", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        dk.merge(table, rows([2, 3, 9], "x"), on="id", mode="deletion-vector")
    check_table(table)


def test_rows_that_take_much_memory_are_not_copied_together(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of texts of more than 2 GB cannot be one array."""
    monkeypatch.setattr(delete_modes, "HELD_BYTES", 1)
    table = make(catalog, rows([1, 2]), rows([3, 4]), schema=SCHEMA, format_version=3)
    done = dk.merge(table, rows([2, 3, 9], "x"), on="id", mode="deletion-vector")
    assert len(done.added_data_files) == 1
    assert model_of(dk.scan(table).to_arrow()) == model_of(pa.concat_tables([rows([1, 4]), rows([2, 3, 9], "x")]))
