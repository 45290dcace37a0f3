"""Read a key index that is a part of the table: its root, the parts of one bucket, and rows by the hash of their key.

The index says where each physical row of some data files is, live or hidden, and nothing of deletes. Data files never
change, so it is right for every snapshot. What differs is which of its files are live: files of the snapshot that it
does not have must be read, and rows of files that the snapshot does not have must be passed over.

A bucket is a range of hashes. A run has its rows sorted by hash, in small blocks, each with a checksum. So a bucket is
a range of blocks of each run, and the number of buckets may be any power of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.types import NestedField

from deletekit.stream.key_hashes import KeyHashes, Numbers
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFileInfo:
    """A data file of the index: its number, path, and rows, hidden ones too."""

    number: int
    path: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """What a task needs to look one bucket up in one run: a value that can be pickled. It reads nothing."""

    path: str
    bucket: int
    bucket_count: int


@dataclass(frozen=True, slots=True)
class IndexHits:
    """Rows with one of the wanted hashes, live or not.

    Attributes
    ----------
    keys: the index of the wanted hash.
    files, positions: number of the data file, and position in it.
    row_ids: the `_row_id` that the file stores; -1 if it follows from the file's `first_row_id` and the position.
    """

    keys: Numbers
    files: Numbers
    positions: Numbers
    row_ids: Numbers


class SavedIndex:
    """The root of an index. The runs are not loaded.

    Attributes
    ----------
    snapshot_id: the head that it was made for; None for a table without a snapshot.
    bucket_count: the proposed number of buckets, a power of two: about a million rows each.
    rows: all rows of the index.
    """

    snapshot_id: int | None
    bucket_count: int
    rows: int

    @property
    def files(self) -> Mapping[int, IndexedFileInfo]:
        """Return the data files by their numbers. The first call reads the end of each run."""
        raise NotImplementedError

    def parts_of(self, bucket: int, bucket_count: int | None = None) -> tuple[RunPart, ...]:
        """Return what a task needs to look up one bucket."""
        raise NotImplementedError


def load_index(
    io: FileIO, metadata: TableMetadata, head: Snapshot | None, fields: Sequence[NestedField]
) -> SavedIndex | None:
    """Return the newest index in the history of a head for a key; None if there is none that can be used."""
    raise NotImplementedError


def find_in_parts(io: FileIO, parts: Sequence[RunPart], hashes: KeyHashes) -> IndexHits:
    """Find every row with one of these hashes, all of which are of the parts' bucket.

    Only the blocks that may hold them are read. Raises DamagedIndexError for bytes that are not those that were
    written, and if they are missing. Which hits are live is not known here: the number must be of a file that the
    snapshot has, and the position not hidden by that file's deletes (`live_rows.LiveRows`).
    """
    raise NotImplementedError
