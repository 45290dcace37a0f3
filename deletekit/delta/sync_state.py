"""Remember between two syncs which data files are live in which manifests, so that a sync costs by what changed.

The state is a small file beside the delete files, named after the snapshot and the Delta version that it belongs to. It
holds hashes of paths and of vectors, never the paths. It is only a shortcut: without it, with a damaged one, or on any
other snapshot, a sync reads the whole log and every manifest. Of a large table, most rows are in a base file beside it,
which many states share.

    magic, length u32, JSON, changed rows sorted by `path`, keys that are gone, CRC-32 of everything before

All numbers are little-endian.
Spec: Delta protocol, "Action Reconciliation"; Iceberg, "Manifest Lists".
"""

from __future__ import annotations

import json
import logging
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.delta.actions import AddFile, Metadata, Protocol, RemoveFile
from deletekit.delta.add_columns import Counts
from deletekit.delta.deletion_vector import DeletionVectorDescriptor
from deletekit.delta.log import DeltaCommit, DeltaLog, DeltaState
from deletekit.delta.paths import path_below, plain_path, storage_path
from deletekit.delta.sync_rows import ROW, Base, Rows, SyncRows, encoded_base
from deletekit.errors import DeletekitError
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.log import tell
from deletekit.table.file_io import FileIO, try_delete
from deletekit.table.metadata import Snapshot
from deletekit.table.snapshot import SnapshotReader

WHOLE_EVERY = 100
"""After so many syncs by a state, the next one reads everything and proves the state."""
STATE_PREFIX = "delta-sync-"
_MAGIC = b"deletekit sync state 1\n"
_NONE = 0xFFFFFFFF
_UNKNOWN = DeletionVectorDescriptor(storage_type="?", path_or_inline_dv="another", size_in_bytes=4, cardinality=0)
_SLOTS = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}


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
    manifests: paths of manifests; `data` and `deletes` of a row are places in this list. A place keeps its number while
        its manifests are written again.
    rows: a row for each live data file of Delta.
    """

    version: int
    root: str
    metadata: Metadata
    protocol: Protocol
    counts: Counts
    log_file: tuple[int, int] | None
    snapshot_id: int
    syncs: int
    manifests: tuple[tuple[str, ...], ...]
    rows: SyncRows

    def resume(self, log: DeltaLog, commits: Iterable[DeltaCommit]) -> bool:
        """Let a log replay these later commits without reading what was before them.

        Return whether that is done: not if they name a live file by another spelling or with another vector, not if
        the state's base cannot be read, and not every hundredth time.
        """
        changes: dict[int, list[AddFile | RemoveFile]] = {}
        for commit in commits:
            for change in commit.changes:
                changes.setdefault(_key(change.path, self.root), []).append(change)
        try:
            rows = self.rows.found(changes)
        except DeletekitError as e:
            tell("sync-state", level=logging.WARNING, file=e.file, error=str(e))
            return False
        found = [_live_file(row, changes[int(row["path"])]) for row in rows]
        files = [add for add in found if add is not None]
        if len(files) < len(found) or self.syncs >= WHOLE_EVERY:
            return False
        log.resume(self.version, self.metadata, self.protocol, files, self.counts.plus(Counts.of(files), -1))
        return True

    def manifests_of(self, changes: Iterable[AddFile | RemoveFile]) -> frozenset[str]:
        """Return the manifests that may hold the data files of some actions, or their deletes."""
        rows = self.rows.found({_key(change.path, self.root) for change in changes})
        places = {int(place) for name in _SLOTS.values() for place in rows[name]} - {_NONE}
        return frozenset(path for place in places for path in self.manifests[place])


# --- make -------------------------------------------------------------------------------------------------------------


def whole_state(state: DeltaState, log: DeltaLog, reader: SnapshotReader, snapshot: Snapshot) -> SyncState:
    """Return the state of a table that is at a Delta version, by reading all of its manifests."""
    adds, root = list(state.files.values()), log.root
    rows = np.zeros(len(adds), ROW)
    _fill(rows, adds, root)
    stored = pa.array((storage_path(add.path, root) for add in adds), pa.large_string())
    manifests: list[tuple[str, ...]] = []
    for listed in reader.manifests(snapshot):
        if listed.has_live_files:
            places = pc.index_in(_data_paths(reader, listed), value_set=stored).drop_null().to_numpy()
            rows[_SLOTS[listed.content]][places] = len(manifests)
            manifests.append((listed.manifest_path,))
    return SyncState(
        version=state.version,
        root=root,
        metadata=state.metadata,
        protocol=state.protocol,
        counts=state.counts,
        log_file=log.file_of(state.version),
        snapshot_id=snapshot.snapshot_id,
        syncs=0,
        manifests=tuple(manifests),
        rows=SyncRows(np.sort(rows, order="path")),
    )


def next_state(
    known: SyncState,
    state: DeltaState,
    log: DeltaLog,
    changes: Iterable[AddFile | RemoveFile],
    before: tuple[SnapshotReader, Snapshot],
    after: tuple[SnapshotReader, Snapshot],
) -> SyncState:
    """Return the state after a sync.

    Parameters
    ----------
    state: the Delta version that the table is at now, resumed from `known`.
    changes: every action since `known`.
    before, after: the table's snapshots, with readers; only manifests that one of them alone has are opened.
    """
    touched = {_key(change.path, known.root) for change in changes}
    live = [add for add in state.files.values() if _key(add.path, known.root) in touched]
    manifests, added = _moved(known.manifests, before, after)
    rows = np.zeros(len(live), ROW)
    _fill(rows, live, known.root)
    # What did not change keeps its places.
    old = {int(row["path"]): row for row in known.rows.found(touched)}
    stored = {storage_path(add.path, known.root): i for i, add in enumerate(live)}
    for i, key in enumerate(rows["path"].tolist()):
        if key in old:
            rows["data"][i] = old[key]["data"]
            rows["deletes"][i] = old[key]["deletes"] if rows["vector"][i] else _NONE
    for listed in added:
        for path in _data_paths(after[0], listed).to_pylist():
            if path in stored:
                rows[_SLOTS[listed.content]][stored[path]] = len(manifests)
        manifests.append((listed.manifest_path,))
    return replace(
        known,
        version=state.version,
        metadata=state.metadata,
        protocol=state.protocol,
        counts=state.counts,
        log_file=log.file_of(state.version),
        snapshot_id=after[1].snapshot_id,
        syncs=known.syncs + 1,
        manifests=tuple(manifests),
        rows=known.rows.replaced(touched, rows),
    )


def _moved(
    manifests: Sequence[tuple[str, ...]],
    before: tuple[SnapshotReader, Snapshot],
    after: tuple[SnapshotReader, Snapshot],
) -> tuple[list[tuple[str, ...]], list[ManifestFile]]:
    """Return the places with the manifests that now hold their files, and the new manifests."""
    old, new = ({m.manifest_path: m for m in reader.manifests(snapshot)} for reader, snapshot in (before, after))
    added = [m for path, m in new.items() if path not in old and m.has_live_files]
    held = {m.manifest_path: _data_paths(after[0], m) for m in added}
    heirs: dict[str, tuple[str, ...]] = {}
    for path in old.keys() - new.keys():
        own = _data_paths(before[0], old[path])
        inherit = (m for m in added if m.content == old[path].content)
        heirs[path] = tuple(
            m.manifest_path for m in inherit if pc.any(pc.is_in(held[m.manifest_path], value_set=own)).as_py()
        )
    return [tuple(dict.fromkeys(h for p in place for h in heirs.get(p, (p,)))) for place in manifests], added


def _data_paths(reader: SnapshotReader, listed: ManifestFile) -> pa.Array:
    """Return the data files that the live entries of a manifest are, or are about."""
    columns = reader.columns(listed)
    live = np.flatnonzero(columns.is_live)
    return columns.paths(live) if listed.content == ManifestContent.DATA else columns.referenced(live)


def _live_file(row: Any, changes: Sequence[AddFile | RemoveFile]) -> KnownFile | None:
    """Return a live file as far as the actions about it tell: its spelling and its vector; None if they do not."""
    path = next((change.path for change in changes if _short(change.path) == row["spelling"]), None)
    vectors = [change.deletion_vector for change in changes]
    vector = next((v for v in vectors if _vector_hash(v) == row["vector"]), _UNKNOWN)
    if path is None or vector is _UNKNOWN:
        return None
    return KnownFile(path=path, partition_values={}, size=0, deletion_vector=vector)


def _fill(rows: Rows, adds: Sequence[AddFile], root: str) -> None:
    rows["path"] = [_key(add.path, root) for add in adds]
    rows["spelling"] = [_short(add.path) for add in adds]
    rows["vector"] = [_vector_hash(add.deletion_vector) for add in adds]
    rows["data"] = rows["deletes"] = _NONE


def _key(path: str, root: str) -> int:
    """Return the hash of the file that a path of the log means, however it is spelled."""
    plain = plain_path(storage_path(path, root))
    scheme, mark, rest = plain.rpartition("://")
    return _hash(scheme + mark + "/".join(part for part in rest.split("/") if part not in ("", ".")))


def _hash(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1  # 0 is no vector


def _vector_hash(vector: DeletionVectorDescriptor | None) -> int:
    return 0 if vector is None else _hash(vector.unique_id)


def _short(path: str) -> int:
    return _hash(path) & 0xFFFFFFFF


# --- files ------------------------------------------------------------------------------------------------------------


def state_path(directory: str, snapshot_id: int, version: int) -> str:
    """Return where the state of a snapshot and a Delta version is."""
    return f"{directory.rstrip('/')}/{STATE_PREFIX}{snapshot_id}-{version}.state"


def read_state(io: FileIO, directory: str, snapshot_id: int, version: int, log: DeltaLog) -> SyncState | None:
    """Return a state, or None if there is none that can be used; of a damaged one, the logger tells."""
    path = state_path(directory, snapshot_id, version)
    try:
        if not io.exists(path):
            return None
        found = _decoded(io, io.read(path))
    except (DeletekitError, ValueError, TypeError, KeyError, OSError) as e:
        tell("sync-state", level=logging.WARNING, file=path, error=f"{type(e).__name__}: {e}")
        return None
    same = (found.snapshot_id, found.version, found.root) == (snapshot_id, version, log.root)
    known = found.log_file is not None and found.log_file == log.file_of(version)
    return found if same and known else None


def write_state(io: FileIO, directory: str, state: SyncState, before: SyncState | None) -> SyncState:
    """Write a state, and delete the one that was used before. Return the state as it is stored.

    The commit has been made: a failure is only logged.
    """
    path = state_path(directory, state.snapshot_id, state.version)
    try_delete(io, path)  # a killed process may have left a part of it
    try:
        if state.rows.is_long:
            state = replace(state, rows=_rebased(io, directory, state.rows))
        io.write(path, _encoded(state))
    except (DeletekitError, OSError) as e:
        tell("sync-state", level=logging.WARNING, file=path, error=f"{type(e).__name__}: {e}")
    for unused in set() if before is None else _files(directory, before) - _files(directory, state):
        try_delete(io, unused)
    return state


def base_of(io: FileIO, path: str) -> str | None:
    """Return the base that a state needs; None if it has none or is damaged."""
    try:
        base = _decoded(io, io.read(path)).rows.base
    except (DeletekitError, ValueError, TypeError, KeyError, OSError):
        return None
    return None if base is None else base.path


def _files(directory: str, state: SyncState) -> set[str]:
    """Return the files of a state: its own, and its base, unless that is no file that a sync names."""
    base = state.rows.base
    named = (path_below(base.path, directory) if base else None) or ""
    own = state_path(directory, state.snapshot_id, state.version)
    return {own, base.path} if base and named.startswith(STATE_PREFIX) and "/" not in named else {own}


def _rebased(io: FileIO, directory: str, rows: SyncRows) -> SyncRows:
    path = f"{directory.rstrip('/')}/{STATE_PREFIX}{uuid.uuid4()}.rows"
    base, data = encoded_base(path, rows.all())
    io.write(path, data)
    return SyncRows(np.zeros(0, ROW), base=base, read=io.read)


def _encoded(state: SyncState) -> bytes:
    rows = state.rows
    values = {
        "version": state.version,
        "root": state.root,
        "metadata": asdict(state.metadata),
        "protocol": {k: sorted(v) if isinstance(v, frozenset) else v for k, v in asdict(state.protocol).items()},
        "counts": asdict(state.counts),
        "log_file": state.log_file,
        "snapshot_id": state.snapshot_id,
        "syncs": state.syncs,
        "manifests": state.manifests,
        "rows": [len(rows.changed), None if rows.base is None else asdict(rows.base)],
    }
    head = json.dumps(values).encode()
    parts = [_MAGIC, len(head).to_bytes(4, "little"), head, rows.changed.tobytes(), rows.gone.astype("<u8").tobytes()]
    data = b"".join(parts)
    return data + zlib.crc32(data).to_bytes(4, "little")


def _decoded(io: FileIO, data: bytes) -> SyncState:
    """Decode a state. Raise ValueError, TypeError or KeyError for one that is damaged."""
    view = memoryview(data)
    if data[: len(_MAGIC)] != _MAGIC or zlib.crc32(view[:-4]) != int.from_bytes(view[-4:], "little"):
        raise ValueError("another checksum or beginning")
    at = len(_MAGIC) + 4
    end = at + int.from_bytes(view[at - 4 : at], "little")
    values: Mapping[str, Any] = json.loads(bytes(view[at:end]))
    protocol: dict[str, Any] = {k: frozenset(v) if isinstance(v, list) else v for k, v in values["protocol"].items()}
    metadata: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values["metadata"].items()}
    changed, base = values["rows"]
    middle = end + changed * ROW.itemsize
    return SyncState(
        **{
            **values,
            "metadata": Metadata(**metadata),
            "protocol": Protocol(**protocol),
            "counts": Counts(**values["counts"]),
            "log_file": None if values["log_file"] is None else tuple(values["log_file"]),
            "manifests": tuple(tuple(place) for place in values["manifests"]),
            "rows": SyncRows(
                np.frombuffer(view[end:middle], ROW),
                np.frombuffer(view[middle:-4], "<u8"),
                None if base is None else Base(**base),
                io.read,
            ),
        },
    )
