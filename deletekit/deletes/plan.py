"""Plan a scan: from a snapshot and a filter to tasks, one per data file, each with the deletes that apply.

Planning reads manifests only. Pruning may keep too many files, never too few.
Spec: "Scan Planning", https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyiceberg import expressions as ex
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.literals import LongLiteral
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.transforms import TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, IntegerType, LongType

from deletekit.deferred import Deferred
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.scan_task import ScanTask
from deletekit.errors import naming
from deletekit.filters.filter import bound_filter, nullable
from deletekit.filters.row_group_pruning import metrics_evaluator
from deletekit.formats.content_file import ContentFile, ManifestEntry
from deletekit.formats.manifest_columns import EntryGroup, ManifestColumns, filled
from deletekit.formats.manifest_list import FieldSummary, ManifestContent, ManifestFile
from deletekit.rows.column_bounds import NO_BOUND, miscounted, usable_bounds, values_of
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.partition import plain_value
from deletekit.table.row_counts import exact_sum
from deletekit.table.snapshot import SnapshotReader

if TYPE_CHECKING:
    from pyiceberg.expressions import visitors
else:
    visitors = Deferred("pyiceberg.expressions.visitors")

# So few that Python's garbage collector does not look at them: it would take longer than making them.
_AT_ONCE = 64


def plan_scan(
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    reader: SnapshotReader,
    where: BooleanExpression | None = None,
    schema: Schema | None = None,
) -> ScanTasks:
    """Return tasks that together read all live rows of a snapshot that may match a filter.

    Parameters
    ----------
    snapshot: None plans nothing (a table without a commit).
    where: unbound filter on columns of `schema`, or None for every file.
    schema: the schema that `where` refers to; None is the current one.

    Raises FormatError for metadata that breaks the rules of `DeleteFileIndex`. Spec: "Scan Planning".
    """
    if snapshot is None:
        return ScanTasks()
    pruning = _Pruning(metadata, schema or metadata.schema, where)
    kept = [m for m in reader.manifests(snapshot) if m.has_live_files and pruning.keeps_manifest(m)]
    reader.read_ahead(kept)
    index = delete_index(metadata, snapshot, reader, pruning.keeps_manifest)
    manifests = reader.live_columns(snapshot, ManifestContent.DATA, pruning.keeps_manifest)
    files = [(columns, pruning.kept_rows(columns)) for columns in manifests]
    planned = []
    for (columns, rows), vectors in zip(files, index.vector_numbers(files), strict=True):
        places = index.with_other_deletes(columns, rows)
        deletes = map(index.for_data_file, columns.entries(rows[places]))
        others = dict(zip(places.tolist(), deletes, strict=True))
        planned.append(_PlannedFiles(index, columns, rows, vectors, others))
    return ScanTasks(planned)


class ScanTasks(Sequence[ScanTask]):
    """The tasks of a scan, in manifest order, equal to any sequence of equal tasks.

    Each task is made when it is read, so that a million of them take little memory.
    """

    def __init__(self, planned: Sequence[_PlannedFiles] = ()) -> None:
        self._planned = [p for p in planned if len(p.rows)]
        self._ends = np.cumsum([len(p.rows) for p in self._planned], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __iter__(self) -> Iterator[ScanTask]:
        for planned in self._planned:
            for start in range(0, len(planned.rows), _AT_ONCE):
                yield from planned.tasks(start, start + _AT_ONCE)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        number = int(np.searchsorted(self._ends, place, side="right"))
        planned = self._planned[number]
        place -= int(self._ends[number]) - len(planned.rows)
        return planned.tasks(place, place + 1)[0]

    def counted(self) -> tuple[int, ScanTasks]:
        """Return how many rows are live in the files whose entries prove it, and the tasks of all other files."""
        rest, total = [], 0
        for planned in self._planned:
            hidden = planned.hidden
            counts = planned.columns.record_count[planned.rows[hidden >= 0]] - hidden[hidden >= 0]
            total += exact_sum(counts)
            rest.append(planned.of(hidden < 0))
        return total, ScanTasks(rest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # a sequence that compares by value is not hashable

    def __repr__(self) -> str:
        return f"<{len(self)} scan tasks>"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


@dataclass(frozen=True, slots=True, eq=False)
class _PlannedFiles:
    """Data files of one manifest to read.

    Attributes
    ----------
    rows: their rows in `columns`.
    vectors: the number of each one's deletion vector in the index, -1 for none.
    deletes: all deletes of each file that has others than a deletion vector, by its place in `rows`.
    """

    index: DeleteFileIndex
    columns: ManifestColumns
    rows: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.int64]
    deletes: Mapping[int, tuple[ManifestEntry, ...]]

    @property
    def hidden(self) -> npt.NDArray[np.int64]:
        """Return how many rows of each file are deleted, -1 where the entries of its deletes do not prove it."""
        hidden = self.index.vectors.hidden(self.vectors, self.columns.record_count[self.rows])
        hidden[[place for place, deletes in self.deletes.items() if deletes]] = -1
        return hidden

    def of(self, marks: npt.NDArray[np.bool_]) -> _PlannedFiles:
        """Return the files that are marked."""
        places = np.flatnonzero(marks)
        new = {place: number for number, place in enumerate(places.tolist()) if place in self.deletes}
        deletes = {number: self.deletes[place] for place, number in new.items()}
        return _PlannedFiles(self.index, self.columns, self.rows[places], self.vectors[places], deletes)

    def tasks(self, start: int, stop: int) -> list[ScanTask]:
        """Return the tasks of some places in `rows`."""
        data = EntryGroup(self.columns, self.rows[start:stop]).entries()
        vectors = self.vectors[start:stop]
        has = vectors >= 0
        found = self.index.vectors.entries(vectors if has.all() else vectors[has])
        own = zip(found, strict=True)
        deletes: list[Any] = list(own) if len(found) == len(data) else [next(own) if v >= 0 else () for v in vectors]
        if self.deletes:
            deletes = [self.deletes.get(place, vector) for place, vector in enumerate(deletes, start)]
        return filled(ScanTask, data=data, deletes=deletes)


def delete_index(
    metadata: TableMetadata,
    snapshot: Snapshot,
    reader: SnapshotReader,
    keeps_manifest: Callable[[ManifestFile], bool] = lambda _: True,
) -> DeleteFileIndex:
    """Return the index of a snapshot's live delete files.

    Manifests that `keeps_manifest` refuses are not read. A delete of a partition applies to data files of that spec and
    partition only, so a filter that excludes the data files excludes the delete. A global delete has no partition, so
    no filter excludes it.
    """
    deletes = reader.live_columns(snapshot, ManifestContent.DELETES, keeps_manifest)
    return DeleteFileIndex(deletes, metadata.specs, metadata.all_fields, metadata.untrusted_bounds)


def files_that_may_match(
    metadata: TableMetadata, where: BooleanExpression, manifests: Iterable[ManifestColumns]
) -> Iterator[ManifestEntry]:
    """Yield live data files that may hold rows of an unbound filter, by their partitions and metrics."""
    if isinstance(where, ex.AlwaysFalse):
        return
    pruning = _Pruning(metadata, metadata.schema, where)
    for columns in manifests:
        yield from columns.entries(pruning.kept_rows(columns))


def keeps_file(
    metadata: TableMetadata, where: BooleanExpression | None, schema: Schema | None = None
) -> Callable[[ManifestEntry], bool]:
    """Return a function that tells whether a data file may hold rows of an unbound filter on columns of `schema`."""
    pruning = _Pruning(metadata, schema or metadata.schema, where)
    return pruning.keeps_file


class _Pruning:
    """A filter projected to partitions, once per partition spec, and to column metrics."""

    def __init__(self, metadata: TableMetadata, schema: Schema, where: BooleanExpression | None) -> None:
        self._metadata = metadata
        self._schema = nullable(schema)
        self._where = ex.AlwaysTrue() if where is None else where
        self._keeps_all = isinstance(self._where, ex.AlwaysTrue)
        self._manifests: dict[int, Any] = {}
        self._partitions: dict[int, Any] = {}
        self._fields = metadata.all_fields

    @cached_property
    def _metrics(self) -> Any:
        return metrics_evaluator(bound_filter(self._where, self._schema))

    @cached_property
    def _ids(self) -> frozenset[int]:
        return frozenset(visitors.extract_field_ids(self._metrics.expr))

    def keeps_manifest(self, listed: ManifestFile) -> bool:
        if self._keeps_all:
            return True
        with naming(listed.manifest_path):
            spec = self._metadata.specs[listed.partition_spec_id]
        if spec.spec_id not in self._manifests:
            filters = self._projectable(spec)
            made = visitors.manifest_evaluator(spec, self._schema, self._projected(spec), True) if filters else None
            kinds = [f.field_type for f in spec.partition_type(self._schema).fields] if filters else []
            self._manifests[spec.spec_id] = made, kinds
        keeps, kinds = self._manifests[spec.spec_id]
        with suppress(*NO_BOUND):
            return keeps is None or bool(keeps(listed)) or not all(map(_is_sound, kinds, listed.partitions or ()))
        return True

    def kept_rows(self, columns: ManifestColumns) -> npt.NDArray[np.int64]:
        """Return the rows of live files that may hold rows of the filter. Each partition is judged once."""
        rows = np.flatnonzero(columns.is_live)
        if self._keeps_all:
            return rows
        codes = columns.partition_code[rows]
        keeps = np.zeros(len(columns.partition), np.bool_)
        for code in np.unique(codes).tolist():
            keeps[code] = self._keeps_partition(columns.spec_id, columns.partition[code])
        rows = rows[keeps[codes]]
        kept = [self._keeps_metrics(entry.data_file) for entry in columns.entries(rows)]
        return rows[np.array(kept, np.bool_)]

    def keeps_file(self, entry: ManifestEntry) -> bool:
        file = entry.data_file
        return self._keeps_all or (self._keeps_partition(file.spec_id, file.partition) and self._keeps_metrics(file))

    def _keeps_partition(self, spec_id: int, partition: tuple[Any, ...]) -> bool:
        spec = self._metadata.specs[spec_id]
        if not spec.fields or not self._projectable(spec):
            return True
        if spec_id not in self._partitions:
            kind = spec.partition_type(self._schema)
            evaluator = visitors.expression_evaluator(Schema(*kind.fields), self._projected(spec), True)
            self._partitions[spec_id] = kind, evaluator
        kind, evaluator = self._partitions[spec_id]
        values = (plain_value(v, f.field_type) for v, f in zip(partition, kind.fields, strict=True))
        return bool(evaluator(Record(*values)))

    def _projected(self, spec: PartitionSpec) -> BooleanExpression:
        """Return the filter on partitions, which keeps the partitions that truncate puts in the wrong place.

        Truncating an integer near the lowest one gives a number below all integers. It wraps round, as in Java, and the
        rows are in a partition of a very large number.
        """
        try:
            made = visitors.inclusive_projection(self._schema, spec)(self._where)
        except OverflowError:  # a day before the year 1 or after 9999, which Python does not have
            return ex.AlwaysTrue()
        for field in spec.fields:
            kind = self._schema.find_field(field.source_id).field_type
            if isinstance(field.transform, TruncateTransform) and isinstance(kind, IntegerType | LongType):
                bits = 32 if isinstance(kind, IntegerType) else 64
                lowest = -(1 << (bits - 1))
                below = lowest - lowest % field.transform.width
                if below < lowest:
                    wrapped = LongLiteral(below + (1 << bits))
                    made = ex.Or(made, ex.EqualTo(term=ex.Reference(field.name), value=wrapped))
        return made

    def _projectable(self, spec: PartitionSpec) -> bool:
        """Tell whether partitions can be judged: a dropped source column has no type, and uuids no agreed order."""
        known = index_by_id(self._schema)
        return all(f.source_id in known and str(known[f.source_id].field_type) != "uuid" for f in spec.fields)

    def _keeps_metrics(self, file: ContentFile) -> bool:
        trusted = self._ids - self._metadata.untrusted_bounds_of(file.file_format)
        trusted -= miscounted(file, trusted)
        names = ("value_counts", "null_value_counts", "nan_value_counts")
        bounds = {i: usable_bounds(self._fields[i], file)[0] for i in trusted if i in self._fields}
        stats = SimpleNamespace(
            record_count=file.record_count,
            **{n: {i: v for i, v in (getattr(file, n) or {}).items() if i in trusted} for n in names},
            lower_bounds={i: low for i, (low, _) in bounds.items() if low is not None},
            upper_bounds={i: high for i, (_, high) in bounds.items() if high is not None},
        )
        with suppress(*NO_BOUND):
            return bool(self._metrics.eval(stats))  # duck-typed: pyiceberg reads these six only
        return True


def _is_sound(kind: IcebergType, summary: FieldSummary) -> bool:
    """Tell whether the bounds of a partition field in a manifest list can be right: no bound means no value."""
    if summary.lower_bound is None and summary.upper_bound is None:
        return bool(summary.contains_null or summary.contains_nan)
    return values_of(kind, summary.lower_bound, summary.upper_bound) is not None
