"""Write the batches of a source, each once, and go on where the newest batch in the table ends.

The position after a batch is in the summary of the batch's own snapshot. So a batch and its position are one commit:
whatever dies between them, and however many processes do it at once, no change is lost and none is applied twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import cast

from deletekit.errors import DeletekitError
from deletekit.stream.applied_batches import PositionMovedError, Step, last_marker, newest_marker
from deletekit.stream.batch_run import BatchProgress
from deletekit.stream.sink_state import SinkState
from deletekit.stream.sources.source import Source, SourceBatch, Until, changed

Write = Callable[[SourceBatch, int, Step], BatchProgress]


def run_source(
    state: SinkState, source: Source, write: Write, *, max_batches: int | None, until: Until
) -> Iterator[BatchProgress]:
    """Write the batches of a source; see `Sink.run_source`.

    Parameters
    ----------
    write: writes a batch with a number and a step from one position to the next.
    """
    left = max_batches
    while left is None or left > 0:
        start = batch_id, position = _start(state, source)
        # Closed by hand: a source that is left in the middle holds connections.
        batches = cast("Generator[SourceBatch]", source.batches(position, until=until))
        try:
            for batch in batches:
                if batch.unordered is not None and state.options.order is None:
                    raise batch.unordered
                step = Step(source=source.kind, before=position, after=batch.position)
                progress = write(batch, batch_id, step)
                source.committed(batch.position)
                yield replace(progress, behind=batch.behind)
                start = batch_id, position = batch_id + 1, batch.position
                left = None if left is None else left - 1
                if left == 0:
                    return
            return
        except PositionMovedError:
            continue  # another process wrote a batch in between, and this one goes on behind it
        except DeletekitError:
            # The same may look like an error: what another process wrote, the source may have forgotten already.
            if _start(state, source) == start:
                raise
        finally:
            batches.close()


def _start(state: SinkState, source: Source) -> tuple[int, str | None]:
    """Return where to go on: the number of the next batch, and the position that it begins at."""
    with state.lock:
        metadata = state.table.refresh().metadata
        head = metadata.snapshot_of_ref(state.options.ref)
        # After a rollback that the user accepts, the branch's own history says where to go on.
        newest = (last_marker if state.options.allow_rewind else newest_marker)(metadata, head, state.options.sink_id)
    if newest is None:
        return 0, None
    if newest.position is None:
        message = "the batches of this sink id have no position of a source, so it is not known where to go on"
        raise changed(message, "sink_id", f"batch {newest.batch_id}", f"batches of {source.kind}")
    return newest.batch_id + 1, newest.position
