"""Which delete files a stream writes: few Puffin files (v3), a position delete file for each data file (v2)."""

from typing import Any

import pytest

import deletekit as dk
from tests.stored import live_files
from tests.stream.replay import PEOPLE
from tests.tables import ids, make

FILES = [[{"id": 10 * n + i, "name": "old", "score": 0.0} for i in range(4)] for n in range(6)]


def write(table: dk.Table, *numbers: int) -> None:
    """Delete a row of each data file in one batch, and then another one."""
    with dk.stream.sink(table, "people", on=["id"]) as sink:
        for batch, i in enumerate(numbers):
            sink.write([{"id": 10 * n + i, "_change_type": "DELETE"} for n in range(6)], batch)
    left = set(range(4)) - set(numbers)
    assert ids(table.refresh()) == sorted(10 * n + i for n in range(6) for i in left)


@pytest.mark.parametrize(("bytes_", "files"), [(None, 1), ("100", 3), ("1", 6)])
def test_vectors_of_a_batch_are_in_few_puffin_files(catalog: dk.Catalog, bytes_: str | None, files: int) -> None:
    properties = {} if bytes_ is None else {"write.delete.target-file-size-bytes": bytes_}
    table = make(catalog, *FILES, schema=PEOPLE, format_version=3, properties=properties)
    write(table, 0, 2)
    deletes = live_files(table, 1)
    assert len(deletes) == 6
    assert len({f["file_path"] for f in deletes}) == files
    for path in {f["file_path"] for f in deletes}:
        sizes = [f["content_size_in_bytes"] for f in deletes if f["file_path"] == path]
        assert len(sizes) == 1 or sum(sizes) <= int(bytes_ or 2**26)


@pytest.mark.parametrize(("granularity", "files"), [(None, 6), ("file", 6), ("partition", 2)])
def test_a_position_delete_file_is_about_one_data_file(catalog: dk.Catalog, granularity: Any, files: int) -> None:
    properties = {} if granularity is None else {"write.delete.granularity": granularity}
    table = make(catalog, *FILES, schema=PEOPLE, format_version=2, properties=properties)
    write(table, 0, 2)
    deletes = live_files(table, 1)
    assert len(deletes) == files
    assert all(f["referenced_data_file"] for f in deletes) == (granularity != "partition")
