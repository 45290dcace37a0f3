"""Reading S3 by obstore and by Arrow: the same bytes and the same errors, and storage that fails now and then."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.table import s3_files
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.s3_files import S3Reads
from tests.s3 import S3
from tests.s3_requests import RESET, S3Requests, refusal, requests_of

ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "name": [f"n{i}" for i in range(1000)]})
NAMES = ["plain", "a b", "a%20b", "a+b", "a=b&c", "ä€", "a//b", "./a", "a/../b", "~a", "a:b@c", "a\tb", "a'\"b", "a*b"]
SLOW = [refusal(503, "SlowDown"), refusal(500, "InternalError"), RESET]


@pytest.fixture
def requests(s3: S3) -> Iterator[S3Requests]:
    with requests_of(s3) as proxy:
        yield proxy


@pytest.fixture(params=["obstore", "arrow"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "obstore":
        request.getfixturevalue("obstore")
    else:
        monkeypatch.setattr(S3Reads, "read", lambda *_: None)
    return str(request.param)


@pytest.fixture
def table(s3: S3, requests: S3Requests, tmp_path: Path) -> Iterator[dk.Table]:
    place = {"uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"s3://{s3.bucket()}/wh"}
    catalog = dk.load_catalog("s3", type="sql", **place, **requests.properties)
    yield dk.create_table(catalog, "n.t", ROWS.schema, format_version=3)
    catalog.pyiceberg.close()


def test_a_file_at_an_address_is_rows(table: dk.Table) -> None:
    """It is read through the table's own storage, which has the keys."""
    place = table.location.rpartition("/")[0]
    table.io.write(f"{place}/rows.csv", b"id,name\n1,a\n2,\n")
    dk.append(table, f"{place}/rows.csv")
    dk.upsert(table, f"{place}/rows.csv", on="id")
    dk.delete_keys(table, f"{place}/rows.csv", on="id")
    assert dk.scan(table).count() == 0
    assert [s.operation for s in table.snapshots()] == ["append", "overwrite", "delete"]
    with pytest.raises(dk.NotFoundError, match=r"none\.csv"):
        dk.append(table, f"{place}/none.csv")


@pytest.mark.usefixtures("obstore")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_is_read_as_arrow_reads_it(s3: S3, requests: S3Requests, name: str) -> None:
    folder = f"s3://{s3.bucket()}/wh"
    io = PyIcebergIO(requests.properties, folder)
    for other in NAMES:
        with suppress(dk.errors.DeletekitError):  # Arrow writes no `a//b`
            io.write(f"{folder}/{other}", other.encode() * 3)
    path = f"{folder}/{name}"

    def answer(read: Callable[[], bytes]) -> bytes | str:
        try:
            return read()
        except dk.errors.DeletekitError as e:
            return e.kind

    ranges = [(0, None), (2, None), (1, 2), (0, 0), (0, 1000), (1000, None), (1000, 1)]
    by_obstore = [answer(lambda r=r: io.read(path, *r)) for r in ranges]  # type: ignore[misc]
    io._s3 = S3Reads({})
    assert by_obstore == [answer(lambda r=r: io.read(path, *r)) for r in ranges]  # type: ignore[misc]


@pytest.mark.usefixtures("obstore")
def test_what_obstore_cannot_do_is_left_to_arrow(s3: S3, requests: S3Requests, monkeypatch: pytest.MonkeyPatch) -> None:
    path, given = f"s3://{s3.bucket()}/wh/file", requests.properties
    PyIcebergIO(given, path).write(path, b"bytes")
    reads = S3Reads(given)
    assert [reads.read(path, *at) for at in ((0, 0), (0, -1), (1, 3), (1, None))] == [None, None, b"yte", b"ytes"]
    for more in ("s3.role-arn", "client.role-arn", "s3.profile-name", "s3.signer", "s3.anonymous", "s3.resolve-region"):
        assert S3Reads({**given, more: "x"}).read(path, 0, None) is None
    for fewer in ("s3.access-key-id", "s3.secret-access-key", "s3.region"):
        assert S3Reads({k: v for k, v in given.items() if k != fewer}).read(path, 0, None) is None
    assert S3Reads(given).read(f"{path}#b", 0, None) is None
    assert S3Reads(given).read(path.replace("s3:", "gs:"), 0, None) is None
    other = {**given, "py-io-impl": "tests.table.failing_io.FailingIO"}
    assert PyIcebergIO(other, path)._s3.read(path, 0, None) is None
    monkeypatch.setattr(s3_files, "_PROCESS", -1)
    assert S3Reads(given).read(path, 0, None) is None


@pytest.mark.usefixtures("obstore")
def test_a_client_that_is_refused_is_not_asked_again(
    s3: S3, requests: S3Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"s3://{s3.bucket()}/wh/file"
    io = PyIcebergIO(requests.properties, path)
    io.write(path, b"bytes")
    monkeypatch.setattr(s3_files, "_SAME", s3_files._SAME | {"s3.signer"})
    io._s3 = S3Reads({**requests.properties, "s3.endpoint": "http://127.0.0.1:1", "s3.signer": "x"})
    assert io.read(path) == b"bytes"
    assert not io._s3._works
    assert io._s3.read(path, 0, None) is None


@pytest.mark.slow
@pytest.mark.usefixtures("client")
def test_verbs_survive_storage_that_fails_now_and_then(table: dk.Table, requests: S3Requests) -> None:
    asked = []

    def each_fifth(number: int) -> bytes | None:
        asked.append(number)
        return SLOW[number // 5 % 3] if number % 5 == 0 else None

    requests.fails = each_fifth
    for start in (0, 500):
        dk.append(table, ROWS.slice(start, 500))
    dk.delete(table, "id = 7", mode="deletion-vector")
    dk.delete(table, "name = 'n13'", mode="equality-delete", on=["name"])
    wanted = [row for row in ROWS.to_pylist() if row["id"] not in (7, 13)]
    assert sorted(dk.scan(table).to_arrow().to_pylist(), key=lambda row: row["id"]) == wanted
    dk.compact(table)
    requests.fails = lambda _: None
    assert sorted(dk.scan(table).to_arrow().to_pylist(), key=lambda row: row["id"]) == wanted
    assert dk.verify(table).ok
    assert len(asked) > 40


@pytest.mark.slow
@pytest.mark.usefixtures("client")
def test_a_failure_that_lasts_names_the_file_and_what_to_do(
    table: dk.Table, requests: S3Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    dk.append(table, ROWS)
    before = table.metadata_location
    monkeypatch.setattr(s3_files, "_MAX_ATTEMPTS", 2)
    table.refresh()
    requests.fails = lambda _: SLOW[0]
    for attempt in (lambda: dk.scan(table).to_arrow(), lambda: dk.append(table, ROWS)):
        with pytest.raises(dk.errors.StorageError) as e:
            attempt()
        assert (e.value.kind, e.value.expected) == ("storage-busy", "the same later")
        assert e.value.file is not None
        assert e.value.file.startswith(table.location)
    requests.fails = lambda _: None
    assert table.refresh().metadata_location == before
    assert dk.scan(table).to_arrow().equals(ROWS)


@pytest.mark.slow
@pytest.mark.usefixtures("client")
def test_an_answer_that_breaks_off_is_no_answer(s3: S3, requests: S3Requests) -> None:
    path = f"s3://{s3.bucket()}/wh/file"
    io = PyIcebergIO(requests.properties, path)
    io.write(path, b"bytes" * 100)
    head = b'HTTP/1.1 200 OK\r\nLast-Modified: Thu, 26 Nov 2026 03:00:00 GMT\r\nETag: "x"\r\nContent-Length: 500\r\n'
    requests.clear()
    requests.fails = lambda number: (
        head + b"\r\nbytes" if requests.seen[number - 1][0] == "GET" and number < 4 else None
    )
    assert io.read(path) == b"bytes" * 100


@pytest.mark.slow
def test_waits_between_tries_grow(s3: S3, requests: S3Requests) -> None:
    path = f"s3://{s3.bucket()}/wh/file"
    io = PyIcebergIO(requests.properties, path)
    io.write(path, b"bytes")
    io._s3 = S3Reads({})
    requests.clear()
    requests.fails = lambda number: SLOW[0] if number <= 3 else None
    assert io.read(path) == b"bytes"
    assert [method for method, _ in requests.seen] == ["HEAD"] * 4 + ["GET"]
