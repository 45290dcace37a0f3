"""The tables of the conformance suite: load a case, and put a copy of its table where an engine can read it.

Every path in a table begins with `SENTINEL`, as in apache/iceberg-verification. `relocate` decodes each file that holds
paths, writes them as they are at the new place, and corrects the sizes of files that manifests and lists tell.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq

from deletekit.conformance.rows import Row
from deletekit.errors import NotFoundError, UnsupportedError
from deletekit.formats.avro import read_container, write_container
from deletekit.formats.content_file import FileContent
from deletekit.formats.puffin import Blob, puffin_parts, read_puffin
from deletekit.formats.reserved_fields import FILE_PATH_ID

SENTINEL = "file:///tmp/iceberg-verification/deletekit"
_PATH_FIELDS = ("file_path", "referenced_data_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoy:
    """The rows that a reader finds who breaks a rule: `breaks` is the rule's id, `says` tells what that reader does."""

    breaks: str
    says: str
    ref: str
    rows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table of the suite, and what is known of it.

    Attributes
    ----------
    rule: id of the rule that it is there for. `sentence` says what it tests, `spec` names the section.
    writer: `deletekit`, `spark`, `iceberg-java` or `flink-layout`; `made_by` is the program that made it.
    metadata, refs: files below `folder`: the metadata file, and for each ref the expected rows.
    """

    name: str
    rule: str
    sentence: str
    spec: str
    writer: str
    made_by: str
    format_version: int
    features: tuple[str, ...]
    metadata: str
    refs: Mapping[str, str]
    decoys: tuple[Decoy, ...]
    folder: Path

    @property
    def root(self) -> str:
        """The location of the table, as its files have it: the sentinel, which Java spells `file:/tmp/...`."""
        location: str = self._json(self.metadata)["location"]
        return location

    def columns(self, ref: str = "main") -> list[dict[str, str]]:
        """Return name and Iceberg type of each column that an engine is asked for."""
        columns: list[dict[str, str]] = self._json(self.refs[ref])["columns"]
        return columns

    def expected(self, ref: str = "main") -> list[Row]:
        """Return the rows that a right reader finds, as `rows_of` gives them."""
        rows: list[Row] = self._json(self.refs[ref])["rows"]
        return rows

    def decoy_rows(self, decoy: Decoy) -> list[Row]:
        """Return the rows that the reader of a decoy finds."""
        rows: list[Row] = self._json(decoy.rows)["rows"]
        return rows

    def snapshot_id(self, ref: str = "main") -> int:
        """Return the snapshot that a ref of the table points to."""
        snapshot_id: int = self._json(self.metadata)["refs"][ref]["snapshot-id"]
        return snapshot_id

    def _json(self, file: str) -> Any:
        return json.loads((self.folder / file).read_bytes())


def load_suite(folder: str | Path) -> tuple[Case, ...]:
    """Return the cases of a suite. Raises NotFoundError for a folder without `index.json`."""
    index = Path(folder) / "index.json"
    if not index.is_file():
        message, expected = "no conformance suite here", "its file, index.json"
        raise NotFoundError(message, kind="suite-not-found", file=str(folder), expected=expected)
    return tuple(load_case(index.parent / name) for name in json.loads(index.read_bytes()))


def load_case(folder: Path) -> Case:
    """Return the case that a folder of the suite holds."""
    stored = json.loads((folder / "case.json").read_bytes())
    decoys = tuple(Decoy(**decoy) for decoy in stored.pop("decoys"))
    return Case(**{**stored, "features": tuple(stored["features"])}, decoys=decoys, folder=folder)


def relocate(case: Case, folder: str | Path, root: str | None = None) -> str:
    """Write a copy of a case's table into a new folder, with paths that lead there. Return its metadata file.

    Parameters
    ----------
    folder: does not exist yet.
    root: how paths of the copy begin; default the `file://` URI of the folder.
    """
    target = Path(folder).absolute()
    files = {p.relative_to(case.folder / "table").as_posix(): p.read_bytes() for p in _files(case.folder / "table")}
    metadata = case.metadata.removeprefix("table/")
    for name, data in moved(files, metadata, case.root, f"file://{target}" if root is None else root).items():
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return str(target / metadata)


def moved(files: Mapping[str, bytes], metadata: str, old: str, new: str) -> dict[str, bytes]:
    """Return the files of a table, by relative path, with each path that begins with `old` beginning with `new`.

    Files that the metadata file does not lead to are left out.
    """
    raw = json.loads(files[metadata])
    done: dict[str, bytes] = {}
    for snapshot in raw.get("snapshots", ()):
        _move_list(_relative(snapshot["manifest-list"], old), files, done, old, new)
    done[metadata] = json.dumps(_replaced(raw, old, new), ensure_ascii=False, indent=1).encode()
    return done


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def _relative(path: str, old: str) -> str:
    return path.removeprefix(old).lstrip("/")


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return a JSON value with the beginning of paths replaced, where a text is a path."""
    if isinstance(value, str):
        return new + value[len(old) :] if value == old or value.startswith(f"{old}/") else value
    if isinstance(value, list):
        return [_replaced(v, old, new) for v in value]
    return {k: _replaced(v, old, new) for k, v in value.items()} if isinstance(value, dict) else value


def _move_list(name: str, files: Mapping[str, bytes], done: dict[str, bytes], old: str, new: str) -> None:
    def move(row: dict[str, Any]) -> dict[str, Any]:
        manifest = _relative(row["manifest_path"], old)
        if manifest not in done:
            done[manifest] = _move_avro(files[manifest], lambda entry: _moved_entry(entry, files, done, old, new))
        return {**row, "manifest_path": f"{new}/{manifest}", "manifest_length": len(done[manifest])}

    if name not in done:
        done[name] = _move_avro(files[name], move)


def _moved_entry(
    entry: dict[str, Any], files: Mapping[str, bytes], done: dict[str, bytes], old: str, new: str
) -> dict[str, Any]:
    """Return a manifest entry with its paths and its size as they are at the new place, and copy its file there."""
    file = dict(entry["data_file"])
    name = _relative(file["file_path"], old)
    if name in files and name not in done:  # a removed file may have been left out
        by_position = file.get("content") == FileContent.POSITION_DELETES
        done[name] = _move_deletes(files[name], file["file_format"], old, new) if by_position else files[name]
    file |= {field: _replaced(file.get(field), old, new) for field in _PATH_FIELDS if field in file}
    file["file_size_in_bytes"] = len(done[name]) if name in done else file["file_size_in_bytes"]
    for bounds in ("lower_bounds", "upper_bounds"):
        for pair in file.get(bounds) or ():
            if pair["key"] == FILE_PATH_ID:
                pair["value"] = _replaced(pair["value"].decode(), old, new).encode()
    return {**entry, "data_file": file}


def _move_avro(data: bytes, move: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """Return an Avro file with each record changed, under the same schema and metadata."""
    opened = read_container(data)
    metadata = {k: v for k, v in opened.metadata.items() if not k.startswith("avro.")}
    codec = opened.metadata.get("avro.codec", "null")
    return write_container(opened.schema, [move(record) for record in opened], metadata, codec)


def _move_deletes(data: bytes, file_format: str, old: str, new: str) -> bytes:
    """Return a position delete file, or a Puffin file with vectors, that names the data files at the new place."""
    if file_format.upper() == "PUFFIN":
        return _move_puffin(data, old, new)
    if file_format.upper() == "AVRO":
        return _move_avro(data, lambda row: _replaced(row, old, new))
    out = BytesIO()
    if file_format.upper() == "ORC":
        table = po.ORCFile(BytesIO(data)).read()
        po.write_table(_move_column(table, old, new), out)
    else:
        table = pq.ParquetFile(BytesIO(data)).read()
        pq.write_table(_move_column(table, old, new), out, store_schema=False)
    return out.getvalue()


def _move_column(table: pa.Table, old: str, new: str) -> pa.Table:
    at = table.schema.get_field_index("file_path")
    field = table.schema.field(at)
    paths = [_replaced(path, old, new) for path in pc.cast(table.column(at), pa.string()).to_pylist()]
    return table.set_column(at, field.with_type(pa.string()), pa.array(paths, pa.string()))


def _move_puffin(data: bytes, old: str, new: str) -> bytes:
    footer = read_puffin(data)
    blobs = [
        Blob(
            type=blob.type,
            data=data[blob.offset : blob.offset + blob.length],
            fields=blob.fields,
            snapshot_id=blob.snapshot_id,
            sequence_number=blob.sequence_number,
            properties=_replaced(dict(blob.properties), old, new),
        )
        for blob in sorted(footer.blobs, key=lambda blob: blob.offset)
    ]
    parts, placed = puffin_parts(blobs, footer.properties)
    offsets = [blob.offset for blob in placed.blobs]
    if offsets != sorted(blob.offset for blob in footer.blobs):  # manifests tell them
        message, expected = "Puffin file with gaps between its blobs", "one blob behind the other"
        raise UnsupportedError(message, kind="puffin-gaps", field="offset", found=offsets, expected=expected)
    return b"".join(parts)
