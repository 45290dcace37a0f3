"""Copy tables of the suite to another place, with paths that lead there: needs fastavro and pyarrow.

    python conformance/relocate.py NAME DIR [ROOT]

Every path in a table begins with the sentinel root. Each file that holds paths is decoded and written again: manifest
lists, manifests, position delete files and Puffin files. Sizes of files that manifests tell are corrected. ROOT is how
the paths begin afterwards, as `s3://bucket/there`; without it they lead to DIR.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

POSITION_DELETES = 1
FILE_PATH_ID = 2147483546
_PATH_FIELDS = ("file_path", "referenced_data_file")


def relocate(case: Path, metadata: str, folder: str | Path, root: str | None = None) -> str:
    """Write a copy of a case's table into a new folder. Return its metadata file."""
    target = Path(folder).absolute()
    files = {p.relative_to(case / "table").as_posix(): p.read_bytes() for p in (case / "table").rglob("*.*")}
    name = metadata.removeprefix("table/")
    location = json.loads(files[name])["location"]
    for path, data in moved(files, name, location, f"file://{target}" if root is None else root).items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(data)
    return str(target / name)


def moved(files: Mapping[str, bytes], metadata: str, old: str, new: str) -> dict[str, bytes]:
    """Return the files of a table, by relative path, with each path that begins with `old` beginning with `new`.

    Files that the metadata file does not lead to are left out.
    """
    raw = json.loads(files[metadata])
    done: dict[str, bytes] = {}

    def move_manifest(path: str) -> str:
        name = _relative(path, old)
        if name not in done:
            done[name] = _move_avro(files[name], lambda entry: _moved_entry(entry, files, done, old, new))
        return name

    def move_row(row: dict[str, Any]) -> dict[str, Any]:
        name = move_manifest(row["manifest_path"])
        return {**row, "manifest_path": f"{new}/{name}", "manifest_length": len(done[name])}

    for snapshot in raw.get("snapshots", ()):
        for path in snapshot.get("manifests", ()):
            move_manifest(path)
        name = _relative(snapshot.get("manifest-list", ""), old)
        if name and name not in done:
            done[name] = _move_avro(files[name], move_row)
    done[metadata] = json.dumps(_replaced(raw, old, new), ensure_ascii=False, indent=1).encode()
    return done


def _relative(path: str, old: str) -> str:
    return path.removeprefix(old).lstrip("/")


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return a JSON value with the beginning of paths replaced, where a text is a path."""
    if isinstance(value, str):
        return new + value[len(old) :] if value == old or value.startswith(f"{old}/") else value
    if isinstance(value, list):
        return [_replaced(v, old, new) for v in value]
    return {k: _replaced(v, old, new) for k, v in value.items()} if isinstance(value, dict) else value


def _moved_entry(
    entry: dict[str, Any], files: Mapping[str, bytes], done: dict[str, bytes], old: str, new: str
) -> dict[str, Any]:
    """Return a manifest entry with its paths and its size as they are at the new place, and copy its file there."""
    file = dict(entry["data_file"])
    name = _relative(file["file_path"], old)
    if name in files and name not in done:  # a removed file may have been left out
        by_position = file.get("content") == POSITION_DELETES
        done[name] = _move_deletes(files[name], file["file_format"].upper(), old, new) if by_position else files[name]
    file |= {field: _replaced(file.get(field), old, new) for field in _PATH_FIELDS if field in file}
    file["file_size_in_bytes"] = len(done[name]) if name in done else file["file_size_in_bytes"]
    for bounds in ("lower_bounds", "upper_bounds"):
        for pair in file.get(bounds) or ():
            if pair["key"] == FILE_PATH_ID:
                pair["value"] = _replaced(pair["value"].decode(), old, new).encode()
    return {**entry, "data_file": file}


def _move_avro(data: bytes, move: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """Return an Avro file with each record changed, under the same schema and metadata."""
    opened, out = fastavro.reader(BytesIO(data)), BytesIO()
    metadata = {k: v for k, v in opened.metadata.items() if not k.startswith("avro.")}
    rows = [move(row) for row in opened if isinstance(row, dict)]
    codec = opened.metadata.get("avro.codec", "null")
    fastavro.writer(out, json.loads(opened.metadata["avro.schema"]), rows, codec=codec, metadata=metadata)
    return out.getvalue()


def _move_deletes(data: bytes, file_format: str, old: str, new: str) -> bytes:
    """Return a position delete file, or a Puffin file with vectors, that names the data files at the new place."""
    if file_format == "PUFFIN":
        return _move_puffin(data, old, new)
    if file_format == "AVRO":
        return _move_avro(data, lambda row: {k: _replaced(v, old, new) for k, v in row.items()})
    out = BytesIO()
    if file_format == "ORC":
        po.write_table(_move_column(po.ORCFile(BytesIO(data)).read(), old, new), out)
    else:
        pq.write_table(_move_column(pq.ParquetFile(BytesIO(data)).read(), old, new), out, store_schema=False)
    return out.getvalue()


def _move_column(table: pa.Table, old: str, new: str) -> pa.Table:
    at = table.schema.get_field_index("file_path")
    paths = [_replaced(path, old, new) for path in table.column(at).cast(pa.string()).to_pylist()]
    return table.set_column(at, table.schema.field(at).with_type(pa.string()), pa.array(paths, pa.string()))


def _move_puffin(data: bytes, old: str, new: str) -> bytes:
    """Return a Puffin file with another footer: its blobs stay where manifests say that they are.

    The footer: the magic, JSON, the length of the JSON, flags, the magic.
    """
    length = int.from_bytes(data[-12:-8], "little")
    begin = len(data) - 12 - length
    footer = json.dumps(_replaced(json.loads(data[begin : begin + length]), old, new)).encode()
    return data[:begin] + footer + len(footer).to_bytes(4, "little") + data[-8:]


def main(name: str, folder: str, root: str | None = None) -> None:
    """Copy the table of a case that `run.py --unpack` has put at its place."""
    from run import load_suite  # type: ignore[import-not-found]  # noqa: PLC0415  # the program beside this one

    case = next(case for case in load_suite() if case.name == name)
    sys.stdout.write(relocate(case.folder, case.metadata, folder, root) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
