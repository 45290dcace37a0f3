"""Sort rows by a table's sort order, or by another one, before they are written.

A data file has the id of the order that its rows are in. Rows without an order keep the one they came in.
Spec: "Sorting", https://iceberg.apache.org/spec/#sorting: NaN comes last, -0.0 before 0.0, and no order is known for
transforms of later versions.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.exceptions import ValidationError
from pyiceberg.transforms import UnknownTransform

from deletekit.deferred import Deferred
from deletekit.errors import FormatError
from deletekit.rows.keys import column_at, flat
from deletekit.table.metadata import TableMetadata
from deletekit.table.transforms import partition_values
from deletekit.table.types import check_width

if TYPE_CHECKING:
    import polars as pl
    from pyiceberg.table import sorting
else:
    pl, sorting = Deferred("polars"), Deferred("pyiceberg.table.sorting")

_BITS = 63


@dataclass(frozen=True, slots=True)
class RowOrder:
    """In which order rows are written.

    Attributes
    ----------
    fields: empty for the order that rows come in.
    order_id: the order's id in the table's metadata; 0 if no sort order of the table is meant.
    z_order: rows near each other in all columns come near each other, whatever the direction of a field.
    """

    fields: tuple[sorting.SortField, ...] = ()
    order_id: int = 0
    z_order: bool = False

    @classmethod
    def of(cls, metadata: TableMetadata) -> RowOrder:
        """Return the table's default order. One that deletekit cannot sort by is warned of, and not followed."""
        number = int(metadata.raw.get("default-sort-order-id") or 0)
        orders = metadata.raw.get("sort-orders") or ()
        fields: Sequence[Any] = next((o["fields"] for o in orders if o["order-id"] == number), ())
        several = any(len(f.get("source-ids") or ()) > 1 for f in fields)
        order = () if several else tuple(map(_sort_field, fields))
        known = metadata.schema.field_ids
        if several or any(isinstance(f.transform, UnknownTransform) or f.source_id not in known for f in order):
            warnings.warn(f"rows are not sorted: deletekit does not know the table's sort order {number}", stacklevel=2)
            return cls()
        return cls(order, number if order else 0)

    def within(self, metadata: TableMetadata) -> RowOrder:
        """Return this order with the id of an equal one of the table."""
        mine = sort_order_fields(self.fields)
        known = (o["order-id"] for o in metadata.raw.get("sort-orders") or () if o["fields"] == mine)
        return self if self.z_order else RowOrder(self.fields, next(known, 0))

    def sorted(self, metadata: TableMetadata, rows: pa.Table) -> pa.Table:
        """Return rows, which have the columns of the current schema, in this order; equal ones as they came."""
        if not self.fields or len(rows) < 2:
            return rows
        keys = [_comparable(_values(metadata, rows, field)) for field in self.fields]
        if self.z_order:
            keys, first, last = [_interleaved(keys)], [False], [True]
        else:
            first = [f.direction == sorting.SortDirection.DESC for f in self.fields]
            last = [f.null_order == sorting.NullOrder.NULLS_LAST for f in self.fields]
        named = pl.DataFrame([key.alias(str(i)) for i, key in enumerate(keys)])
        order = named.select(
            pl.arg_sort_by(named.columns, descending=first, nulls_last=last, maintain_order=True).alias("order")
        )["order"].to_numpy()
        return rows if (np.diff(order.astype(np.int64)) == 1).all() else rows.take(pa.array(order))


def sort_order_fields(fields: Sequence[sorting.SortField]) -> list[dict[str, Any]]:
    """Return sort fields as metadata stores them."""
    stored: list[dict[str, Any]] = json.loads(sorting.SortOrder(*fields).model_dump_json(by_alias=True))["fields"]
    return stored


def sort_order_updates(fields: Sequence[sorting.SortField]) -> list[dict[str, Any]]:
    """Return the updates that make an order the table's default. The catalog chooses its id; 0 means no order."""
    order = {"order-id": int(bool(fields)), "fields": sort_order_fields(fields)}
    return [
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]


def _sort_field(raw: Mapping[str, Any]) -> sorting.SortField:
    try:
        field = sorting.SortField(**raw)
        check_width(field.transform)
    except (ValueError, TypeError, ValidationError) as e:
        raise FormatError("bad sort order", kind="table-metadata", field="sort-orders", found=str(e)) from e
    return field


def _values(metadata: TableMetadata, rows: pa.Table, field: sorting.SortField) -> pa.Array:
    return partition_values(field.transform, flat(column_at(rows, metadata.schema, field.source_id)))


def _comparable(values: pa.Array) -> pl.Series:
    """Return values that polars compares as the specification does: the bits of a float, by its total order."""
    if not pa.types.is_floating(values.type):
        return pl.Series(values)
    wide = values.cast(pa.float64())
    bits = wide.fill_null(0.0).to_numpy(zero_copy_only=False).view(np.int64)
    nulls = wide.is_null().to_numpy(zero_copy_only=False)
    return pl.Series(pa.array(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits), mask=nulls))


def _interleaved(keys: Sequence[pl.Series]) -> pl.Series:
    """Return the z-order of rows: the bits of the columns' ranks by turns. NULL ranks first."""
    width = _BITS // len(keys)
    out = np.zeros(len(keys[0]), np.int64)
    for at, key in enumerate(keys):
        rank = key.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        scaled = rank if width > 32 else rank * (2**width - 1) // max(rank.max(), 1)
        for bit in range(width):
            out |= (scaled >> bit & 1) << (bit * len(keys) + len(keys) - 1 - at)
    return pl.Series(out)
