"""Numbers of manifest lists, manifests and their entries, at and beyond their bounds: the rows before, or a refusal.

No read may give other rows, and no error may be one of Python's own.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.maintenance.damage import edit_list, edit_manifest, put_back
from tests.tables import ids, items, make, new_catalog

HUGE = {"int": 2**31 - 1, "long": 2**63 - 1}
LIST = {
    "manifest_length": "long",
    "partition_spec_id": "int",
    "sequence_number": "long",
    "min_sequence_number": "long",
    "added_snapshot_id": "long",
    "added_files_count": "int",
    "existing_files_count": "int",
    "deleted_files_count": "int",
    "added_rows_count": "long",
    "existing_rows_count": "long",
    "deleted_rows_count": "long",
    "first_row_id": "long",
}
ENTRY = {"snapshot_id": "long", "sequence_number": "long", "file_sequence_number": "long"}
FILE = {
    "record_count": "long",
    "file_size_in_bytes": "long",
    "sort_order_id": "int",
    "first_row_id": "long",
    "content_offset": "long",
    "content_size_in_bytes": "long",
}
LISTS = {"split_offsets": "long", "equality_ids": "int"}
COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
Outcome = Any


def build(catalog: dk.Catalog, version: int, **options: Any) -> dk.Table:
    """Two data files; deletes by position and by key; a file that is older than some deletes and newer than others."""
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0), (3, None, 3.0)), format_version=version, **options)
    dk.delete(table, "id = 2", mode="merge-on-read")
    dk.delete_keys(table, [{"id": 1}])
    dk.append(table, items((1, "b", 9.0), (4, "b", float("nan"))))
    return table.refresh()


def reads(table: dk.Table) -> dict[str, Callable[[], Outcome]]:
    def changed(mode: str) -> Any:
        """What a delete would add and remove; nothing is written."""
        found = dk.delete(table, "id = 4", mode=mode, dry_run=True).summary
        return {k: v for k, v in found.items() if k.startswith(("added-", "deleted-", "removed-")) and "size" not in k}

    return {
        "scan": lambda: ids(table),
        "filter": lambda: ids(table, "value > 2 or category is null"),
        "count": lambda: dk.scan(table).count(),
        "copy-on-write": lambda: changed("copy-on-write"),
        "merge-on-read": lambda: changed("merge-on-read"),
    }


def outcomes(table: dk.Table) -> dict[str, Outcome]:
    """What each read gives: a value, or "refused"."""
    found: dict[str, Outcome] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, read in reads(table).items():
            try:
                found[name] = read()
            except dk.DeletekitError as e:
                found[name] = f"refused {e.file}" if e.file else f"refused without a file: {e}"
            except Exception as e:  # noqa: BLE001  # which is what must not be
                found[name] = f"{type(e).__name__}: {e}"
        try:
            dk.verify(table, level="data")
        except Exception as e:  # noqa: BLE001
            found["verify"] = f"{type(e).__name__}: {e}"
    return found


def wrong(before: dict[str, Outcome], after: dict[str, Outcome]) -> dict[str, Outcome]:
    """What is neither as before nor refused with a place."""
    return {
        name: value
        for name, value in after.items()
        if value != before.get(name, "nothing") and not str(value).startswith("refused /")
    }


def values_of(kind: str, now: Any) -> list[int]:
    bound = now if isinstance(now, int) else 0
    return list(dict.fromkeys([-1, 0, bound, bound + 1, HUGE[kind]]))


def edits(table: dk.Table) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each number of the head, with each value: in one row of the manifest list, or in each entry of one manifest."""
    rows: list[dict[str, Any]] = []
    edit_list(table, rows.extend)
    for at, row in enumerate(rows):
        content, place = row["content"], sum(r["content"] == row["content"] for r in rows[:at])
        entries: list[dict[str, Any]] = []
        edit_manifest(table, entries.extend, content, place)
        for name, kind in LIST.items():
            for value in values_of(kind, row.get(name)) if name in row else ():
                change = partial(set_in_row, at, name, value)
                yield f"list {content} {name} {value}", partial(edit_list, table, change)
        for inside, name, value in values_in_entries(row, entries[0]):
            change = partial(set_in_entries, inside, name, value)
            yield f"entry {content} {name} {value}", partial(edit_manifest, table, change, content, place)


def values_in_entries(row: dict[str, Any], entry: dict[str, Any]) -> Iterator[tuple[bool, str, Any]]:
    """Yield (whether it is in the data file, name, value)."""
    file = entry["data_file"]
    for name, kind in ENTRY.items():
        now = row["sequence_number"] if entry[name] is None else entry[name]
        yield from ((False, name, value) for value in values_of(kind, now))
    for name, kind in FILE.items():
        yield from ((True, name, value) for value in (values_of(kind, file[name]) if name in file else ()))
    for name, kind in LISTS.items():
        yield from ((True, name, [value]) for value in values_of(kind, (file.get(name) or [0])[0]))
    for name in COUNTS:
        for value in (-1, 0, 1, 2, 3, HUGE["long"]):
            yield True, name, [{"key": key, "value": value} for key in (1, 2, 3)]


def set_in_row(at: int, name: str, value: int, rows: list[dict[str, Any]]) -> None:
    rows[at][name] = value


def set_in_entries(inside: bool, name: str, value: Any, entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        (entry["data_file"] if inside else entry)[name] = value


@pytest.mark.long
@pytest.mark.parametrize("version", [2, 3])
def test_each_number_gives_the_rows_before_or_a_refusal(version: int, tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        table = build(catalog, version)
        before, failed, cases = outcomes(table), {}, 0
        assert before["scan"] == [1, 3, 4]
        assert before["copy-on-write"] != before["merge-on-read"]
        assert all(isinstance(value, list | int | dict) for value in before.values())
        for name, edit in list(edits(table)):
            with put_back(table):
                edit()
                found = wrong(before, outcomes(table))
            cases += 1
            if found:
                failed[name] = found
    assert failed == {}
    assert cases > 150


def test_a_sequence_number_out_of_range_is_refused(tmp_path: Path) -> None:
    """Deleted rows would come back, or others go, without a word."""
    with new_catalog(tmp_path) as catalog:
        table = build(catalog, 2)

        def every(value: int) -> Callable[[Any], None]:
            return partial(set_in_entries, False, "sequence_number", value)

        first = partial(partial, set_in_row, 0)
        cases: list[Callable[[], Any]] = [
            *(lambda v=v, c=c: edit_manifest(table, every(v), c, 0) for v in (-1, 0, 9, 10**9) for c in (0, 1)),
            *(lambda v=v: edit_list(table, first("sequence_number", v)) for v in (0, 9, 2**63 - 1)),
            lambda: edit_list(table, first("min_sequence_number", 9)),
        ]
        for edit in cases:
            with put_back(table):
                edit()
                for read in (dk.scan(table).to_arrow, dk.scan(table).count, dk.scan(table, "id > 0").count):
                    with pytest.raises(dk.FormatError) as error:
                        read()
                    assert error.value.field == "sequence_number"
                    assert error.value.file is not None
                assert not dk.verify(table, level="metadata").ok
        assert ids(table) == [1, 3, 4]


def test_a_lowest_number_that_other_writers_raise(tmp_path: Path) -> None:
    """Releases of pyiceberg and iceberg-go take a lowest number of 0, of files older than v2, for none."""
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, items((1, "a", 1.0)), items((2, "a", 1.0)), format_version=1)
        dk.upgrade_format_version(table, 2)
        dk.rewrite_manifests(table)
        table = table.refresh()
        edit_list(table, partial(set_in_entries, False, "min_sequence_number", 1))
        assert ids(table) == [1, 2]


def test_an_unknown_spec_is_refused_by_name_with_and_without_a_filter(tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        table = build(catalog, 2)
        for value in (-1, 77, 2**31 - 1):
            with put_back(table):
                edit_list(table, partial(set_in_entries, False, "partition_spec_id", value))
                for where in (None, "id > 1", "category = 'a'"):
                    for read in (dk.scan(table, where).to_arrow, dk.scan(table, where).count):
                        with pytest.raises(dk.FormatError) as error:
                            read()
                        assert (error.value.kind, error.value.field) == ("partition-spec", "partition_spec_id")
                        assert str(error.value.file).endswith(".avro")
                with pytest.raises(dk.FormatError):
                    dk.delete(table, "id = 1", mode="merge-on-read")
                assert not dk.verify(table).ok
        for ids_of in (table.metadata.schemas, table.metadata.snapshots):
            with pytest.raises(dk.FormatError):
                ids_of[77]
