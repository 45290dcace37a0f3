"""Storage is listed: every file below a directory, with its size and age, and nothing from elsewhere."""

import time
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow.fs import LocalFileSystem
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

import deletekit as dk
from deletekit.table.file_io import FileIO, PyIcebergIO
from tests.memory_io import MemoryFileIO
from tests.s3 import S3
from tests.tables import raises

NAMES = ["a", "b.parquet", "sub/c", "sub/deeper/d e", "sub/x=1/é%20", "_hidden/.e"]


def write_all(io: FileIO, prefix: str) -> None:
    for i, name in enumerate(NAMES):
        io.write(f"{prefix}/{name}", b"x" * (i + 1))


def check_listing(io: FileIO, prefix: str) -> None:
    started = time.time_ns() // 1_000_000
    write_all(io, prefix)
    write_all(io, prefix + "-beside")
    for asked in (prefix, prefix + "/"):
        found = {f.path: f for f in io.list(asked)}
        assert {p: f.size for p, f in found.items()} == {f"{prefix}/{n}": i + 1 for i, n in enumerate(NAMES)}
        # S3 counts in seconds.
        assert all(started - 2000 <= f.modified_ms <= time.time_ns() // 1_000_000 + 2000 for f in found.values())
    assert [f.path for f in io.list(f"{prefix}/sub/deeper")] == [f"{prefix}/sub/deeper/d e"]
    assert list(io.list(f"{prefix}/nothing")) == []
    for path in found:
        io.delete(path)
        io.delete(path)
    assert list(io.list(prefix)) == []


@pytest.mark.parametrize(
    ("scheme", "impl"),
    # fsspec does not write to file:/path.
    [
        ("", PyArrowFileIO),
        ("file:", PyArrowFileIO),
        ("file://", PyArrowFileIO),
        ("FILE://localhost", PyArrowFileIO),
        ("", FsspecFileIO),
    ],
)
def test_local(tmp_path: Path, scheme: str, impl: type) -> None:
    (tmp_path / "sub" / "deeper").mkdir(parents=True)
    for folder in ("sub/x=1", "_hidden"):
        (tmp_path / folder).mkdir(exist_ok=True)
    for folder in ("sub/deeper", "sub/x=1", "_hidden"):
        (tmp_path.with_name(tmp_path.name + "-beside") / folder).mkdir(parents=True)
    check_listing(PyIcebergIO({}, impl=impl({})), f"{scheme}{tmp_path}")


def test_letters_of_a_uri_are_letters_of_the_file(tmp_path: Path) -> None:
    """`#`, `?` and `%` end no name; and a file of another host is not one of the working directory."""
    io = PyIcebergIO({})
    for name in ("a#1", "a#2", "a?b", "a%20b", "a b"):
        io.write(f"file:{tmp_path}/{name}", name.encode())
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {n: n for n in ("a#1", "a#2", "a?b", "a%20b", "a b")}
    io.delete(f"file://{tmp_path}/a#1")
    assert not io.exists(f"file:{tmp_path}/a#1")
    assert io.read(f"file:{tmp_path}/a#2") == b"a#2"
    for act in (io.read, io.exists, io.size, io.delete, io.list):
        with pytest.raises(dk.UnsupportedError):
            act(f"file://elsewhere{tmp_path}/a#2")


def test_a_folder_that_goes_meanwhile(tmp_path: Path) -> None:
    """Maintenance removes empty folders; a writer makes its folder again."""

    class Unlucky(PyArrowFileIO):
        left = 2

        def new_output(self, location: str) -> Any:
            made = super().new_output(location)
            if self.left:
                self.left -= 1
                made._filesystem = LocalFileSystem()  # makes no folders
            return made

    io = PyIcebergIO({}, impl=Unlucky({}))
    io.write(f"{tmp_path}/gone/a", b"a")
    assert io.read(f"{tmp_path}/gone/a") == b"a"


def test_memory() -> None:
    check_listing(MemoryFileIO(), "memory://t")


def test_fsspec() -> None:
    """Through one of its file systems that is here; those of the clouds answer alike."""
    impl = FsspecFileIO({})
    impl._scheme_to_fs["memory"] = lambda _: MemoryFileSystem()
    check_listing(PyIcebergIO({}, impl=impl), "memory://some/table")


def test_storage_that_cannot_be_listed_says_so() -> None:
    with raises(dk.UnsupportedError, "storage-listing"):
        PyIcebergIO({}, impl=object()).list("s3://b/t")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_s3(s3: S3, scheme: str) -> None:
    check_listing(PyIcebergIO(s3.properties, f"{scheme}://x"), f"{scheme}://{s3.bucket()}/some/table")


@pytest.mark.slow
def test_more_than_a_page_of_s3(s3: S3) -> None:
    bucket = s3.bucket()
    for i in range(1005):
        s3.request("PUT", f"{bucket}/t/{i}", b"x")
    io = PyIcebergIO(s3.properties, "s3://x")
    assert {f.path for f in io.list(f"s3://{bucket}/t")} == {f"s3://{bucket}/t/{i}" for i in range(1005)}


def test_links_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "table", tmp_path / "outside"
    (inside / "data").mkdir(parents=True)
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    (inside / "data" / "mine").write_bytes(b"x")
    (inside / "data" / "folder").symlink_to(outside)
    (inside / "data" / "file").symlink_to(outside / "precious")
    (inside / "loop").symlink_to(inside)
    io = PyIcebergIO({}, str(inside))
    assert [f.path for f in io.list(str(inside))] == [f"{inside}/data/mine"]
    # The location itself may be one: that is how somebody names it.
    (tmp_path / "link").symlink_to(inside)
    assert [f.path for f in io.list(f"{tmp_path}/link")] == [f"{tmp_path}/link/data/mine"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert list(PyIcebergIO({}, "/").list(f"{tmp_path}/file")) == []


@pytest.mark.parametrize("name", ["a#b", "a?b"])
def test_a_name_that_pyiceberg_would_cut_is_not_deleted(s3: S3, name: str) -> None:
    bucket = s3.bucket()
    io = PyIcebergIO(s3.properties, "s3://x")
    io.write(f"s3://{bucket}/t/a", b"precious")
    with raises(dk.UnsupportedError, "path"):
        io.delete(f"s3://{bucket}/t/{name}")
    assert io.read(f"s3://{bucket}/t/a") == b"precious"
