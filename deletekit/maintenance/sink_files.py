"""Remove the files of a table's sinks that may hold keys or rows: key indexes, remembered deletes and staged rows.

A sink that runs makes its index again. A batch whose staged rows are removed fails, and is written again. Deletes that
a sink with `sequence_by` remembers are hashes of keys: without them it refuses to go on, unless `allow_rewind` is set.
"""

from collections.abc import Mapping
from typing import Any

from deletekit.engines.local import Engine
from deletekit.errors import UnsupportedError
from deletekit.maintenance.reachable import Reachability, read_latest, remove_files
from deletekit.table.own_places import OwnPlaces
from deletekit.table.sinks.files import DELETES, ROOT, RUN, STAGED_ROWS, is_sink_file, sink_folder
from deletekit.table.table import Table


def remove_sink_files(table: Table, engine: Engine) -> Mapping[str, Any]:
    """Remove all key indexes, remembered deletes and staged rows.

    Return the fields of an `Erasure`: the removed files, and the reason for each that is left.

    Storage that cannot be listed leaves those that no snapshot leads to.
    """
    reachability = Reachability(table.io, engine)
    found = read_latest(table, lambda now: reachability.indexes(now, now.snapshots.values()))
    try:
        listed = [file.path for file in table.io.list(sink_folder(table.metadata))]
    except UnsupportedError:
        listed = []
    found |= {path for path in listed if is_sink_file(path) and path.endswith((ROOT, RUN, STAGED_ROWS, DELETES))}
    places = OwnPlaces(table.metadata)
    failed = dict.fromkeys((path for path in found if not places.hold(path)), "outside of the table's folders")
    failed |= remove_files(table.io, table.metadata, sorted(found - failed.keys()), engine)
    return {"removed_sink_files": tuple(sorted(found - failed.keys())), "failed_sink_files": failed}
