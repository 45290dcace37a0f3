"""What a read opens and how much it reads: in kind, so that no change makes it worse unseen."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.counting_io import CountingIO, counted
from tests.tables import make

ROWS, GROUP = 40_000, 5_000
WIDE = pa.schema([("id", pa.int64()), ("grp", pa.int32()), ("text", pa.string())])
SMALL_GROUPS = {"write.parquet.row-group-limit": str(GROUP), "write.parquet.compression-codec": "uncompressed"}


def wide_rows(start: int = 0) -> pa.Table:
    ids = np.arange(start, start + ROWS, dtype=np.int64)
    text = [f"{i:x}" * 8 for i in np.random.default_rng(start).integers(1 << 40, 1 << 44, ROWS).tolist()]
    return pa.table({"id": ids, "grp": (ids % 10).astype(np.int32), "text": text}, schema=WIDE)


def wide_table(catalog: dk.Catalog, version: int, files: int = 2) -> dk.Table:
    parts = [wide_rows(i * ROWS) for i in range(files)]
    return make(catalog, *parts, schema=WIDE, format_version=version, properties=SMALL_GROUPS)


def data_bytes(counting: CountingIO, table: dk.Table) -> int:
    paths = {t.data_file.file_path for t in dk.scan(table).plan()}
    return sum(n for path, n in counting.bytes.items() if path in paths)


def test_vectors_of_one_puffin_are_one_read(catalog: dk.Catalog) -> None:
    table = wide_table(catalog, 3, files=6)
    dk.delete(table, "grp < 3", mode="deletion-vector", engine=LocalEngine(1))
    (puffin,) = {d.file_path for t in dk.scan(table).plan() for d in t.delete_files}
    uses: list[Callable[[dk.results.Scan], int]] = [lambda scan: scan.count(), lambda scan: len(scan.to_arrow())]
    for use, times in zip(uses, (0, 1), strict=True):  # to count them, their entries are enough
        read, counting = counted(table)
        assert use(dk.scan(read)) == 6 * ROWS * 7 // 10
        assert counting.opened[puffin] == times


@pytest.mark.parametrize("where", ["id = 12345", "id >= 10000 and id < 14999", "text = 'nothing'"])
def test_row_groups_are_skipped_by_statistics(catalog: dk.Catalog, where: str) -> None:
    table = wide_table(catalog, 3)
    dk.delete(table, "id = 12344 or id = 7", mode="deletion-vector")
    whole, counting = counted(table)
    rows = dk.scan(whole).to_arrow()
    everything = data_bytes(counting, table)
    assert everything > 2 * ROWS * 80
    read, counting = counted(table)
    found = dk.scan(read, where, columns=["id", "text", "_pos"]).to_arrow().to_pylist()
    wanted = {"id = 12345": range(12345, 12346), "text = 'nothing'": range(0)}.get(where, range(10000, 14999))
    assert [r["id"] for r in found] == [i for i in wanted if i != 12344]
    assert [r["_pos"] for r in found] == [r["id"] for r in found]
    texts = dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))
    assert all(texts[r["id"]] == r["text"] for r in found)
    assert data_bytes(counting, table) < everything / 8


def test_columns_of_the_result_are_read_only_where_the_filter_hits(catalog: dk.Catalog) -> None:
    """`grp` spans 0..9 in every row group, so statistics keep all of them, and the filter none but one."""
    table = wide_table(catalog, 3)
    dk.update(table, {"grp": 4}, where="grp = 5", mode="copy-on-write")
    read, counting = counted(table)
    assert len(dk.scan(read, "grp = 5").to_arrow()) == 0
    assert data_bytes(counting, table) < 2 * ROWS * 20


def test_row_groups_that_a_vector_covers_are_not_read(catalog: dk.Catalog) -> None:
    table = wide_table(catalog, 3)
    dk.delete(table, f"id >= {GROUP} and id < {ROWS + ROWS // 2}", mode="deletion-vector")
    left = [*range(GROUP), *range(ROWS + ROWS // 2, 2 * ROWS)]
    read, counting = counted(table)
    assert sorted(dk.scan(read).to_arrow()["id"].to_pylist()) == left
    whole, all_counting = counted(table)
    assert len(dk.scan(whole, columns=["id", "grp", "text", "_deleted"]).to_arrow()) >= len(left)
    assert data_bytes(counting, table) < data_bytes(all_counting, table) * 0.7


def test_keys_outside_a_file_cost_no_column(catalog: dk.Catalog) -> None:
    """The keys lie between the files' ids by range of the delete file, but in no row group of the first file."""
    table = wide_table(catalog, 2)
    dk.delete_keys(table, pa.table({"id": [-5, ROWS + 3, 3 * ROWS]}))
    read, counting = counted(table)
    found = dk.scan(read, columns=["grp"]).to_arrow()
    assert len(found) == 2 * ROWS - 1
    first = dk.scan(table, "id = 0", columns=["_file"]).to_arrow()["_file"][0].as_py()
    assert counting.bytes[first] < ROWS * 8  # not even the ids: they take 8 bytes each


def test_threads_share_a_large_file(catalog: dk.Catalog) -> None:
    """A file is read in parts, one for each row group, and the parts are the file."""
    table = wide_table(catalog, 3, files=1)
    dk.delete(table, "grp = 3", mode="deletion-vector")
    expected = [i for i in range(ROWS) if i % 10 != 3]
    for threads in (1, 2, 5):
        found = dk.scan(table, engine=LocalEngine(threads)).to_arrow()
        assert found["id"].to_pylist() == expected
