"""Name and write the files that hold a table's metadata, and keep the log of earlier ones.

A catalog decides which file is current.
Spec: "Table Metadata", "Metadata files"; properties `write.metadata.*`; Java TableMetadataParser.
"""

import gzip
import re
import uuid

from deletekit.table.metadata import TableMetadata, serialise_metadata
from deletekit.table.properties import value_of

METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")
"""How names of metadata files end. Java wrote `.metadata.json.gz` before it wrote `.gz.metadata.json`."""

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

    Raises InvalidInputError if that is no whole number.
    """
    most = value_of(metadata.properties, "write.metadata.previous-versions-max")
    log = [*(metadata.raw.get("metadata-log") or ()), {"timestamp-ms": timestamp_ms, "metadata-file": previous}]
    return TableMetadata({**metadata.raw, "metadata-log": log[-max(most, 1) :]}, metadata)


def logged_files(metadata: TableMetadata) -> set[str]:
    """Return the earlier metadata files that the log names."""
    return {entry["metadata-file"] for entry in metadata.raw.get("metadata-log") or ()}
