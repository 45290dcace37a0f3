"""EXPLAIN: every version of a row, live or hidden, and which delete hides it by which rule."""

from xml.etree import ElementTree as ET

import pytest

import deletekit as dk
from tests.storage import stored_at
from tests.stored import entries, live_files, manifest_list, parquet
from tests.tables import VERSION_AND_MODE, expected, items, live, make, raises, unchanged
from tests.verbs.three_valued import FILTERS, LOGIC, ROWS, sqlite_ids

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
EVERY_MODE = pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)


@EVERY_MODE
def test_versions_are_the_rows_of_the_data_files(catalog: dk.Catalog, version: int, mode: str) -> None:
    """Every stored row is a version; the live ones are the scan's; positions and files are the stored ones."""
    table = make(catalog, FIVE, FIVE[:2], format_version=version, partition_by=["category"])
    dk.delete(table, "id in (1, 3)", mode=mode)
    dk.update(table, {"value": 9.0}, where="id = 2", mode=mode)
    dk.append(table, FIVE[:1])
    with unchanged(table):
        found = dk.explain(table, "true")
    stored = {f["file_path"]: parquet(f["file_path"]).to_pylist() for f in live_files(table, 0)}
    assert sum(len(rows) for rows in stored.values()) == len(found) == len(list(found))
    for version_ in found:
        row = stored[version_.data_file][version_.position]
        assert version_.row == {name: row[name] for name in ("id", "category", "value")}
    assert expected([v.row for v in found.live]) == live(table)
    assert len(found.live) + len(found.hidden) == len(found)
    sequence = [(v.sequence_number, v.data_file, v.position) for v in found]
    assert sequence == sorted(sequence), "oldest first"
    numbers = {e["data_file"]["file_path"]: e["inherited"] or 0 for e in entries(table, 0)}
    assert all(v.sequence_number == numbers[v.data_file] for v in found)


@pytest.mark.sampled(4, tier=1)
@pytest.mark.parametrize("where", FILTERS)
def test_the_filter_chooses_versions(catalog: dk.Catalog, where: str) -> None:
    table = make(catalog, ROWS[:20], ROWS[20:], schema=LOGIC)
    dk.delete(table, "id in (3, 30)", mode="position-delete")
    found = dk.explain(table, where)
    assert sorted(v.row["id"] for v in found) == sqlite_ids(ROWS, where), "deleted rows are found too"
    left = [row for row in ROWS if row["id"] not in (3, 30)]
    assert sorted(v.row["id"] for v in found.live) == sqlite_ids(left, where)


@pytest.mark.parametrize(
    ("version", "mode", "kind", "rule"),
    [
        (2, "position-delete", "position-delete", "1 <= 2"),
        (3, "deletion-vector", "deletion-vector", "1 <= 2"),
        (2, "equality-delete", "equality-delete", "1 < 2"),
        (3, "equality-delete", "equality-delete", "1 < 2"),
    ],
)
def test_what_hides_a_row(catalog: dk.Catalog, version: int, mode: str, kind: str, rule: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.delete(table, "id = 1", mode=mode)
    (found,) = dk.explain(table, "id = 1")
    (hiding,) = found.hidden_by
    (delete,) = live_files(table, 1)
    assert not found.live
    assert (hiding.kind, hiding.file_path, hiding.sequence_number) == (kind, delete["file_path"], 2)
    assert hiding.equality_ids == ((1,) if kind == "equality-delete" else None)
    assert hiding.content_offset == (delete.get("content_offset"))
    assert rule in hiding.rule
    assert rule in found.verdict
    assert f"row 0 of {found.data_file.rsplit('/', 1)[1]}" in found.verdict


def test_what_spares_a_row(catalog: dk.Catalog) -> None:
    """A delete of the row's key that came before the row, or with it."""
    table = make(catalog, FIVE)
    dk.update(table, {"value": 9.0}, where="id = 1", mode="equality-delete")
    dk.append(table, FIVE[:1])
    old, with_it, after_it = dk.explain(table, "id = 1")
    assert (old.live, with_it.live, after_it.live) == (False, True, True)
    assert (old.spared_by, len(with_it.spared_by), len(after_it.spared_by)) == ((), 1, 1)
    assert "2 < 2 is false" in with_it.verdict
    assert "3 < 2 is false" in after_it.verdict


def test_a_dropped_key_column_is_named_so(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete_keys(table, [{"category": "a"}])
    dk.drop_column(table, "category")
    found, *_ = dk.explain(table, "id = 1")
    assert "category (dropped)" in found.verdict


@EVERY_MODE
def test_the_past(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    before = table.current_snapshot.snapshot_id
    dk.create_tag(table, "then")
    dk.delete(table, "id = 1", mode=mode)
    for options in ({"snapshot_id": before}, {"ref": "then"}):
        (found,) = dk.explain(table, "id = 1", **options)
        assert found.live
    assert [v.live for v in dk.explain(table, "id = 1")] == ([] if mode == "copy-on-write" else [False])


def test_columns(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    (found,) = dk.explain(table, "category = 'b'", columns=["value", "id"])
    assert list(found.row.items()) == [("value", 3.0), ("id", 3)]
    for columns in (["nope"], ["id", "p.x"]):
        with raises(dk.InvalidInputError, "column-not-found"):
            dk.explain(table, "true", columns=columns)


def test_a_notebook_shows_the_same_as_a_table(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete(table, "id = 1", mode="equality-delete")
    found = dk.explain(table, "id < 3", columns=["id", "category"])
    shown = found._repr_mimebundle_(include=None)
    assert shown["text/plain"] == str(found)
    rows = [["".join(cell.itertext()) for cell in row] for row in ET.fromstring(shown["text/html"]).iter("tr")]  # noqa: S314
    assert rows[0] == ["verdict", "id", "category", "why"]
    assert [row[:3] for row in rows[1:]] == [["HIDDEN", "1", "'a'"], ["live", "2", "NULL"]]
    assert [row[3] for row in rows[1:]] == [version.verdict for version in found]
    assert str(found).splitlines()[0] in shown["text/html"]
    none = dk.explain(table, "id = 99").to_html()
    assert "no version of such a row" in none
    assert "<table" not in none


def test_what_hides_a_row_is_known_without_reading_its_sentence(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    dk.delete(table, "id = 1", mode="position-delete")
    dk.delete_keys(table, [{"id": 1}])
    dk.delete_keys(table, [{"id": 1, "category": "a"}])
    dk.append(table, FIVE[:1])
    old, new = dk.explain(table, "id = 1")
    assert {(d.kind, d.scope, d.key) for d in old.hidden_by} == {
        ("position-delete", "file", ()),
        ("equality-delete", "table", ("id",)),
        ("equality-delete", "partition", ("id", "category")),
    }
    assert {d.data_sequence_number for d in old.hidden_by} == {old.sequence_number}
    assert [d.applies for d in (*old.hidden_by, *new.spared_by)].count(False) == len(new.spared_by) > 0
    assert all(d.rule == d.rule_in(str.format) for d in (*old.hidden_by, *new.spared_by))


def test_what_cannot_be_read_is_named_and_the_rest_is_explained(catalog: dk.Catalog) -> None:
    """A row that only a lost delete can hide is neither live nor hidden; a lost data file keeps no other from view."""
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0), (5, "a", 5.0)), items((1, "b", 3.0)), format_version=3)
    dk.delete_keys(table, [{"id": 1}])
    dk.append(table, items((1, "c", 4.0)))
    dk.delete(table, "id = 2", mode="deletion-vector")
    (key_file,) = (d["file_path"] for d in live_files(table, 1) if d["content"] == 2)
    stored_at(key_file).unlink()
    found = dk.explain(table, "id in (1, 2)")
    assert [u.file_path for u in found.unread] == [key_file]
    assert [(v.row["value"], v.live, v.unknown) for v in found] == [
        (1.0, False, True),
        (2.0, False, False),
        (3.0, False, True),
        (4.0, True, False),
    ]
    assert "UNKNOWN" in str(found)
    assert f"cannot be read: {key_file}" in str(found)
    assert [v.state for v in found] == ["unknown", "hidden", "unknown", "live"]
    first = found.versions[0].data_file
    stored_at(first).write_bytes(b"noise")
    found = dk.explain(table, "id in (1, 2)")
    assert {u.file_path for u in found.unread} == {first, key_file}
    assert [v.row["value"] for v in found] == [3.0, 4.0]


def test_a_damaged_manifest_is_named_and_the_rest_is_explained(catalog: dk.Catalog) -> None:
    """Without a data manifest its rows are missing; without a delete manifest no row is known to be live."""
    table = make(catalog, items((1, "a", 1.0), (5, "a", 5.0)), items((1, "b", 3.0)), format_version=3)
    dk.delete_keys(table, [{"id": 1}])
    newest, *_ = paths = [row["manifest_path"] for row in manifest_list(table) if row["content"] == 0]
    stored_at(newest).write_bytes(b"noise")
    found = dk.explain(table, "id = 1")
    assert [u.file_path for u in found.unread] == [newest]
    assert len(paths) == 2
    assert [(v.live, v.unknown) for v in found] == [(False, False)]
    (deletes,) = [row["manifest_path"] for row in manifest_list(table) if row["content"] == 1]
    stored_at(deletes).unlink()
    found = dk.explain(table, "id >= 1")
    assert {u.file_path for u in found.unread} == {newest, deletes}
    assert [(v.row["id"], v.live, v.unknown) for v in found] == [(1, False, True), (5, False, True)]
