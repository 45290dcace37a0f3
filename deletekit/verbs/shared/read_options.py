"""Understand which snapshot and which columns a reading verb asks for."""

from datetime import UTC, datetime, timedelta

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.errors import InvalidInputError
from deletekit.table.column_names import unknown_column
from deletekit.table.consistency import warn_reader
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def resolve_snapshot(
    metadata: TableMetadata,
    *,
    snapshot_id: int | None = None,
    ref: str = MAIN,
    as_of: int | str | datetime | None = None,
) -> tuple[Snapshot | None, Schema]:
    """Return the snapshot to read, and the schema to read it with (Java SnapshotUtil.schemaFor). See `scan`.

    Warns of metadata that contradicts itself.
    """
    warn_reader(metadata)
    if sum((snapshot_id is not None, ref != MAIN, as_of is not None)) > 1:
        raise InvalidInputError("name one of snapshot_id, ref and as_of", "time-travel", "snapshot_id, ref, as_of")
    if snapshot_id is not None:
        snapshot = metadata.snapshot_by_id(snapshot_id)
        return snapshot, metadata.schema_of(snapshot)
    if as_of is not None:
        snapshot = metadata.snapshot_as_of(milliseconds(as_of, "as_of"))
        return snapshot, metadata.schema_of(snapshot)
    found = metadata.snapshot_of_ref(ref)
    is_tag = ref in metadata.refs and metadata.refs[ref].get("type") == "tag"
    return found, metadata.schema_of(found) if found is not None and is_tag else metadata.schema


def milliseconds(time: int | str | datetime, argument: str) -> int:
    """Return a time in milliseconds since the epoch. Raises InvalidInputError, naming the argument, for a bad one."""
    if isinstance(time, int):
        return time
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else time
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, AttributeError) as e:
        expected = "milliseconds, a datetime or ISO 8601"
        raise InvalidInputError("bad time", "time-travel", argument, time, expected) from e
    return (moment - _EPOCH) // timedelta(milliseconds=1)  # in integers: a float of seconds is sometimes off by one


def select_field(schema: Schema, name: str) -> NestedField:
    """Return a column, or for `parent.child` its struct with only that field. Raises InvalidInputError."""
    try:
        return schema.select(name).fields[0]
    except (ValueError, IndexError) as e:
        raise unknown_column(name, schema.column_names) from e
