"""Find the deletes that apply to a data file: the index of a snapshot's live deletes, by the rules of `which_apply`.

Spec: "Scan Planning", https://iceberg.apache.org/spec/#scan-planning
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.types import NestedField, PrimitiveType

from deletekit.deferred import pc, pl
from deletekit.deletes.which_apply import (
    Scope,
    is_global,
    is_old_enough,
    newest_covered,
    partition_scopes,
    position_bound,
    referenced_path,
    scope_of,
)
from deletekit.errors import FormatError
from deletekit.formats.avro_columns import to_numpy
from deletekit.formats.content_file import ContentFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import EntryGroup, ManifestColumns, as_numbers, text_array
from deletekit.rows.column_bounds import Known, known_of

Numbers = npt.NDArray[np.int64]
_NONE = np.array([-1])
_PATHS_LOOKED_UP_AT_A_TIME = 1 << 16  # paths that are looked up together
_VECTORS_WORTH_HASHING = 20_000
"""From so many vectors on, polars looks them up: it decoded their manifests."""


class DeleteFileIndex:
    """The live delete files of one snapshot, found by data file.

    Deletion vectors stay in columns, because each data file may have one. Other deletes are held as entries.

    Parameters
    ----------
    manifests: the delete manifests, with inherited values filled in.
    specs: the table's partition specs by id.
    fields: the newest definition of each of the table's fields by id, for pruning by bounds.
    untrusted: `TableMetadata.untrusted_bounds`, the ids whose metrics must not prune, by file format.

    Raises FormatError for two deletion vectors of one data file, or for a delete without a field the spec requires.
    """

    def __init__(
        self,
        manifests: Iterable[ManifestColumns],
        specs: Mapping[int, PartitionSpec],
        fields: Mapping[int, NestedField],
        untrusted: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        self._fields = fields
        self._untrusted = untrusted or {}
        self._by_path: dict[str, list[ManifestEntry]] = defaultdict(list)
        self._by_partition: dict[Any, list[ManifestEntry]] = defaultdict(list)
        self._equality: dict[Any, list[_KeyDelete]] = defaultdict(list)
        self._global: list[_KeyDelete] = []
        vectors = []
        for columns in manifests:
            is_vector = columns.is_vector
            for entry in columns.entries(np.flatnonzero(columns.is_live & ~is_vector)):
                self._add(entry, specs)
            vectors.append((columns, np.flatnonzero(columns.is_live & is_vector)))
        self.vectors = VectorIndex(vectors)

    def for_data_file(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """Return every delete that applies to a data file: by position, then global ones by value, then others.

        Raises FormatError if an own delete of the file has another spec or partition, or if its deletion vector is
        older than the file. Such metadata is corrupt (Java DeleteFileIndex).
        """
        return (*self.position_deletes(data), *self._equality_in_scope(data, too_old=False))

    def position_deletes(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """Return the deletion vector if there is one, else every position delete file that may name the data file."""
        path = data.data_file.file_path
        vector = self.vectors.of(path)
        if vector is not None:
            _check_scope(vector, data)
            if not is_old_enough(data, vector):
                message, found = "deletion vector is older than its data file", vector.sequence_number
                expected = f">= {data.sequence_number} of {path}"
                raise _error("deletion-vector-sequence", message, vector, "sequence_number", found, expected)
            return (vector,)  # any other delete by position is superseded (which_apply.is_superseded)
        by_path = [d for d in self._by_path.get(path, ()) if is_old_enough(data, d)]
        for delete in by_path:
            _check_scope(delete, data)
        scoped = [d for d in self._by_partition.get(scope_of(data.data_file), ()) if is_old_enough(data, d)]
        return (*by_path, *scoped)

    def too_old_equality_deletes(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """Return the equality deletes in a data file's scope that do not apply, because it is not strictly older."""
        return tuple(self._equality_in_scope(data, too_old=True))

    def vector_numbers(self, files: Sequence[tuple[ManifestColumns, Numbers]]) -> list[Numbers]:
        """Return the number of each data file's deletion vector, -1 for none.

        Parameters
        ----------
        files: manifests, and the rows of data files in each.

        Raises FormatError as `for_data_file` does.
        """
        numbers = self.vectors.find(files)
        for (columns, rows), found in zip(files, numbers, strict=True):
            doubtful = self.vectors.doubtful(columns, rows, found)
            for entry in columns.entries(doubtful):
                self.position_deletes(entry)
        return numbers

    def with_other_deletes(self, columns: ManifestColumns, rows: Numbers) -> Numbers:
        """Return the places in `rows` of data files to which deletes other than their vector may apply."""
        number = columns.sequence_number[rows]
        may = number <= max((d.newest for d in self._global), default=-1)
        if self._by_path:
            named = pc.is_in(columns.paths(rows), value_set=text_array(self._by_path))
            may |= to_numpy(named)
        if self._by_partition or self._equality:
            scopes = partition_scopes(columns)
            by_keys = ((d.newest for d in self._equality.get(s, ())) for s in scopes)
            by_position = (map(newest_covered, self._by_partition.get(s, ())) for s in scopes)
            newest = np.array([max((-1, *a, *b)) for a, b in zip(by_keys, by_position, strict=True)], np.int64)
            may |= number <= newest[columns.partition_code[rows]]
        return np.flatnonzero(may)

    def _equality_in_scope(self, data: ManifestEntry, *, too_old: bool) -> Iterator[ManifestEntry]:
        """Yield the equality deletes in the scope of a data file whose bounds do not exclude it, of one age."""
        file, number, doubtful = data.data_file, data.sequence_number or 0, self._doubtful(data.data_file)
        known: dict[int, Known] = {}

        def may_equal(i: int, keys: Known) -> bool:
            if i not in known:
                known[i] = known_of(self._fields[i], file)
            return i in doubtful or keys.may_equal(known[i])

        for delete in (*self._global, *self._equality.get(scope_of(file), ())):
            if (number > delete.newest) == too_old:
                if delete.known is None:
                    delete.known = self._known_keys(delete)
                if all(may_equal(i, keys) for i, keys in delete.known.items()):
                    yield delete.entry

    def _known_keys(self, delete: "_KeyDelete") -> dict[int, "Known"]:
        file, doubtful = delete.entry.data_file, self._doubtful(delete.entry.data_file)
        assert isinstance(file, DeleteFile)
        fields = (self._fields[i] for i in file.equality_ids or () if i in self._fields and i not in doubtful)
        return {f.field_id: known_of(f, file) for f in fields if isinstance(f.field_type, PrimitiveType)}

    def _add(self, entry: ManifestEntry, specs: Mapping[int, PartitionSpec]) -> None:
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        if delete.content == FileContent.EQUALITY_DELETES:
            if not delete.equality_ids:
                message = "equality delete file without equality ids"
                raise _error("equality-ids", message, entry, "equality_ids", delete.equality_ids)
            keys = _KeyDelete(entry, newest_covered(entry))
            (self._global if is_global(specs[delete.spec_id]) else self._equality[scope_of(delete)]).append(keys)
        else:
            path = referenced_path(delete)
            (self._by_partition[scope_of(delete)] if path is None else self._by_path[path]).append(entry)

    def _doubtful(self, file: ContentFile) -> frozenset[int]:
        return self._untrusted.get("", frozenset()) | self._untrusted.get(file.file_format, frozenset())


class VectorIndex:
    """The deletion vectors of a snapshot, numbered from 0, without an object for each.

    A data file may have at most one (spec "Deletion Vectors"). `DeleteFileIndex` judges whether it applies.

    Parameters
    ----------
    vectors: manifests, and the rows in each that are live deletion vectors.

    Raises FormatError for two deletion vectors of one data file, or for one that names no data file.
    """

    def __init__(self, vectors: Sequence[tuple[ManifestColumns, Numbers]]) -> None:
        self._parts = [(columns, rows) for columns, rows in vectors if len(rows)]
        self._ends = np.cumsum([len(rows) for _, rows in self._parts], dtype=np.int64)
        self._paths = pa.chunked_array([columns.referenced(rows) for columns, rows in self._parts], pa.large_string())
        # polars hashes texts where they are; Arrow copies them into its table, as many bytes as the paths take.
        self._by_hash = _SortedHashes(self._paths) if len(self._paths) >= _VECTORS_WORTH_HASHING else None
        are_distinct = (
            self._by_hash.are_distinct if self._by_hash else pc.count_distinct(self._paths).as_py() == len(self._paths)
        )
        if self._paths.null_count or not are_distinct or pc.min_max(pc.binary_length(self._paths))["min"].as_py() == 0:
            self._refuse()
        self._scopes: dict[Scope, int] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def entries(self, numbers: Numbers) -> list[ManifestEntry]:
        """Return deletion vectors by number."""
        if not len(numbers):
            return []
        part = np.searchsorted(self._ends, numbers, side="right")
        first = int(part[0])
        if (part == first).all():
            columns, rows = self._parts[first]
            return EntryGroup(columns, rows[numbers - (self._ends[first] - len(rows))]).entries()
        found: list[Any] = [None] * len(numbers)
        for i in np.flatnonzero(np.bincount(part)).tolist():  # np.unique imports numpy.ma
            places = np.flatnonzero(part == i)
            for place, entry in zip(places.tolist(), self.entries(numbers[places]), strict=True):
                found[place] = entry
        return found

    def of(self, path: str) -> ManifestEntry | None:
        """Return the deletion vector of one data file, None if it has none."""
        number = self._by_path.get(path)
        return None if number is None else self.entries(np.array([number]))[0]

    def find(self, files: Sequence[tuple[ManifestColumns, Numbers]]) -> list[Numbers]:
        """Return the number of each data file's deletion vector, -1 for none, for rows of manifests."""
        if not len(self) or not files:
            return [np.full(len(rows), -1, np.int64) for _, rows in files]
        # One call for all: `index_in` hashes the paths of all vectors each time.
        paths = pa.chunked_array([columns.paths(rows) for columns, rows in files], pa.large_string())
        numbers = self._by_hash.find(paths) if self._by_hash else None
        if numbers is None:  # polars was not asked, or two paths have one hash
            found = pc.index_in(paths, value_set=self._paths).cast(pa.int64()).combine_chunks()
            numbers = np.asarray(to_numpy(pc.coalesce(found, as_numbers(_NONE)[0])), np.int64)
        return np.split(numbers, np.cumsum([len(rows) for _, rows in files])[:-1])

    def doubtful(self, columns: ManifestColumns, rows: Numbers, numbers: Numbers) -> Numbers:
        """Return the rows whose vector is older than they are, or of another spec or partition."""
        has = np.flatnonzero(numbers >= 0)
        if not len(has):
            return rows[:0]
        of_vectors, scopes = self._sequence_and_scope
        number = numbers[has]
        older = of_vectors[number] < columns.sequence_number[rows[has]]
        elsewhere = scopes[number] != self._scope_codes(columns)[columns.partition_code[rows[has]]]
        doubtful: Numbers = rows[has[older | elsewhere]]
        return doubtful

    @cached_property
    def _sequence_and_scope(self) -> tuple[Numbers, Numbers]:
        """Return the sequence number and the scope of each vector."""
        sequence = [columns.sequence_number[rows] for columns, rows in self._parts]
        scopes = [self._scope_codes(columns)[columns.partition_code[rows]] for columns, rows in self._parts]
        return np.concatenate(sequence), np.concatenate(scopes)

    def hidden(self, numbers: Numbers, rows: Numbers) -> Numbers:
        """Return how many rows of data files their vectors hide, -1 where no entry proves it.

        A vector's cardinality alone is not enough: positions behind the file's end hide nothing, and Java writes them
        if it is told to. Where its entry says, as ours do, that its largest position is in the file, none is behind.

        `numbers` are what `find` gives for the data files, and `rows` how many rows each of them has.
        """
        hidden, has = np.zeros(len(numbers), np.int64), numbers >= 0
        if has.any():
            counts, highest = (of_all[numbers[has]] for of_all in self._cardinality_and_last_position)
            proven = (counts > 0) & (counts - 1 <= highest) & (highest < rows[has])
            hidden[has] = np.where(proven, counts, -1)
        return hidden

    @cached_property
    def _cardinality_and_last_position(self) -> tuple[Numbers, Numbers]:
        """Return how many positions each vector has, and the largest of them, -1 where its entry does not say."""
        counts = [columns.record_count[rows] for columns, rows in self._parts]
        files = (entry.data_file for columns, rows in self._parts for entry in columns.entries(rows))
        highest = [-1 if (bound := position_bound(f)) is None else bound for f in files]
        return np.concatenate(counts), np.array(highest, np.int64)

    @cached_property
    def _by_path(self) -> dict[str, int]:
        return {path: i for i, path in enumerate(self._paths.to_pylist())}

    def _scope_codes(self, columns: ManifestColumns) -> Numbers:
        """Return a number for each partition of a manifest: one number for one spec and partition in all manifests."""
        scopes = partition_scopes(columns)
        return np.array([self._scopes.setdefault(scope, len(self._scopes)) for scope in scopes], np.int64)

    def _refuse(self) -> None:
        seen: dict[str, ManifestEntry] = {}
        for path, entry in zip(self._paths.to_pylist(), self.entries(np.arange(len(self))), strict=True):
            if not path:
                message = "deletion vector lacks a required field"
                raise _error("deletion-vector", message, entry, "referenced_data_file")
            other = seen.setdefault(path, entry)
            if other is not entry:
                raise FormatError(
                    "two deletion vectors for one data file",
                    kind="duplicate-deletion-vector",
                    file=path,
                    field="referenced_data_file",
                    found=f"{entry.data_file.file_path} and {other.data_file.file_path}",
                    expected="at most one",
                )


class _SortedHashes:
    """Texts to look up. Sorted hashes take a fraction of the memory of a table of texts."""

    def __init__(self, texts: pa.ChunkedArray) -> None:
        self._texts = texts
        hashes = pl.Series(texts).hash().to_numpy()
        self._order = np.argsort(hashes)
        self._hashes = hashes[self._order]

    @property
    def are_distinct(self) -> bool:
        """Tell whether no text is there twice."""
        if (self._hashes[1:] != self._hashes[:-1]).all():
            return True
        return bool(pl.Series(self._texts).n_unique() == len(self._texts))

    def find(self, wanted: pa.ChunkedArray) -> Numbers | None:
        """Return the place of each text that is wanted, -1 for none; None where two texts have one hash."""
        texts = pl.Series(self._texts)
        parts: list[Numbers] = []
        for start in range(0, len(wanted), _PATHS_LOOKED_UP_AT_A_TIME):
            some = pl.Series(wanted.slice(start, _PATHS_LOOKED_UP_AT_A_TIME))
            hashes = some.hash().to_numpy()
            places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._order) - 1)
            parts.append(np.where(self._hashes[places] == hashes, self._order[places], -1))
            known = parts[-1] >= 0
            if not (texts.gather(parts[-1][known]) == some.filter(pl.Series(known))).all():
                return None
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _check_scope(delete: ManifestEntry, data: ManifestEntry) -> None:
    ours, theirs = delete.data_file, data.data_file
    if scope_of(ours) != scope_of(theirs):
        message = "delete and its data file differ in partition spec or partition"
        found = f"spec {ours.spec_id} {ours.partition}"
        expected = f"spec {theirs.spec_id} {theirs.partition} of {theirs.file_path}"
        raise _error("delete-partition", message, delete, "partition", found, expected)


def _error(
    kind: str, message: str, delete: ManifestEntry, field: str, found: Any = None, expected: Any = None
) -> FormatError:
    return FormatError(message, kind, file=delete.data_file.file_path, field=field, found=found, expected=expected)


@dataclass(slots=True)
class _KeyDelete:
    """An equality delete: `newest` is its `newest_covered`, `known` what is known of its keys, once that is needed."""

    entry: ManifestEntry
    newest: int
    known: dict[int, "Known"] | None = None
