"""Parse the actions of a Delta log: which files a version has, what they hold, and which protocol it needs.

Parsing opens no file. Fields that readers may ignore are ignored; fields that they need are checked.
Spec: Delta protocol, "Actions", https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from deletekit.delta.deletion_vector import DeletionVectorDescriptor
from deletekit.errors import FormatError

_NAMES = ("add", "remove", "metaData", "protocol", "sidecar", "commitInfo")
_NO_COLUMNS = '{"type":"struct","fields":[]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFile:
    """An `add` action: a data file, and the vector of its deleted rows.

    `path` is as the log has it. `stats` is JSON text, the struct of a checkpoint as a dict, or None. `partition_values`
    are text by physical name. With row tracking, row ids count on from `base_row_id` for rows that store none, and
    `default_row_commit_version` is the version that such rows were last changed in.
    """

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    data_change: bool = True
    stats: str | Mapping[str, Any] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    @property
    def vector_id(self) -> str | None:
        """Return the vector's `uniqueId`, or None if the file has no vector."""
        vector = self.deletion_vector
        return None if vector is None else vector.unique_id

    @property
    def deleted(self) -> int:
        """Return how many rows the vector deletes."""
        return 0 if self.deletion_vector is None else self.deletion_vector.cardinality

    @property
    def parsed_stats(self) -> Mapping[str, Any]:
        """Return the statistics as a mapping, with decimals as Decimal; {} if there are none. Raise FormatError."""
        if not isinstance(self.stats, str):
            return self.stats or {}
        try:
            parsed = json.loads(self.stats, parse_float=Decimal) if self.stats else {}
        except (ValueError, RecursionError) as e:
            raise _bad("add.stats", str(e), "JSON").in_file(self.path) from e
        if not isinstance(parsed, dict):
            raise _bad("add.stats", type(parsed).__name__, "an object").in_file(self.path)
        return parsed

    @property
    def num_records(self) -> int | None:
        """Return the rows of the data file, including deleted ones, or None if the log has no count.

        Raise FormatError.
        """
        return self.records_of(self.parsed_stats)

    def records_of(self, stats: Mapping[str, Any]) -> int | None:
        """Return `num_records` from the parsed statistics. Raise FormatError."""
        number = stats.get("numRecords")
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
            raise _bad("add.stats.numRecords", number, ">= 0").in_file(self.path)
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile:
    """A `remove` action: it names the (path, vector) that is gone. Its other fields are optional and not used."""

    path: str
    data_change: bool = True
    deletion_vector: DeletionVectorDescriptor | None = None

    @property
    def vector_id(self) -> str | None:
        """Return the vector's `uniqueId`, or None if the file had no vector."""
        return None if self.deletion_vector is None else self.deletion_vector.unique_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """A `metaData` action: the schema as JSON text, the partition columns, the configuration, and the comment."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    provider: str = "parquet"
    description: str | None = None

    @property
    def column_mapping_mode(self) -> str:
        """Return the column mapping mode: `none`, `name` or `id`."""
        return self.configuration.get("delta.columnMapping.mode", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A `protocol` action: versions, and table features from reader version 3 and writer version 7 on."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Actions:
    """The actions of one commit, or of one file of a checkpoint. `sidecars` are paths of Parquet files with more."""

    adds: list[AddFile] = field(default_factory=list)
    removes: list[RemoveFile] = field(default_factory=list)
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    sidecars: list[str] = field(default_factory=list)
    commit_info: Mapping[str, Any] = field(default_factory=dict)


def parse_commit(data: bytes) -> Actions:
    """Parse a commit, which has one JSON object on each line. Raise FormatError or UnsupportedError."""
    rows = list(_lines(data))
    if not any(rows):
        # Some writers create the file first and fill it later. After a sync it would not be read again.
        message = "empty commit in the Delta log: its writer did not finish"
        raise FormatError(message, kind="delta-commit-empty", found=f"{len(data)} bytes", expected="an action")
    return parse_actions(rows, is_commit=True)


def parse_actions(rows: Iterable[Mapping[str, Any]], *, is_commit: bool = False) -> Actions:
    """Parse actions from JSON objects, or from the rows of a checkpoint, in which most fields are null.

    Raise FormatError for a field that is missing or has another type, for a second `metaData` or `protocol`, and in a
    commit for a path that is added twice. Raise UnsupportedError for an unknown storage type of a deletion vector.
    """
    out = Actions()
    for row in rows:
        if not isinstance(row, Mapping):
            raise _bad("action", row, "an object")
        for name, raw in row.items():
            if name in _NAMES and raw is not None:
                _parse(out, name, raw)
    if is_commit:
        for path, number in Counter(add.path for add in out.adds).items():
            if number > 1:
                raise _bad("add", path, "each path once in a commit")
    return out


def add_file(raw: Mapping[str, Any]) -> AddFile:
    """Parse an `add` action. Raise FormatError, or UnsupportedError for an unknown storage type."""
    values = raw.get("partitionValues")
    if values is None or isinstance(values, list):  # Arrow gives a map as a list
        values = dict(values or ())
    if not isinstance(values, Mapping) or not all(v is None or isinstance(v, str) for v in values.values()):
        raise _bad("add.partitionValues", values, "text by column")
    stats = raw.get("stats_parsed") if raw.get("stats") is None else raw["stats"]
    if stats is not None and not isinstance(stats, str | Mapping):
        raise _bad("add.stats", stats, "text")
    return AddFile(
        path=_text(raw, "add", "path"),
        partition_values=dict(values),
        size=_count(raw, "add", "size"),
        data_change=raw.get("dataChange") is not False,
        stats=stats,
        deletion_vector=_vector(raw),
        base_row_id=_optional_count(raw, "baseRowId"),
        default_row_commit_version=_optional_count(raw, "defaultRowCommitVersion"),
    )


def _parse(out: Actions, name: str, raw: Any) -> None:
    if not isinstance(raw, Mapping):
        raise _bad(name, raw, "an object")
    # Actions of a commit have no order, so of two neither would win.
    if (name == "metaData" and out.metadata is not None) or (name == "protocol" and out.protocol is not None):
        raise _bad(name, "two", "at most one in a commit or checkpoint")
    match name:
        case "add":
            out.adds.append(add_file(raw))
        case "remove":
            changed, vector = raw.get("dataChange") is not False, _vector(raw)
            out.removes.append(RemoveFile(path=_text(raw, name, "path"), data_change=changed, deletion_vector=vector))
        case "metaData":
            out.metadata = _metadata(raw)
        case "protocol":
            out.protocol = _protocol(raw)
        case "sidecar":
            out.sidecars.append(_text(raw, name, "path"))
        case "commitInfo":
            out.commit_info = dict(raw)


def _lines(data: bytes) -> Iterator[Any]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as e:
                raise _bad(f"line {number}", str(e), "JSON") from e


def _vector(raw: Mapping[str, Any]) -> DeletionVectorDescriptor | None:
    vector = raw.get("deletionVector")
    if vector is None:
        return None
    if not isinstance(vector, Mapping):
        raise _bad("deletionVector", vector, "an object")
    return DeletionVectorDescriptor.from_json(vector)


def _metadata(raw: Mapping[str, Any]) -> Metadata:
    configuration = dict(raw.get("configuration") or {})
    columns = raw.get("partitionColumns") or ()
    provider = raw.get("format") or {}
    if not all(isinstance(c, str) for c in columns) or not isinstance(provider, Mapping):
        raise _bad("metaData", dict(raw), "columns by name, and a format")
    return Metadata(
        id=_text(raw, "metaData", "id"),
        # Tables of Databricks' pipelines begin without a schema; Delta takes that for one without columns.
        schema_string=_NO_COLUMNS if raw.get("schemaString") is None else _text(raw, "metaData", "schemaString"),
        partition_columns=tuple(columns),
        configuration={str(k): str(v) for k, v in configuration.items()},
        provider=str(provider.get("provider", "parquet")),
        description=None if raw.get("description") is None else str(raw["description"]),
    )


def _protocol(raw: Mapping[str, Any]) -> Protocol:
    return Protocol(
        min_reader_version=_count(raw, "protocol", "minReaderVersion"),
        min_writer_version=_count(raw, "protocol", "minWriterVersion"),
        reader_features=frozenset(map(str, raw.get("readerFeatures") or ())),
        writer_features=frozenset(map(str, raw.get("writerFeatures") or ())),
    )


def _text(raw: Mapping[str, Any], action: str, name: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str) or not value:
        raise _bad(f"{action}.{name}", value, "text")
    return value


def _count(raw: Mapping[str, Any], action: str, name: str) -> int:
    value = raw.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _bad(f"{action}.{name}", value, "a number")
    return value


def _optional_count(raw: Mapping[str, Any], name: str) -> int | None:
    return None if raw.get(name) is None else _count(raw, "add", name)


def _bad(field_name: str, found: Any, expected: Any) -> Any:
    return FormatError("bad action in the Delta log", "delta-action", field_name, found, expected)
