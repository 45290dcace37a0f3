"""What an older format lets be absent is unknown, never none: such tables are upgraded, changed by each verb, and read.

The cases are the rows of the spec's tables of fields that are optional in one version and required in the next, and
those that stay optional. Each is absent and null, and each upgrade is made. A list of rows in Python is what must be
read after each verb.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import deletekit as dk
from deletekit.table.metadata import parse_metadata
from tests.absent_fields import COUNTS, Left, leave_out
from tests.stored import live_files, manifest_list, metadata_json
from tests.tables import MODES, ids, items, make, raises

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
    "counts of files": Left(listed=[name for name in COUNTS if "files" in name]),
    "counts of rows": Left(listed=[name for name in COUNTS if "rows" in name]),
    **{name: Left(listed=[name]) for name in COUNTS[:4]},
    "partitions": Left(listed=["partitions", "key_metadata"]),
    "contains_nan": Left(summaries=["contains_nan"]),
    "file_sequence_number": Left(entry=["file_sequence_number"]),
    "avro metadata": Left(avro=["schema-id", "partition-spec-id", "format-version", "content"]),
    "metrics": Left(
        file=[
            *(f"{name}_counts" for name in ("value", "null_value", "nan_value")),
            *("column_sizes", "lower_bounds", "upper_bounds"),
        ]
    ),
    "counts of nulls": Left(file=["null_value_counts", "nan_value_counts"]),
    "counts of values": Left(file=["value_counts"]),
    "lower bounds": Left(file=["lower_bounds"]),
    "upper bounds": Left(file=["upper_bounds"]),
    "other fields of files": Left(file=["split_offsets", "sort_order_id", "key_metadata", "referenced_data_file"]),
    "manifests in snapshots": Left(inline=True, avro=["schema-id", "partition-spec-id", "format-version", "content"]),
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
                lambda t, r, mode=mode: dk.upsert(t, CHANGED, on=["id"], mode=mode, ref=r),
                lambda rows: with_rows(rows, CHANGED),
            ),
            f"overwrite {mode}": (
                lambda t, r, mode=mode: dk.overwrite(t, NEW[:1], "category = 'a'", mode=mode, ref=r),
                lambda rows: with_rows({i: row for i, row in rows.items() if row[0] != "a"}, NEW[:1]),
            ),
        }
    return found


def check(table: dk.Table, ref: str, rows: Rows, what: str, *, counted: bool = True) -> None:
    """Hold that a branch has these rows and, after the first commit, that what is counted of them is right."""
    lineage = ["_row_id"] if counted and table.format_version >= 3 else []
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
    if not counted or snapshot is None:
        return
    data = live_files(table, 0, ref)
    totals = {"total-data-files": len(data), "total-records": sum(f["record_count"] for f in data)}
    assert {name: int(snapshot.summary.get(name, value)) for name, value in totals.items()} == totals, what
    if table.format_version >= 2:
        assert all(row[name] is not None for row in manifest_list(table, ref) for name in COUNTS), what


def check_verbs(table: dk.Table, rows: Rows, chosen: Mapping[str, Verb], what: str) -> None:
    """Do each verb on a branch of its own, as the first commit after the upgrade."""
    check(table, "main", rows, what, counted=False)
    for number, (name, (verb, model)) in enumerate(chosen.items()):
        ref = f"b{number}"
        dk.create_branch(table, ref)
        verb(table, ref)
        refs = table.metadata.refs
        has_committed = refs[ref]["snapshot-id"] != refs["main"]["snapshot-id"]
        check(table, ref, model(dict(rows)), f"{what}, {name}", counted=has_committed)
    assert [str(f) for f in dk.verify(table, level="deletes", snapshots="heads").errors] == [], what


def check_clean_up(table: dk.Table, rows: Rows, what: str) -> None:
    """Hold that two commits, expiry and the removal of orphans leave what is live."""
    dk.append(table, NEW[:1])
    dk.append(table, NEW[1:])
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


FEW = ("append", "delete copy-on-write", "upsert equality-delete", "rewrite_manifests", "cherry_pick")


@pytest.mark.parametrize("path", [(1, 2), (1, 3)], ids=str)
def test_unknown_counts_hide_no_row_after_an_upgrade(catalog: dk.Catalog, path: tuple[int, ...]) -> None:
    table, rows = upgraded(catalog, path, OF_FILES["every count"], null=path[-1] == 3)
    check_verbs(table, rows, {name: verbs(path[-1])[name] for name in FEW}, "every count")
    check_clean_up(table, rows, "every count")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["every count", "all of it", "manifests in snapshots"])
@pytest.mark.parametrize("path", UPGRADES, ids=str)
@pytest.mark.slow
def test_each_verb_after_an_upgrade(catalog: dk.Catalog, path: tuple[int, ...], name: str) -> None:
    if path[0] == 2 and OF_FILES[name].inline:
        path = (1, 2)
    table, rows = upgraded(catalog, path, OF_FILES[name], null=path[-1] == 2)
    check_verbs(table, rows, verbs(path[-1]), name)
    check_clean_up(table, rows, name)


# The second tier has each field absent on one path and null on the other, the third the other way round.
HALVES = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])


@HALVES
@pytest.mark.parametrize("path", [(1, 3), (2, 3)], ids=str)
@pytest.mark.slow
def test_each_field_of_a_file_after_an_upgrade(catalog: dk.Catalog, path: tuple[int, ...], half: int) -> None:
    modes = MODES[path[-1]]
    for number, name in enumerate(OF_FILES):
        if path[0] == 2 and OF_FILES[name].inline:
            continue
        null = number % 2 == (half + path[0]) % 2
        table, rows = upgraded(catalog, path, OF_FILES[name], null=null)
        done = ("append", f"delete {modes[number % 3]}")
        check_verbs(table, rows, {verb: verbs(path[-1])[verb] for verb in done}, f"{name}, {null=}")


@HALVES
@pytest.mark.parametrize("path", [(1, 2), (1, 3)], ids=str)
@pytest.mark.slow
def test_each_field_of_a_document_after_an_upgrade(catalog: dk.Catalog, path: tuple[int, ...], half: int) -> None:
    for number, names in enumerate(OF_DOCUMENTS):
        null = number % 2 == (half + path[-1]) % 2
        table, rows = upgraded(catalog, path, Left(document=gone(*names.split(), null=null)), null=null)
        what = f"{names}, {null=}"
        check_verbs(table, rows, {verb: verbs(path[-1])[verb] for verb in ("append", "update copy-on-write")}, what)
        raw = metadata_json(table)
        needed = ("table-uuid", "schemas", "current-schema-id", "partition-specs", "default-spec-id",
                  "last-partition-id", "sort-orders", "default-sort-order-id", "last-sequence-number",
                  *(["next-row-id"] if path[-1] == 3 else []))  # fmt: skip
        assert [name for name in needed if raw.get(name) is None] == [], what
        assert raw["default-sort-order-id"] in [order["order-id"] for order in raw["sort-orders"]], what


# --- what is current, and what is listed ------------------------------------------------------------------------------


def test_the_current_schema_and_spec_are_those_of_v1_or_refused(catalog: dk.Catalog) -> None:
    """An older schema is current again. The newest one, or the one with the id 0, would be a guess."""
    for by in ((), ("category",)):
        table = make(catalog, _items(1, 2), format_version=1, partition_by=by)
        dk.add_column(table, "extra", "int")
        dk.drop_column(table, "extra")
        dk.add_partition_field(table, "bucket(4, id)")
        raw = metadata_json(table)
        assert raw["current-schema-id"] == 0 < len(raw["schemas"]) - 1
        assert raw["default-spec-id"] == 1
        leave_out(table, Left(document=gone("current-schema-id", "default-spec-id")), null=False)
        assert (table.metadata.raw["current-schema-id"], table.metadata.raw["default-spec-id"]) == (0, 1)
        dk.upgrade_format_version(table, 2)
        dk.append(table, _items(3))
        assert ids(table) == [1, 2, 3]
        for names in ("current-schema-id schema", "default-spec-id partition-spec"):
            broken = gone(*names.split())(raw := metadata_json(table)) or raw  # type: ignore[func-returns-value]
            with raises(dk.FormatError, "table-metadata", field=names.split()[0]):
                parse_metadata(json.dumps(broken).encode())


@pytest.mark.parametrize("name", ["schemas", "partition-specs"])
def test_a_document_without_schema_or_spec_is_refused(catalog: dk.Catalog, name: str) -> None:
    raw = metadata_json(make(catalog, format_version=1))
    gone(name, name[:-1])(raw)
    with pytest.raises(dk.FormatError) as error:
        parse_metadata(json.dumps(raw).encode())
    assert error.value.field == name


def test_a_snapshot_that_lists_nothing_is_not_empty(catalog: dk.Catalog) -> None:
    """Neither a manifest list nor manifests: unknown. An empty list of manifests is a snapshot without files."""
    table = make(catalog, _items(1), format_version=1)
    leave_out(table, Left(document=gone("snapshots.manifest-list")), null=False)
    for call in (lambda: dk.scan(table).count(), lambda: dk.append(table, _items(2))):
        with raises(dk.FormatError, "metadata-field", field="manifest-list"):
            call()
    assert [f.field for f in dk.verify(table).errors] == ["manifest-list", "manifest-list"]
    leave_out(
        table,
        Left(document=lambda raw: raw["snapshots"][0].update(manifests=[], summary={"operation": "append"})),
        null=False,
    )
    dk.append(table, _items(2))
    assert ids(table) == [2]


def test_a_manifest_in_a_snapshot_names_its_spec_or_is_refused(catalog: dk.Catalog) -> None:
    """Two specs have the same fields: of which one the manifest is cannot be found."""
    table, _ = old_table(catalog, 1)
    keys = ["partition-spec-id", "partition-spec"]
    leave_out(table, Left(inline=True, avro=keys), null=False)
    with raises(dk.FormatError, "partition-spec", field="partition-spec-id"):
        dk.scan(table).count()


def test_the_snapshot_that_added_a_manifest_is_found_in_its_entries(catalog: dk.Catalog) -> None:
    """Writers before 2020 let `added_snapshot_id` be absent, and inline manifests never had it."""
    for left in (Left(listed=["added_snapshot_id"]), OF_FILES["manifests in snapshots"]):
        table, rows = old_table(catalog, 1)
        by_path = {row["manifest_path"]: row["added_snapshot_id"] for row in manifest_list(table)}
        leave_out(table, left, null=False)
        assert dk.verify(table).ok
        dk.upgrade_format_version(table, 2)
        done = dk.append(table, NEW)
        after = {row["manifest_path"]: row["added_snapshot_id"] for row in manifest_list(table)}
        assert {path: after[path] for path in by_path} == by_path
        check(table, "main", with_rows(rows, NEW), "added_snapshot_id")
        assert done.summary["manifests-kept"] == str(len(by_path))
