"""Tell what a table uses a column for, besides its values.

Iceberg's Java cannot open a table whose current spec, sort order or identifier names a missing column.
Spec: "Partition Specs", "Sorting", "Identifier Field IDs".
"""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.table.metadata import TableMetadata


def use_of(metadata: TableMetadata, field: NestedField) -> str | None:
    """Say in a few words what a column, or a field below it, is used for. None if for nothing."""
    orders = {order["order-id"]: order["fields"] for order in metadata.raw.get("sort-orders", ())}
    uses = {
        "rows are partitioned by it": (f.source_id for f in metadata.spec.fields),
        "rows are sorted by it": (
            f.get("source-id") for f in orders.get(metadata.raw.get("default-sort-order-id"), ())
        ),
        "it identifies rows": metadata.schema.identifier_field_ids,
    }
    ids = Schema(field).field_ids
    return next((use for use, of in uses.items() if not ids.isdisjoint(of)), None)
