"""Load delete files for the data files that they apply to, each once.

What the manifest says about a delete file is checked against the file: offsets, cardinality, key columns.
"""

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import islice
from operator import or_
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from deletekit.deferred import pc
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import Scope, is_global, newest_covered, referenced_path, scope_of
from deletekit.errors import FormatError, naming
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry, refuse_encrypted
from deletekit.formats.delete_file import read_position_deletes
from deletekit.formats.deletion_vector import PositionBitmap, decode_blob
from deletekit.formats.metrics import FIELD_ID_KEY, MetricsMode, collect_metrics, field_id_of
from deletekit.formats.tabular import open_tabular, read_all
from deletekit.rows.column_bounds import known_of, values_of
from deletekit.rows.keys import KeySet
from deletekit.rows.projection import FieldPaths, FileColumns, project, with_field_ids
from deletekit.table.file_io import FileIO, is_remote, open_sized
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import NAME_MAPPING

_ANNOUNCED_TASKS = 1 << 14
_FEW_FILES = 4
_TIMES_READ_TO_SHARE = 4
_SMALL_FILE_BYTES = 16 << 10
_ROW_GROUPS_AT_ONCE = 4  # of each position delete file, which other threads may read at the same time
_MAX_GAP = 1 << 16
_MAX_SPAN = 32 << 20
_MAX_HELD = 128 << 20
_T = TypeVar("_T")


@dataclass(frozen=True)
class EqualityKeys:
    """The keys of all equality delete files of one task that share their equality ids.

    If the set has keys for other tasks too, `number` is the data file's: keys whose `newest_covered` is smaller do not
    count.
    """

    fields: tuple[int, ...]
    set: KeySet
    number: int | None


class DeleteLoader:
    """Loads positions and key sets. Delete files that several data files share are read once and kept."""

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io = io
        self._metadata = metadata
        self.paths = FieldPaths(metadata)
        self._kept = SharedValues()
        self._recent = SharedValues(size=64)  # what the parts of one data file share
        self._blobs = BlobRanges(io)
        self._shared: dict[Any, dict[str, ManifestEntry]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return DeleteLoader, (self._io, self._metadata)

    def announced(self, tasks: Iterable[ScanTask], *, share_keys: bool = False) -> Iterator[ScanTask]:
        """Yield tasks that will be read in this order; `expect` many before the first of them, or `share_keys` too.

        A file of vectors is read once for all of them. More tasks than these would take much memory.
        """
        todo = iter(tasks)
        while some := list(islice(todo, _ANNOUNCED_TASKS)):
            self.expect(some)
            if share_keys:
                self.share_keys(some)
            yield from some

    def expect(self, tasks: Iterable[ScanTask]) -> None:
        """Announce the next tasks, so that vectors that lie near each other are fetched together."""
        self.expect_vectors(d for task in tasks for d in task.delete_files)

    def expect_vectors(self, deletes: Iterable[DeleteFile]) -> None:
        """Announce the vectors among some deletes."""
        vectors = (d for d in deletes if d.is_deletion_vector)
        self._blobs.expect((d.file_path, *blob) for d in vectors if (blob := _blob(d)) is not None)

    def positions(self, task: ScanTask) -> PositionBitmap:
        """Return the positions that the deletion vector or position deletes of a data file hide."""
        deletes = [d for d in task.delete_files if d.content == FileContent.POSITION_DELETES]
        if not deletes:
            return PositionBitmap()
        path = task.data_file.file_path
        key = (path, tuple(d.identity for d in deletes))
        return self._recent.get(key, lambda: reduce(or_, (self.positions_of(d, path) for d in deletes)))

    def positions_of(self, delete: DeleteFile, data_path: str) -> PositionBitmap:
        """Return the positions of `data_path` in one position delete file or vector. Raises FormatError."""
        if delete.is_deletion_vector:
            return self.vector(delete)
        return self.positions_by_path(delete).get(data_path, PositionBitmap())

    def positions_by_path(self, delete: DeleteFile) -> Mapping[str, PositionBitmap]:
        """Return all positions of one position delete file, by data file. Raises FormatError.

        A file that is about one data file alone was planned for that one: rows of another would be lost.
        """
        refuse_encrypted(delete)
        found = self._kept.get(("pos", delete.file_path), partial(self._read_positions, delete))
        only = referenced_path(delete)
        stranger = next((path for path in found if path != only), None) if only is not None else None
        if stranger is not None:
            message = "delete of one data file names another"
            raise FormatError(message, "delete-scope", "file_path", stranger, only, file=delete.file_path)
        return found

    def vector(self, delete: DeleteFile) -> PositionBitmap:
        """Return a deletion vector, by the offset and size in its manifest entry. Raises FormatError."""
        refuse_encrypted(delete)
        blob = _blob(delete)
        if blob is None:
            raise FormatError(
                "deletion vector lies outside its file",
                kind="deletion-vector-offset",
                file=delete.file_path,
                field="content_offset",
                found=f"{delete.content_offset}+{delete.content_size_in_bytes}",
                expected=f"within {delete.file_size_in_bytes} bytes",
            )
        with naming(delete.file_path):
            return decode_blob(self._blobs.read(delete.file_path, *blob), cardinality=delete.record_count)

    def key_sets(self, task: ScanTask) -> list[EqualityKeys]:
        """Return the key sets of the task's equality deletes, one per set of equality ids. Raises FormatError."""
        found = []
        for family, own in self._families(task).items():
            (ids, _), shared = family, self._shared.get(family, {})
            is_shared = shared.keys() >= own.keys() and self._is_honest(family)
            deletes = shared if is_shared else own
            made = self._kept.get(
                ("keys", family, tuple(deletes)), partial(self._read_set, ids, list(deletes.values()))
            )
            found.append(EqualityKeys(ids, made, (task.data.sequence_number or 0) if is_shared else None))
        return found

    def share_keys(self, tasks: Iterable[ScanTask]) -> None:
        """Have tasks of one snapshot share a set of keys where the sets of each would be many times as large together.

        With a delete after each append, every data file has others. A delete in the set that a task does not have is
        too old for its data file, which `EqualityKeys.number` leaves out, or its bounds prove that no row has its keys.
        A set is not shared if the bounds of one of its deletes leave out a key: to the same row, one set would apply
        that delete, and another would not.
        """
        each: dict[Any, dict[tuple[str, ...], dict[str, ManifestEntry]]] = {}
        for task in tasks:
            for family, entries in self._families(task).items():
                each.setdefault(family, {}).setdefault(tuple(entries), entries)
        for family, sets in each.items():
            every = {path: entry for entries in sets.values() for path, entry in entries.items()}
            if sum(map(len, sets)) > _TIMES_READ_TO_SHARE * len(every):
                self._shared[family] = every

    def _is_honest(self, family: Any) -> bool:
        """Tell whether the bounds of each delete of a shared set include all of its keys."""

        def look() -> bool:
            files = _delete_files(self._shared[family].values())
            self._keys_of_all(family[0], files)  # several at a time
            return all(self._includes_keys(file, family[0]) for file in files)

        return self._kept.get(("honest", family, tuple(self._shared[family])), look)

    def _includes_keys(self, file: DeleteFile, ids: tuple[int, ...]) -> bool:
        fields = [self.paths.field(i) for i in ids]
        said = [known_of(field, file) for field in fields]
        if all(known.nulls == "some" and known.bounds is None for known in said):
            return True  # nothing excludes a row
        keys = self.key_columns(ids, file)
        named = [pa.field(str(i), c.type, True, {FIELD_ID_KEY: str(i)}) for i, c in zip(ids, keys, strict=True)]
        found = collect_metrics(pa.table(keys, schema=pa.schema(named)), lambda *_: MetricsMode(length=None))
        for i, field, known in zip(ids, fields, said, strict=True):
            nulls = found.null_value_counts[i]
            if (nulls and known.nulls == "none") or (known.nulls == "all" and nulls < file.record_count):
                return False
            ends = values_of(field.field_type, found.lower_bounds.get(i), found.upper_bounds.get(i))
            if known.bounds is not None and (
                found.nan_value_counts.get(i)
                or (ends is not None and not (known.bounds[0] <= ends[0] and ends[1] <= known.bounds[1]))
            ):
                return False
        return True

    def _families(self, task: ScanTask) -> dict[tuple[tuple[int, ...], Scope | None], dict[str, ManifestEntry]]:
        """Return the task's equality deletes by path, by their ids and by the partition that some of them are for."""
        groups: dict[tuple[int, ...], dict[str, ManifestEntry]] = {}
        for entry in task.deletes:
            delete = entry.data_file
            if isinstance(delete, DeleteFile) and delete.content == FileContent.EQUALITY_DELETES:
                # Ascending ids: the order of the columns in the file must not matter (Java bug #13873).
                group, path = groups.setdefault(tuple(sorted(delete.equality_ids or ())), {}), delete.file_path
                if group.setdefault(path, entry) is not entry:  # listed twice
                    group[path] = max(group[path], entry, key=newest_covered)
        here = scope_of(task.data_file) if groups else None
        specs = [(ids, {e.data_file.spec_id for e in entries.values()}) for ids, entries in groups.items()]
        return {(ids, None if used <= self._global_specs else here): groups[ids] for ids, used in specs}

    @cached_property
    def _global_specs(self) -> frozenset[int]:
        return frozenset(i for i, spec in self._metadata.specs.items() if is_global(spec))

    def key_columns(self, ids: tuple[int, ...], file: DeleteFile) -> list[pa.ChunkedArray]:
        """Return the keys of one equality delete file, a column of the table's type for each id. Raises FormatError."""
        refuse_encrypted(file)
        return self._kept.get(("eq", file.file_path, ids), partial(self._read_keys, file, ids))

    def _read_set(self, ids: tuple[int, ...], entries: list[ManifestEntry]) -> KeySet:
        found = self._keys_of_all(ids, _delete_files(entries))
        same = zip(*found, strict=True)  # the parts of one key column
        columns = [pa.chunked_array([c for part in parts for c in part.chunks], parts[0].type) for parts in same]
        return KeySet(columns, np.repeat(list(map(newest_covered, entries)), [len(keys[0]) for keys in found]))

    def _keys_of_all(self, ids: tuple[int, ...], files: list[DeleteFile]) -> list[list[pa.ChunkedArray]]:
        keys_of = partial(self.key_columns, ids)
        if len(files) <= _FEW_FILES:
            return [keys_of(f) for f in files]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(keys_of, files))

    def _read_positions(self, delete: DeleteFile) -> Mapping[str, PositionBitmap]:
        with naming(delete.file_path), open_sized(self._io, delete.file_path, delete.file_size_in_bytes) as source:
            encoded = ("file_path",) if delete.file_size_in_bytes > _SMALL_FILE_BYTES else ()  # it opens the file twice
            file = open_tabular(source, delete.file_format, dictionary=encoded)
            # Of a file that Python gives, a thread could move the position between another's seek and read.
            is_shared = type(source) is pa.NativeFile and not is_remote(delete.file_path)
            if not is_shared or delete.file_format != "PARQUET" or len(file.row_groups) <= 1:
                return read_position_deletes(file)
            with ThreadPoolExecutor(_ROW_GROUPS_AT_ONCE) as pool:  # the tasks under this file wait for it meanwhile
                return read_position_deletes(file, pool.map)

    def _read_keys(self, delete: DeleteFile, ids: tuple[int, ...]) -> list[pa.ChunkedArray]:
        with naming(delete.file_path):
            with open_sized(self._io, delete.file_path, delete.file_size_in_bytes) as source:
                table = read_all(open_tabular(source, delete.file_format))
            schema = with_field_ids(table.schema, self._metadata.properties.get(NAME_MAPPING))
            return [self._key_column(table, schema, i) for i in ids]

    def _key_column(self, table: pa.Table, schema: pa.Schema, field_id: int) -> pa.ChunkedArray:
        field = self.paths.field(field_id)
        found = _find(table, schema, field_id)
        if found is None:
            raise FormatError(
                "equality delete file lacks a key column", "equality-ids", field.name, table.schema.names, field_id
            )
        column, stored = found
        named = pa.schema([pa.field(field.name, stored.type, True, stored.metadata)])
        optional = field.model_copy(update={"required": False})
        return project(pa.table([column], schema=named), FileColumns(named), optional)


def _delete_files(entries: Iterable[ManifestEntry]) -> list[DeleteFile]:
    return [entry.data_file for entry in entries if isinstance(entry.data_file, DeleteFile)]


def _blob(delete: DeleteFile) -> tuple[int, int] | None:
    """Return the offset and size of a vector, or None if they do not lie within its file."""
    offset, size = delete.content_offset, delete.content_size_in_bytes
    if offset is None or size is None or offset < 0 or size < 0 or offset + size > delete.file_size_in_bytes:
        return None
    return offset, size


def _find(table: pa.Table, schema: pa.Schema, field_id: int) -> tuple[Any, pa.Field] | None:
    """Find a column or nested leaf of a delete file by field id: writers nest a nested key or lift it to the top."""
    pending = [(f, table.column(i)) for i, f in enumerate(schema)]
    while pending:
        field, column = pending.pop(0)
        if field_id_of(field) == field_id:
            return column, field
        if pa.types.is_struct(field.type):
            pending += [(field.type.field(i), pc.struct_field(column, i)) for i in range(field.type.num_fields)]
    return None


# --- what several threads share ---------------------------------------------------------------------------------------


class SharedValues:
    """A cache by key that makes each value once, in the first thread that needs it; the others wait for it.

    With `size`, it keeps only that many, and forgets the oldest first. An error is not kept: the next caller tries
    again.
    """

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self._entries: dict[Hashable, tuple[threading.Lock, list[Any]]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedValues, (self._size,)  # a pickled copy makes its values again

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of `key`; call `make` if there is none."""
        with self._lock:
            making, made = self._entries.setdefault(key, (threading.Lock(), []))
            if self._size is not None and len(self._entries) > self._size:
                self._entries.pop(next(iter(self._entries)))
        with making:
            if not made:
                made.append(make())
            value: _T = made[0]
            return value


@dataclass(slots=True)
class _Span:
    path: str
    start: int
    stop: int
    lock: threading.Lock
    data: bytes | None = None


class BlobRanges:
    """Reads announced byte ranges in merged spans: vectors that lie near each other in a Puffin file cost one read.

    Only the announced ranges and small gaps between them are read. A span is forgotten when each of its blobs was read.
    Those that are announced together have at most 128 MB: what is beyond that is read by itself.
    """

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._lock = threading.Lock()
        self._spans: dict[tuple[str, int, int], _Span] = {}

    def expect(self, ranges: Iterable[tuple[str, int, int]]) -> None:
        """Announce ranges (path, offset, size) that will be read soon."""
        with self._lock:
            span, room = _Span("", 0, 0, threading.Lock()), _MAX_HELD
            for path, offset, size in sorted(set(ranges).difference(self._spans)):
                stop = max(offset + size, span.stop)
                if span.path != path or offset - span.stop > _MAX_GAP or stop - span.start > _MAX_SPAN:
                    span, stop = _Span(path, offset, offset, threading.Lock()), offset + size
                if room >= stop - span.stop:
                    room -= stop - span.stop
                    span.stop = stop
                    self._spans[path, offset, size] = span

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return the bytes of a range. Raises NotFoundError, or FormatError if the file is shorter."""
        with self._lock:
            span = self._spans.pop((path, offset, size), None)
        if span is None:
            return self._io.read(path, offset, size)
        with span.lock:  # the first reads for all of them
            if span.data is None:
                with suppress(FormatError):  # the file ends before some of them
                    span.data = self._io.read(path, span.start, span.stop - span.start)
        at = offset - span.start
        return self._io.read(path, offset, size) if span.data is None else span.data[at : at + size]
