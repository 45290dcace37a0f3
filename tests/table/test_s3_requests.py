"""How many requests an operation makes to an object store: each of them takes tens of milliseconds there."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs

import deletekit as dk
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.table.s3_files import S3Reads
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


WRITTEN = {"HEAD": 1, "PUT": 1}
"""Is it there already? And the file itself."""


@pytest.fixture(params=["obstore", "arrow"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The requests that read one file: Arrow asks for its size first."""
    if request.param == "obstore":
        request.getfixturevalue("obstore")
        return {"GET": 1}
    monkeypatch.setattr(S3Reads, "read", lambda *_: None)
    return {"HEAD": 1, "GET": 1}


def times(number: int, requests: dict[str, int]) -> Counter[str]:
    return Counter({method: number * count for method, count in requests.items()})


def test_requests_of_commits_and_scans(catalog: dk.Catalog, requests: S3Requests, read: dict[str, int]) -> None:
    table = dk.create_table(catalog, "n.t", ROWS.schema, format_version=3)
    assert asked(requests) == {"json": {"HEAD": 2, "PUT": 1}}  # and the first file: is it as large as it was sent?
    dk.append(table, ROWS)
    # The metadata file is read where the change begins. Where it is swapped, the catalog still names the same one.
    both = Counter(WRITTEN) + times(1, read)
    assert asked(requests) == {"json": both, "parquet": WRITTEN, "manifest": WRITTEN, "list": WRITTEN}
    dk.delete(table, "id = 7", mode="deletion-vector")
    # The manifest of the data file, and that of the vector. The data file is small, and read whole.
    assert asked(requests) == {"json": both, "list": both, "manifest": both, "parquet": read, "puffin": WRITTEN}
    assert len(dk.scan(table).to_arrow()) == 999
    files = {"list": read, "manifest": times(2, read), "puffin": read}
    assert asked(requests) == {**files, "parquet": read}
    assert dk.scan(table).count() == 999
    assert asked(requests) == {"list": read, "manifest": times(2, read)}  # and not the vector, which is ours


def test_manifests_are_read_once_and_at_the_same_time(
    catalog: dk.Catalog, requests: S3Requests, read: dict[str, int]
) -> None:
    properties = {"commit.manifest-merge.enabled": "false"}
    table = dk.create_table(catalog, "n.t", ROWS.schema, format_version=2, properties=properties)
    for _ in range(5):
        dk.append(table, ROWS.slice(0, 2))
    requests.clear()
    requests.seconds = 0.1
    assert len(dk.scan(table).plan()) == 5
    assert requests.most_at_once >= 3
    assert asked(requests) == {"list": read, "manifest": times(5, read)}


def test_a_large_file_is_read_in_parts(catalog: dk.Catalog, requests: S3Requests) -> None:
    rows = pa.table({"id": np.random.default_rng(1).integers(0, 1 << 60, 300_000)})
    table = dk.create_table(catalog, "n.t", rows.schema)
    dk.append(table, rows)
    requests.clear()
    assert dk.scan(table).to_arrow().equals(rows)
    assert asked(requests)["parquet"] == {"HEAD": 1, "GET": 2}  # its size, the footer, and the one row group


def test_columns_far_apart_are_read_at_the_same_time(catalog: dk.Catalog, requests: S3Requests) -> None:
    rng = np.random.default_rng(1)
    rows = pa.table({f"c{i}": rng.integers(0, 1 << 60, 200_000) for i in range(8)})
    table = dk.create_table(catalog, "n.t", rows.schema)
    dk.append(table, rows)
    requests.clear()
    requests.seconds = 0.1
    assert dk.scan(table, columns=["c0", "c3", "c6"]).to_arrow().equals(rows.select(["c0", "c3", "c6"]))
    assert requests.most_at_once == 3
    assert asked(requests)["parquet"] == {"HEAD": 1, "GET": 4}  # its size, the footer, and one for each column


def test_a_wrong_size_in_a_manifest_changes_no_row(catalog: dk.Catalog) -> None:
    table = dk.create_table(catalog, "n.t", ROWS.schema)
    dk.append(table, ROWS)
    (task,) = dk.scan(table).plan()
    for size in (1, 100 << 20):
        entry = replace(task.data, data_file=replace(task.data_file, file_size_in_bytes=size))
        request = ReadRequest(table.schema.fields)
        batches = read_task(ReadContext(table.io, table.metadata), replace(task, data=entry), request)
        assert pa.concat_tables(batch.table for batch in batches).equals(ROWS)


def test_a_commit_looks_at_a_metadata_file_again_whose_name_another_may_have(
    catalog: dk.Catalog, requests: S3Requests
) -> None:
    table = dk.create_table(catalog, "n.t", ROWS.schema)
    place = f"{table.location}/metadata/v1.metadata.json"
    table.io.write(place, table.io.read(table.metadata_location))
    catalog.register_table("n.again", place)
    again = dk.load_table(catalog, "n.again")
    requests.clear()
    dk.append(again, ROWS)
    assert sum(method == "GET" and key.endswith("/v1.metadata.json") for method, key in requests.seen) == 2


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
