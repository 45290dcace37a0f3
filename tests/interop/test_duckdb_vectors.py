"""DuckDB reads tables with several vectors in one Puffin file right, whatever their partition specs.

DuckDB 1.5.5 takes the bytes of one vector for those of another where it reads a Puffin file to and fro, and its cache
of files has their neighbours. Written in the order of a scan, each file is read forwards.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import deletekit as dk
from tests.interop.test_peers import by_duckdb

ROWS = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.mark.peers
@pytest.mark.slow
def test_vectors_of_two_partition_specs(catalog: dk.Catalog) -> None:
    """DuckDB read wrong rows of such tables when the vectors of a file were sorted by path."""
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
