"""Plan an upsert of rows that are in data files, in the process that commits: merge what tasks found, or look again.

Tasks look for old rows on the head that the job began with. `plan_on_earlier` puts what they found on the current head.
If that is not safe, this process looks for the old rows itself: it reads key columns of the data files that may have
them, and compares hashes with the sorted ones of all tasks, which are in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.deletes.delete_modes import Change, ChangeOptions, ChangeResult, change_files
from deletekit.deletes.filter import parse_filter
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.write_context import granularity_of
from deletekit.engines.local import LocalEngine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap, decode_blob
from deletekit.stream.file_keys import read_file_keys
from deletekit.stream.key_hashes import KeyHasher, KeyHashes
from deletekit.stream.live_rows import contains
from deletekit.stream.saved_index import key_of
from deletekit.stream.staged_keys import StagedKeys, joined_bounds, sorted_keys
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.verbs.shared.equality_keys import specs_in_use, write_key_deletes
from deletekit.verbs.shared.key_fields import range_of_keys
from deletekit.verbs.shared.row_changes import (
    choose_mode,
    collect_delta,
    filter_of_reads,
    group_tasks,
    merged_results,
    run_change,
)
from deletekit.verbs.upsert import UpsertRequest


@dataclass(frozen=True)
class UpsertPlan:
    """What the tasks of a job have written, and how it becomes a change.

    Attributes
    ----------
    fields: the key columns, as the keys were hashed.
    files: the data files of the new rows.
    staged: the keys of the new rows.
    entry, paths: what the summary says of the key index, and the paths that this leads to.
    """

    io: FileIO
    fields: tuple[NestedField, ...]
    request: UpsertRequest
    files: tuple[DataFile, ...]
    staged: tuple[StagedKeys, ...]
    entry: Mapping[str, str]
    paths: tuple[str, ...]

    def by_position(self, base: Base, found: Iterable[Mapping[str, bytes]]) -> RowDelta:
        """Hide the rows that tasks found on a head, each by its position."""
        positions: dict[str, PositionBitmap] = {}
        for some in found:
            for path, blob in some.items():
                positions[path] = positions.get(path, PositionBitmap()) | decode_blob(blob)
        engine, options, where = LocalEngine(), self._options(base.metadata), self._where(base.metadata)
        tasks = plan_scan(base.metadata, base.snapshot, base.reader)
        groups = group_tasks([t for t in tasks if t.data_file.file_path in positions], engine.threads)
        context, write = ReadContext(base.table.io, base.metadata), base.write

        def work(group: Sequence[ScanTask]) -> ChangeResult:
            change = _Positions(positions)
            return change_files(context, write, change.of(group), change, options)

        total = merged_results(engine.map(work, groups))
        return self._with_rows(collect_delta(base, total, options, filter_of_reads(base.metadata, "merge", where)))

    def by_hash(self, base: Base) -> RowDelta:
        """Look for the old rows in the data files of a head, and hide them."""
        self._check_key(base.metadata)
        where = self._where(base.metadata)
        change = _Hashes(self._sorted, self.fields, parse_filter(where, base.metadata.schema))
        planned = run_change(base, change, self._options(base.metadata), "merge", LocalEngine(), where)
        return self._with_rows(planned)

    def by_value(self, base: Base, deletes: Sequence[DeleteFile]) -> RowDelta:
        """Add equality deletes that tasks wrote."""
        del base
        return self._with_rows(RowDelta(added_delete_files=tuple(deletes), read_set=ReadSet()))

    def by_value_again(self, base: Base) -> RowDelta:
        """Write the equality deletes of all keys for the partitions of a head."""
        self._check_key(base.metadata)
        context, specs, fields = ReadContext(self.io, base.metadata), specs_in_use(base), self.fields

        def work(file: DataFile) -> list[DeleteFile]:
            entry = ManifestEntry(
                status=EntryStatus.ADDED,
                snapshot_id=None,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            columns = read_file_keys(context, ScanTask(entry), fields).columns
            keys = pa.table(list(columns), names=[str(f.field_id) for f in fields])
            return write_key_deletes(base.write, specs, keys, fields, None)

        return self.by_value(base, [d for some in LocalEngine().map(work, self.files) for d in some])

    @cached_property
    def _sorted(self) -> KeyHashes:
        return sorted_keys(self.io, self.staged, self.fields)

    def _with_rows(self, planned: RowDelta) -> RowDelta:
        files = (*planned.added_data_files, *self.files)
        return replace(planned, added_data_files=files, summary=self.entry, other_files=self.paths)

    def _where(self, metadata: TableMetadata) -> BooleanExpression | None:
        return range_of_keys(joined_bounds(self.staged).columns, metadata.schema, self.fields)

    def _options(self, metadata: TableMetadata) -> ChangeOptions:
        return ChangeOptions(choose_mode(metadata, "merge", self.request.mode), granularity_of(metadata))

    def _check_key(self, metadata: TableMetadata) -> None:
        """Raise InvalidInputError if the key columns are not those any more whose values were hashed."""
        now = [
            metadata.schema.find_field(f.field_id) for f in self.fields if metadata.schema.find_column_name(f.field_id)
        ]
        if key_of(now) != key_of(self.fields):
            message, found = "a key column was changed meanwhile", ", ".join(f"{f.name} {f.field_type}" for f in now)
            expected = ", ".join(f"{f.name} {f.field_type}" for f in self.fields)
            raise InvalidInputError(message, kind="upsert-key", field="key", found=found, expected=expected)


class _Positions(Change):
    """Delete rows of data files by their positions; `match` uses those of the file that `of` yielded last."""

    replaces = False

    def __init__(self, positions: Mapping[str, PositionBitmap]) -> None:
        self.request = ReadRequest(())
        self._positions, self._here = positions, PositionBitmap()

    def of(self, tasks: Iterable[ScanTask]) -> Iterator[ScanTask]:
        for task in tasks:
            self._here = self._positions[task.data_file.file_path]
            yield task

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], None]:
        return self._here.mask(batch.first_position, len(batch)) & ~batch.deleted, None


class _Hashes(Change):
    """Delete the rows whose key has one of some hashes, which are sorted."""

    replaces = False

    def __init__(self, hashes: KeyHashes, fields: tuple[NestedField, ...], where: BooleanExpression) -> None:
        self.request = ReadRequest(fields, where)
        self._hashes, self._hasher = hashes, KeyHasher(fields)

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], None]:
        wanted = self._hasher(batch.table.columns[: len(self.request.fields)])
        return contains(self._hashes, wanted) & batch.live, None
