"""INSPECT a table: its metadata, manifest list, manifest entries, delete files and deletion vectors, as plain values.

Law: what is stored is shown under the names it is stored by; nothing is interpreted away. Bytes are base64, as in the
JSON that other tools print.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import pyarrow as pa

from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.field_path import FieldPaths
from deletekit.errors import DeletekitError, InvalidInputError
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry
from deletekit.formats.delete_file import read_position_deletes
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.formats.puffin import FOOTER_TAIL_BYTES, footer_size, read_footer
from deletekit.formats.tabular import open_tabular, read_all
from deletekit.operations.read import resolve_snapshot
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import MAIN
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table

__all__ = ["inspect"]

MAX_POSITIONS = 10_000


def inspect(
    table: Table,
    *,
    snapshot_id: int | None = None,
    ref: str = MAIN,
    as_of: int | str | datetime | None = None,
    deletes: bool = False,
    positions: int = MAX_POSITIONS,
) -> dict[str, Any]:
    """Everything a snapshot consists of, ready for JSON.

    Parameters
    ----------
    snapshot_id, ref, as_of: which snapshot, as in `scan`.
    deletes: also open each live delete file: the rows of equality deletes, the positions of position deletes by data
        file, and of deletion vectors with the Puffin footer that describes them.
    positions: at most so many positions or rows are listed per delete file; `truncated` says when there are more.

    Returns a dict with `metadata` (the document), `snapshot`, `manifest-list` (its rows), `manifests` (their entries,
    inherited values filled in) and, when asked for, `deletes`. Raises as `scan`; FormatError for damaged files.
    """
    if positions < 0:
        raise InvalidInputError("a limit below zero", kind="limit", field="positions", found=positions)
    snapshot, _ = resolve_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref, as_of=as_of)
    out: dict[str, Any] = {"metadata-location": table.metadata_location, "metadata": dict(table.metadata.raw)}
    if snapshot is None:
        return {**out, "snapshot": None, "manifest-list": [], "manifests": [], **({"deletes": []} if deletes else {})}
    reader = SnapshotReader(table.io, table.metadata)
    listed = reader.manifests(snapshot)
    out["snapshot"] = snapshot.to_json(table.format_version)
    out["manifest-list"] = [to_json(m) for m in listed]
    out["manifests"] = [_manifest(m, reader) for m in listed]
    if deletes:
        entries = reader.live_entries(snapshot, ManifestContent.DELETES)
        loader = DeleteLoader(table.io, table.metadata, FieldPaths(table.metadata))
        out["deletes"] = [_delete(e, table.io, loader, positions) for e in entries]
    return out


def to_json(value: Any) -> Any:
    """A frozen value of `formats` as JSON: fields by spec name, absent ones left out, maps as key-value lists."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = {f.name: getattr(value, f.name) for f in fields(value)}
        return {k: to_json(v) for k, v in shown.items() if v is not None}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return [{"key": k, "value": to_json(v)} for k, v in value.items()]
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    return value


def _manifest(listed: ManifestFile, reader: SnapshotReader) -> dict[str, Any]:
    entries = [to_json(e) for e in reader.entries(listed)]
    return {"manifest_path": listed.manifest_path, "content": int(listed.content), "entries": entries}


def _delete(entry: ManifestEntry, io: FileIO, loader: DeleteLoader, limit: int) -> dict[str, Any]:
    delete = entry.data_file
    assert isinstance(delete, DeleteFile)
    shown: dict[str, Any] = {
        "kind": delete.kind,
        "sequence_number": entry.sequence_number,
        "data_file": to_json(delete),
    }
    if delete.is_deletion_vector:
        bitmap = loader.vector(delete)
        numbers = bitmap.to_numpy()
        shown["puffin"] = to_json(read_puffin_footer(io, delete.file_path))
        return {**shown, "positions": numbers[:limit].tolist(), "truncated": len(numbers) > limit}
    with io.open(delete.file_path) as source:
        file = open_tabular(source, delete.file_format)
        if delete.content == FileContent.EQUALITY_DELETES:
            table = read_all(file)
            return {**shown, "rows": _rows(table, limit), "truncated": len(table) > limit}
        found = read_position_deletes(file)
    by_path = {path: bitmap.to_numpy()[:limit].tolist() for path, bitmap in found.items()}
    return {**shown, "positions_by_file": by_path, "truncated": any(len(b) > limit for b in found.values())}


def read_puffin_footer(io: FileIO, path: str) -> Any:
    """The footer of a Puffin file, read from its end. Raises FormatError naming the file."""
    size = io.size(path)
    tail = io.read(path, max(size - FOOTER_TAIL_BYTES, 0))
    try:
        need = footer_size(tail, size)
        return read_footer(io.read(path, size - need), size)
    except DeletekitError as e:
        raise e.in_file(path) from e


def _rows(table: pa.Table, limit: int) -> list[dict[str, Any]]:
    return [
        {k: to_json(v) if isinstance(v, bytes | list | dict) else _plain(v) for k, v in r.items()}
        for r in table.slice(0, limit).to_pylist()
    ]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
