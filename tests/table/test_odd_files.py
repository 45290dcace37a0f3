"""Only regular files are opened, and a path that no file can have is a missing file; verify lists them all."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.table.file_io import PyIcebergIO
from tests.maintenance.damage import edit_file, edit_list, with_metadata
from tests.storage import ON_S3
from tests.stored import head_json
from tests.tables import ids, items, make, new_catalog

pytestmark = pytest.mark.skipif(ON_S3, reason="an object store has no pipes, folders or long names")


def bind(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's address is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name(f"{path.name}-pipe"))
    path.symlink_to(path.with_name(f"{path.name}-pipe"))


KINDS: dict[str, Callable[[Path], Any]] = {
    "a pipe": os.mkfifo,
    "a socket": bind,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe behind a link": link_to_pipe,
}


def build(folder: Path, version: int) -> dk.Table:
    catalog = dk.local_catalog(folder)
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0)), format_version=version)
    dk.delete(table, "id = 2", mode="merge-on-read")
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]
    return table.refresh()


@pytest.mark.parametrize("version", [2, 3])
def test_only_regular_files_are_opened(version: int, tmp_path: Path) -> None:
    table = build(tmp_path, version)
    files = sorted(p for p in tmp_path.rglob("*") if p.suffix in (".parquet", ".puffin", ".avro"))
    manifest_list = str(head_json(table)["manifest-list"])
    current = [p for p in files if not p.name.startswith("snap-") or manifest_list.endswith(p.name)]
    assert len(current) == 5
    for path in current:
        data = path.read_bytes()
        for kind, create in KINDS.items():
            path.unlink()
            create(path)
            with pytest.raises(dk.FormatError) as error:
                ids(table)
            assert (error.value.kind, error.value.field) == ("file-kind", None)
            assert str(error.value.file).endswith(path.name)
            assert str(error.value.found) in kind
            report = dk.verify(table, level="data")
            assert any(str(f.file).endswith(path.name) and f.severity == "error" for f in report.findings)
            path.rmdir() if kind == "a folder" else path.unlink()
            path.with_name(f"{path.name}-pipe").unlink(missing_ok=True)
            path.write_bytes(data)
    location = Path(table.metadata_location.removeprefix("file://"))
    location.unlink()
    os.mkfifo(location)
    with pytest.raises(dk.FormatError):
        dk.from_metadata(location)


ODD = {
    "empty": "",
    "folder": "/",
    "here": ".",
    "long name": "/nowhere/" + "x" * 300,
    "long path": "/nowhere/" + "x/" * 3000,
    "nul": "/nowhere/a\0b",
    "not UTF-8": "/nowhere/\ud800",
    "escaped nul": "file:///nowhere/%00",
    "below a file": "/etc/passwd/x",
    "no scheme's name": "file:",
    "unknown scheme": "foo://x/y",
    "another host": "file://elsewhere/x",
    "device": "/dev/null",
}


@pytest.mark.parametrize("name", ODD)
def test_verify_goes_on_where_a_path_is_odd(name: str, tmp_path: Path) -> None:
    path = ODD[name]
    for number, what in enumerate(("data", "deletes", "manifest", "list")):
        table = build(tmp_path / str(number), 2)
        if what == "list" or "\ud800" in path:  # Avro holds no such text
            current = table.metadata.raw["current-snapshot-id"]

            def change(raw: Any, current: Any = current) -> None:
                next(s for s in raw["snapshots"] if s["snapshot-id"] == current)["manifest-list"] = path

            table = with_metadata(table, change)
        elif what == "manifest":
            edit_list(table, lambda rows: rows[0].__setitem__("manifest_path", path))
        else:
            edit_file(table, int(what == "deletes"), file_path=path)
        report = dk.verify(table, level="data")
        assert any(f.file == path for f in report.findings), [str(f) for f in report.findings]
        with pytest.raises(dk.DeletekitError) as error:
            ids(table)
        assert not isinstance(error.value, dk.StorageError)


def test_a_loop_of_links_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    with pytest.raises(dk.NotFoundError):
        PyIcebergIO({}).read(str(tmp_path / "a"))


def test_a_partition_text_that_no_folder_can_be_named_by(tmp_path: Path) -> None:
    """The error says what to do, and what it says helps."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    rows = [{"id": 1, "p": "é" * 130}, {"id": 2, "p": "x" * 300}]
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, "db.t", schema, partition_by="p")
        with pytest.raises(dk.InvalidInputError, match=r"truncate\(width, column\)") as error:
            dk.append(table, rows)
        assert error.value.kind == "path-length"
        properties = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
        for name, by, more in (("o", "p", properties), ("u", "truncate(20, p)", {})):
            helped = dk.create_table(catalog, f"db.{name}", schema, partition_by=by, properties=more)
            dk.append(helped, rows)
            dk.delete(helped, "id = 1", mode="merge-on-read")
            assert ids(helped) == [2]
