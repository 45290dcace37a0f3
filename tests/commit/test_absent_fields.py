"""What an older format lets be absent is unknown, never none: such tables are upgraded, changed by each verb, and read.

The cases are the rows of the spec's tables of fields that are optional in one version and required in the next, and
those that stay optional. Each is absent and null, and each upgrade is made. A list of rows in Python is what must be
read after each verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pytest

import deletekit as dk
from tests.absent_fields import COUNTS, Left, leave_out
from tests.tables import MODES, ids, items, live, live_files, make, manifest_list, metadata_json

Rows = dict[int, tuple[Any, ...]]
Verb = tuple[Callable[[dk.Table, str], Any], Callable[[Rows], Rows]]
Json = dict[str, Any]

FAR = "2100-01-01T00:00:00Z"
START = {i: ("ab"[i % 2], float(i)) for i in range(1, 9)}
UPGRADES = [(1, 2), (1, 2, 3), (1, 3), (2, 3)]


def old_table(catalog: dk.Catalog, version: int) -> tuple[dk.Table, Rows]:
    """A table with added, existing and deleted entries, of two partition specs; in version 2 with deletes too."""
    table = make(catalog, _items(1, 2, 3, 4), format_version=version)
    dk.add_partition_field(table, "category")
    dk.append(table, _items(5, 6, 7, 8))
    dk.delete(table, "id = 3", mode="copy-on-write")
    dk.delete(table, "category = 'b' and id > 5", mode="copy-on-write")
    rows = {i: START[i] for i in START if i not in (3, 7)}
    if version == 2:
        dk.delete(table, "id = 4", mode="position-delete")
        dk.delete(table, "id = 8", mode="equality-delete")
        rows = {i: row for i, row in rows.items() if i not in (4, 8)}
    return table, rows


def _items(*numbers: int) -> list[dict[str, Any]]:
    return items(*((i, *START[i]) for i in numbers))


# --- the fields -------------------------------------------------------------------------------------------------------


def gone(*names: str, null: bool = False) -> Callable[[Json], None]:
    """Take fields out of the metadata document, or make them null."""

    def change(raw: Json) -> None:
        for name in names:
            *path, last = name.split(".")
            for part in _parts(raw, path):
                part.pop(last, None)
                if null:
                    part[last] = None

    return change


def _parts(raw: Any, path: list[str]) -> list[Json]:
    things = [raw]
    for name in path:
        things = [t for thing in things for t in (thing[name] if isinstance(thing[name], list) else [thing[name]])]
    return things


OF_FILES: Mapping[str, Left] = {
    "every count": Left(listed=COUNTS),
    **{name: Left(listed=[name]) for name in COUNTS},
    "partitions": Left(listed=["partitions"]),
    "key_metadata": Left(listed=["key_metadata"]),
    "contains_nan": Left(summaries=["contains_nan"]),
    "sequence numbers of added entries": Left(entry=["sequence_number", "file_sequence_number"]),
    "avro metadata": Left(avro=["schema-id", "partition-spec-id", "format-version", "content"]),
    "metrics": Left(
        file=[
            *(f"{name}_counts" for name in ("value", "null_value", "nan_value")),
            *("column_sizes", "lower_bounds", "upper_bounds"),
        ]
    ),
    "null counts": Left(file=["null_value_counts"]),
    "value counts": Left(file=["value_counts"]),
    "nan counts": Left(file=["nan_value_counts"]),
    "lower bounds": Left(file=["lower_bounds"]),
    "upper bounds": Left(file=["upper_bounds"]),
    "other fields of files": Left(file=["split_offsets", "sort_order_id", "key_metadata", "referenced_data_file"]),
    "all of it": Left(
        listed=[*COUNTS, "partitions", "key_metadata"],
        file=["column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
              "split_offsets", "sort_order_id", "key_metadata", "referenced_data_file"],
        avro=["schema-id", "partition-spec-id", "format-version", "content"],
    ),
}  # fmt: skip
"""Fields of manifest lists and manifests that v1, or v1 and v2, let be absent."""

OF_DOCUMENTS = (
    "table-uuid",
    "properties",
    "refs",
    "snapshot-log",
    "metadata-log",
    "statistics",
    "partition-statistics",
    "last-partition-id",
    "last-sequence-number",
    "default-sort-order-id",
    "sort-orders default-sort-order-id",
    "schemas current-schema-id",
    "partition-specs.fields.field-id partition-spec.field-id",
    "snapshots.summary",
    "snapshots.schema-id",
    "snapshots.parent-snapshot-id",
    "snapshots.sequence-number",
)
"""Fields of the metadata document that v1 lets be absent."""


# --- the verbs --------------------------------------------------------------------------------------------------------

NEW = items((20, "a", 2.0), (21, None, 3.0))
CHANGED = items((1, "b", 0.5), (20, "a", 2.0))


def with_rows(rows: Rows, new: list[Json]) -> Rows:
    return {**rows, **{row["id"]: (row["category"], row["value"]) for row in new}}


def cherry_pick(table: dk.Table, ref: str) -> None:
    """Pick a snapshot whose parent is not the head any more."""
    dk.create_branch(table, f"{ref}_staged", snapshot_id=table.metadata.snapshot_of_ref(ref).snapshot_id)  # type: ignore[union-attr]
    staged = dk.append(table, NEW[:1], ref=f"{ref}_staged").snapshot_id
    dk.append(table, NEW[1:], ref=ref)
    assert staged is not None
    dk.cherry_pick(table, staged, ref=ref)


def verbs(version: int) -> dict[str, Verb]:
    """What is done to a table, and to its rows."""
    found: dict[str, Verb] = {
        "append": (lambda t, r: dk.append(t, NEW, ref=r), lambda rows: with_rows(rows, NEW)),
        "delete_keys": (
            lambda t, r: dk.delete_keys(t, [{"id": 1}, {"id": 6}], scope="global", ref=r),
            lambda rows: {i: row for i, row in rows.items() if i not in (1, 6)},
        ),
        "compact": (lambda t, r: dk.compact(t, rewrite_all=True, ref=r), dict),
        "rewrite_manifests": (lambda t, r: dk.rewrite_manifests(t, ref=r), dict),
        "rewrite_position_deletes": (lambda t, r: dk.rewrite_position_deletes(t, rewrite_all=True, ref=r), dict),
        "convert_equality_deletes": (lambda t, r: dk.convert_equality_deletes(t, ref=r), dict),
        "remove_dangling_deletes": (lambda t, r: dk.remove_dangling_deletes(t, ref=r), dict),
        "cherry_pick": (cherry_pick, lambda rows: with_rows(rows, NEW)),
        "delete all": (lambda t, r: dk.delete(t, "true", ref=r), lambda _: {}),
    }
    for mode in MODES[version]:
        found |= {
            f"delete {mode}": (
                lambda t, r, mode=mode: dk.delete(t, "id = 1 or id = 5", mode=mode, ref=r),
                lambda rows: {i: row for i, row in rows.items() if i not in (1, 5)},
            ),
            f"update {mode}": (
                lambda t, r, mode=mode: dk.update(t, {"value": 0.0}, where="category = 'a'", mode=mode, ref=r),
                lambda rows: {i: (c, 0.0 if c == "a" else v) for i, (c, v) in rows.items()},
            ),
            f"merge {mode}": (
                lambda t, r, mode=mode: dk.merge(t, CHANGED, on=["id"], mode=mode, ref=r),
                lambda rows: with_rows(rows, CHANGED),
            ),
            f"upsert {mode}": (
                lambda t, r, mode=mode: dk.upsert(t, CHANGED, key=["id"], mode=mode, ref=r),
                lambda rows: with_rows(rows, CHANGED),
            ),
            f"overwrite {mode}": (
                lambda t, r, mode=mode: dk.overwrite(t, NEW[:1], "category = 'a'", mode=mode, ref=r),
                lambda rows: with_rows({i: row for i, row in rows.items() if row[0] != "a"}, NEW[:1]),
            ),
        }
    return found


def check(table: dk.Table, ref: str, rows: Rows, what: str) -> None:
    """Hold that a branch has these rows, and that everything which is counted of them is right."""
    lineage = ["_row_id"] if table.format_version >= 3 else []
    shown = dk.scan(table, columns=["id", "category", "value", *lineage], ref=ref).to_arrow()
    assert {i: row for i, *row in zip(*(shown[n].to_pylist() for n in shown.column_names[:3]), strict=True)} == {
        i: [*row] for i, row in rows.items()
    }, what
    assert len(shown) == dk.scan(table, ref=ref).count() == len(rows), what
    chosen = sorted(i for i in rows if i > 4 and rows[i][0] == "a")
    assert ids(table, "id > 4 and category = 'a'", ref=ref) == chosen, what
    for column in lineage:
        numbers = shown[column].to_pylist()
        assert None not in numbers, what
        assert len(set(numbers)) == len(numbers), what
    snapshot = table.metadata.snapshot_of_ref(ref)
    assert snapshot is not None
    data = live_files(table, 0, ref)
    totals = {"total-data-files": len(data), "total-records": sum(f["record_count"] for f in data)}
    assert {name: int(snapshot.summary.get(name, value)) for name, value in totals.items()} == totals, what
    if table.format_version >= 2:
        assert all(row[name] is not None for row in manifest_list(table, ref) for name in COUNTS), what


def check_verbs(table: dk.Table, rows: Rows, chosen: Mapping[str, Verb], what: str) -> None:
    """Do each verb on a branch of its own, as the first commit after the upgrade, and append once more."""
    last = items((30, "b", 9.0))
    check_before = sorted(live(table), key=lambda row: row["id"])
    assert check_before == items(*((i, *rows[i]) for i in sorted(rows))), what
    for number, (name, (verb, model)) in enumerate(chosen.items()):
        ref = f"b{number}"
        dk.create_branch(table, ref)
        verb(table, ref)
        after = model(dict(rows))
        assert sorted(i for i in after) == ids(table, ref=ref), f"{what}, {name}"
        dk.append(table, last, ref=ref)
        check(table, ref, with_rows(after, last), f"{what}, {name}")
    heads = [f for f in dk.verify(table, level="data", snapshots="heads").errors if f.kind != "metadata-field"]
    assert [str(f) for f in heads] == [], what


def check_clean_up(table: dk.Table, rows: Rows, what: str) -> None:
    """Hold that expiry and the removal of orphans leave what is live."""
    dk.append(table, NEW)
    after = with_rows(rows, NEW)
    dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    check(table, "main", after, f"{what}, expired")
    dk.remove_orphan_files(table, older_than=FAR, force=True)
    check(table, "main", after, f"{what}, without orphans")
    assert dk.verify(table, level="data", snapshots="heads").ok, what


def upgraded(catalog: dk.Catalog, path: tuple[int, ...], left: Left, *, null: bool) -> tuple[dk.Table, Rows]:
    table, rows = old_table(catalog, path[0])
    leave_out(table, left, null=null)
    for version in path[1:]:
        dk.upgrade_format_version(table, version)
    return table, rows


@pytest.mark.parametrize("name", ["every count", "all of it"])
@pytest.mark.parametrize("path", UPGRADES, ids=str)
def test_each_verb_after_an_upgrade(catalog: dk.Catalog, path: tuple[int, ...], name: str) -> None:
    for null in (False, True):
        table, rows = upgraded(catalog, path, OF_FILES[name], null=null)
        check_verbs(table, rows, verbs(path[-1]), f"{name}, {null=}")
        check_clean_up(table, rows, f"{name}, {null=}")
