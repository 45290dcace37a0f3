"""Decide which Delta tables can be read, by an allow-list of table features, and name the features of exported tables.

An unknown feature is refused by its name, because it may change the meaning of every other action.
Spec: Delta protocol, "Table Features", "Valid Feature Names in Table Features".
"""

from typing import Any

from pyiceberg import types as it

from deletekit.delta.actions import Metadata, Protocol
from deletekit.errors import UnsupportedError
from deletekit.table.metadata import TableMetadata

READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features of `readerFeatures` that deletekit reads. Those of `writerFeatures` alone never stand in a reader's way."""
_MAX_READER_VERSION = 3
_MAPPING_MODES = ("none", "name", "id")


def check_readable(protocol: Protocol, metadata: Metadata) -> None:
    """Raise UnsupportedError, naming the feature, version, mode or file format that deletekit does not read."""
    if protocol.min_reader_version > _MAX_READER_VERSION:
        raise _unsupported("minReaderVersion", protocol.min_reader_version, f"<= {_MAX_READER_VERSION}")
    unknown = sorted(protocol.reader_features - READER_FEATURES)
    if unknown and protocol.min_reader_version >= _MAX_READER_VERSION:
        raise _unsupported("readerFeatures", ", ".join(unknown), ", ".join(sorted(READER_FEATURES)))
    if metadata.provider != "parquet":
        raise _unsupported("metaData.format.provider", metadata.provider, "parquet")
    if metadata.column_mapping_mode not in _MAPPING_MODES:
        raise _unsupported("delta.columnMapping.mode", metadata.column_mapping_mode, ", ".join(_MAPPING_MODES))


def protocol_action(metadata: TableMetadata, column_mapping: str) -> dict[str, Any]:
    """Return the `protocol` action of an exported table, with exactly the features that it needs."""
    features = ["deletionVectors"] if column_mapping == "none" else ["columnMapping", "deletionVectors"]
    if any(isinstance(f.field_type, it.TimestampType) for f in metadata.all_fields.values()):
        features.append("timestampNtz")
    raw = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    return {"protocol": raw}


def _unsupported(field: str, found: object, expected: object) -> UnsupportedError:
    return UnsupportedError("Delta table uses what is not supported", "delta-feature", field, found, expected)
