"""DuckDB reads tables with several vectors in one Puffin file right, whatever their sizes and partition specs.

DuckDB 1.5.5 keeps what it reads of a file. It reads on to what it has already, if that is not farther than what it was
asked for, and then takes the first vector of this read for each other one in it.
"""

import random

import pyarrow as pa
import pytest

import deletekit as dk
from tests.interop.test_peers import by_duckdb

ROWS = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.mark.peers
@pytest.mark.slow
def test_vectors_of_two_partition_specs(catalog: dk.Catalog) -> None:
    """It read wrong rows of such tables when the vectors of two specs were in one file."""
    for seed in (11, 15, 17, 27, 29):
        rng = random.Random(seed)
        table = dk.create_table(catalog, f"d.t{seed}", ROWS, format_version=3)
        rows = 0
        for append in range(rng.randint(4, 8)):
            if append == 3:
                dk.add_partition_field(table, "truncate(2, id)")
            new = range(rows, rows + rng.randint(1, 40))
            dk.append(table, pa.table({"id": [rng.choice([None, *range(9)]) for _ in new], "v": new}, ROWS))
            rows = new.stop
        live = set(range(rows))
        for _ in range(2):
            gone = rng.sample(range(rows), rows // 3)
            dk.delete(table, f"v IN ({', '.join(map(str, gone))})", mode="deletion-vector", granularity="partition")
            live -= set(gone)
            assert sorted(row["v"] for row in by_duckdb(table.metadata_location)) == sorted(live), seed


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.parametrize("hidden", [(2000, 3), (3, 2000), (900, 2000, 3, 400)], ids=str)
def test_vectors_of_other_sizes(catalog: dk.Catalog, hidden: tuple[int, ...]) -> None:
    """It took a large vector for a smaller one behind it. The oldest data file is scanned last."""
    table = dk.create_table(catalog, "d.t", ROWS, format_version=3)
    files = [range(start, start + 2 * count) for start, count in zip(range(0, 100_000, 10_001), hidden, strict=False)]
    for rows in files:
        dk.append(table, pa.table({"id": list(rows), "v": list(rows)}, ROWS))
    with dk.engine.local(threads=1):  # writes one Puffin file
        done = dk.delete(table, "v % 2 = 0", mode="deletion-vector", granularity="partition")
    assert len({f.file_path for f in done.added_delete_files}) == 1
    live = [v for rows in files for v in rows if v % 2]
    assert sorted(row["v"] for row in by_duckdb(table.metadata_location)) == live
