"""Name the files that sinks keep beside a table: parts of key indexes, lists of files, staged rows.

They lie in the folder `_deletekit` of the table's metadata folder. Other engines do not know them. A summary of a
snapshot names the root of an index, and the root names its runs; those files are reachable from the snapshot.
"""

import uuid
from collections.abc import Iterable

from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.metadata_file import metadata_folder

FOLDER = "_deletekit"
KEY_INDEX = "deletekit.key-index"
ROOT = ".root"
RUN = ".run"
FILE_LOG = ".log"
STAGED_ROWS = ".rows"
DELETES = ".deletes"
SEQUENCE_BY = "deletekit.sequence-by"
SEQUENCE_DELETES = "deletekit.sequence-deletes"
SEQUENCE_SERVERS = "deletekit.sequence-servers"
SUFFIXES = (ROOT, RUN, FILE_LOG, STAGED_ROWS, DELETES)


def sink_folder(metadata: TableMetadata) -> str:
    """Return the folder of a table's sink files, without a slash at its end."""
    return f"{metadata_folder(metadata)}/{FOLDER}"


def sink_path(metadata: TableMetadata, name: str) -> str:
    """Return the path of a sink file."""
    return f"{sink_folder(metadata)}/{name}"


def new_name(suffix: str, text: str = "") -> str:
    """Return a name that no file has yet. `text` becomes a part of it."""
    return f"{uuid.uuid4().hex}{'-' if text else ''}{text}{suffix}"


def is_name(text: object) -> bool:
    """Tell whether a text from a summary or a root can be the name of a sink file: it names no other folder."""
    return (
        isinstance(text, str)
        and text.endswith(SUFFIXES)
        and len(text) < 200
        and not set(text) & set("/\\:?#%\0")
        and not text.startswith(".")
    )


def is_sink_file(path: str) -> bool:
    """Tell whether a path is one of a sink file, of whatever table."""
    folder, _, name = path.rpartition("/")
    return folder.endswith(f"/{FOLDER}") and is_name(name)


def root_name(snapshot: Snapshot) -> str | None:
    """Return the name of the index root that a snapshot's summary names, or None."""
    name = snapshot.summary.get(KEY_INDEX, "")
    return name if is_name(name) and name.endswith(ROOT) else None


def root_names(snapshots: Iterable[Snapshot]) -> dict[str, None]:
    """Return the names of all index roots of snapshots, each once."""
    return dict.fromkeys(name for s in snapshots if (name := root_name(s)) is not None)


def delete_names(snapshots: Iterable[Snapshot]) -> dict[str, None]:
    """Return the names of all files of remembered deletes that snapshots name, each once."""
    texts = (s.summary.get(SEQUENCE_DELETES, "").split(",")[1:] for s in snapshots)
    return dict.fromkeys(name for names in texts for name in names if is_name(name) and name.endswith(DELETES))
