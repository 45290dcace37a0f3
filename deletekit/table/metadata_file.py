"""Name and write the files that hold a table's metadata, and keep the log of earlier ones.

A catalog decides which file is current.
Spec: "Table Metadata", "Metadata files"; properties `write.metadata.*`; Java TableMetadataParser.
"""

import gzip
import re
import uuid
from collections import OrderedDict
from threading import Lock

from deletekit.table.metadata import TableMetadata, parse_metadata, serialise_metadata
from deletekit.table.properties import value_of

METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")
"""How names of metadata files end. Java wrote `.metadata.json.gz` before it wrote `.gz.metadata.json`."""

_TABLES_KEPT = 8
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}[^/]*$", re.IGNORECASE)
# Java's names of codecs, and what each adds to the file's name.
_SUFFIXES = {"none": "", "gzip": ".gz"}


def metadata_file_path(metadata: TableMetadata, previous: str | None = None) -> str:
    """Return a new path for a table's metadata, by `write.metadata.path` and its codec.

    Its number is one more than that of the previous file. Raises InvalidInputError for a codec that Iceberg does not
    have.
    """
    suffix = _SUFFIXES[value_of(metadata.properties, "write.metadata.compression-codec")]
    number = 0 if previous is None else max(metadata_number(previous), 0) + 1
    return f"{metadata_folder(metadata)}/{number:05d}-{uuid.uuid4()}{suffix}.metadata.json"


def metadata_number(location: str) -> int:
    """Return the number in a metadata file's name (`00003-<uuid>.metadata.json`, `v3.metadata.json`), else -1."""
    match = re.match(r"v?(\d+)[-.]", location.rpartition("/")[2])
    return int(match[1]) if match else -1


def metadata_folder(metadata: TableMetadata) -> str:
    """Return the folder of metadata files, manifests and manifest lists, by `write.metadata.path`."""
    return value_of(metadata.properties, "write.metadata.path") or f"{metadata.location}/metadata"


def metadata_file_bytes(metadata: TableMetadata, path: str) -> bytes:
    """Return the document as stored at `path`, compressed if the name says so."""
    data = serialise_metadata(metadata)
    return gzip.compress(data) if path.endswith(".gz.metadata.json") else data


def with_metadata_log(metadata: TableMetadata, previous: str, timestamp_ms: int) -> TableMetadata:
    """Log the metadata file that this one replaces. Keep as many as `write.metadata.previous-versions-max` says.

    Raises InvalidInputError if that is not a whole number.
    """
    most = value_of(metadata.properties, "write.metadata.previous-versions-max")
    log = [*(metadata.raw.get("metadata-log") or ()), {"timestamp-ms": timestamp_ms, "metadata-file": previous}]
    return TableMetadata({**metadata.raw, "metadata-log": log[-max(most, 1) :]})


def logged_files(metadata: TableMetadata) -> set[str]:
    """Return the earlier metadata files that the log names."""
    return {entry["metadata-file"] for entry in metadata.raw.get("metadata-log") or ()}


class KnownMetadata:
    """The metadata files of a few tables that were read or written last, with their bytes: one file for each table.

    A file is read again at every look at the table, because only its bytes prove that it is the known one.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], tuple[str, bytes, TableMetadata]] = OrderedDict()
        self._lock = Lock()

    def get(self, table: tuple[str, ...], location: str, data: bytes) -> TableMetadata:
        """Return the document of a table's file, parsed unless this file with these bytes is known."""
        with self._lock:
            known = self._known.get(table)
        if known is not None and known[:2] == (location, data):
            return known[2]
        parsed = parse_metadata(data, location)
        self.put(table, location, data, parsed)
        return parsed

    def unread(self, table: tuple[str, ...], location: str) -> TableMetadata | None:
        """Return the document of a table's file if that is known, without a look at its bytes.

        Only for the second look of a commit, and a file whose name has a uuid: no other file gets that name.
        """
        with self._lock:
            known = self._known.get(table)
        return known[2] if known is not None and known[0] == location and _UUID.search(location) else None

    def put(self, table: tuple[str, ...], location: str, data: bytes, document: TableMetadata) -> None:
        """Remember a table's file, and forget the one before."""
        with self._lock:
            self._known.pop(table, None)
            self._known[table] = location, data, document
            while len(self._known) > _TABLES_KEPT:
                self._known.popitem(last=False)
