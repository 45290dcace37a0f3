"""Tables as other writers leave them: without some fields, which are absent or null.

Each file of a table is changed where it lies, through json and fastavro only.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro

import deletekit as dk
from tests.storage import stored_at
from tests.stored import metadata_json

Json = dict[str, Any]
COUNTS = tuple(f"{status}_{unit}_count" for status in ("added", "existing", "deleted") for unit in ("files", "rows"))


@dataclass(frozen=True, kw_only=True)
class Left:
    """What a writer leaves out.

    Attributes
    ----------
    listed: fields of `manifest_file`.
    summaries: fields of its field summaries.
    entry, file: fields of `manifest_entry` and of its `data_file`.
    avro: keys of a manifest's Avro metadata.
    document: changes the metadata document.
    inline: snapshots name their manifests themselves, and have no list.
    """

    listed: Collection[str] = ()
    summaries: Collection[str] = ()
    entry: Collection[str] = ()
    file: Collection[str] = ()
    avro: Collection[str] = ()
    document: Callable[[Json], object] | None = None
    inline: bool = False


def leave_out(table: dk.Table, left: Left, *, null: bool) -> None:
    """Take the fields out of each file of a table, or make them null."""
    raw = metadata_json(table)
    lengths: dict[str, int] = {}
    for snapshot in (s for s in raw["snapshots"] if "manifest-list" in s):
        rows = _list(snapshot["manifest-list"], left, lengths, null=null)
        if left.inline:
            del snapshot["manifest-list"]
            snapshot["manifests"] = [row["manifest_path"] for row in rows]
    if left.document is not None:
        left.document(raw)
    stored_at(table.metadata_location).write_bytes(json.dumps(raw).encode())
    table.refresh()


def _list(path: str, left: Left, lengths: dict[str, int], *, null: bool) -> list[Json]:
    schema, rows, metadata = _read(path)
    for row in rows if left.entry or left.file or left.avro else ():
        manifest = row["manifest_path"]
        if manifest not in lengths:
            lengths[manifest] = _manifest(manifest, left, null=null)
        row["manifest_length"] = lengths[manifest]
    if left.summaries:
        partitions = next(f["type"] for f in schema["fields"] if f["name"] == "partitions")
        summaries = [s for row in rows for s in row["partitions"]]
        _remove(_record_of(_record_of(partitions)["items"]), summaries, left.summaries, null=null)
    _remove(schema, rows, left.listed, null=null)
    _write(path, schema, rows, metadata)
    return rows


def _manifest(path: str, left: Left, *, null: bool) -> int:
    schema, entries, metadata = _read(path)
    data_file = _record_of(next(f["type"] for f in schema["fields"] if f["name"] == "data_file"))
    _remove(data_file, [entry["data_file"] for entry in entries], left.file, null=null)
    _remove(schema, entries, left.entry, null=null)
    return _write(path, schema, entries, {k: v for k, v in metadata.items() if k not in left.avro})


def _remove(schema: Json, records: list[Json], names: Collection[str], *, null: bool) -> None:
    for own in [f for f in schema["fields"] if f["name"] in names]:
        own.pop("default", None)
        if null:
            own["type"] = own["type"] if "null" in own["type"] else ["null", own["type"]]
        else:
            schema["fields"].remove(own)
        for record in records:
            record[own["name"]] = None
            if not null:
                del record[own["name"]]


def _record_of(kind: Any) -> Json:
    found: Json = next(t for t in (kind if isinstance(kind, list) else [kind]) if isinstance(t, dict))
    return found


def _read(path: str) -> tuple[Json, list[Json], Mapping[str, str]]:
    with stored_at(path).open("rb") as source:
        reader = fastavro.reader(source)
        metadata = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
        records: list[Any] = list(reader)
        return json.loads(reader.metadata["avro.schema"]), records, metadata


def _write(path: str, schema: Json, records: list[Json], metadata: Mapping[str, str]) -> int:
    with stored_at(path).open("wb") as target:
        fastavro.writer(target, fastavro.parse_schema(schema), records, metadata=dict(metadata), codec="deflate")
    return int(stored_at(path).stat().st_size)
