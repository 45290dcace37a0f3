"""Storage that fails is a StorageError which names the file, out of every verb, whatever its library raises."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.errors import storage_error
from deletekit.table.file_io import PyIcebergIO
from tests.commit.crashing import CASES, NAME, make_table
from tests.table.failing_io import fail_with

Verb = Callable[[dk.Table], Any]

READS: dict[str, Verb] = {
    "scan": lambda t: dk.scan(t).to_arrow(),
    "scan in batches": lambda t: list(dk.scan(t, "id > 1").to_batches()),
    "count": lambda t: dk.scan(t, "id > 1").count(),
    "plan": lambda t: dk.scan(t).plan(),
    "explain": lambda t: dk.explain(t, "id = 1"),
    "inspect": lambda t: dk.inspect(t, deletes=True),
    "verify": lambda t: dk.verify(t, level="data"),
    "repair, dry run": lambda t: dk.repair(t, dry_run=True),
    "refresh": lambda t: t.refresh(),
}
# One case of each verb: what differs between its modes is no way to storage.
WRITES = {name: case for name, case in CASES.items() if "," not in name or name.endswith("deletion-vector")}
CALLS = ("open", "read", "write", "create", "size", "exists", "delete")


class ClientError(Exception):
    """What botocore, gcsfs or adlfs raise has a class of their own."""


ERRORS: list[tuple[Exception, str]] = [
    (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), "storage-permission"),
    (OSError(errno.EROFS, os.strerror(errno.EROFS)), "storage-permission"),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "storage-full"),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/w/InvalidToken/x.parquet"), "storage-full"),
    (OSError(errno.EIO, os.strerror(errno.EIO)), "storage"),
    (ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)), "storage-connection"),
    (TimeoutError("timed out"), "storage-connection"),
    (OSError("AWS Error ACCESS_DENIED during HeadObject operation"), "storage-permission"),
    (OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 7"), "storage-connection"),
    (ClientError("An error occurred (SlowDown)"), "storage"),
]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dk.Catalog]:
    """Give an embedded catalog whose files are behind FailingIO."""
    uri, impl = f"sqlite:///{tmp_path}/catalog.db", "tests.table.failing_io.FailingIO"
    catalog = dk.load_catalog("local", type="sql", uri=uri, warehouse=str(tmp_path), **{"py-io-impl": impl})
    yield catalog
    fail_with(None)
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_a_storage_that_fails(catalog: dk.Catalog, name: str) -> None:
    make_table(catalog, WRITES.get(name) or CASES["append"])
    verb = READS.get(name) or WRITES[name].verb
    table = dk.load_table(catalog, NAME)
    failed = []
    for number, call in enumerate(CALLS):
        error, kind = ERRORS[(number + len(name)) % len(ERRORS)]
        fail_with(error, call)
        try:
            with dk.engine.local(1):
                verb(table)
        except dk.StorageError as e:
            failed.append((e.kind == kind, bool(e.file), e.__cause__ is not None))
        except (dk.InvalidInputError, dk.NotFoundError):
            # An earlier turn, which nothing kept from it, has done it already.
            if name in READS:
                raise
        finally:
            fail_with(None)
    assert failed
    assert all(all(each) for each in failed)


@pytest.mark.parametrize("method", ["read", "size", "exists", "write", "delete", "open", "create"])
def test_every_error_of_every_call(catalog: dk.Catalog, tmp_path: Path, method: str) -> None:
    path = str(tmp_path / "file")
    io = PyIcebergIO(catalog.pyiceberg.properties, path)
    io.write(path, b"bytes")
    numbers = count()

    def use(stream: Any) -> None:
        stream.write(b"x") if method == "create" else stream.read()

    def call() -> None:
        if method in ("open", "create"):
            with getattr(io, method)(path if method == "open" else f"{path}-{next(numbers)}") as stream:
                use(stream)
        elif method == "write":
            io.write(f"{path}-{next(numbers)}", b"x")
        else:
            getattr(io, method)(path)

    for error, kind in ERRORS:
        if method in ("open", "create") and isinstance(error, ClientError):
            continue  # an open file is others' to use, and their own errors stay what they are
        fail_with(error, {"open": "read", "create": "write"}.get(method, method))
        with pytest.raises(dk.StorageError) as caught:
            call()
        assert caught.value.kind == kind
        assert caught.value.file is not None
        assert caught.value.file.startswith(path)
        assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("during", "expected"),
    [
        ("HeadObject operation: No response body.", "valid keys.*region"),
        ("PutObject operation: Unable to parse ExceptionName: InvalidArgument Message: no", "when_required"),
        ("PutObject operation: Unable to parse ExceptionName: InvalidBucketName Message: too short", None),
    ],
)
def test_what_to_do_about_status_400(during: str, expected: str | None) -> None:
    error = storage_error(OSError(f"AWS Error UNKNOWN (HTTP status 400) during {during}"), "s3://wh/a")
    if expected is None:
        assert error.expected is None
    else:
        assert re.search(expected, str(error.expected))


@pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")
def test_an_unknown_scheme_is_refused_by_name(catalog: dk.Catalog) -> None:
    schema = make_table(catalog, CASES["append"]).schema
    calls: list[Callable[[], Any]] = [
        lambda: dk.create_table(catalog, "test.other", schema, location="foo://bucket/t"),
        lambda: dk.from_metadata("foo://bucket/t/metadata/v1.metadata.json"),
        lambda: dk.sync_delta("foo://bucket/delta", catalog, "test.delta"),
    ]
    for call in calls:
        with pytest.raises(dk.UnsupportedError, match="foo://bucket") as caught:
            call()
        assert caught.value.kind == "storage-scheme"
    with pytest.raises(dk.InvalidInputError, match="local disk"):
        dk.from_metadata("foo://bucket/t")


def test_a_storage_error_is_an_os_error_and_tells_its_number() -> None:
    error = storage_error(OSError(errno.ENOSPC, "No space left on device", "/data/x"))
    assert isinstance(error, OSError)
    assert (error.errno, error.file, error.kind) == (errno.ENOSPC, "/data/x", "storage-full")
    assert str(error).startswith("storage is full; file /data/x; found OSError: [Errno 28]")


FULL = """
import resource, sys
import pyarrow as pa
import deletekit as dk

table = dk.load_table(dk.local_catalog(sys.argv[1]), "test.t")
rows = pa.table({"id": pa.array(range(200_000)), "category": [str(i * 7919) for i in range(200_000)]})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    dk.append(table, rows.set_column(0, "id", rows["id"].cast("int32")))
except dk.StorageError as e:
    print(e.kind, e.file)
"""


@pytest.mark.slow
def test_a_file_that_grows_too_large(tmp_path: Path) -> None:
    """The operating system's own answer, and nothing of the file stays."""
    catalog = dk.local_catalog(tmp_path)
    table = make_table(catalog, CASES["append"])
    before = {path for path in tmp_path.rglob("*") if "journal" not in path.name}
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], check=True, capture_output=True, text=True, cwd=Path.cwd()
    )
    assert done.stdout.startswith(f"storage-full {table.location}/data/"), done.stdout + done.stderr
    assert {path for path in tmp_path.rglob("*") if "journal" not in path.name} == before
