"""Plan what must change in an Iceberg table to make it a version of a Delta table.

States are compared, not actions: what the table has with what the version has. Equal files stay untouched. A changed
vector never changes its data file's entry. Before the commit, the planned counts are compared with Delta's.
Spec: Delta protocol, "Action Reconciliation"; Iceberg, "Snapshots", "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow.parquet as pq

from deletekit.commit.change import Base
from deletekit.delta.actions import AddFile
from deletekit.delta.convert_vectors import VECTOR_ID, referred_id
from deletekit.delta.log import DeltaState
from deletekit.delta.paths import storage_path
from deletekit.errors import FormatError, InvalidInputError, is_storage_failure
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.file_io import FileIO, read_puffin_footer
from deletekit.table.snapshot import LiveFiles


@dataclass(slots=True, kw_only=True)
class SyncPlan:
    """The differences, by storage path.

    `vectors` must be written for these data files, new and kept ones. `empty` have a vector with cardinality 0, which
    must be checked.
    """

    added: dict[str, AddFile] = field(default_factory=dict)
    kept: dict[str, ManifestEntry] = field(default_factory=dict)
    removed: list[ManifestEntry] = field(default_factory=list)
    vectors: dict[str, AddFile] = field(default_factory=dict)
    empty: dict[str, AddFile] = field(default_factory=dict)
    removed_deletes: list[ManifestEntry] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.vectors or self.removed_deletes)


def wanted_files(state: DeltaState, root: str) -> dict[str, AddFile]:
    """Return the data files of a version by storage path. Raise FormatError if two paths of the log are one file."""
    wanted: dict[str, AddFile] = {}
    for add in state.files.values():
        path = storage_path(add.path, root)
        if path in wanted:
            raise FormatError("a data file is live twice", kind="delta-log", file=path, field="path", found=add.path)
        wanted[path] = add
    return wanted


def plan_sync(
    base: Base, io: FileIO, root: str, wanted: Mapping[str, AddFile], touched: Iterable[str] | None
) -> SyncPlan:
    """Compare the table with a version.

    Parameters
    ----------
    wanted: see `wanted_files`.
    touched: storage paths in the commits since the table's own version; None if they are not known and every file must
        be compared.
    """
    live = _live(base, touched)
    deletes, others = _deletes(base, touched)
    known_ids = VectorIds(io)
    plan = SyncPlan(removed_deletes=others)
    paths = {*live, *wanted} if touched is None else set(touched)
    for path in sorted(paths):
        add, entry = wanted.get(path), live.get(path)
        own = deletes.pop(path, [])
        if add is None:
            if entry is not None:
                plan.removed.append(entry)
            plan.removed_deletes += own
            continue
        if add.deletion_vector is not None and not add.deleted:
            plan.empty[path] = add
        if entry is None:
            plan.added[path] = add
        else:
            _check_records(entry, add)
            plan.kept[path] = entry
        if entry is not None and known_ids.is_same(own, add, root):
            continue
        plan.removed_deletes += own
        if add.deleted:
            plan.vectors[path] = add
    plan.removed_deletes += [e for rest in deletes.values() for e in rest]
    return plan


class VectorIds:
    """Find which Delta vector a delete file was made of. Each Puffin footer is read once."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._puffins: dict[str, dict[int, str | None]] = {}

    def is_same(self, entries: list[ManifestEntry], add: AddFile, root: str) -> bool:
        """Return whether the deletes of a data file are those of its add action."""
        if not add.deleted or add.deletion_vector is None:
            return not entries
        if len(entries) != 1 or entries[0].data_file.record_count != add.deleted:
            return False
        file = entries[0].data_file
        assert isinstance(file, DeleteFile)
        vector = add.deletion_vector
        if file.file_path == vector.file_path(root):
            return vector.offset is not None and file.content_offset == vector.offset
        known = self._id_of(file)
        return known in (vector.unique_id, referred_id(vector.file_path(root) or "", vector.offset or 0))

    def _id_of(self, file: DeleteFile) -> str | None:
        """Return the id that deletekit stored in the file, or None if there is none or the file cannot be read."""
        try:
            if not file.is_deletion_vector:
                with self._io.open(file.file_path) as source:
                    footer = pq.read_metadata(source).metadata or {}
                found = footer.get(VECTOR_ID.encode())
                return None if found is None else str(found.decode())
            if file.file_path not in self._puffins:
                blobs = read_puffin_footer(self._io, file.file_path).blobs
                self._puffins[file.file_path] = {b.offset: b.properties.get(VECTOR_ID) for b in blobs}
            return self._puffins[file.file_path].get(file.content_offset or 0)
        except (FormatError, OSError, ValueError) as e:
            if is_storage_failure(e):
                raise
            return None


def check_counters(
    base: Base, plan: SyncPlan, wanted: Mapping[str, AddFile], added_records: Mapping[str, int], deleted: int
) -> None:
    """Refuse a plan that does not give as many live rows and deletes as Delta counts.

    Parameters
    ----------
    added_records: rows of each data file that the plan adds.
    deleted: rows that the added delete files delete.

    Raises InvalidInputError.
    """
    data_files, data_records = _count(base, ManifestContent.DATA)
    delete_files, delete_records = _count(base, ManifestContent.DELETES)
    records = data_records + sum(added_records.values()) - sum(e.data_file.record_count for e in plan.removed)
    hidden = delete_records + deleted - sum(e.data_file.record_count for e in plan.removed_deletes)
    unknown = [path for path, add in wanted.items() if add.num_records is None]
    known = {e.data_file.file_path: e.data_file.record_count for e in _live(base, unknown).values()} if unknown else {}
    expected = sum(
        add.num_records if add.num_records is not None else {**known, **added_records}[path]
        for path, add in wanted.items()
    )
    found = {
        "data files": data_files + len(plan.added) - len(plan.removed),
        "rows": records,
        "deleted rows": hidden,
        "delete files": delete_files + len(plan.vectors) - len(plan.removed_deletes),
    }
    counted = {
        "data files": len(wanted),
        "rows": expected,
        "deleted rows": sum(add.deleted for add in wanted.values()),
        "delete files": sum(1 for add in wanted.values() if add.deleted),
    }
    for name, number in counted.items():
        if found[name] != number:
            raise InvalidInputError(
                "the Iceberg table would not have Delta's counts: someone else changed it, or the log is wrong",
                kind="delta-counters",
                field=name,
                found=found[name],
                expected=number,
            )


def _count(base: Base, content: ManifestContent) -> tuple[int, int]:
    """Count the live files of a base, and their records."""
    counts = [(int(c.is_live.sum()), int(c.record_count[c.is_live].sum())) for c in _columns(base, content)]
    return sum(files for files, _ in counts), sum(records for _, records in counts)


def _columns(base: Base, content: ManifestContent) -> Iterator[ManifestColumns]:
    if base.snapshot is not None:
        yield from base.reader.live_columns(base.snapshot, content)


def _live(base: Base, paths: Iterable[str] | None) -> dict[str, ManifestEntry]:
    if paths is not None:
        found = LiveFiles(base.reader, base.snapshot, ManifestContent.DATA).with_paths(paths)
        return {e.data_file.file_path: e for e in found}
    entries = (e for c in _columns(base, ManifestContent.DATA) for e in c.entries(np.flatnonzero(c.is_live)))
    return {e.data_file.file_path: e for e in entries}


def _deletes(base: Base, paths: Iterable[str] | None) -> tuple[dict[str, list[ManifestEntry]], list[ManifestEntry]]:
    """Return live deletes by the data file they are about, and the deletes that are not about exactly one file."""
    wanted = None if paths is None else set(paths)
    by_path: dict[str, list[ManifestEntry]] = {}
    others: list[ManifestEntry] = []
    for columns in _columns(base, ManifestContent.DELETES):
        rows = np.flatnonzero(columns.is_live)
        about = columns.referenced(rows).to_pylist()
        chosen = [wanted is None or path in wanted for path in about]
        for entry in columns.entries(rows[np.array(chosen, np.bool_)]):
            assert isinstance(entry.data_file, DeleteFile)
            path = entry.data_file.referenced_data_file
            (others if path is None else by_path.setdefault(path, [])).append(entry)
    return by_path, others


def _check_records(entry: ManifestEntry, add: AddFile) -> None:
    """Refuse another row count for a known path. Data files never change, so it would be another file."""
    records = add.num_records
    if records is not None and records != entry.data_file.record_count:
        raise FormatError(
            "the Delta log gives a data file another number of rows than before",
            kind="delta-num-records",
            file=entry.data_file.file_path,
            field="numRecords",
            found=records,
            expected=entry.data_file.record_count,
        )
