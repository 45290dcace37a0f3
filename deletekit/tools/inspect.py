"""INSPECT a table: its metadata, manifest list, manifest entries, delete files and deletion vectors, as plain values.

What is stored is shown under its stored name and is not interpreted. Bytes are base64, as in the JSON of other tools.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache, partial
from itertools import islice
from typing import Any

from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.errors import UNREADABLE, DeletekitError, InvalidInputError
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry
from deletekit.formats.delete_file import read_position_deletes
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.formats.puffin import read_footer
from deletekit.formats.tabular import open_tabular, read_all
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import MAIN
from deletekit.table.python_values import python_rows
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.text import json_ready
from deletekit.verbs.shared.read_options import resolve_snapshot

MAX_POSITIONS = 10_000
Footer = Callable[[str], dict[str, Any]]


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
    inherited values filled in) and, when asked for, `deletes`. Where a manifest or delete file cannot be read, its item
    has an `error` in place of its contents; a delete manifest is then missing in `deletes`, too. Raises as `scan`, and
    FormatError or NotFoundError for a manifest list that cannot be read.
    """
    if positions < 0:
        raise InvalidInputError("a limit below zero", "limit", "positions", positions)
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
        readable = [m for m, shown in zip(listed, out["manifests"], strict=True) if "error" not in shown]
        live = [e for m in readable if m.content == ManifestContent.DELETES for e in reader.entries(m) if e.is_live]
        loader = DeleteLoader(table.io, table.metadata)
        loader.expect_vectors(e.data_file for e in live if isinstance(e.data_file, DeleteFile))
        footer = cache(lambda path: to_json(read_footer(partial(table.io.read, path), table.io.size(path))))
        out["deletes"] = [_delete(e, table.io, loader, footer, positions) for e in live]
    return out


def to_json(value: Any) -> Any:
    """Return a value of `formats` as JSON: fields by spec name, absent ones left out, maps as key-value lists."""
    return json_ready(value, maps_as_lists=True)


def _manifest(listed: ManifestFile, reader: SnapshotReader) -> dict[str, Any]:
    shown = {"manifest_path": listed.manifest_path, "content": int(listed.content)}
    try:
        return {**shown, "entries": [to_json(e) for e in reader.entries(listed)]}
    except UNREADABLE as e:
        return {**shown, "entries": [], "error": _error(e, listed.manifest_path)}


def _error(e: DeletekitError, path: str) -> dict[str, Any]:
    """Return what kept a file from being read."""
    named = {"kind": e.kind, "message": e.message, "file": e.file or path}
    return named | {n: str(v) for n in ("field", "found", "expected") if (v := getattr(e, n)) is not None}


def _delete(entry: ManifestEntry, io: FileIO, loader: DeleteLoader, footer: Footer, limit: int) -> dict[str, Any]:
    delete = entry.data_file
    assert isinstance(delete, DeleteFile)
    shown = {"kind": delete.kind, "sequence_number": entry.sequence_number, "data_file": to_json(delete)}
    try:
        return shown | _contents(delete, io, loader, footer, limit)
    except UNREADABLE as e:
        return {**shown, "error": _error(e, delete.file_path)}


def _contents(delete: DeleteFile, io: FileIO, loader: DeleteLoader, footer: Footer, limit: int) -> dict[str, Any]:
    path = delete.file_path
    if delete.is_deletion_vector:
        found = loader.vector(delete)
        return {"puffin": footer(path), "positions": list(islice(found, limit)), "truncated": len(found) > limit}
    with io.open(path) as source:
        file = open_tabular(source, delete.file_format)
        if delete.content == FileContent.EQUALITY_DELETES:
            table = read_all(file)
            rows = [{k: to_json(v) for k, v in row.items()} for row in python_rows(table.slice(0, limit))]
            return {"rows": rows, "truncated": len(table) > limit}
        by_file = read_position_deletes(file)
    by_path = {path: list(islice(positions, limit)) for path, positions in by_file.items()}
    return {"positions_by_file": by_path, "truncated": any(len(b) > limit for b in by_file.values())}
