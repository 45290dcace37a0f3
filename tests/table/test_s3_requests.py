"""How many requests an operation makes to an object store: each of them takes tens of milliseconds there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

import deletekit as dk
from tests.s3 import S3
from tests.s3_requests import S3Requests, requests_of

ROWS = pa.table({"id": pa.array(range(1000), pa.int64())})


@pytest.fixture
def requests(s3: S3) -> Iterator[S3Requests]:
    with requests_of(s3) as proxy:
        yield proxy


@pytest.fixture
def catalog(s3: S3, requests: S3Requests, tmp_path: Path) -> Iterator[dk.Catalog]:
    place = {"uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"s3://{s3.bucket()}/wh"}
    catalog = dk.load_catalog("s3", type="sql", **place, **requests.properties)
    yield catalog
    catalog.pyiceberg.close()


def asked(requests: S3Requests) -> dict[str, Counter[str]]:
    """The requests of each kind of file, by method."""
    kinds: dict[str, Counter[str]] = {}
    for method, key in requests.seen:
        name = key.rpartition("/")[2]
        kind = (
            "list" if name.startswith("snap-") else "manifest" if name.endswith("-m0.avro") else name.rpartition(".")[2]
        )
        kinds.setdefault(kind, Counter())[method] += 1
    requests.clear()
    return kinds


READ = {"HEAD": 1, "GET": 1}
WRITTEN = {"HEAD": 1, "PUT": 1}
"""Is it there already? And the file itself."""


def test_requests_of_commits_and_scans(catalog: dk.Catalog, requests: S3Requests) -> None:
    table = dk.create_table(catalog, "n.t", ROWS.schema, format_version=3)
    assert asked(requests) == {"json": WRITTEN}
    dk.append(table, ROWS)
    # The metadata file is read where the change begins, and where it is swapped.
    both = {"HEAD": 3, "GET": 2, "PUT": 1}
    assert asked(requests) == {"json": both, "parquet": WRITTEN, "manifest": WRITTEN, "list": WRITTEN}
    dk.delete(table, "id = 7", mode="deletion-vector")
    # The manifest of the data file, and that of the vector; the footer, and the one row group.
    read_and_written = {"HEAD": 2, "GET": 1, "PUT": 1}
    assert asked(requests) == {
        "json": both,
        "list": read_and_written,
        "manifest": read_and_written,
        "parquet": {"HEAD": 1, "GET": 2},
        "puffin": WRITTEN,
    }
    assert len(dk.scan(table).to_arrow()) == 999
    files = {"list": READ, "manifest": {"HEAD": 2, "GET": 2}, "puffin": READ}
    assert asked(requests) == {**files, "parquet": {"HEAD": 1, "GET": 2}}
    assert dk.scan(table).count() == 999
    assert asked(requests) == files


def test_manifests_are_read_once_and_at_the_same_time(catalog: dk.Catalog, requests: S3Requests) -> None:
    properties = {"commit.manifest-merge.enabled": "false"}
    table = dk.create_table(catalog, "n.t", ROWS.schema, format_version=2, properties=properties)
    for _ in range(5):
        dk.append(table, ROWS.slice(0, 2))
    requests.clear()
    requests.seconds = 0.1
    assert len(dk.scan(table).plan()) == 5
    assert requests.most_at_once >= 3
    assert asked(requests) == {"list": READ, "manifest": {"HEAD": 5, "GET": 5}}


def test_a_file_that_is_there_stays_on_s3(catalog: dk.Catalog) -> None:
    table = dk.create_table(catalog, "n.t", ROWS.schema)
    path = f"{table.location}/data/once"
    table.io.write(path, b"first")
    with pytest.raises(dk.CommitConflictError) as e:
        table.io.write(path, b"second")
    assert e.value.kind == "file-exists"
    assert table.io.read(path) == b"first"
    large = bytes(range(256)) * 50_000  # more than one part of an upload
    with table.io.create(f"{path}-large") as stream:
        stream.write(large)
    assert table.io.read(f"{path}-large") == large


def test_arrow_says_what_its_s3_was_made_of() -> None:
    """`s3_files` makes one anew from this."""
    made = fs.S3FileSystem(anonymous=True, region="us-east-1", endpoint_override="http://127.0.0.1:1")
    make, (options,) = made.__reduce__()
    assert options["allow_delayed_open"] is False
    assert make(options) == made
