"""Write and read the parts of a batch: Arrow files of change rows in the folder of the sink's files.

A part has the last change of each of its keys, after a DELETE if the batch deleted the key before. So it means the same
as all the rows that it was made of, and is parsed by the same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from deletekit.rows.write_context import WriteContext
from deletekit.stream.change_rows import Changes, ChangeType
from deletekit.table.file_io import FileIO
from deletekit.table.sinks.files import STAGED_ROWS, sink_path

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file of change rows, with all changes of its keys.

    Attributes
    ----------
    rows, keys: change rows that it was made of, and different keys among them.
    newest: the highest value of the order column.
    digest: its part of the batch's digest.
    takes_stored: whether some rows depend on stored rows, or on rows of other parts.
    """

    path: str
    bytes: int
    rows: int
    keys: int
    newest: Any
    digest: int
    takes_stored: bool = False


def folded(rows: pa.Table, changes: Changes) -> pa.Table:
    """Return the rows that decide, in order, without the order column if that is not the table's."""
    last = changes.last.rows
    deleted = np.full(len(last), -1, np.int64)
    deletes = np.flatnonzero(changes.types == ChangeType.DELETE)
    deleted[changes.codes[deletes]] = deletes
    order = np.concatenate([deleted[(deleted >= 0) & (changes.last.put >= 0)], last])
    name = changes.form.order
    drops = [name] if name is not None and name not in changes.schema.column_names else []
    return rows.take(pa.array(order)).drop_columns(drops)


def write_part(context: WriteContext, kept: pa.Table, changes: Changes, digest: int) -> Part:
    """Write the rows that were kept of a partition's changes."""
    return Part(
        path=write_rows_file(context, kept),
        bytes=kept.nbytes,
        rows=len(changes),
        keys=len(changes.last),
        newest=changes.newest,
        digest=digest,
        takes_stored=changes.unsent is not None or bool(changes.last.tombstone.any()),
    )


def write_rows_file(context: WriteContext, rows: pa.Table, text: str = "") -> str:
    """Write the one file of rows of an attempt at a task. Return its path. `text` becomes a part of the path."""
    path = sink_path(context.metadata, f"{context.operation_id}{text}{STAGED_ROWS}")
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows)
    context.write(path, out.getvalue())
    return path


def read_rows(io: FileIO, path: str) -> pa.Table:
    """Return the rows of a file that `write_rows_file` wrote."""
    return pa.ipc.open_stream(io.read(path)).read_all()
