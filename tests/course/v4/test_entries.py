"""Entries as the drafts have them, made of the manifests of real tables of format version 3."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course.v4.entries import Content, Status, TrackedFile, Tracking, entries_of, value_bytes, with_vector

ROWS = pa.table({"id": list(range(10))})


def made(folder: Path, format_version: int, mode: str) -> dk.Table:
    table = dk.create_table(dk.local_catalog(folder), "n.t", ROWS.schema, format_version=format_version)
    dk.append(table, ROWS)
    dk.append(table, ROWS)
    dk.append(table, pa.table({"id": [100]}))
    dk.delete(table, "id = 3 or id = 4", mode=mode)  # type: ignore[arg-type]
    return table


def test_a_vector_is_in_the_entry_of_its_data_file(tmp_path: Path) -> None:
    table = made(tmp_path, 3, "deletion-vector")
    entries = entries_of(table)
    assert [entry.record_count for entry in entries] == [1, 10, 10]
    assert [entry.deletion_vector is None for entry in entries] == [True, False, False]
    for entry in entries:
        assert (Path(table.location) / entry.location).is_file()
        assert entry.file_size_in_bytes == (Path(table.location) / entry.location).stat().st_size
        vector = entry.deletion_vector
        if vector is not None:
            blob = (Path(table.location) / vector.location).read_bytes()[vector.offset :][: vector.size_in_bytes]
            assert blob[4:8] == bytes.fromhex("D1D33964")
            assert vector.cardinality == 2
            assert entry.tracking.dv_snapshot_id == table.current_snapshot.snapshot_id  # type: ignore[union-attr]


@pytest.mark.parametrize(("format_version", "mode"), [(2, "position-delete"), (3, "equality-delete")])
def test_other_deletes_are_refused(tmp_path: Path, format_version: int, mode: str) -> None:
    with pytest.raises(dk.UnsupportedError) as caught:
        entries_of(made(tmp_path, format_version, mode))
    assert (caught.value.found, caught.value.expected) == (mode, "deletion-vector")


def test_a_delete_is_two_states(tmp_path: Path) -> None:
    plain, first, _ = entries_of(made(tmp_path, 3, "deletion-vector"))
    assert first.deletion_vector is not None
    old, new = with_vector(plain, first.deletion_vector, 77)
    assert (old.tracking.status, old.deletion_vector, old.tracking.snapshot_id) == (Status.REPLACED, None, 77)
    assert (new.tracking.status, new.deletion_vector) == (Status.MODIFIED, first.deletion_vector)
    assert (new.tracking.dv_snapshot_id, new.tracking.snapshot_id) == (77, plain.tracking.snapshot_id)
    assert (old.tracking.status.is_live, new.tracking.status.is_live) == (False, True)
    leaf = TrackedFile(
        tracking=Tracking(status=Status.ADDED),
        content_type=Content.DATA_MANIFEST,
        location="m",
        record_count=1,
        file_size_in_bytes=1,
    )
    for entry in (old, leaf):
        with pytest.raises(dk.InvalidInputError, match="only the entry of a live data file"):
            with_vector(entry, first.deletion_vector, 78)


@pytest.mark.parametrize(
    ("value", "size"),
    [(None, 0), (0, 1), (63, 1), (64, 2), (8191, 2), (8192, 3), ("é", 2), (b"abc", 3), ((1, "a"), 2), ({1: b"ab"}, 3)],
)
def test_values_are_measured_as_avro_writes_them(value: object, size: int) -> None:
    assert value_bytes(value) == size
