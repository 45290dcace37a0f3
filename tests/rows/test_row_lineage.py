"""Row ids and sequence numbers of rows: inherited, kept and changed."""

import numpy as np
import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.formats.content_file import DataFile, EntryStatus, ManifestEntry
from deletekit.rows.row_lineage import inherited, with_row_ids
from tests.interop.rows import same_rows

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
NAMED = ROWS.append_column("_row_id", pa.array([7, 8, 9]))


def entry(first_row_id: int | None) -> ManifestEntry:
    file = DataFile(
        file_path="a.parquet",
        file_format="parquet",
        record_count=9,
        file_size_in_bytes=1,
        spec_id=0,
        first_row_id=first_row_id,
    )
    numbers = {"sequence_number": 7, "file_sequence_number": 7}
    return ManifestEntry(status=EntryStatus.ADDED, snapshot_id=1, data_file=file, **numbers)


@pytest.mark.parametrize(
    ("first_row_id", "ids", "numbers"),
    [(100, [105, 40, 107], [7, 3, 7]), (0, [5, 40, 7], [7, 3, 7]), (None, [None] * 3, [None] * 3)],
)
def test_a_row_without_stored_values_inherits_them(
    first_row_id: int | None, ids: list[int | None], numbers: list[int | None]
) -> None:
    stored = [pa.chunked_array([pa.array([None, x, None], pa.int64())]) for x in (40, 3)]
    found = inherited(entry(first_row_id), np.arange(5, 5 + len(stored[0])), *stored)
    assert [column.to_pylist() for column in found] == [ids, numbers]


def test_a_changed_row_keeps_its_id_and_has_no_number() -> None:
    rows = with_row_ids(ROWS, pa.chunked_array([pa.array([4, None, 6], pa.int64())]))
    assert rows.column_names == ["id", "name", "_row_id", "_last_updated_sequence_number"]
    assert rows["_row_id"].to_pylist() == [4, None, 6]
    assert rows["_last_updated_sequence_number"].null_count == 3


@pytest.mark.parametrize("mode", ["copy-on-write", "position-delete", "equality-delete"])
def test_a_users_column_of_the_same_name_is_no_lineage(catalog: dk.Catalog, mode: str) -> None:
    """A v2 table has no row ids; a column that is called so is one like any other."""
    table = dk.create_table(catalog, "demo.named", NAMED.schema, format_version=2)
    dk.append(table, NAMED)
    dk.update(table, {"name": "x", "_row_id": 70}, where="id = 2", mode=mode)
    expected = [{"id": 1, "name": "a", "_row_id": 7}, {"id": 2, "name": "x", "_row_id": 70}]
    same_rows(dk.scan(table).to_arrow().to_pylist(), [*expected, {"id": 3, "name": "c", "_row_id": 9}])
    same_rows(
        dk.scan(table, "_row_id = 70", columns=["_row_id", "_pos"]).to_arrow().to_pylist(),
        [{"_row_id": 70, "_pos": 1 if mode == "copy-on-write" else 0}],
    )
    dk.compact(table, rewrite_all=True)
    assert sorted(dk.scan(table).to_arrow()["_row_id"].to_pylist()) == [7, 9, 70]


def test_from_version_3_on_the_names_are_reserved(catalog: dk.Catalog) -> None:
    named = "store row lineage under this name; field _row_id"
    with pytest.raises(dk.InvalidInputError, match=named):
        dk.create_table(catalog, "demo.refused", NAMED.schema, format_version=3)
    table = dk.create_table(catalog, "demo.named", NAMED.schema, format_version=2)
    with pytest.raises(dk.InvalidInputError, match=named):
        dk.upgrade_format_version(table, 3)
    lineage = dk.create_table(catalog, "demo.lineage", ROWS.schema, format_version=3)
    with pytest.raises(dk.InvalidInputError, match=named):
        dk.rename_column(lineage, "name", "_row_id")
    with pytest.raises(dk.InvalidInputError, match=named):
        dk.add_column(lineage, "_row_id", "long")
