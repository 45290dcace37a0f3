"""Count the rows of files whose manifest entries do not: the footer of a file is the truth about it.

Java's imports of Avro files wrote `record_count` -1 (apache/iceberg#809). Counts that contradict the manifest's row in
the manifest list prove nothing either: a count, a planned delete or a row id would be wrong by them.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from deletekit.errors import UNREADABLE, FormatError
from deletekit.formats.content_file import ContentFile, DeleteFile, refuse_encrypted
from deletekit.formats.deletion_vector import decode_blob
from deletekit.formats.manifest_columns import ManifestColumns, Rows
from deletekit.formats.manifest_list import ManifestFile
from deletekit.formats.tabular import open_tabular
from deletekit.table.file_io import FileIO, open_sized, reads_at_a_time


def with_true_counts(io: FileIO, columns: ManifestColumns, listed: ManifestFile | None = None) -> ManifestColumns:
    """Return a manifest's columns with the rows of its live files, counted in each file that has no count.

    Parameters
    ----------
    listed: the manifest's row in the manifest list. If the counts of the live files do not add up to its counts, all of
        them are counted.

    Raises FormatError for a file without a count that cannot be read.
    """
    stated, live = columns.record_count, columns.is_live
    doubtful = live & (stated < 0)
    if listed is not None and listed.added_rows_count is not None and listed.existing_rows_count is not None:
        doubtful |= live & (exact_sum(stated[live]) != listed.added_rows_count + listed.existing_rows_count)
    if not doubtful.any():
        return columns
    rows = np.flatnonzero(doubtful)
    counts = stated.copy()
    counts[rows] = list(_counted(io, [e.data_file for e in columns.entries(rows)]))
    return columns if (counts == stated).all() else replace(columns, record_count=counts)


def exact_sum(values: Rows) -> int:
    """Return the sum, taken in two halves: what a manifest claims may leave 64 bits, and numpy would wrap round."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _counted(io: FileIO, files: list[ContentFile]) -> Iterator[int]:
    def count(file: ContentFile) -> int:
        with suppress(*UNREADABLE) if file.record_count >= 0 else _refusing(file):
            return _rows_of(io, file)
        return file.record_count

    with ThreadPoolExecutor(reads_at_a_time(files[0].file_path)) as pool:
        yield from pool.map(count, files)


@contextmanager
def _refusing(file: ContentFile) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as e:
        message = "manifest entry has no count of rows, and they cannot be counted in the file"
        details: dict[str, Any] = {
            "field": "record_count",
            "found": file.record_count,
            "expected": f"a readable file: {e}",
        }
        raise FormatError(message, kind="record-count", file=file.file_path, **details) from e


def _rows_of(io: FileIO, file: ContentFile) -> int:
    refuse_encrypted(file)
    if isinstance(file, DeleteFile) and file.is_deletion_vector:
        found = len(decode_blob(io.read(file.file_path, file.content_offset or 0, file.content_size_in_bytes)))
        # A cardinality is also a check: without one, who reads the vector refuses it.
        return found if file.record_count in (-1, found) else -1
    with open_sized(io, file.file_path, file.file_size_in_bytes) as source:
        return sum(group.num_rows for group in open_tabular(source, file.file_format).row_groups)
