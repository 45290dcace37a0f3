"""Equality deletes written down by position: no new data file, the same rows, and no key that hides too much."""

from typing import Any

import pytest

import deletekit as dk
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from tests.maintenance.damage import edit_manifest
from tests.maintenance.model import history, lineage
from tests.maintenance.test_compact import busy, clean, rows_of
from tests.stored import live_files, position_deletes, vectors
from tests.tables import expected, items, live, make, refused, unchanged


def read_alone(table: dk.Table, task: Any) -> list[dict[str, Any]]:
    """The live rows of one task, with the keys of its own deletes."""
    context = ReadContext(table.io, table.metadata)
    request = ReadRequest(tuple(table.metadata.schema.fields))
    batches = list(read_task(context, task, request))
    return [row for b in batches for row, gone in zip(b.table.to_pylist(), b.deleted, strict=True) if not gone]


def by_value(table: dk.Table, ref: str = "main") -> set[str]:
    return {f["file_path"] for f in live_files(table, 1, ref) if f["content"] == 2}


@pytest.mark.parametrize(
    ("version", "kind", "granularity"),
    [(2, "flat", "file"), (2, "evolved", "partition"), (3, "flat", "file"), (3, "partitioned", "file")],
)
def test_in_place(catalog: dk.Catalog, version: int, kind: str, granularity: str) -> None:
    table, rows = busy(catalog, version, kind)
    dk.set_properties(table, {"write.delete.granularity": granularity})
    keys, data = by_value(table), {f["file_path"] for f in live_files(table, 0)}
    before, past = lineage(table), history(table)
    with unchanged(table):
        tried = dk.convert_equality_deletes(table, dry_run=True)
    done = dk.convert_equality_deletes(table)
    assert set(tried.converted_delete_files) == set(done.converted_delete_files) == keys != set()
    assert (tried.data_files, tried.added_delete_files) == (done.data_files, ())
    assert by_value(table) == set()
    with_rows = set(dk.scan(table, columns=["_file"]).to_arrow()["_file"].to_pylist())
    assert with_rows <= {f["file_path"] for f in live_files(table, 0)} <= data, "only what has no row left goes"
    assert live(table) == expected(rows)
    assert lineage(table) == before
    assert past.items() <= history(table).items()
    assert done.commit is not None
    assert done.commit.operation == "replace"
    assert (position_deletes(table) == []) == (version == 3)
    clean(table)
    # A row of a key that was deleted is not hidden by anything that is left.
    dk.append(table, again := items((2, "a", 9.0), (30, "c", 9.0)))
    assert live(table) == expected(rows + again)
    with unchanged(table):
        assert dk.convert_equality_deletes(table) == dk.results.ConvertedEqualityDeletes()


@pytest.mark.parametrize("version", [2, 3])
def test_a_global_delete_stays_while_one_file_needs_it(catalog: dk.Catalog, version: int) -> None:
    """Keys of two partitions; only one of these is converted, and then the other."""
    table = make(catalog, rows_of(0), rows_of(1), format_version=version, partition_by=["category"])
    dk.delete_keys(table, [{"id": 0}, {"id": 9}], scope="global")
    left = expected([r for i in (0, 1) for r in rows_of(i) if r["id"] not in (0, 9)])
    keys = by_value(table)
    done = dk.convert_equality_deletes(table, "category = 'a'")
    assert (set(done.kept_delete_files), done.converted_delete_files) == (keys, ())
    assert by_value(table) == keys
    assert live(table) == left
    done = dk.convert_equality_deletes(table)
    assert set(done.converted_delete_files) == keys
    assert live(table) == left
    clean(table)


def test_after_an_upgrade_the_vector_takes_in_everything(catalog: dk.Catalog) -> None:
    table, rows = busy(catalog, 2)
    dk.upgrade_format_version(table, 3)
    done = dk.convert_equality_deletes(table)
    assert live(table) == expected(rows)
    assert set(vectors(table)) == {
        f["referenced_data_file"] for f in live_files(table, 1) if f["file_format"] == "PUFFIN"
    }
    assert done.added_delete_files
    clean(table)


def test_null_keys(catalog: dk.Catalog) -> None:
    table = make(catalog, rows_of(0), format_version=3)
    dk.delete_keys(table, [{"category": None}])
    dk.convert_equality_deletes(table)
    assert [len(positions) for positions in vectors(table).values()] == [2]
    assert live(table) == expected([r for r in rows_of(0) if r["category"] is not None])
    clean(table)


def test_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, rows_of(0), format_version=2)
    with refused(table, dk.InvalidInputError, "filter"):
        dk.convert_equality_deletes(table, "nope = 1")
    with unchanged(table), pytest.raises(dk.NotFoundError):
        dk.convert_equality_deletes(table, ref="nobody")


@pytest.mark.parametrize(("version", "appends"), [(2, 3), (3, 12)], ids=["own-keys", "shared-keys"])
def test_keys_beyond_another_writers_bounds_hide_what_a_scan_hides(
    catalog: dk.Catalog, version: int, appends: int
) -> None:
    """Bounds that leave keys out may be trusted, but alike: by a scan of few and of many files, and by a conversion.

    With many data files the keys of all deletes are looked up in one set, whatever the bounds of each exclude.
    """
    table = make(catalog, format_version=version)
    for _ in range(appends):
        dk.append(table, items((1, "a", 1.0), (2, "b", 2.0), (9, "c", 3.0)))
        dk.delete_keys(table, [{"id": 2}, {"id": 8}])
    dk.append(table, items((1, "d", 4.0), (25, "d", 5.0)))  # the one file within the bounds below
    dk.delete_keys(table, [{"id": 1}, {"id": 9}])

    def narrow(entries: list[dict[str, Any]]) -> None:
        """The last delete has the keys 1 and 9, and bounds of a writer that says 20 to 30."""
        for entry in entries:
            for name, bound in (("lower_bounds", 20), ("upper_bounds", 30)):
                entry["data_file"][name] = [{"key": 1, "value": bound.to_bytes(4, "little")}]

    edit_manifest(table, narrow, content=1)
    table = dk.load_table(catalog, table.name)
    before = live(table)
    assert dk.scan(table).count() == len(before)
    alone = [row for task in dk.scan(table).plan() for row in read_alone(table, task)]
    assert sorted(map(repr, alone)) == sorted(map(repr, before))
    dk.convert_equality_deletes(table)
    assert live(table) == before
    dk.compact(table, rewrite_all=True)
    assert live(table) == before
