"""Columns of data files, kept on the local disk, so that the rows at some positions can be looked at at once.

Law: a copy of what is in data files, which never change; it may be thrown away at any time. Only small files stay in
memory, up to a limit.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["KeyColumns"]

_SMALL_BYTES = 1 << 20
_MEMORY_BYTES = 1 << 26


class KeyColumns:
    """Tables by file number, in a folder of their own among the temporary files, which goes with the object."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="deletekit-keys-")
        # Not a TemporaryDirectory: a sink that nobody closed is no mistake to warn of, at some later time.
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._small: dict[int, pa.Table] = {}
        self._bytes = 0

    def put(self, file_number: int, table: pa.Table) -> None:
        """Keep the rows of a data file, all of them, in order."""
        if table.nbytes + self._bytes <= _MEMORY_BYTES and table.nbytes <= _SMALL_BYTES:
            self._small[file_number] = table.combine_chunks()
            self._bytes += table.nbytes
            return
        with pa.OSFile(self._path(file_number), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1 << 20)

    def take(self, file_number: int, positions: npt.NDArray[np.int64]) -> pa.Table:
        """The rows at some positions, in their order."""
        if file_number in self._small:
            return self._small[file_number].take(pa.array(positions))
        order = np.argsort(positions, kind="stable")
        parts, start = [], 0
        with pa.memory_map(self._path(file_number)) as source:
            reader = pa.ipc.open_file(source)
            ordered = positions[order]
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                inside = ordered[np.searchsorted(ordered, start) : np.searchsorted(ordered, start + len(batch))]
                if len(inside):
                    parts.append(batch.take(pa.array(inside - start)))
                start += len(batch)
            table = pa.Table.from_batches(parts, schema=reader.schema)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return table.take(pa.array(back))

    def drop(self, file_number: int) -> None:
        """Forget a data file, if it is there."""
        table = self._small.pop(file_number, None)
        if table is not None:
            self._bytes -= table.nbytes
        Path(self._path(file_number)).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder."""
        self._small.clear()
        self._remove()

    def _path(self, file_number: int) -> str:
        return str(Path(self._folder, f"{file_number}.arrow"))
