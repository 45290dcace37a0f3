"""Equality of keys: the one matcher, for equality deletes, upsert, merge and the sink.

Two keys are equal if all their columns are. NULL equals NULL and nothing else. NaN equals NaN. -0.0 differs from 0.0.
Both sides must first be read as the column's current type, so that promoted values compare. Structs compare leaf by
leaf, and a NULL struct differs from a struct of NULLs.

A merge compares as SQL does (`sql=True`): a key with a NULL equals nothing, and -0.0 equals 0.0.

Spec: "Equality Delete Files"; values compare as in Java's Comparators (Float.compare, Double.compare).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.deferred import pc, pl
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.rows.key_lookup import SEED, KeyLookup, Numbers, same_rows
from deletekit.table.types import storage_of

_ROW = "row"
_NUMBER = "number"
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
        maybe = self._lookup.maybe(rows)
        found, numbers = self._lookup.find(rows[maybe])
        order = np.argsort(found)
        return maybe[found[order]], numbers[order]

    @cached_property
    def _lookup(self) -> KeyLookup:
        return KeyLookup(self._keys.drop(_NUMBER))

    def _frame(self, columns: Sequence[Any]) -> pl.DataFrame:
        return key_frame(map(without_negative_zero, columns) if self._sql else columns)


class KeySet:
    """A set of keys, to ask which rows have one of them.

    Parameters
    ----------
    columns: the key columns, equally long, each of the type both sides are compared in.
    newest: a number for each key, which `contains_each` can ask for. Of equal keys the largest counts.
    """

    def __init__(self, columns: Sequence[Any], newest: Numbers | None = None) -> None:
        keys = key_frame(columns).rechunk()
        if not _all_differ(keys):
            if newest is None:
                keys = keys.unique()
            else:
                numbered = keys.with_columns(pl.Series(_NUMBER, newest)).group_by(keys.columns).max()
                keys, newest = numbered.drop(_NUMBER), numbered[_NUMBER].to_numpy()
        self._keys = keys
        self._newest = np.zeros(len(keys), np.int64) if newest is None else newest
        self._oldest = int(self._newest.min(initial=np.iinfo(np.int64).max))
        self._lookup = KeyLookup(keys)

    def contains(self, columns: Sequence[Any]) -> pa.BooleanArray:
        """Return one boolean per row: whether the row's key is in the set."""
        return self.contains_each(len(columns), columns.__getitem__)

    def contains_each(
        self, columns: int, column_of: Callable[[int], Any], at_least: int | None = None
    ) -> pa.BooleanArray:
        """Return the same, of so many columns by their number. It asks for each once, and for most only if need be.

        Only keys whose `newest` is at least a number count, if there is one.
        """
        least = self._oldest if at_least is None else at_least
        all_count = self._oldest >= least
        selective, names = self._lookup.selective, self._keys.columns
        if selective is None or columns != len(names):  # a struct is several columns here
            rows = key_frame(map(column_of, range(columns)))
        else:
            rows = _series(selective, column_of(selective)).to_frame()
        hits = self._lookup.hits(rows)
        if hits is None or len(names) > 1 or not all_count:
            maybe, hits = self._lookup.maybe(rows, hits), np.zeros(len(rows), dtype=np.bool_)
            near = rows[maybe]
            if near.width < len(names) and len(maybe):
                others = [_taken(i, column_of(i), maybe) for i in range(columns) if i != selective]
                near = near.with_columns(others).select(names)
            if len(maybe):
                found, numbers = self._lookup.find(near)
                hits[maybe[found if all_count else found[self._newest[numbers] >= least]]] = True
        packed = pa.py_buffer(np.packbits(hits, bitorder="little"))
        return pa.BooleanArray.from_buffers(pa.bool_(), len(hits), [None, packed])

    def may_hold(self, bounds: Sequence[tuple[Any, Any] | None]) -> bool:
        """Tell whether some key may lie between bounds.

        Parameters
        ----------
        bounds: the least and the greatest value of each column, of a whole number, a time or a text; None for unknown.
        """
        values = self._lookup.values
        if len(bounds) != len(values):
            return True
        return all(b is None or v.may_hold(*b) for v, b in zip(values, bounds, strict=True))


def distinct_keys(table: pa.Table) -> pa.Table:
    """Return the rows of a table of keys, each once, in order of first appearance."""
    if not len(table):
        return table
    first = KeyNumbers(table.columns).first_rows
    return table if len(first) == len(table) else table.take(pa.array(first))


def same_keys(left: Sequence[Any], right: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Tell row by row whether two lists of keys agree, each given as columns of the same types."""
    return same_rows(key_frame(left), key_frame(right))


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
    hashes = _frame(row_columns(columns)).hash_rows(SEED)
    return (hashes % buckets).cast(pl.Int64).to_numpy()


def without_negative_zero(column: Any) -> Any:
    """Return a column with 0.0 for -0.0, which hashes and bytes tell apart."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def _all_differ(rows: pl.DataFrame) -> bool:
    """Tell whether no two rows have the same hash: then they differ, and need not be compared to know it."""
    return all(some.hash_rows(SEED).n_unique() == len(some) for some in (rows.head(_FIRST_ROWS), rows))


def _frame(parts: Sequence[Any]) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(str(i), part) for i, part in enumerate(parts)])


def _series(number: int, column: Any) -> pl.Series:
    (part,) = comparable(column)
    return pl.Series(str(number), part)


def _taken(number: int, column: Any, rows: Numbers) -> pl.Series:
    """Return some rows of a column. They are few, so that the others need not become comparable."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks > 1 and pa.types.is_string(column.type):
        column = column.cast(pa.large_string())  # Arrow joins the chunks, which may be too long together
    return _series(number, column.take(pa.array(rows)))


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
