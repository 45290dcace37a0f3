"""Write the same commits as metadata of format version 3 and of the drafts of version 4, and count files and bytes.

Nothing is stored. `ASSUMPTIONS` says what the counts rest on, and where each of it is from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from deletekit.course.v4.entries import (
    Content,
    ManifestInfo,
    Status,
    TrackedFile,
    Tracking,
    tracked,
    value_bytes,
    vector_of,
    with_vector,
)
from deletekit.course.v4.mumbling import encode
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.formats.manifest_list import ManifestContent, ManifestFile

ASSUMPTIONS = (
    ("A root manifest takes the place of the manifest list.", "apache/iceberg#16025, open"),
    ("The root manifest may hold entries of data files itself.", "apache/iceberg#16025, open"),
    (
        "New and changed entries go into the root manifest, until it has too many.",
        "dev@iceberg, msg10649, 2025; and ours",
    ),
    ("How many are too many: `most_in_root`. Then all of them move to one leaf manifest.", "ours"),
    ("A vector is named in its data file's entry; no manifest has only vectors.", "dev@iceberg, msg12952, 2026"),
    ("The vector's bytes stay a blob in a Puffin file.", "DeletionVector.java"),
    ("A change of a vector writes the old entry as REPLACED and the new one as MODIFIED.", "EntryStatus.java"),
    ("Dead entries of a leaf manifest are marked in the root manifest; the leaf stays.", "ManifestInfo.java"),
    ("Those marks are Mumbling bitmaps.", "ours: the draft calls itself one for small, embedded vectors"),
    ("The first milestone of Java writes leaf manifests again instead.", "apache/iceberg#16694, June 2026"),
    ("Each data file has bounds and counts of ten columns. Their ids are not in an entry.", "spec.md; ten is ours"),
    ("There are no equality deletes, no column files, and leaf manifests are not merged.", "ours"),
    ("Each commit writes a metadata JSON, in both trees. Its bytes are not counted.", "ours"),
    ("One Puffin file holds all new vectors of a commit.", "ours: writers that work in parallel write more"),
    ("Manifests of version 3 are not merged: it never has enough of them for that.", "ours"),
    ("Only values count, a number as Avro writes it; neither headers, schemas, nor compression.", "ours"),
)
"""What the simulation takes for granted, and its source."""

LOCATION = "s3://bucket/warehouse/db/table"
ROWS = 1_000_000
_COLUMNS = range(1, 11)
_PRIMES = (7919, 7907, 7901, 7883, 7879)
_MANIFEST_NAME = "5f0d3a86-28c1-4b5e-9d8e-0a3f7c1b2d44-m0.avro"
_NUMBERS = {"snapshot_id": 1, "sequence_number": 1, "file_sequence_number": 1}


@dataclass(frozen=True, slots=True)
class Append:
    """Add new data files. Files are numbered from 0, in the order in which they come."""

    files: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete rows, as many in each of these data files as in the others, by deletion vectors."""

    rows: int
    files: Sequence[int]


@dataclass(frozen=True, slots=True)
class Compact:
    """Write these data files again as one new file, without their deleted rows."""

    files: Sequence[int]


Commit = Append | Delete | Compact


@dataclass(frozen=True, slots=True)
class Written:
    """What one commit wrote: files by kind, bytes without the metadata JSON; and how many files a reader then opens."""

    files: Mapping[str, int]
    bytes: int
    read: int

    @property
    def count(self) -> int:
        """How many files were written."""
        return sum(self.files.values())


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit means for any tree: data files that come, paths that go, and new vectors by data file."""

    snapshot: int
    added: tuple[DataFile, ...] = ()
    removed: frozenset[str] = frozenset()
    vectors: Mapping[str, DeleteFile] = field(default_factory=dict)

    @property
    def blob_bytes(self) -> int:
        """The bytes of the vectors themselves."""
        return sum(file.content_bytes for file in self.vectors.values())


def simulate(commits: Iterable[Commit], *trees: V3Tree | V4Tree, rows_per_file: int = ROWS) -> list[list[Written]]:
    """Return what each commit writes, a list for each tree.

    Raises InvalidInputError for a data file that is not there, and for more deleted rows than a file has.
    """
    return [[tree.commit(change) for tree in trees] for change in _changes(commits, rows_per_file)]


@dataclass
class V3Tree:
    """A manifest list, data manifests, and delete manifests with an entry for each vector."""

    _manifests: list[list[ManifestEntry]] = field(default_factory=list)

    def commit(self, change: Change) -> Written:
        """Write a manifest of what is new, and again each manifest that lists something that goes."""
        written = [
            [_entry(file, change.snapshot) for file in files]
            for files in (change.added, tuple(change.vectors.values()))
            if files
        ]
        listed = list(written)
        for manifest in self._manifests:
            live = [entry.existing() for entry in manifest if entry.is_live]
            if any(_goes(entry, change) for entry in live):
                again = [entry.deleted(change.snapshot) if _goes(entry, change) else entry for entry in live]
                written.append(again)
                listed.append(again)
            elif live:
                listed.append(manifest)
        self._manifests = listed
        files = {"metadata JSON": 1, "manifest list": 1, "manifests": len(written), "Puffin": bool(change.vectors) * 1}
        rows = [_listed(manifest, change.snapshot) for manifest in listed]
        return Written(files, value_bytes(rows) + value_bytes(written) + change.blob_bytes, 1 + len(listed))

    def live(self) -> dict[str, int]:
        """Return how many rows are deleted of each data file, by its path, as a reader finds it."""
        entries = [entry for manifest in self._manifests for entry in manifest if entry.is_live]
        data, deletes = ([e for e in entries if _is_delete(e) == which] for which in (False, True))
        return {_target(e): 0 for e in data} | {_target(e): e.data_file.record_count for e in deletes}


@dataclass(eq=False)
class Leaf:
    """A leaf manifest, and what the root says of its entries: which are dead, and what the newest snapshot did."""

    entries: list[TrackedFile]
    dead: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    replaced: set[int] = field(default_factory=set)

    @property
    def live(self) -> dict[int, TrackedFile]:
        """The entries of live files, by position."""
        return {i: e for i, e in enumerate(self.entries) if i not in self.dead and e.tracking.status.is_live}


@dataclass
class V4Tree:
    """A root manifest, which lists data files and leaf manifests; a vector is part of its data file's entry.

    Attributes
    ----------
    most_in_root: if the root would list more live data files, they move to a new leaf. With 0 it never lists any.
    marks_dead: whether the root marks the dead entries of a leaf. If not, the leaf is written again.
    """

    most_in_root: int = 100
    marks_dead: bool = True
    _root: list[TrackedFile] = field(default_factory=list)
    _leaves: list[Leaf] = field(default_factory=list)

    def commit(self, change: Change) -> Written:
        """Write a root, and the leaves that are new or must be written again."""
        root = [tracked(_entry(file, change.snapshot), location=LOCATION) for file in change.added]
        root += [state for e in self._root if e.tracking.status.is_live for state in _states(e, change)]
        leaves = [leaf for leaf in self._leaves if leaf.live]
        written = []
        for leaf in leaves:
            states = {position: _states(entry, change) for position, entry in leaf.live.items()}
            changed = {p: s for p, s in states.items() if s[0].tracking.status != Status.EXISTING}
            if changed and not self.marks_dead:
                leaf.entries = [state for entry in states.values() for state in entry]
                written.append(leaf)
            else:
                leaf.deleted = {p for p, s in changed.items() if len(s) == 1}
                leaf.replaced = changed.keys() - leaf.deleted
                leaf.dead |= changed.keys()
                root += [s[1] for s in changed.values() if len(s) > 1]
        live = [entry for entry in root if entry.tracking.status.is_live]
        if len(live) > self.most_in_root:
            root = [entry for entry in root if not entry.tracking.status.is_live]
            written.append(Leaf(live))
            leaves.append(written[-1])
        self._root, self._leaves = root, leaves
        files = {"metadata JSON": 1, "root manifest": 1, "leaves": len(written), "Puffin": bool(change.vectors) * 1}
        stored = [root, [_reference(leaf) for leaf in leaves], [leaf.entries for leaf in written]]
        return Written(files, value_bytes(stored) + change.blob_bytes, 1 + len(leaves))

    def live(self) -> dict[str, int]:
        """Return how many rows are deleted of each data file, by its path, as a reader finds it."""
        direct = [entry for entry in self._root if entry.tracking.status.is_live]
        entries = direct + [entry for leaf in self._leaves for entry in leaf.live.values()]
        vectors = ((_absolute(e), e.deletion_vector) for e in entries)
        return {path: vector.cardinality if vector else 0 for path, vector in vectors}


def _states(entry: TrackedFile, change: Change) -> tuple[TrackedFile, ...]:
    """Return what a commit makes of a live entry: its last state, and behind it a new one if its vector changes."""
    path = _absolute(entry)
    if path in change.removed:
        return (entry.became(Status.DELETED, snapshot_id=change.snapshot),)
    if path in change.vectors:
        return with_vector(entry, vector_of(change.vectors[path], LOCATION), change.snapshot)
    return (entry.became(Status.EXISTING),)


_COUNTED = ((Status.ADDED, Status.MODIFIED), (Status.EXISTING,), (Status.DELETED,), (Status.REPLACED,))


def _reference(leaf: Leaf) -> TrackedFile:
    """Return the entry of a leaf manifest in the root."""
    rows = [[e.record_count for e in leaf.entries if e.tracking.status in statuses] for statuses in _COUNTED]
    counts = {"files": tuple(map(len, rows)), "rows": tuple(map(sum, rows))}
    dead, deleted, replaced = (encode(s) if s else None for s in (leaf.dead, leaf.deleted, leaf.replaced))
    info = ManifestInfo(**counts, min_sequence_number=1, dv=dead, dv_cardinality=len(leaf.dead) or None)
    status = Status.MODIFIED if deleted or replaced else Status.EXISTING
    return TrackedFile(
        tracking=Tracking(status=status, **_NUMBERS, deleted_positions=deleted, replaced_positions=replaced),
        content_type=Content.DATA_MANIFEST,
        location=f"metadata/{_MANIFEST_NAME}",
        record_count=len(leaf.entries),
        file_size_in_bytes=value_bytes(leaf.entries),
        manifest_info=info,
    )


def _listed(manifest: list[ManifestEntry], snapshot: int) -> ManifestFile:
    """Return the row of a manifest in the manifest list."""
    counts: dict[str, Any] = {}
    for status in EntryStatus:
        rows = [entry.data_file.record_count for entry in manifest if entry.status == status]
        counts |= {f"{status.name.lower()}_files_count": len(rows), f"{status.name.lower()}_rows_count": sum(rows)}
    return ManifestFile(
        manifest_path=f"{LOCATION}/metadata/{_MANIFEST_NAME}",
        manifest_length=value_bytes(manifest),
        partition_spec_id=0,
        content=ManifestContent(int(_is_delete(manifest[0]))),
        sequence_number=snapshot,
        min_sequence_number=snapshot,
        added_snapshot_id=snapshot,
        **counts,
    )


def _changes(commits: Iterable[Commit], rows_per_file: int) -> Iterator[Change]:
    rows: dict[int, int] = {}
    deleted: dict[int, int] = {}
    new = count()
    for snapshot, commit in enumerate(commits, 1):
        if isinstance(commit, Append):
            if commit.files < 1:
                raise _wrong("files", commit.files, "1 or more")
            added = list(islice(new, commit.files))
            rows |= dict.fromkeys(added, rows_per_file)
            yield Change(snapshot, added=tuple(_data_file(n, rows_per_file) for n in added))
            continue
        unknown = [number for number in commit.files if number not in rows]
        if unknown or len(set(commit.files)) < len(commit.files) or not commit.files:
            raise _wrong("files", unknown or list(commit.files), "live data files, each once")
        if isinstance(commit, Compact):
            left, into = sum(rows.pop(n) - deleted.pop(n, 0) for n in commit.files), next(new)
            rows |= {into: left} if left else {}
            yield Change(snapshot, (_data_file(into, left),) if left else (), frozenset(map(_path, commit.files)))
            continue
        if commit.rows < len(commit.files):
            raise _wrong("rows", commit.rows, f"{len(commit.files)} or more: one in each file")
        for i, number in enumerate(commit.files):
            deleted[number] = deleted.get(number, 0) + (commit.rows + i) // len(commit.files)
            if deleted[number] > rows[number]:
                raise _wrong("rows", deleted[number], f"at most {rows[number]}, which the file has")
        vectors = {_path(n): _vector_file(snapshot, n, deleted[n], rows[n]) for n in commit.files}
        yield Change(snapshot, vectors=vectors)


def _data_file(number: int, rows: int) -> DataFile:
    numbers, bounds = dict.fromkeys(_COLUMNS, rows), dict.fromkeys(_COLUMNS, bytes(8))
    return DataFile(
        spec_id=0,
        file_path=_path(number),
        file_format="PARQUET",
        record_count=rows,
        file_size_in_bytes=128 << 20,
        value_counts=numbers,
        null_value_counts=numbers,
        lower_bounds=bounds,
        upper_bounds=bounds,
        first_row_id=0,
    )


def _vector_file(snapshot: int, number: int, deleted: int, rows: int) -> DeleteFile:
    step = next(s for s in _PRIMES if rows % s)  # every position once, and none beside the one before
    size = len(encode_blob(PositionBitmap(i * step % rows for i in range(deleted))))
    return DeleteFile(
        content=FileContent.POSITION_DELETES,
        spec_id=0,
        file_path=f"{LOCATION}/data/{snapshot:05d}-deletes.puffin",
        file_format="PUFFIN",
        record_count=deleted,
        file_size_in_bytes=size,
        referenced_data_file=_path(number),
        content_offset=4,
        content_size_in_bytes=size,
    )


def _entry(file: DataFile | DeleteFile, snapshot: int) -> ManifestEntry:
    numbers = {"snapshot_id": snapshot, "sequence_number": snapshot, "file_sequence_number": snapshot}
    return ManifestEntry(status=EntryStatus.ADDED, **numbers, data_file=file)


def _is_delete(entry: ManifestEntry) -> bool:
    return isinstance(entry.data_file, DeleteFile)


def _target(entry: ManifestEntry) -> str:
    """Return the path of the data file that an entry is about."""
    file = entry.data_file
    return (file.referenced_data_file or "") if isinstance(file, DeleteFile) else file.file_path


def _goes(entry: ManifestEntry, change: Change) -> bool:
    return _target(entry) in change.removed or (_is_delete(entry) and _target(entry) in change.vectors)


def _path(number: int) -> str:
    return f"{LOCATION}/data/{number:05d}.parquet"


def _absolute(entry: TrackedFile) -> str:
    return f"{LOCATION}/{entry.location}"


def _wrong(field: str, found: object, expected: str) -> InvalidInputError:
    return InvalidInputError("no commit can do that", kind="v4-commit", field=field, found=found, expected=expected)
