"""Find the order of the changes of a key: by `sequence_by`, and by arrival where a tombstone has no value.

`sequence_by` is a column of the table, the number or time of each change at its source. So a change can be compared
with the row that is stored. A tombstone of Kafka has a key and nothing else, so no value of a column says where it
belongs. It comes where it arrives: after what arrived before it, and before what arrives after it. Right behind a
delete it is that delete's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as it
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.errors import InvalidInputError
from deletekit.rows.input_rows import cast_column
from deletekit.table.column_names import columns_like
from deletekit.table.types import arrow_type

_ORDERED = (
    it.IntegerType,
    it.LongType,
    it.FloatType,
    it.DoubleType,
    it.DecimalType,
    it.DateType,
    it.TimeType,
    it.TimestampType,
    it.TimestamptzType,
    it.TimestampNanoType,
    it.TimestamptzNanoType,
    it.StringType,
)

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def sequence_field(schema: Schema, name: str | None) -> NestedField | None:
    """Return the field of `sequence_by`. Raise InvalidInputError if the table has no such column with an order."""
    if name is None:
        return None
    field = next((f for f in schema.fields if f.name == name), None)
    if field is None:
        message = "sequence_by is not a column of the table, so the stored rows have no value to compare"
        raise _refused(message, name, None, columns_like(name, [f.name for f in schema.fields]))
    if not isinstance(field.field_type, _ORDERED):
        expected = "a number, a date, a time or a text"
        raise _refused("values of sequence_by cannot be put in order", name, str(field.field_type), expected)
    return field


def sequence_values(table: pa.Table, field: NestedField, tombstones: Mask) -> pa.Array:
    """Return the value of each change, also of each delete, in the table's type; of a tombstone it may be NULL.

    Raises InvalidInputError if the column is missing, or has NULL or NaN: such a change is neither old nor new.
    """
    if field.name not in table.column_names and tombstones.all():
        return pa.nulls(len(table), arrow_type(field.field_type))
    if field.name not in table.column_names:
        raise _refused("changes lack the column of sequence_by", field.name, None, ", ".join(table.column_names))
    column = table.column(field.name)
    if column.filter(pa.array(~tombstones)).null_count:
        raise _refused("null in the column of sequence_by", field.name, f"{column.null_count} nulls", "a value")
    values = cast_column(column, field)
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    check_not_nan(array, field, "changes")
    return array


def check_not_nan(values: pa.Array, field: NestedField, where: str) -> None:
    """Raise InvalidInputError for NaN, which is neither before nor after any number."""
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        raise _refused("NaN in the column of sequence_by", field.name, f"NaN in {where}", "a number")


def ranks(values: pa.Array) -> Numbers:
    """Return a number for each value: in the same order, equal where the values are."""
    return pl.Series("value", values).rank("dense").fill_null(0).to_numpy().astype(np.int64)


def with_tombstones(values: pa.Array, codes: Numbers, arrived: Numbers, deletes: Mask) -> tuple[pa.Array, Mask]:
    """Return the value of each change, and which tombstones are of no delete in the batch.

    A tombstone without a value has that of the delete right before it, else the highest one that its key had before;
    NULL if it comes first.

    Parameters
    ----------
    codes: the number of each change's key; arrived: in which order changes arrived.
    deletes: which changes delete.
    """
    alone = values.is_null().to_numpy(zero_copy_only=False).copy()
    if not alone.any():
        return values, alone
    by_key = np.lexsort((arrived, codes))
    own, starts = codes[by_key], np.append(True, codes[by_key][1:] != codes[by_key][:-1])
    place = ranks(values)  # 0 of a tombstone
    highest = pl.DataFrame({"key": own, "place": place[by_key]}).select(pl.col("place").cum_max().over("key"))
    found, missing, gaps = place.copy(), alone.copy(), alone[by_key]
    found[by_key[gaps]] = highest["place"].to_numpy()[gaps]
    for at in np.flatnonzero(gaps & ~starts).tolist():
        row, before = by_key[at], by_key[at - 1]
        if deletes[before] and not (missing[before] and alone[before]):
            found[row], alone[row] = found[before], False
    of_place = np.zeros(int(place.max()) + 1, np.int64)
    of_place[place] = np.arange(len(place))
    return values.take(pa.array(of_place[found], mask=found == 0)), alone


def newest_value(values: pa.Array) -> Any:
    """Return the highest value; None if there are none."""
    return pl.Series("value", values).max()


def check_arrival(missing: Mask, codes: Numbers, order: Numbers | None, field: str | None) -> None:
    """Refuse a tombstone beside other changes of its key, if it is not known which of them came first."""
    if not missing.any():
        return
    same = codes if order is None else codes * (int(order.max()) + 1) + order
    _, inverse, counts = np.unique(same, return_inverse=True, return_counts=True)
    if (counts[inverse][missing] > 1).any():
        raise InvalidInputError(
            "a tombstone and other changes of its key, and their order is not known",
            kind="change-order",
            field=field or "order",
            found="a tombstone without a value",
            expected="a column that puts the changes of each key in order, of tombstones too",
        )


def _refused(message: str, field: str, found: object, expected: object) -> InvalidInputError:
    return InvalidInputError(message, kind="sequence-by", field=field, found=found, expected=expected)
