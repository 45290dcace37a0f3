"""Remember between two syncs which data files are live in which manifests, so that a sync costs by what changed.

The state is a file beside the delete files, named after the snapshot and the Delta version that it belongs to. It holds
hashes of paths and of vectors, never the paths. It is only a shortcut: without it, with a damaged one, or on any other
snapshot, a sync reads the whole log and every manifest.

The file is a stream of Arrow with a row for each live data file, and JSON with the rest in the schema's metadata. The
CRC-32 of the stream follows it.
Spec: Delta protocol, "Action Reconciliation"; Iceberg, "Manifest Lists".
"""

from __future__ import annotations

import io as memory
import json
import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from deletekit.delta.actions import AddFile, Metadata, Protocol, RemoveFile
from deletekit.delta.deletion_vector import DeletionVectorDescriptor
from deletekit.delta.log import Counts, DeltaCommit, DeltaLog, DeltaState
from deletekit.delta.paths import plain_path, storage_path
from deletekit.errors import DeletekitError, NotFoundError
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.log import tell
from deletekit.table.file_io import FileIO, try_delete
from deletekit.table.metadata import Snapshot
from deletekit.table.snapshot import SnapshotReader

WHOLE_EVERY = 100
"""After so many syncs by a state, the next one reads everything and proves the state."""
STATE_PREFIX = "delta-sync-"
_NO_VECTOR = 0
_HASHES = {"file": pl.UInt64, "path": pl.UInt64, "vector": pl.UInt64}
_PLACES = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}
_ROW = {**_HASHES, **dict.fromkeys(_PLACES.values(), pl.UInt32)}


class KnownFile(AddFile):
    """A live file as far as a state and the actions since tell: its path and its vector."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncState:
    """What a sync left.

    Attributes
    ----------
    version, root, metadata, protocol, counts: of the Delta table.
    log_file: size and modification time of the version's commit, so that another log in its place is recognised.
    snapshot_id: of the Iceberg table.
    syncs: how many syncs have used a state since everything was read.
    manifests: paths of manifests; `data` and `deletes` of a row are places in this list.
    rows: a row for each live data file of Delta. `file` is the hash of its storage path, `path` of its path in the log,
        `vector` of the vector's id.
    """

    version: int
    root: str
    metadata: Metadata
    protocol: Protocol
    counts: Counts
    log_file: tuple[int, int] | None
    snapshot_id: int
    syncs: int
    manifests: tuple[str, ...]
    rows: pl.DataFrame

    def resume(self, log: DeltaLog, commits: Iterable[DeltaCommit]) -> bool:
        """Let a log replay these later commits without reading what was before them.

        Return whether that is done: not if they name a live file by another spelling or with another vector, and not
        every hundredth time.
        """
        changes = [change for commit in commits for change in commit.changes]
        paths = {_hash(change.path): change.path for change in changes}
        vectors = {_vector_hash(change.deletion_vector): change.deletion_vector for change in changes}
        rows = self._rows_of(changes)
        is_known = all(row["path"] in paths and row["vector"] in {*vectors, _NO_VECTOR} for row in rows)
        if not is_known or self.syncs >= WHOLE_EVERY:
            return False
        files = [
            KnownFile(path=paths[r["path"]], partition_values={}, size=0, deletion_vector=vectors.get(r["vector"]))
            for r in rows
        ]
        log.resume(self.version, self.metadata, self.protocol, files, self.counts.plus(Counts.of(files), -1))
        return True

    def manifests_of(self, changes: Iterable[AddFile | RemoveFile]) -> frozenset[str]:
        """Return the manifests that may hold the data files of some actions, or their deletes."""
        places = {row[name] for row in self._rows_of(changes) for name in _PLACES.values()} - {None}
        return frozenset(self.manifests[place] for place in places)

    def _rows_of(self, changes: Iterable[AddFile | RemoveFile]) -> list[dict[str, Any]]:
        keys = _hashes({storage_path(change.path, self.root) for change in changes})
        return self.rows.join(keys.to_frame(), on="file", how="semi").to_dicts()


# --- make -------------------------------------------------------------------------------------------------------------


def whole_state(state: DeltaState, log: DeltaLog, reader: SnapshotReader, snapshot: Snapshot) -> SyncState:
    """Return the state of a table that is at a Delta version, by reading all of its manifests."""
    left = SyncState(
        version=state.version,
        root=log.root,
        metadata=state.metadata,
        protocol=state.protocol,
        counts=state.counts,
        log_file=log.file_of(state.version),
        snapshot_id=snapshot.snapshot_id,
        syncs=0,
        manifests=(),
        rows=_rows([*state.files.values()], log.root),
    )
    return _with_places(left, reader, reader.manifests(snapshot))


def next_state(
    known: SyncState,
    state: DeltaState,
    log: DeltaLog,
    changes: Iterable[AddFile | RemoveFile],
    reader: SnapshotReader,
    snapshot: Snapshot,
) -> SyncState:
    """Return the state after a sync. Only manifests that the known state does not have are opened.

    Parameters
    ----------
    state: the Delta version that the table is at now, resumed from `known`.
    changes: every action since `known`.
    """
    names = {change.path for change in changes}
    live = _rows([add for path, add in state.files.items() if path in names], known.root)
    # What did not change keeps its places.
    now = live.select(*_HASHES).join(known.rows.select("file", *_PLACES.values()), on="file", how="left")
    old = _hashes(storage_path(name, known.root) for name in names).to_frame()
    left = replace(
        known,
        version=state.version,
        metadata=state.metadata,
        protocol=state.protocol,
        counts=state.counts,
        log_file=log.file_of(state.version),
        snapshot_id=snapshot.snapshot_id,
        syncs=known.syncs + 1,
        rows=pl.concat([known.rows.join(old, on="file", how="anti"), now]),
    )
    before = set(known.manifests)
    return _with_places(left, reader, [m for m in reader.manifests(snapshot) if m.manifest_path not in before])


def _with_places(state: SyncState, reader: SnapshotReader, added: Iterable[ManifestFile]) -> SyncState:
    """Return a state whose rows have places in these manifests too: those of the files that are live in them."""
    manifests, rows = [*state.manifests], state.rows
    found: dict[str, list[pl.DataFrame]] = {name: [] for name in _PLACES.values()}
    for listed in added:
        if listed.has_live_files:
            place = pl.lit(len(manifests), pl.UInt32).alias("place")
            found[_PLACES[listed.content]].append(
                pl.DataFrame({"file": _live_files(reader, listed)}).select("file", place)
            )
            manifests.append(listed.manifest_path)
    for name, parts in found.items():
        if parts:
            rows = rows.join(pl.concat(parts).unique("file"), on="file", how="left")
            rows = rows.with_columns(pl.coalesce("place", name).alias(name)).drop("place")
    return replace(state, manifests=tuple(manifests), rows=rows)


def _live_files(reader: SnapshotReader, listed: ManifestFile) -> pl.Series:
    """Return the hashes of the data files that the live entries of a manifest are, or are about."""
    columns = reader.columns(listed)
    live = np.flatnonzero(columns.is_live)
    paths = columns.paths(live) if listed.content == ManifestContent.DATA else columns.referenced(live).drop_null()
    return _hashes(paths.to_pylist())


def _rows(adds: Sequence[AddFile], root: str) -> pl.DataFrame:
    values = {
        "file": _hashes(storage_path(add.path, root) for add in adds),
        "path": [_hash(add.path) for add in adds],
        "vector": [_vector_hash(add.deletion_vector) for add in adds],
        **dict.fromkeys(_PLACES.values()),
    }
    return pl.DataFrame(values, _ROW)


def _hashes(paths: Iterable[str]) -> pl.Series:
    """Return the hashes of storage paths, which are those of the files, however they are spelled."""

    def key(path: str) -> int:
        scheme, mark, rest = plain_path(path).rpartition("://")
        return _hash(scheme + mark + "/".join(part for part in rest.split("/") if part not in ("", ".")))

    return pl.Series("file", [key(path) for path in paths], pl.UInt64)


def _hash(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def _vector_hash(vector: DeletionVectorDescriptor | None) -> int:
    return _NO_VECTOR if vector is None else _hash(vector.unique_id)


# --- files ------------------------------------------------------------------------------------------------------------


def state_path(directory: str, snapshot_id: int, version: int) -> str:
    """Return where the state of a snapshot and a Delta version is."""
    return f"{directory.rstrip('/')}/{STATE_PREFIX}{snapshot_id}-{version}.state"


def read_state(io: FileIO, directory: str, snapshot_id: int, version: int, log: DeltaLog) -> SyncState | None:
    """Return a state, or None if there is none that can be used; of a damaged one, the logger tells."""
    path = state_path(directory, snapshot_id, version)
    try:
        found = _decoded(io.read(path))
    except NotFoundError:
        return None
    except (DeletekitError, pa.ArrowException, ValueError, TypeError, KeyError, OSError) as e:
        tell("sync-state", level=logging.WARNING, file=path, error=f"{type(e).__name__}: {e}")
        return None
    same = (found.snapshot_id, found.version, found.root) == (snapshot_id, version, log.root)
    known = found.log_file is not None and found.log_file == log.file_of(version)
    return found if same and known else None


def write_state(io: FileIO, directory: str, state: SyncState, before: SyncState | None) -> None:
    """Write a state, and delete the one that was used before.

    The commit has been made: a failure is only logged.
    """
    path = state_path(directory, state.snapshot_id, state.version)
    try_delete(io, path)  # a killed process may have left a part of it
    try:
        io.write(path, _encoded(state))
    except (DeletekitError, OSError) as e:
        tell("sync-state", level=logging.WARNING, file=path, error=f"{type(e).__name__}: {e}")
    if before is not None and (used := state_path(directory, before.snapshot_id, before.version)) != path:
        try_delete(io, used)


def _encoded(state: SyncState) -> bytes:
    values = asdict(replace(state, rows=pl.DataFrame()))
    values["protocol"] = {k: sorted(v) if isinstance(v, frozenset) else v for k, v in values["protocol"].items()}
    rows = state.rows.to_arrow().replace_schema_metadata({"state": json.dumps({**values, "rows": None})})
    sink = memory.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    data = sink.getvalue()
    return data + zlib.crc32(data).to_bytes(4, "little")


def _decoded(data: bytes) -> SyncState:
    """Decode a state. Raise ValueError, TypeError, KeyError or an error of Arrow for one that is damaged."""
    stream = memoryview(data)[:-4]
    if zlib.crc32(stream) != int.from_bytes(data[-4:], "little"):
        raise ValueError("another checksum")
    rows = pa.ipc.open_stream(stream).read_all()
    values: Mapping[str, Any] = json.loads(rows.schema.metadata[b"state"])
    protocol: dict[str, Any] = {k: frozenset(v) if isinstance(v, list) else v for k, v in values["protocol"].items()}
    metadata: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values["metadata"].items()}
    return SyncState(
        **{
            **values,
            "metadata": Metadata(**metadata),
            "protocol": Protocol(**protocol),
            "counts": Counts(**values["counts"]),
            "log_file": None if values["log_file"] is None else tuple(values["log_file"]),
            "manifests": tuple(values["manifests"]),
            "rows": pl.DataFrame(rows),
        }
    )
