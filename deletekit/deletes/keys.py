"""Equality of keys: the one matcher, for equality deletes, upsert, merge and the sink.

Two keys are equal if all their columns are. NULL equals NULL and nothing else. NaN equals NaN. -0.0 differs from 0.0.
Both sides must first be read as the column's current type, so that promoted values compare. Structs compare leaf by
leaf, and a NULL struct differs from a struct of NULLs.

A merge compares as SQL does (`sql=True`): a key with a NULL equals nothing, and -0.0 equals 0.0.

Spec: "Equality Delete Files"; values compare as in Java's Comparators (Float.compare, Double.compare).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from deletekit.deferred import Deferred
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.table.types import storage_of

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Deferred("polars")

Numbers = npt.NDArray[np.int64]
_ROW = "row"
_NUMBER = "number"
_SEED = 0
_SLOTS_PER_KEY = 16
_MOST_BITS = 25
_MOST_SPREAD = 8
_FIRST_ROWS = 1000


class KeyNumbers:
    """Distinct keys, numbered from 0 in order of first appearance.

    Parameters
    ----------
    columns: the key columns, equally long, each of the type that both sides are compared in.
    sql: compare as SQL does; keys with a NULL have no number.

    Attributes
    ----------
    of_rows: the number of each row's key, -1 for none.
    first_rows: by number, the first row that has the key.
    """

    of_rows: Numbers
    first_rows: Numbers

    def __init__(self, columns: Sequence[Any], *, sql: bool = False) -> None:
        self._sql = sql
        frame = self._frame(columns)
        if _all_differ(frame) and not (sql and any(column.null_count() for column in frame)):
            self.first_rows = self.of_rows = np.arange(len(frame))
            self._keys = frame.with_row_index(_NUMBER)
            return
        names = frame.columns
        found = frame.with_row_index(_ROW)
        found = (found.drop_nulls() if sql else found).unique(names, keep="first", maintain_order=True)
        self.first_rows = found[_ROW].to_numpy().astype(np.int64)
        self._keys = found.drop(_ROW).with_row_index(_NUMBER)
        of_rows = frame.join(self._keys, on=names, how="left", nulls_equal=not sql, maintain_order="left")
        self.of_rows = of_rows[_NUMBER].cast(pl.Int64).fill_null(-1).to_numpy()

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, columns: Sequence[Any]) -> Numbers:
        """Return the number of each row's key, -1 for a key that is not among them."""
        rows, found = self.matches(columns)
        numbers = np.full(len(columns[0]), -1, np.int64)
        numbers[rows] = found
        return numbers

    def matches(self, columns: Sequence[Any]) -> tuple[Numbers, Numbers]:
        """Return the rows that have one of the keys, ascending, and the number of each one's key."""
        rows = self._frame(columns)
        hits = self._lookup.hits(rows)
        if hits is not None and len(rows.columns) == 1:
            maybe = np.flatnonzero(hits)
            return maybe, self._number_of(rows.to_series()[maybe])
        found = self._lookup.join(rows, self._lookup.maybe(rows, hits), self._keys, nulls_equal=not self._sql)
        found = found.sort(_ROW)
        return _int64(found[_ROW]), _int64(found[_NUMBER])

    def _number_of(self, integers: pl.Series) -> Numbers:
        """Return the numbers of integers that are keys; NULL too."""
        keys, numbers = self._ascending
        places = np.searchsorted(keys, _int64(integers))
        if integers.null_count():
            places[integers.is_null().to_numpy()] = len(keys)
        return numbers[places]

    @cached_property
    def _ascending(self) -> tuple[Numbers, Numbers]:
        """The keys that are one integer, sorted, and the number of each; that of NULL is last."""
        ordered = self._keys.sort(self._keys.columns[1], nulls_last=True)
        return _int64(ordered.to_series(1).drop_nulls()), _int64(ordered[_NUMBER])

    @cached_property
    def _lookup(self) -> _Lookup:
        return _Lookup(self._keys.drop(_NUMBER))

    def _frame(self, columns: Sequence[Any]) -> pl.DataFrame:
        return key_frame(map(without_negative_zero, columns) if self._sql else columns)


class KeySet:
    """A set of keys, to ask which rows have one of them.

    Parameters
    ----------
    columns: the key columns, equally long, each of the type both sides are compared in.
    """

    def __init__(self, columns: Sequence[Any]) -> None:
        self._keys = key_frame(columns).unique()
        self._lookup = _Lookup(self._keys)

    def contains(self, columns: Sequence[Any]) -> pa.BooleanArray:
        """Return one boolean per row: whether the row's key is in the set."""
        rows = _frame(comparable_columns(columns))
        hits = self._lookup.hits(rows)
        if hits is None or len(rows.columns) > 1:
            found = self._lookup.join(rows, self._lookup.maybe(rows, hits), self._keys, nulls_equal=True)
            hits = np.zeros(len(rows), dtype=np.bool_)
            hits[found[_ROW].to_numpy()] = True
        return pa.array(hits)

    def may_hold(self, lower: int, upper: int) -> bool:
        """Tell whether a key of one integer column is NULL or lies between two bounds; True for any other key."""
        return len(self._keys.columns) > 1 or self._lookup.may_hold(lower, upper)


class _Lookup:
    """Finds the few rows that can have one of the distinct `keys`.

    Bits of a row's hash are an index into a table, which says whether a key has the same bits. So the keys are hashed
    once, and not for each batch of rows. Integers that lie near each other are such an index without a hash.
    """

    def __init__(self, keys: pl.DataFrame) -> None:
        self._telling = _telling_column(keys)
        hashes = self._hashes(keys)
        bits = min(_MOST_BITS, max(1, (_SLOTS_PER_KEY * len(hashes)).bit_length()))
        self._shift, self._low_bits = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        self._slots = (hashes >> self._shift).view(np.int64)  # numpy copies what else it is given as indices
        self._high, self._low = np.zeros((2, 1 << bits), dtype=np.bool_)
        self._high[self._slots] = True
        self._low[hashes & self._low_bits] = True
        telling = None if self._telling is None else keys[self._telling]
        self._has_null = telling is not None and telling.null_count() > 0
        if telling is not None and not telling.dtype.is_integer():
            telling = None
        self._integers = None if telling is None else _int64(telling.drop_nulls().unique().sort())

    def may_hold(self, lower: int, upper: int) -> bool:
        """Tell whether the integer of a key is NULL or lies between two bounds; True for what is no integer."""
        return self._integers is None or self._has_null or bool(len(_between(self._integers, lower, upper)))

    def hits(self, rows: pl.DataFrame) -> npt.NDArray[np.bool_] | None:
        """Tell where the telling integer is that of some key; None if there is none, or the rows' are far apart."""
        if self._integers is None or self._telling is None:
            return None
        values = rows[self._telling]
        lower, upper = values.min(), values.max()
        if not isinstance(lower, int) or not isinstance(upper, int):
            return None
        if upper - lower > _MOST_SPREAD * len(values):
            return None
        table = np.zeros(upper - lower + 1, dtype=np.bool_)
        table[_between(self._integers, lower, upper) - lower] = True
        hits = table.take(_int64(values, lower) - lower)
        if values.null_count():
            hits[values.is_null().to_numpy()] = self._has_null
        return hits

    def maybe(self, rows: pl.DataFrame, hits: npt.NDArray[np.bool_] | None = None) -> Numbers:
        """Return the rows that can have a key: `hits`, or where upper and lower bits of the hash are those of some."""
        hits = self.hits(rows) if hits is None else hits
        if hits is not None:
            return np.flatnonzero(hits)
        hashes = self._hashes(rows)
        maybe = np.flatnonzero(self._high.take((hashes >> self._shift).view(np.int64)))
        return maybe[self._low.take((hashes[maybe] & self._low_bits).view(np.int64))]

    def join(self, rows: pl.DataFrame, maybe: Numbers, keys: pl.DataFrame, *, nulls_equal: bool) -> pl.DataFrame:
        """Return the rows of `maybe` that have one of the keys, with their numbers: hashes may agree by chance."""
        found, on = rows[maybe], rows.columns
        near = np.zeros(len(self._high), dtype=np.bool_)
        near[(self._hashes(found) >> self._shift).view(np.int64)] = True
        some = keys.filter(pl.Series(near.take(self._slots)))  # a join hashes all keys that it is given
        return found.with_columns(pl.Series(_ROW, maybe)).join(some, on=on, how="inner", nulls_equal=nulls_equal)

    def _hashes(self, rows: pl.DataFrame) -> npt.NDArray[np.uint64]:
        """Return a hash of each row, of its telling column alone if there is one."""
        return (rows.hash_rows(_SEED) if self._telling is None else rows[self._telling].hash(_SEED)).to_numpy()


def _all_differ(rows: pl.DataFrame) -> bool:
    """Tell whether no two rows have the same hash: then they differ, and need not be joined to know it."""
    return all(some.hash_rows(_SEED).n_unique() == len(some) for some in (rows.head(_FIRST_ROWS), rows))


def _telling_column(keys: pl.DataFrame) -> str | None:
    """Return a column that tells most keys apart, best an integer; None if each has too few values."""
    columns = sorted(keys, key=lambda c: not c.dtype.is_integer())
    return next((c.name for c in columns if len(columns) == 1 or 2 * c.n_unique() >= len(c)), None)


def _int64(values: pl.Series, null: int = 0) -> Numbers:
    return (values.fill_null(null) if values.null_count() else values).cast(pl.Int64).to_numpy()


def _between(ascending: Numbers, lower: int, upper: int) -> Numbers:
    return ascending[ascending.searchsorted(lower) : ascending.searchsorted(upper, side="right")]


def distinct_keys(table: pa.Table) -> pa.Table:
    """Return the rows of a table of keys, each once, in order of first appearance."""
    if not len(table):
        return table
    first = KeyNumbers(table.columns).first_rows
    return table if len(first) == len(table) else table.take(pa.array(first))


def same_keys(left: Sequence[Any], right: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Tell row by row whether two lists of keys agree, each given as columns of the same types."""
    pairs = zip(key_frame(left), key_frame(right), strict=True)
    same = np.logical_and.reduce([a.eq_missing(b).to_numpy() for a, b in pairs])
    return np.asarray(same, np.bool_)


def key_frame(columns: Iterable[Any]) -> pl.DataFrame:
    """Return key columns as a polars frame, in which two rows are equal if the keys are."""
    return _frame(comparable_columns(columns))


def sql_key_bytes(columns: Sequence[Any]) -> pa.Array:
    """Return keys as bytes that are equal where SQL says that the keys are; NULL for a key that equals nothing."""
    parts = [_bytes(column) for column in comparable_columns(map(without_negative_zero, columns))]
    if len(parts) == 1:
        return parts[0]
    lengths = [pc.binary_length(part).cast(pa.string()).cast(pa.binary()) for part in parts]
    pieces = [piece for length, part in zip(lengths, parts, strict=True) for piece in (length, pa.scalar(b":"), part)]
    return pc.binary_join_element_wise(*pieces, pa.scalar(b""))


def key_bytes(columns: Sequence[Any]) -> pa.Array:
    """Return keys as bytes that are equal where equality deletes say that the keys are. They never change: files on
    disk hold hashes of them.

    Each column, a struct leaf by leaf, gives the length of its value, `:` and the value; NULL gives `-:`. Integers,
    booleans and times have 8 bytes, floats the bits of their number.
    """
    return _joined_bytes(comparable_columns(columns))


def _joined_bytes(parts: Sequence[Any]) -> pa.Array:
    pieces = []
    for part in map(_bytes, parts):
        length = pc.fill_null(pc.binary_length(part).cast(pa.string()), "-").cast(pa.binary())
        pieces += [length, pa.scalar(b":"), pc.fill_null(part, b"")]
    return pc.binary_join_element_wise(*pieces, pa.scalar(b""))


def comparable_columns(columns: Iterable[Any]) -> list[Any]:
    """Return columns as Arrow columns whose equality is that of keys."""
    return [part for column in columns for part in comparable(column)]


def row_columns(columns: Iterable[Any]) -> list[Any]:
    """Return columns of any type as Arrow columns whose equality is that of whole rows: as keys, and lists by element.

    A list becomes the bytes of its elements in their order, a map those of its entries in any order.
    """
    return [part for column in columns for part in comparable(column, nested=True)]


def row_buckets(columns: Iterable[Any], buckets: int) -> Numbers:
    """Return a number below `buckets` for each row, the same for rows that are equal by `row_columns`."""
    hashes = _frame(row_columns(columns)).hash_rows(_SEED)
    return (hashes % buckets).cast(pl.Int64).to_numpy()


def without_negative_zero(column: Any) -> Any:
    """Return a column with 0.0 for -0.0, which hashes and bytes tell apart."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def _frame(parts: Sequence[Any]) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(str(i), part) for i, part in enumerate(parts)])


def _bytes(part: Any) -> pa.Array:
    array = flat(part)
    if pa.types.is_boolean(array.type) or pa.types.is_integer(array.type):
        return array.cast(pa.int64()).view(pa.binary(8)).cast(pa.binary())
    return array.cast(pa.binary())


def comparable(column: Any, *, nested: bool = False) -> list[Any]:
    """Return a column as one or more columns whose Arrow equality is that of keys.

    A float becomes its bits, with one NaN. A time becomes its number, a decimal its bytes, an extension type its
    storage, and a struct its leaves and whether it is NULL. With `nested`, a list or map becomes bytes.
    Raises UnsupportedError for lists and maps otherwise: the spec forbids them as keys.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return [storage_of(column)]
    if pa.types.is_floating(kind):
        return [_float_bits(column)]
    if pa.types.is_struct(kind):
        leaves = [c for i in range(kind.num_fields) for c in comparable(pc.struct_field(column, i), nested=nested)]
        return [pc.is_null(column), *leaves]
    if pa.types.is_nested(kind) and nested:
        return [_element_bytes(flat(column))]
    if pa.types.is_nested(kind):
        raise UnsupportedError("lists and maps cannot be equality keys", kind="equality-key", found=str(kind))
    if pa.types.is_null(kind):
        return [column.cast(pa.int8())]
    if pa.types.is_temporal(kind):
        return [flat(column).view(pa.int32() if kind.bit_width == 32 else pa.int64())]
    if pa.types.is_decimal(kind):
        return [flat(column).view(pa.binary(kind.byte_width))]
    return [column]


def _element_bytes(array: pa.Array) -> pa.Array:
    """Return each list or map as the bytes of its elements, NULL for NULL."""
    compact = array.take(pa.array(range(len(array)), pa.int64()))  # without the elements of a slice's other rows
    if pa.types.is_map(compact.type):
        elements, offsets = [compact.keys, compact.items], compact.offsets.cast(pa.int64())
    else:
        lengths = pc.fill_null(pc.list_value_length(compact), 0).to_numpy(zero_copy_only=False)
        elements, offsets = [pc.list_flatten(compact)], pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    parts = _joined_bytes(row_columns(elements)).cast(pa.large_binary())
    if pa.types.is_map(compact.type):
        rows = pa.array(np.repeat(np.arange(len(compact)), np.diff(offsets.to_numpy())))
        entries = pa.table({"row": rows, "entry": parts})
        parts = parts.take(pc.sort_indices(entries, sort_keys=[("row", "ascending"), ("entry", "ascending")]))
    lists = pa.LargeListArray.from_arrays(offsets, parts)
    joined = pc.binary_join(lists, pa.scalar(b"", pa.large_binary()))
    return pc.if_else(compact.is_valid(), joined, pa.scalar(None, pa.large_binary()))


def _float_bits(column: Any) -> pa.Array:
    array = flat(column)
    canonical = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return canonical.view(pa.int32() if pa.types.is_float32(array.type) else pa.int64())


def flat(column: Any) -> pa.Array:
    """Return a column as one Arrow array."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def column_at(table: pa.Table, schema: Schema, field_id: int) -> pa.ChunkedArray:
    """Return a top-level column or nested leaf of `table` by its id in `schema`.

    Raises InvalidInputError for an id that the schema does not have, KeyError for a column that the table lacks.
    """
    names = schema.find_column_name(field_id)
    if names is None:
        raise InvalidInputError("no such column", kind="column-not-found", field=str(field_id))
    top = next(f for f in schema.fields if names == f.name or names.startswith(f.name + "."))
    column = table.column(top.name)
    for name in names[len(top.name) + 1 :].split(".") if names != top.name else []:
        if pa.types.is_null(column.type):  # a column of NULL structs without a type
            return column
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            raise KeyError(names)
        column = pc.struct_field(column, name)
    return column
