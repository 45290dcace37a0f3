"""Erasure: the values are in no file that is left, byte for byte where Parquet can be read; what stays is named."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.maintenance.model import between, other, snapshot_ids, staged
from tests.maintenance.test_compact import busy, clean, rows_of
from tests.maintenance.test_remove_dangling_deletes import deletes
from tests.storage import stored_at
from tests.stored import avro, head_json, live_files, parquet
from tests.tables import Row, expected, files_of, items, live, make, refused, unchanged

NAME = "Erika Mustermann"


def holders(table: dk.Table) -> set[str]:
    """Files on disk with the secret in a row, a key, a stored row or a bound: by pyarrow, fastavro and bytes."""
    found = set()
    for path in files_of(table):
        if path.endswith(".parquet"):
            if NAME in str(parquet(path).to_pylist()):
                found.add(path)
        elif path.endswith(".avro"):
            with stored_at(path).open("rb") as source:
                if NAME in str(list(fastavro.reader(source))):
                    found.add(path)
        elif NAME.encode() in stored_at(path).read_bytes():
            found.add(path)
    return found


def stored(table: dk.Table) -> set[str]:
    """Parquet files without stored deleted rows, which are counted as files that may hold any."""
    return {p for p in files_of(table) if p.endswith(".parquet") and "row" not in parquet(p).column_names}


def filled(catalog: dk.Catalog, version: int, kind: str) -> tuple[dk.Table, list[Row]]:
    """A table with the secret in live rows, in hidden ones, in keys and in old snapshots; and the rows without it."""
    table, rows = busy(catalog, version, "flat" if kind == "partitioned" else kind)
    if kind == "evolved":  # partition values are in file names, which erasing does not change
        dk.drop_partition_field(table, "category")
    dk.append(table, items((700, NAME, 1.0), (701, "a", 1.0)))
    dk.append(table, items((702, NAME, 1.0), (703, "a", 1.0)))
    mode = {1: "copy-on-write", 2: "position-delete", 3: "deletion-vector"}[version]
    dk.delete(table, "id = 702", mode=mode, with_rows=version == 2)
    if version > 1:
        dk.delete_keys(table, [{"category": NAME, "id": 5}], on=["category", "id"])
    return table, [*rows, *items((701, "a", 1.0), (703, "a", 1.0))]


@pytest.mark.parametrize(("version", "kind"), [(1, "flat"), (2, "flat"), (2, "evolved"), (3, "evolved")])
def test_no_file_is_left_with_it(catalog: dk.Catalog, version: int, kind: str) -> None:
    table, rows = filled(catalog, version, kind)
    assert holders(table)
    with unchanged(table):
        tried = dk.erase(table, f"category = '{NAME}'", dry_run=True)
    assert {h.file for h in tried.remaining["main"] if h.rows is not None} == {
        path for path in holders(table) if path.endswith(".parquet") and path in stored(table)
    }
    assert not tried.is_erased
    done = dk.erase(table, f"category = '{NAME}'")
    assert live(table) == expected(rows)
    assert (done.remaining, done.is_erased) == ({}, True)
    assert holders(table) == set()
    clean(table)
    again = dk.erase(table, f"category = '{NAME}'")
    assert (again.commits, again.expired, again.is_erased) == ((), None, True)


def test_other_refs_are_named(catalog: dk.Catalog) -> None:
    table, rows = filled(catalog, 3, "flat")
    dk.create_tag(table, "v1")
    dk.create_branch(table, "side")
    dk.append(table, rows_of(50), ref="side")
    where = f"category = '{NAME}'"
    done = dk.erase(table, where)
    assert live(table) == expected(rows)
    assert not done.is_erased
    assert set(done.remaining) == {"v1", "side"}
    data = {h.file for held in done.remaining.values() for h in held if h.content == "data"}
    assert data == {p for p in holders(table) if p.endswith(".parquet") and "eq-deletes" not in p}
    dk.drop_ref(table, "v1")
    done = dk.erase(table, where, refs=["side"])
    assert (done.is_erased, done.remaining) == (True, {})
    assert live(table, ref="side") == expected(rows + rows_of(50))
    assert holders(table) == set()
    clean(table)


def test_all_refs_at_once(catalog: dk.Catalog) -> None:
    """Every branch is cleaned; tags that hold the rows go, and others stay."""
    table = make(catalog, rows_of(0), format_version=3)
    dk.create_tag(table, "early")
    dk.append(table, items((700, NAME, 1.0)))
    dk.create_tag(table, "v1")
    dk.create_branch(table, "side")
    dk.append(table, rows_of(50), ref="side")
    dk.delete(table, "id = 700")
    dk.create_tag(table, "later")  # of a snapshot that hides the row, and has it in its history
    where = f"category = '{NAME}'"
    with unchanged(table):
        assert set(dk.erase(table, where, all_refs=True, dry_run=True).remaining) == {"main", "v1", "side", "later"}
    done = dk.erase(table, where, all_refs=True)
    assert (done.is_erased, done.remaining, done.dropped_tags) == (True, {}, ("later", "v1"))
    assert set(done.refs) == {"main", "side"}
    assert set(table.refresh().metadata.refs) == {"main", "side", "early"}
    assert holders(table) == set()
    assert live(table) == expected(rows_of(0))
    assert live(table, ref="side") == expected(rows_of(0) + rows_of(50))
    clean(table)


def test_what_comes_back_meanwhile_is_seen(catalog: dk.Catalog) -> None:
    table, rows = filled(catalog, 2, "flat")
    worker = other(table)
    with between(worker, before=lambda: dk.append(other(table), items((800, NAME, 1.0)))):
        done = dk.erase(worker, f"category = '{NAME}'")
    assert done.is_erased == (holders(table.refresh()) == set())
    assert live(table) == expected(rows)


def test_lineage_and_other_deletes_stay(catalog: dk.Catalog) -> None:
    table, _ = busy(catalog, 3)
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    before = sorted(dk.scan(table, "not (id < 4)", columns=columns).to_arrow().to_pylist(), key=str)
    kept = deletes(table)
    done = dk.erase(table, "id < 4")
    after = sorted(dk.scan(table, columns=columns).to_arrow().to_pylist(), key=str)
    assert after == before
    assert done.is_erased
    assert kept


def policies(table: dk.Table) -> None:
    """Whatever the table says, every snapshot is too old, and every branch but main."""
    dk.set_properties(
        table,
        {
            "history.expire.max-snapshot-age-ms": "1",
            "history.expire.max-ref-age-ms": "1",
            "history.expire.min-snapshots-to-keep": "1",
        },
    )


def test_nothing_goes_for_its_age(catalog: dk.Catalog) -> None:
    """Snapshots and refs that do not hold the rows stay, though the table's own policy would let them expire."""
    table = make(catalog, rows_of(0), rows_of(1), format_version=3)
    clean_ones = snapshot_ids(table)
    dk.create_tag(table, "early", clean_ones[0])
    policies(table)
    dk.append(table, items((700, NAME, 1.0)))
    (bad,) = set(snapshot_ids(table)) - set(clean_ones)
    time.sleep(0.01)
    done = dk.erase(table, f"category = '{NAME}'")
    assert done.expired is not None
    assert (done.expired.snapshot_ids[0], done.expired.refs) == (bad, ())
    assert set(clean_ones) <= set(snapshot_ids(table))
    assert set(table.metadata.refs) == {"main", "early"}
    assert (done.is_erased, holders(table)) == (True, set())


def test_staged_snapshots_are_listed_and_go_when_asked(catalog: dk.Catalog) -> None:
    table, rows = filled(catalog, 3, "flat")
    where = f"category = '{NAME}'"
    other_rows = staged(table, rows_of(60), wap_id="harmless")
    secret = staged(table, items((900, NAME, 1.0)), wap_id="secret")
    done = dk.erase(table, where)
    assert not done.is_erased
    assert {h.snapshot_id for h in done.remaining[""]} == {other_rows, secret}  # the first has main's rows below it
    assert {other_rows, secret} <= set(snapshot_ids(table))
    assert live(table) == expected(rows)
    done = dk.erase(table, where, unreferenced=True)
    assert (done.is_erased, done.remaining, holders(table)) == (True, {}, set())
    assert done.expired is not None
    assert set(done.expired.snapshot_ids) == {other_rows, secret}
    assert live(table) == expected(rows)


@pytest.mark.parametrize("version", [2, 3])
def test_partition_values_too(catalog: dk.Catalog, version: int) -> None:
    """Partitioned by the value: no manifest, no list of manifests and no file name has it in the end."""
    table = make(catalog, rows_of(0), format_version=version, partition_by=["category"])
    dk.append(table, items((700, NAME, 1.0), (701, NAME, 2.0), (702, "a", 1.0)))
    mode = "deletion-vector" if version == 3 else "position-delete"
    dk.delete(table, "id = 701", mode=mode, granularity="partition")
    dk.delete_keys(table, [{"id": 700, "category": NAME}, {"id": 702, "category": "a"}])
    assert holders(table)
    done = dk.erase(table, f"category = '{NAME}'")
    assert (done.remaining, done.is_erased) == ({}, True)
    assert holders(table) == set()
    assert not [path for path in files_of(table) if "Erika" in path]
    assert live(table) == expected(rows_of(0))
    assert done.inspected
    assert any("names of files" in place for place in done.not_inspected)
    clean(table)


def test_a_delete_file_in_such_a_partition_counts(catalog: dk.Catalog) -> None:
    """A position delete file that hides nothing any more, in the partition of that value."""
    rows = [items((700 + i, NAME, 1.0), (800 + i, NAME, 2.0)) for i in (0, 1)]
    table = make(catalog, *rows, format_version=2, partition_by=["category"])
    dk.delete(table, "id in (700, 701)", mode="position-delete", granularity="partition", engine=LocalEngine(1))
    dk.compact(table, rewrite_all=True)
    assert (len(live_files(table, 0)), len(live_files(table, 1))) == (1, 1)
    kept = dk.erase(table, f"category = '{NAME}'", dry_run=True).remaining["main"]
    head = head_json(table)["snapshot-id"]
    assert {h.content for h in kept if h.snapshot_id == head} == {"data", "partition", "manifest"}
    assert dk.erase(table, f"category = '{NAME}'").is_erased
    assert holders(table) == set()


@pytest.mark.parametrize("kind", ["partitioned", "evolved"])
def test_everything(catalog: dk.Catalog, kind: str) -> None:
    table, _ = busy(catalog, 3, kind)
    done = dk.erase(table, "true")
    assert live(table) == []
    assert done.is_erased
    assert not [p for p in files_of(table) if p.endswith((".parquet", ".puffin"))]
    clean(table)


def test_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, rows_of(0), format_version=2)
    dk.create_tag(table, "v1")
    for options, kind in (
        ({"where": "id = 1", "refs": ["main", "v1"]}, "ref"),
        ({"where": "id = 1", "refs": "main"}, "argument"),
        ({"where": "nope = 1"}, "filter"),
        ({"where": " "}, "filter"),
    ):
        arguments: dict[str, Any] = dict(options)
        with refused(table, dk.InvalidInputError, kind):
            dk.erase(table, **arguments)
    dk.set_properties(table, {"gc.enabled": "false"})
    with refused(table, dk.InvalidInputError, "gc-disabled"):
        dk.erase(table, "id = 1")


def _bounds(field: int, *names: str) -> Callable[[dict[str, Any]], None]:
    def change(file: dict[str, Any]) -> None:
        for name in names:
            others = [pair for pair in file[name] or () if pair["key"] != field]
            file[name] = [*others, {"key": field, "value": b"\0" * 8}]

    return change


def _set(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda file: file.update(values)


LIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "bounds too low": _bounds(1, "lower_bounds", "upper_bounds"),
    "upper bound too low": _bounds(1, "upper_bounds"),
    "all null": _set(value_counts=[{"key": 1, "value": 2}], null_value_counts=[{"key": 1, "value": 2}]),
    "no value": _set(value_counts=[{"key": 1, "value": 0}]),
    "no metrics": _set(value_counts=None, null_value_counts=None, lower_bounds=None, upper_bounds=None),
    "no row": _set(record_count=0),
}


@pytest.mark.parametrize("version", [2, 3])
def test_absence_never_rests_on_what_another_writer_counted(catalog: dk.Catalog, version: int) -> None:
    """Metrics of manifests that leave the rows out: they are erased all the same, and the search finds none left."""
    for number, (lie, change) in enumerate(LIES.items()):
        schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
        table = dk.create_table(catalog, f"t.lie{number}", schema, format_version=version)
        dk.append(table, pa.table({"id": [1, 2], "name": ["x", NAME]}))
        dk.create_branch(table, "side")
        dk.append(table, pa.table({"id": [3, 4], "name": ["x", "y"]}))
        for manifest in avro(head_json(table)["manifest-list"]):
            path = stored_at(manifest["manifest_path"])
            with path.open("rb") as source:
                reader = fastavro.reader(source)
                written, metadata, entries = reader.writer_schema, dict(reader.metadata), list(reader)
            for entry in entries:
                change(entry["data_file"])
            kept = {k: v for k, v in metadata.items() if not k.startswith("avro.")}
            with path.open("wb") as target:
                fastavro.writer(target, written, entries, metadata=kept)
        table = dk.load_table(catalog, f"t.lie{number}")
        counted = pytest.warns(UserWarning, match="record_count of files") if lie == "no row" else nullcontext()
        with counted:
            tried = dk.erase(table, "id = 2", dry_run=True)
            done = dk.erase(table, "id = 2", all_refs=True)
            left = sorted(dk.scan(table).to_arrow()["id"].to_pylist())
        assert {ref: {h.rows for h in held} for ref, held in tried.remaining.items()} == {"main": {1}, "side": {1}}, lie
        assert done.is_erased, lie
        assert left == [1, 3, 4], lie
        assert not [path for path in files_of(table) if NAME.encode() in stored_at(path).read_bytes()], lie
