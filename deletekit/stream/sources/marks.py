"""Facts about a batch that no row can say: the source table was truncated, or deletes have unknown values.

They travel in the metadata of the Arrow schema, so that `Sink.write` takes a decoded batch like any other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from deletekit.errors import InvalidInputError

_TRUNCATE = b"deletekit.truncate"
_UNKNOWN = b"deletekit.unknown-in-deletes"


def with_marks(table: pa.Table, *, truncate: bool = False, unknown: Iterable[str] = ()) -> pa.Table:
    """Return change rows with marks.

    Parameters
    ----------
    truncate: all rows of the table are deleted before the first change.
    unknown: columns that some deleted row lacks. A sink that has one in its key cannot apply the batch.
    """
    marks = dict(table.schema.metadata or {})
    if truncate:
        marks[_TRUNCATE] = b"true"
    if names := sorted(unknown):
        marks[_UNKNOWN] = "\n".join(names).encode()
    return table.replace_schema_metadata(marks or None)


def truncates(table: pa.Table) -> bool:
    """Tell whether the batch deletes all rows before its own."""
    return _TRUNCATE in (table.schema.metadata or {})


def check_deletes(table: pa.Table, key: Collection[str]) -> None:
    """Refuse a batch whose deletes lack a column of the key: null there would not delete the row, or another one."""
    unknown = (table.schema.metadata or {}).get(_UNKNOWN, b"").decode().split("\n")
    lacking = sorted(set(key).intersection(unknown))
    if lacking:
        raise InvalidInputError(
            "deleted rows lack a column of the key, because the source does not log it",
            kind="message-key",
            field=", ".join(lacking),
            found="only the columns of the message's key",
            expected="equality_fields of the message's key, or REPLICA IDENTITY FULL and replica_identity='full'",
        )
