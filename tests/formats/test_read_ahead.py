"""Pieces fetched ahead: the same bytes and rows as without, whatever a footer says; each piece asked for once."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from deletekit.errors import FormatError, StorageError
from deletekit.formats import read_ahead
from deletekit.formats.read_ahead import ReadAhead
from deletekit.formats.tabular import TabularFile, open_tabular, read_all

LOCAL = fs.LocalFileSystem()
DATA = bytes(range(256)) * 20_000


class Source:
    """A file that notes what is read of it, and how many reads wait at the same time."""

    def __init__(self, together: int = 1) -> None:
        self.asked: list[tuple[int, int]] = []
        self._together = threading.Barrier(together)

    def size(self) -> int:
        return len(DATA)

    def read_at(self, length: int, offset: int) -> bytes:
        self.asked.append((offset, length))
        self._together.wait(10)
        return DATA[offset : offset + length]


def test_pieces_far_apart_are_asked_for_at_the_same_time_and_near_ones_together() -> None:
    source = Source(together=2)
    ahead = ReadAhead(source)
    ahead.fetch([(0, 10), (3_000_000, 3_000_010), (20, 30), (5, 8), (-1, 5), (7, 7), (9, len(DATA) + 1)])
    assert sorted(source.asked) == [(0, 30), (3_000_000, 10)]
    for begin, length in ((0, 30), (25, 5), (3_000_000, 10), (29, 0)):
        ahead.seek(begin)
        assert bytes(ahead.read(length)) == DATA[begin : begin + length]
        assert ahead.tell() == begin + length
    assert len(source.asked) == 2


def test_what_was_not_fetched_is_read() -> None:
    source = Source()
    ahead = ReadAhead(source)
    ahead.fetch([(100, 200)])
    for begin, length in ((150, 100), (50, 100), (len(DATA) - 5, 10), (0, 1), (len(DATA), 5), (99, 102)):
        ahead.seek(begin)
        assert bytes(ahead.read(length)) == DATA[begin : begin + length]
    assert ahead.seek(-3, 2) == len(DATA) - 3
    assert bytes(ahead.read()) == DATA[-3:]
    assert ahead.seek(-1, 1) == len(DATA) - 1


def rows() -> pa.Table:
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 1 << 60, 3_000)
    columns: dict[str, Any] = {f"c{i}": numbers + i for i in range(12)}
    columns["a.b"] = pa.array([None if n % 7 == 0 else f"t{n % 50}" for n in numbers.tolist()])
    columns["a"] = pa.array([{"b": n, "c": [n, None]} if n % 3 else None for n in numbers.tolist()])
    columns["d"] = pa.array(np.where(numbers % 5 == 0, np.nan, -0.0))
    return pa.table(columns)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ahead") / "x.parquet"
    pq.write_table(rows(), path, row_group_size=1_700, compression="none")
    return path


@pytest.mark.parametrize("columns", [["c3"], ["c0", "c11"], ["a"], ["a.b"], ["d", "a", "c1"], [], None])
@pytest.mark.parametrize("hole", [0, 1 << 20])
def test_rows_are_the_same(file: Path, monkeypatch: pytest.MonkeyPatch, columns: list[str] | None, hole: int) -> None:
    monkeypatch.setattr(read_ahead, "_MAX_GAP_BYTES", hole)
    with LOCAL.open_input_file(str(file)) as plain, LOCAL.open_input_file(str(file)) as source:
        near, far = open_tabular(plain, "parquet"), remote(source)
        names = near.schema.names if columns is None else columns
        assert str(read_all(far, names)) == str(read_all(near, names))
        for group in near.row_groups:
            pieces = zip(near.batches(group, names, 500), far.batches(group, names, 500), strict=True)
            assert all(str(a.to_pylist()) == str(b.to_pylist()) for a, b in pieces)


def remote(source: Any) -> TabularFile:
    """Open as a file of an object store, whose source is of the same class."""
    opened = open_tabular(source, "parquet", remote=True)
    assert opened._ahead is not None  # type: ignore[attr-defined]
    return opened


def test_damage_and_storage_that_fails_stay_what_they_are(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(file.read_bytes())
    begin = pq.ParquetFile(file).metadata.row_group(0).column(3).data_page_offset
    data[begin : begin + 64] = bytes(64)
    damaged = file.with_name("damaged.parquet")
    damaged.write_bytes(data)
    name = str(damaged)
    with LOCAL.open_input_file(name) as plain, LOCAL.open_input_file(name) as source:
        found = []
        for opened in (open_tabular(plain, "parquet"), remote(source)):
            with pytest.raises(FormatError) as e:
                read_all(opened, ["c3", "c9"])
            found.append((e.value.kind, e.value.found))
        assert found[0] == found[1]

    def fails(*_: Any) -> bytes:
        raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 7")

    with LOCAL.open_input_file(str(file)) as source:
        opened = remote(source)
        monkeypatch.setattr(ReadAhead, "_piece", fails)
        with pytest.raises(StorageError) as storage:
            read_all(opened, ["c3", "c9"])
        assert storage.value.kind == "storage-connection"
