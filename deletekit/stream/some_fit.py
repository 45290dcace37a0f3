"""Refuse a batch in which nothing fits, where the fault is the sink's or the decoder's and not a message's.

With a wrong format, or without an option that the table's columns need, every message becomes a dead letter: each batch
is committed, the position goes on, and the table stays empty. One bad message does not stop a stream that has begun.
"""

from __future__ import annotations

from deletekit.errors import InvalidInputError
from deletekit.stream.applied_batches import BatchId
from deletekit.stream.batch_digest import digest_of
from deletekit.stream.batch_rows import BatchRows
from deletekit.stream.sources.marks import options_needed, understood
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.sink_batches import markers

_MANY = 10
"""So many messages that lack the same options are no accident."""


def check_some_fit(metadata: TableMetadata, head: Snapshot | None, batch: BatchId, rows: BatchRows) -> None:
    """Raise InvalidInputError (`nothing-fits`) for a batch of dead letters alone.

    It is refused if the sink has no row yet and the batch has several dead letters, or one that lacks an option of the
    decoder; later, if it has ten or more that lack options.
    """
    count = len(rows.letters)
    if not count or len(rows) or rows.truncates or (rows.source is not None and understood(rows.source)):
        return
    options = "" if rows.source is None else options_needed(rows.source)
    has_begun = any(_has_rows(m.digest) for m in markers(metadata, head, batch.sink_id))
    if (count >= _MANY and options) or (not has_begun and (count > 1 or options)):
        raise InvalidInputError(
            "nothing of the batch fits the table, so all of it would become dead letters",
            kind="nothing-fits",
            field="dead_letters",
            found=f"{count} dead letters and no row, the first: {rows.letters.first}",
            expected=f"the decoder's {options}" if options else "the format of the messages, and columns of the table",
        )


def _has_rows(digest: str) -> bool:
    return digest.partition("+")[0] != digest_of([])
