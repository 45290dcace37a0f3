"""Rows of the Iceberg tables that a sync made, in the shape that Spark's rows of Delta have."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.delta.actions import RemoveFile
from deletekit.delta.log import DeltaLog
from deletekit.delta.sync_state import read_state
from tests.delta.handmade import HandMade
from tests.invariants import check_table, reachable
from tests.stored import avro, metadata_json
from tests.tables import files_of

VERSIONS = pytest.mark.parametrize("format_version", [3, 2])


def sync(delta: HandMade, catalog: dk.Catalog, **options: Any) -> dk.results.DeltaSync:
    """Sync a table that is made by hand into `t.d`."""
    return dk.sync_delta(delta.path, catalog, "t.d", **options)


@contextmanager
def raises_kind(kind: str, **attributes: Any) -> Iterator[None]:
    """Hold that the block raises an error of this kind, with these attributes."""
    with pytest.raises(dk.DeletekitError) as caught:
        yield
    found = {name: getattr(caught.value, name) for name in ("kind", *attributes)}
    assert found == {"kind": kind, **attributes}, caught.value


def our_rows(table: dk.Table) -> list[dict[str, Any]]:
    return plain(dk.scan(table).to_arrow())


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows of Arrow as Spark's `asDict`: maps are dicts, and times of UTC have no zone."""
    return [
        {name: _plain(value, rows.schema.field(name).type) for name, value in row.items()} for row in rows.to_pylist()
    ]


def by_deltalake(path: Path) -> list[dict[str, Any]]:
    """Rows of a Delta table, as the `deltalake` package reads them."""
    return plain(arrow_by_deltalake(path))


def arrow_by_deltalake(path: Path, version: int | None = None) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415  # a peer

    found = QueryBuilder().register("t", DeltaTable(path, version)).execute("SELECT * FROM t")
    return pa.table(found.read_all() if hasattr(found, "read_all") else pa.Table.from_batches(found))


def of_a_peer(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows without types, in that shape; no list of these tables holds pairs but a map's."""
    return [{name: _untyped(value) for name, value in row.items()} for row in rows]


def _untyped(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, Mapping):
        return {k: _untyped(v) for k, v in value.items()}
    if isinstance(value, list):
        pairs = value and all(isinstance(v, tuple) and len(v) == 2 for v in value)
        return {k: _untyped(v) for k, v in value} if pairs else [_untyped(v) for v in value]
    return value


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if pa.types.is_map(kind):
        return {k: _plain(v, kind.item_type) for k, v in (value.items() if isinstance(value, dict) else value)}
    if pa.types.is_struct(kind):
        return {f.name: _plain(value[f.name], f.type) for f in (kind.field(i) for i in range(kind.num_fields))}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(v, kind.value_type) for v in value]
    return value


def check_synced(table: dk.Table) -> None:
    """Check what must hold of every table, and that a sync left nothing that nothing refers to."""
    check_table(table, orphans=False)
    assert without_state(files_of(table)) <= reachable(table)
    check_state(table)


def without_state(files: set[str]) -> set[str]:
    """Files without those that only make the next sync faster."""
    return {file for file in files if not file.endswith(".state")}


def check_state(table: dk.Table) -> None:
    """Check that the state of the head names the right manifest for each live file, read by fastavro."""
    metadata = metadata_json(table)
    head = metadata.get("current-snapshot-id")
    directory = table.properties["deletekit.delta-delete-directory"]
    files = [f for f in files_of(table) if f.endswith(".state") and f"delta-sync-{head}-" in f]
    if not files:
        return
    version = int(files[0].removesuffix(".state").rpartition("-")[2])
    log = DeltaLog(table.io, table.properties["deletekit.delta-location"])
    state = read_state(table.io, directory, int(head), version, log)
    assert state is not None
    snapshot = next(s for s in metadata["snapshots"] if s["snapshot-id"] == head)
    data, deletes = {}, {}
    for manifest in avro(snapshot["manifest-list"]):
        for entry in avro(manifest["manifest_path"]):
            if entry["status"] != 2:
                file = entry["data_file"]
                is_data = manifest["content"] == 0
                path = file["file_path"] if is_data else file["referenced_data_file"]
                (data if is_data else deletes)[path] = manifest["manifest_path"]
    assert len(state.rows) == len(data) == state.counts.files
    for path, manifest in data.items():
        found = state.manifests_of([RemoveFile(path=quote(path, safe="/:"))])
        assert {manifest, deletes.get(path, manifest)} <= found, path
        assert len(found) <= 4, "a search opens few manifests"


def live_delete_entries(table: dk.Table) -> list[Mapping[str, Any]]:
    """Live delete entries of the head, by fastavro; none when there is no snapshot."""
    metadata = metadata_json(table)
    snapshots = {s["snapshot-id"]: s for s in metadata["snapshots"]}
    head = snapshots.get(metadata.get("current-snapshot-id"))
    return [] if head is None else list(_deletes(head))


def _deletes(snapshot: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for manifest in avro(snapshot["manifest-list"]):
        if manifest["content"] == 1:
            yield from (e["data_file"] for e in avro(manifest["manifest_path"]) if e["status"] != 2)


def live_vectors(path: Path, version: int) -> int:
    """How many live files of a Delta version have a vector: the log of JSON read naively, by (path, vector)."""
    live: dict[tuple[str, str | None], bool] = {}
    for number in range(version + 1):
        lines = (path / "_delta_log" / f"{number:020d}.json").read_text().splitlines()
        actions = [json.loads(line) for line in lines]
        for action in _of(actions, "remove"):
            live.pop((action["path"], _vector(action)), None)
        for action in _of(actions, "add"):
            live[action["path"], _vector(action)] = True
    return sum(vector is not None for _, vector in live)


def _of(actions: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [a[name] for a in actions if name in a]


def _vector(action: Mapping[str, Any]) -> str | None:
    vector = action.get("deletionVector")
    return None if vector is None else json.dumps([vector["pathOrInlineDv"], vector.get("offset")])
