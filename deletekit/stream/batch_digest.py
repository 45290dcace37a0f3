"""Compute a digest of everything that a batch writes, to recognise the batch when it comes again.

Two batches have the same digest exactly if they write the same. Only the order of rows of the same key counts. Later
changes of the schema do not change it: a wider type, or a new column without a value.
"""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.deletes.keys import comparable, key_frame
from deletekit.stream.change_rows import Changes

_VERSION = "2-"
_BLOCK = 1 << 18
"""Rows that are taken at once: Arrow's texts end at 2 GB, and the blocks must not follow from how a column is held."""


def batch_digest(changes: Changes) -> str:
    """Return the digest of keys, changes, and all values that are written."""
    sha = hashlib.sha256(b"truncate;" if changes.truncate else b"")
    at = changes.order[_sorted_rows(changes)]
    sha.update(changes.types[at].tobytes())
    for column in changes.keys:
        for part in comparable(column):
            _add_rows(sha, part, at)
    puts = changes.put_of[at]
    rows = puts[puts >= 0]
    for field in changes.batch_columns:
        column = changes.puts.column(field.name)
        # A column added later is null in older batches. If the column has a default, a null is a value of its own.
        if column.null_count < len(column) or field.write_default is not None:
            sha.update(b"%d;" % field.field_id)
            _add_rows(sha, column, rows)
    return _VERSION + sha.hexdigest()[:32]


def _sorted_rows(changes: Changes) -> npt.NDArray[np.int64]:
    """Return positions in `changes.order`, sorted by key; rows of one key keep their order."""
    if not len(changes):
        return np.empty(0, np.int64)
    keys = key_frame(changes.keys)
    numbered = keys[changes.order].with_row_index("row")
    rows = numbered.sort(keys.columns, nulls_last=True, maintain_order=True)["row"]
    return rows.to_numpy().astype(np.int64)


def _add_rows(sha: Any, column: Any, rows: npt.NDArray[np.int64]) -> None:
    for start in range(0, len(rows), _BLOCK):
        taken = column.take(pa.array(rows[start : start + _BLOCK]))
        _add(sha, taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken)


def _add(sha: Any, array: pa.Array) -> None:
    """Add which values are null, and the bytes of the others. Equal values give equal bytes in any Arrow layout."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    sha.update(b"%d;" % len(array))
    sha.update(np.packbits(array.is_null().to_numpy(zero_copy_only=False)))
    kind, values = array.type, array.drop_null()
    if pa.types.is_struct(kind):
        for child in values.flatten():
            _add(sha, child)
    elif pa.types.is_map(kind):
        rebased = pa.concat_arrays([values])
        sha.update(np.diff(rebased.offsets.to_numpy()))
        _add(sha, rebased.keys)
        _add(sha, rebased.items)
    elif pa.types.is_list(kind):
        sha.update(pc.list_value_length(values).to_numpy())
        _add(sha, values.flatten())
    elif not pa.types.is_null(kind):
        _add_plain(sha, values)


def _add_plain(sha: Any, values: pa.Array) -> None:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        sha.update(pc.binary_length(values).to_numpy())
        _, offsets, data = values.buffers()
        if len(values):
            ends = np.frombuffer(offsets, np.int32)[[values.offset, values.offset + len(values)]]
            sha.update(memoryview(data or b"")[ends[0] : ends[1]])
        return
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif pa.types.is_integer(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_floating(kind):
        values = values.cast(pa.float64())
    elif pa.types.is_decimal(kind):  # of a wider type with the same scale the bytes are the same
        values = values.view(pa.binary(16))
    width = values.type.bit_width // 8
    data = values.buffers()[1]
    if data is not None:
        sha.update(memoryview(data)[values.offset * width : (values.offset + len(values)) * width])
