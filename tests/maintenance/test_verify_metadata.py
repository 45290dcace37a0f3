"""VERIFY, table metadata: each rule is broken in the document of a real table, and found by its kind and field."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.maintenance.damage import Json, findings, found, head_of, with_metadata
from tests.tables import items, make, new_catalog, raises

ROWS = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    """v3, partitioned, three snapshots, a tag, deletion vectors; no test changes its files."""
    with new_catalog(tmp_path_factory.mktemp("metadata")) as catalog:
        table = make(catalog, ROWS, ROWS, format_version=3, partition_by=["category"])
        dk.create_tag(table, "loaded")
        dk.delete(table, "id = 1", mode="deletion-vector")
        yield table


def set_in(*path: Any) -> Callable[[Any], Callable[[Json], None]]:
    """Give a function that sets the value at a path of a document."""

    def to(value: Any) -> Callable[[Json], None]:
        def change(raw: Json) -> None:
            *way, last = path
            at: Any = raw
            for step in way:
                at = at[step]
            at[last] = value

        return change

    return to


def drop(*path: Any) -> Callable[[Json], None]:
    def change(raw: Json) -> None:
        *way, last = path
        at: Any = raw
        for step in way:
            at = at[step]
        del at[last]

    return change


def twice(name: str) -> Callable[[Json], None]:
    return lambda raw: raw[name].append(dict(raw[name][0]))


def oldest(raw: Json) -> Json:
    return min(raw["snapshots"], key=lambda s: s["sequence-number"])


def column(raw: Json, **fields: Any) -> None:
    raw["schemas"][0]["fields"].append(fields)


CASES: dict[str, tuple[str, str, Callable[[Json], Any]]] = {
    "no uuid": ("metadata-field", "table-uuid", drop("table-uuid")),
    "no next row id": ("metadata-field", "next-row-id", drop("next-row-id")),
    "schema twice": ("duplicate-id", "schemas.schema-id", twice("schemas")),
    "spec twice": ("duplicate-id", "partition-specs.spec-id", twice("partition-specs")),
    "order twice": ("duplicate-id", "sort-orders.order-id", twice("sort-orders")),
    "field id twice": (
        "duplicate-id",
        "schemas.0",
        lambda r: column(r, id=3, name="again", required=False, type="string"),
    ),
    "current schema": ("reference", "current-schema-id", set_in("current-schema-id")(7)),
    "default spec": ("reference", "default-spec-id", set_in("default-spec-id")(7)),
    "default order": ("reference", "default-sort-order-id", set_in("default-sort-order-id")(7)),
    "schema of a snapshot": ("reference", ".schema-id", lambda r: head_of(r).update({"schema-id": 7})),
    "tag to nothing": ("reference", "refs.loaded", set_in("refs", "loaded", "snapshot-id")(7)),
    "sort column": (
        "reference",
        "sort-orders.1.source-id",
        lambda r: r["sort-orders"].append(
            {"order-id": 1, "fields": [{"source-id": 99, "transform": "identity", "direction": "asc"}]}
        ),
    ),
    "another current": (
        "current-snapshot",
        "current-snapshot-id",
        lambda r: r.update({"current-snapshot-id": oldest(r)["snapshot-id"], "snapshot-log": []}),
    ),
    "ref without a type": ("ref", "refs.loaded.type", set_in("refs", "loaded", "type")("mark")),
    "main as a tag": ("ref", "refs.main.type", set_in("refs", "main", "type")("tag")),
    "default below v3": (
        "schema-format-version",
        "schemas.0.new",
        lambda r: (
            column(r, id=4, name="new", required=False, type="timestamp_ns"),
            r.update({"last-column-id": 4, "format-version": 2}),
        ),
    ),
    "partition source": (
        "partition-spec",
        "partition-specs.0.category",
        set_in("partition-specs", 0, "fields", 0, "source-id")(99),
    ),
    "partition field id": (
        "partition-spec",
        "partition-specs.1.id",
        lambda r: r["partition-specs"].append(
            {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}]}
        ),
    ),
    "column ids": ("last-column-id", "last-column-id", set_in("last-column-id")(2)),
    "partition ids": ("last-partition-id", "last-partition-id", set_in("last-partition-id")(999)),
    "sequence": ("last-sequence-number", "last-sequence-number", set_in("last-sequence-number")(2)),
    "sequence of a parent": (
        "snapshot-sequence",
        "sequence-number",
        lambda r: (
            (head_of(r).update({"sequence-number": 8}), oldest(r).update({"sequence-number": 9}))
            and r.update({"last-sequence-number": 9})
        ),
    ),
    "circle": (
        "snapshot-parent",
        "parent-snapshot-id",
        lambda r: oldest(r).update({"parent-snapshot-id": oldest(r)["snapshot-id"]}),
    ),
    "log out of order": (
        "timestamp-order",
        "snapshot-log.timestamp-ms",
        set_in("snapshot-log", 0, "timestamp-ms")(10**14),
    ),
    "log's end": ("snapshot-log", "snapshot-log", lambda r: r["snapshot-log"].pop()),
    "row ids beyond": ("next-row-id", "next-row-id", lambda r: head_of(r).update({"added-rows": 100})),
    "no row ids": ("snapshot-row-ids", "first-row-id", lambda r: head_of(r).update({"first-row-id": None})),
    "row ids taken": (
        "snapshot-row-ids",
        "first-row-id",
        lambda r: sorted(r["snapshots"], key=lambda s: s["sequence-number"])[1].update({"first-row-id": 1}),
    ),
    "name mapping": (
        "name-mapping",
        "schema.name-mapping.default",
        set_in("properties", "schema.name-mapping.default")("{"),
    ),
    "name mapping's ids": (
        "name-mapping",
        "schema.name-mapping.default",
        set_in("properties", "schema.name-mapping.default")(
            json.dumps([{"field-id": 1, "names": ["a"]}, {"field-id": 1, "names": ["b"]}])
        ),
    ),
}


def test_a_sound_table_has_no_finding(table: dk.Table) -> None:
    report = dk.verify(table, level="data")
    assert report.findings == ()
    assert report.ok
    assert report.checked["snapshots"] == 3
    assert report.checked["rows"] == 8 + 2, "data rows, and a position of each of two files"


@pytest.mark.parametrize("case", CASES)
def test_damaged_metadata_is_found(table: dk.Table, case: str) -> None:
    kind, field, change = CASES[case]
    broken = with_metadata(table, change)
    seen = [f for f in findings(broken, snapshots=[], level="metadata") if f.severity == "error"]
    ours = [f for f in seen if f.kind == kind and (f.field or "").endswith(field)]
    assert ours, list(map(str, seen))
    # A circle is a bad sequence too, and a schema that is not there damages everything that asks for it.
    related = {"circle": {"snapshot-sequence"}, "no next row id": {"next-row-id"}}
    dragged = {"unreadable-file"} if case == "current schema" else set()
    assert {f.kind for f in seen} - {kind} <= related.get(case, set()) | dragged


def test_a_snapshot_that_is_given_twice(table: dk.Table) -> None:
    broken = with_metadata(table, twice("snapshots"))
    assert "duplicate-id" in {f.kind for f in findings(broken, level="metadata")}


def test_snapshots_of_the_log_that_are_gone_hurt_nobody(table: dk.Table) -> None:
    broken = with_metadata(table, lambda r: r["snapshot-log"][0].update({"snapshot-id": 7}))
    assert found(findings(broken), "snapshot-log", "warning").found == 7


def test_a_snapshot_without_manifest_list(table: dk.Table) -> None:
    broken = with_metadata(table, lambda r: head_of(r).update({"manifest-list": None}))
    seen = findings(broken)
    assert ("metadata-field", "manifest-list") in {(f.kind, f.field) for f in seen}


def test_logged_files_and_statistics_are_looked_for(table: dk.Table, tmp_path: Path) -> None:
    small = tmp_path / "small.puffin"
    small.write_bytes(b"12345")
    head = table.metadata.raw["current-snapshot-id"]

    def change(raw: Json) -> None:
        raw["metadata-log"][0]["metadata-file"] = str(tmp_path / "gone.metadata.json")
        raw["statistics"] = [
            {"snapshot-id": head, "statistics-path": str(tmp_path / "gone.puffin"), "file-size-in-bytes": 5},
            {"snapshot-id": 7, "statistics-path": str(small), "file-size-in-bytes": 6},
        ]

    seen = findings(with_metadata(table, change))
    assert {f.severity for f in seen} == {"warning"}
    assert {(f.kind, Path(f.file or "").name, f.field) for f in seen} == {
        ("missing-file", "gone.metadata.json", "metadata-log"),
        ("missing-file", "gone.puffin", "statistics"),
        ("file-size", "small.puffin", "file-size-in-bytes"),
        ("reference", "small.puffin", "statistics.snapshot-id"),
    }


def test_what_cannot_be_asked_for(table: dk.Table) -> None:
    with raises(dk.InvalidInputError, "level"):
        dk.verify(table, level="everything")  # type: ignore[arg-type]
    with pytest.raises(dk.InvalidInputError):
        dk.verify(table, snapshots="some")  # type: ignore[arg-type]
    with pytest.raises(dk.NotFoundError):
        dk.verify(table, snapshots=[7])


def test_a_table_without_a_snapshot(catalog: dk.Catalog) -> None:
    for version in (1, 2, 3):
        report = dk.verify(make(catalog, format_version=version), level="data")
        assert report.findings == ()
        assert report.checked["snapshots"] == 0


def test_a_report_as_text(table: dk.Table) -> None:
    broken = with_metadata(table, set_in("last-column-id")(2))
    text = str(dk.verify(broken))
    assert text.startswith("error last-column-id: a higher one is in use; field last-column-id; found 2; expected >= 3")
    assert "damaged: checked 3 snapshots" in text
