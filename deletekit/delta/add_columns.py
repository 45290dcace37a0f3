"""Keep the add actions of a checkpoint as Arrow columns, and live data files by path, without an object for each file.

A checkpoint has an action for each data file of the table. Their fields are checked by column; an AddFile is made when
it is asked for. Rows that the checks by column do not know go through the same checks as a commit's.
Spec: Delta protocol, "Checkpoint Schema", "Action Reconciliation".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, Sequence, ValuesView
from dataclasses import dataclass
from itertools import islice
from typing import overload

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.delta.actions import AddFile, add_file
from deletekit.delta.deletion_vector import MAX_BYTES, MIN_BYTES, UUID_CHARACTERS, DeletionVectorDescriptor, are_uuids
from deletekit.delta.paths import ONE_SPELLING
from deletekit.errors import DeletekitError, FormatError

_FILES_MADE_AT_A_TIME = 4096
_COUNTS = ("baseRowId", "defaultRowCommitVersion")
_FIELDS = ("path", "partitionValues", "size", "dataChange", "stats", "stats_parsed", "deletionVector", *_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many data files are live, how many of them have a vector, and how many rows the vectors delete."""

    files: int = 0
    vectors: int = 0
    deleted: int = 0

    @classmethod
    def of(cls, adds: Iterable[AddFile]) -> Counts:
        """Count files."""
        vectors = [None if add.deletion_vector is None else add.deleted for add in adds]
        known = [deleted for deleted in vectors if deleted is not None]
        return cls(files=len(vectors), vectors=len(known), deleted=sum(known))

    def plus(self, other: Counts, sign: int = 1) -> Counts:
        """Return the sum, or the difference (`sign` -1)."""
        return Counts(
            files=self.files + sign * other.files,
            vectors=self.vectors + sign * other.vectors,
            deleted=self.deleted + sign * other.deleted,
        )


class AddColumns(Sequence[AddFile]):
    """The add actions of a file of a checkpoint. `of` makes one."""

    def __init__(self, adds: pa.StructArray) -> None:
        self._adds = adds

    @classmethod
    def of(cls, adds: pa.StructArray) -> Sequence[AddFile]:
        """Check actions that are not NULL. Raise FormatError or UnsupportedError, as `parse_actions` does."""
        names = [field.name for field in adds.type]
        if len(set(names)) < len(names):
            raise FormatError("damaged Delta checkpoint", kind="delta-checkpoint", field="add", found="a field twice")
        fields = {name: _without_hidden(adds.field(name)) for name in _FIELDS if name in names}
        if "stats" in fields and not fields["stats"].null_count:
            fields.pop("stats_parsed", None)
        kept = pa.StructArray.from_arrays(list(fields.values()), list(fields))
        kept.validate(full=True)
        columns = cls(kept)
        return columns if _are_good(fields) else list(columns)

    @property
    def counts(self) -> Counts:
        """Count the files."""
        if self._adds.type.get_field_index("deletionVector") < 0:
            return Counts(files=len(self))
        vectors = self._adds.field("deletionVector")
        deleted = pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0
        return Counts(files=len(self), vectors=len(vectors) - vectors.null_count, deleted=deleted)

    @property
    def paths(self) -> pa.Array:
        """Return the paths as the log has them."""
        return pc.cast(self._adds.field("path"), pa.large_string())

    def numbered(self, begin: int) -> dict[str, int]:
        """Return numbers of the files, from `begin` on, by path: fewer than files if a path is there twice."""
        return dict(zip(self.paths.to_pylist(), range(begin, begin + len(self)), strict=True))

    def take(self, places: Sequence[int]) -> Iterator[AddFile]:
        """Yield the files at some places."""
        try:
            rows = self._adds.take(pa.array(places, pa.int64())).to_pylist()
        except (ValueError, OverflowError, pa.ArrowException) as e:  # a date that Python does not have
            found = f"{type(e).__name__}: {e}"
            raise FormatError("damaged Delta checkpoint", kind="delta-checkpoint", found=found) from e
        yield from map(add_file, rows)

    def __len__(self) -> int:
        return len(self._adds)

    def __iter__(self) -> Iterator[AddFile]:
        for begin in range(0, len(self), _FILES_MADE_AT_A_TIME):
            yield from self.take(range(begin, min(begin + _FILES_MADE_AT_A_TIME, len(self))))

    @overload
    def __getitem__(self, at: int) -> AddFile: ...
    @overload
    def __getitem__(self, at: slice) -> list[AddFile]: ...
    def __getitem__(self, at: int | slice) -> AddFile | list[AddFile]:
        chosen = range(len(self))[at]
        return next(self.take([chosen])) if isinstance(chosen, int) else list(self.take(chosen))


class LiveFiles(MutableMapping[str, AddFile]):
    """Live data files by path as the log has it. `counts` are kept as files come and go.

    Files of a checkpoint are numbers until one is asked for. Their paths are not listed before the first look-up.
    """

    def __init__(self, files: Mapping[str, AddFile] | None = None) -> None:
        self._listed: dict[str, AddFile | int] = {**files} if files else {}
        self._unlisted: AddColumns | None = None  # if it is there, it has all files
        self._columns: list[AddColumns] = []
        self._begins: list[int] = []  # the number of each column's first file
        self.counts = Counts.of(files.values()) if files else Counts()

    def copy(self) -> LiveFiles:
        """Return files that change on their own."""
        other = LiveFiles()
        other._listed, other._unlisted, other.counts = dict(self._listed), self._unlisted, self.counts
        other._columns, other._begins = [*self._columns], [*self._begins]
        return other

    def extend(self, columns: AddColumns) -> list[str] | None:
        """Add files whose paths are new, and return those paths that may have other spellings.

        Return None, and add nothing, if a path is there twice.
        """
        begin = self._begins[-1] + len(self._columns[-1]) if self._columns else 0
        paths = columns.paths
        if not len(self) and not self._columns and pl.Series(paths).n_unique() == len(columns):
            self._unlisted = columns
        else:
            numbers = columns.numbered(begin)
            if len(numbers) < len(columns) or not self._files.keys().isdisjoint(numbers):
                return None
            self._files.update(numbers)
        self._columns.append(columns)
        self._begins.append(begin)
        self.counts = self.counts.plus(columns.counts)
        other: list[str] = paths.filter(pc.invert(pc.match_substring_regex(paths, ONE_SPELLING))).to_pylist()
        return other

    @property
    def _files(self) -> dict[str, AddFile | int]:
        if self._unlisted is not None:
            self._listed, self._unlisted = {**self._unlisted.numbered(0)}, None
        return self._listed

    def make(self, paths: Iterable[str]) -> None:
        """Make the files of these paths at once, if they are live: one by one, each would cost many times more."""
        found = {path: number for path in paths if isinstance(number := self._files.get(path), int)}
        if not found:
            return
        ascending = dict(sorted(found.items(), key=lambda item: item[1]))
        self._files.update(zip(ascending, self._made(list(ascending.values())), strict=True))

    def __getitem__(self, path: str) -> AddFile:
        found = self._files[path]
        if isinstance(found, int):
            found = self._files[path] = next(self._made([found]))
        return found

    def __setitem__(self, path: str, add: AddFile) -> None:
        if path in self._files:
            self.counts = self.counts.plus(Counts.of([self[path]]), -1)
        self._files[path] = add
        self.counts = self.counts.plus(Counts.of([add]))

    def __delitem__(self, path: str) -> None:
        self.counts = self.counts.plus(Counts.of([self[path]]), -1)
        del self._files[path]

    def __contains__(self, path: object) -> bool:
        return path in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._listed if self._unlisted is None else self._unlisted)

    def values(self) -> ValuesView[AddFile]:
        """Return the files."""
        return _Values(self)

    def items(self) -> ItemsView[str, AddFile]:
        """Return paths and files."""
        return _Items(self)

    def made(self) -> Iterator[AddFile]:
        """Yield the files. They are made in blocks, which is faster than one by one."""
        rest = iter(self._files.values())
        while block := list(islice(rest, _FILES_MADE_AT_A_TIME)):
            numbers = self._made([found for found in block if isinstance(found, int)])
            yield from (next(numbers) if isinstance(found, int) else found for found in block)

    def _made(self, numbers: Sequence[int]) -> Iterator[AddFile]:
        """Make files by their numbers, which ascend as long as they are in one column."""
        at = 0
        while at < len(numbers):
            which = bisect_right(self._begins, numbers[at]) - 1
            begin, columns = self._begins[which], self._columns[which]
            end = at
            while end < len(numbers) and 0 <= numbers[end] - begin < len(columns):
                end += 1
            yield from columns.take([number - begin for number in numbers[at:end]])
            at = end


class _Values(ValuesView[AddFile]):
    def __init__(self, files: LiveFiles) -> None:
        super().__init__(files)
        self._live = files

    def __iter__(self) -> Iterator[AddFile]:
        return self._live.made()


class _Items(ItemsView[str, AddFile]):
    def __init__(self, files: LiveFiles) -> None:
        super().__init__(files)
        self._live = files

    def __iter__(self) -> Iterator[tuple[str, AddFile]]:
        return zip(self._live, self._live.made(), strict=True)


def _without_hidden(array: pa.Array) -> pa.Array:
    """Return an array without the values below NULL structs. There may be indices of a dictionary that has no value."""
    if not pa.types.is_struct(array.type) or not array.type.num_fields:
        return array
    parts = [_without_hidden(part) for part in array.flatten()]
    return pa.StructArray.from_arrays(parts, [field.name for field in array.type], mask=array.is_null())


# --- checks by column -------------------------------------------------------------------------------------------------


def _are_good(fields: Mapping[str, pa.Array]) -> bool:
    """Return whether every row passes the checks of `add_file`. False if these checks do not know."""
    types = {name: _plain(array.type) for name, array in fields.items()}
    values = types.get("partitionValues", pa.map_(pa.string(), pa.string()))
    stats, parsed = types.get("stats", pa.string()), types.get("stats_parsed", pa.struct([]))
    return (
        pa.types.is_map(values)
        and _is_text(values.key_type)
        and _is_text(values.item_type)
        and _is_text(stats)
        and pa.types.is_struct(parsed)
        and _has_text(fields.get("path"))
        and _has_counts(fields.get("size"), optional=False)
        and all(_has_counts(fields[name], optional=True) for name in _COUNTS if name in fields)
        and ("deletionVector" not in fields or _are_good_vectors(fields["deletionVector"]))
    )


def _are_good_vectors(vectors: pa.Array) -> bool:
    if not pa.types.is_struct(vectors.type):
        return bool(pa.types.is_null(vectors.type))
    vectors = vectors.drop_null()
    names = [field.name for field in vectors.type]
    wanted = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
    if len(set(names)) < len(names) or not set(wanted) <= set(names):
        return False
    storage, path, size, cardinality = (vectors.field(name) for name in wanted)
    offset = vectors.field("offset") if "offset" in names else pa.nulls(len(vectors), pa.int32())
    if not (_has_text(storage) and _has_text(path)):
        return False
    return (
        _has_counts(size, optional=False, low=MIN_BYTES, high=MAX_BYTES)
        and _has_counts(cardinality, optional=False, high=2**31 - 1)  # so that their sum does not overflow
        and _has_counts(offset, optional=True, high=2**31 - 1)
        and _are_good_locations(storage, path)
        and not pc.any(pc.and_(pc.equal(pc.cast(storage, pa.string()), "i"), offset.is_valid())).as_py()
    )


def _are_good_locations(storage: pa.Array, path: pa.Array) -> bool:
    """Check the types and paths of vectors: at once where each vector has a file without prefix, else by value."""
    texts = _distinct(path)
    if _distinct(storage) == ["u"] and all(len(text) == UUID_CHARACTERS for text in texts):
        return are_uuids("".join(texts))
    return all(_is_good_location(*found) for found in set(zip(storage.to_pylist(), path.to_pylist(), strict=True)))


def _distinct(array: pa.Array) -> list[str]:
    """Return the values of a column, each once. Of a dictionary there may be more."""
    values: list[str] = (array.dictionary if pa.types.is_dictionary(array.type) else array.unique()).to_pylist()
    return values


def _is_good_location(storage: str, path: str) -> bool:
    raw = {"storageType": storage, "pathOrInlineDv": path, "sizeInBytes": MIN_BYTES, "cardinality": 0}
    try:
        DeletionVectorDescriptor.from_json(raw)
    except DeletekitError:
        return False
    return True


def _has_text(array: pa.Array | None) -> bool:
    """Return whether a column has a text in each row, and none of them is empty."""
    if array is None or array.null_count or not _is_text(_plain(array.type)):
        return False
    texts = array.dictionary if pa.types.is_dictionary(array.type) else array
    return not texts.null_count and (pc.min(pc.binary_length(texts)).as_py() or 1) > 0


def _has_counts(array: pa.Array | None, *, optional: bool, low: int = 0, high: int = 2**63 - 1) -> bool:
    """Return whether a column has whole numbers in a range."""
    if array is None or not pa.types.is_integer(array.type) or (array.null_count and not optional):
        return False
    least, most = (pc.min_max(array)[name].as_py() for name in ("min", "max"))
    return bool(least is None or low <= least <= most <= high)


def _is_text(kind: pa.DataType) -> bool:
    kind = _plain(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
