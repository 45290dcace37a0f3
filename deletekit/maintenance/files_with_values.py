"""Find the files of snapshots that hold values of the rows that a filter matches, hidden rows too.

A file counts unless its own content proves that it holds none. Every data file is read, whatever its metrics say, and
read once, because files never change.
Spec: "Position Delete Files" (`row`), "Equality Delete Files", "Manifest Entry Fields" (bounds).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression

from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import Scope, scope_of
from deletekit.engines.local import Engine
from deletekit.errors import DeletekitError
from deletekit.filters.filter import evaluate, filter_field_ids
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.tabular import open_tabular
from deletekit.rows.projection import partition_constants
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A file that holds, or may hold, values of the rows.

    Attributes
    ----------
    snapshot_id: a snapshot that leads to it.
    content: `data`; `equality-delete` (keys); `position-delete` (`row` column); `partition`, a delete file in a
        partition that only such rows can be in; `manifest` (bounds or partition of a removed file).
    rows: how many rows, including hidden ones. None if unknown: the file may hold some.
    """

    snapshot_id: int
    file: str
    content: str
    rows: int | None = None


@dataclass
class HoldingFiles:
    """Counts the rows in files, and remembers the counts: by path in `rows`, by spec and partition in `placed`."""

    io: FileIO
    bound: BooleanExpression
    engine: Engine
    rows: dict[str, int | None] = field(default_factory=dict)
    placed: dict[Scope, bool] = field(default_factory=dict)

    def rows_in(self, metadata: TableMetadata, entries: Iterable[ManifestEntry]) -> list[int | None]:
        """Return how many of the rows each file holds; None for a delete file that may hold some.

        Raises FormatError and NotFoundError for a file that cannot be read: then nothing is proven.
        """
        wanted = [e for e in entries if not _is_vector(e)]
        new = list({e.data_file.file_path: e for e in wanted if e.data_file.file_path not in self.rows}.values())
        context = ReadContext(self.io, metadata)
        for entry, rows in zip(new, self.engine.map(lambda e: self._look(context, e), new), strict=True):
            self.rows[entry.data_file.file_path] = rows
        return [self.rows[e.data_file.file_path] for e in wanted]

    def of(self, metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> list[Holding]:
        """Return the files of these snapshots that hold values."""
        reader = SnapshotReader(self.io, metadata)
        out: list[Holding] = []
        for snapshot in snapshots:
            entries = [(m, e) for m in reader.manifests(snapshot) for e in reader.entries(m)]
            context = ReadContext(self.io, metadata)
            live = [e.data_file for _, e in entries if e.is_live and not _is_vector(e)]
            counts = self.rows_in(metadata, [e for _, e in entries if e.is_live])
            for file, rows in zip(live, counts, strict=True):
                if rows != 0:
                    content = file.kind if isinstance(file, DeleteFile) else "data"
                    out.append(
                        Holding(snapshot_id=snapshot.snapshot_id, file=file.file_path, content=content, rows=rows)
                    )
            places = [e for _, e in entries if e.is_live and self.is_placed(context, e)]
            found = {(e.data_file.file_path, "partition") for e in places if isinstance(e.data_file, DeleteFile)}
            found |= {(m.manifest_path, "manifest") for m, e in entries if not e.is_live and self._is_told(context, e)}
            out += [Holding(snapshot_id=snapshot.snapshot_id, file=f, content=what) for f, what in sorted(found)]
        return out

    def is_placed(self, context: ReadContext, entry: ManifestEntry) -> bool:
        """Tell whether the identity partition values of a file alone prove that its rows match."""
        place = scope_of(entry.data_file)
        if place not in self.placed:
            ids, values = filter_field_ids(self.bound), partition_constants(context.metadata, entry.data_file)
            matches = bool(ids) and ids <= values.keys()
            if matches:
                one_row = evaluate(self.bound, lambda i: pa.chunked_array([pa.repeat(values[i], 1)]), 1)
                matches = bool(one_row[0].as_py())
            self.placed[place] = matches
        return self.placed[place]

    def _is_told(self, context: ReadContext, removed: ManifestEntry) -> bool:
        """Tell whether a removed file's entry may reveal values. If the file was never read, assume its bounds do."""
        rows, file = self.rows.get(removed.data_file.file_path), removed.data_file
        return (rows != 0 and bool(file.lower_bounds or file.upper_bounds)) or self.is_placed(context, removed)

    def _look(self, context: ReadContext, entry: ManifestEntry) -> int | None:
        file = entry.data_file
        if isinstance(file, DataFile):
            return self._count(context, entry)
        if file.kind == "position-delete":
            return None if self._stores_rows(file) else 0
        if not filter_field_ids(self.bound) <= set(file.equality_ids or ()):
            return None
        return self._count(context, replace(entry, data_file=_as_data(file)))

    def _count(self, context: ReadContext, entry: ManifestEntry) -> int:
        batches = read_task(context, ScanTask(entry), ReadRequest((), self.bound))
        return sum(int(b.selected.sum()) for b in batches)

    def _stores_rows(self, file: DeleteFile) -> bool:
        try:
            with self.io.open(file.file_path) as source:
                return "row" in open_tabular(source, file.file_format).schema.names
        except DeletekitError as e:
            raise e.in_file(file.file_path) from e


def _is_vector(entry: ManifestEntry) -> bool:
    return isinstance(entry.data_file, DeleteFile) and entry.data_file.is_deletion_vector


def _as_data(file: DeleteFile) -> DataFile:
    """Return a file of keys as a data file. Its columns have the table's field ids, so it can be read as rows."""
    return DataFile(
        spec_id=file.spec_id,
        partition=file.partition,
        file_path=file.file_path,
        file_format=file.file_format,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        key_metadata=file.key_metadata,
    )
