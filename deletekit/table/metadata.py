"""Table metadata: the JSON document, format versions 1 to 3, as one immutable value.

The JSON document is kept whole, even fields that deletekit does not know. `metadata_update` makes changes.
Spec: "Table Metadata", https://iceberg.apache.org/spec/#table-metadata
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import NestedField

from deletekit.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from deletekit.formats.compression import decompress, json_limit
from deletekit.formats.reserved_fields import LINEAGE_NAMES
from deletekit.table.format_version import FORMAT_VERSIONS, NEWEST, FormatVersion, later_version
from deletekit.table.locations import normalised, normalised_properties
from deletekit.table.metadata_of_v1 import in_v2_terms
from deletekit.table.properties import check_properties
from deletekit.table.types import schema_from_json, schema_to_json, spec_from_json

MAIN = "main"

T = TypeVar("T")


class ById(dict[int, T]):
    """The things of a document by their ids, which files name. `[id]` raises FormatError for one that is not there."""

    def __init__(self, things: Mapping[int, T], kind: str, field: str) -> None:
        super().__init__(things)
        self._kind, self._field = kind, field

    def __missing__(self, number: Any) -> T:
        message, known = f"the table has no such {self._kind.replace('-', ' ')}", sorted(islice(self, 20))
        raise FormatError(message, kind=self._kind, field=self._field, found=number, expected=known)

    def __reduce__(self) -> tuple[Any, ...]:
        return ById, (dict(self), self._kind, self._field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One entry of `snapshots`. `manifests` are those that old v1 tables name here, instead of a manifest list."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    timestamp_ms: int
    summary: Mapping[str, str] = field(default_factory=dict)
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None

    @property
    def operation(self) -> str:
        """`append`, `replace`, `overwrite` or `delete`."""
        return self.summary.get("operation", "overwrite")

    def to_json(self, format_version: int) -> dict[str, Any]:
        """Return the snapshot as metadata stores it."""
        version = FormatVersion(format_version)
        left_out = {"manifests"}
        if not version.has_sequence_numbers:
            left_out.add("sequence_number")
        if not version.has_row_lineage:
            left_out |= {"first_row_id", "added_rows"}
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        values["summary"] = dict(self.summary)
        return {name.replace("_", "-"): value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Snapshot:
        """Parse a snapshot. Raises FormatError."""
        try:
            known: dict[str, Any] = {name: raw[key] for key, name in _SNAPSHOT.items() if raw.get(key) is not None}
            known["summary"] = dict(known.get("summary", {}))
            if "manifests" in known:
                known["manifests"] = tuple(known["manifests"])
            return cls(**known)
        except (TypeError, AttributeError) as e:
            raise FormatError("bad snapshot", "table-metadata", "snapshots", str(e)) from e


_SNAPSHOT = {f.name.replace("_", "-"): f.name for f in fields(Snapshot)}


class TableMetadata:
    """A read-only view of a metadata document, `raw`, with v2's field names."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.is_consistent = False  # until `consistency.check_writable` has checked it

    @property
    def format_version(self) -> int:
        return int(self.raw["format-version"])

    @property
    def version(self) -> FormatVersion:
        """The rules of the format version."""
        return FormatVersion(self.format_version)

    @property
    def location(self) -> str:
        return str(self.raw["location"]).rstrip("/")

    @property
    def table_uuid(self) -> str | None:
        return self.raw.get("table-uuid")

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.raw.get("properties") or {})

    @property
    def last_sequence_number(self) -> int:
        return int(self.raw.get("last-sequence-number") or 0)

    @property
    def next_row_id(self) -> int:
        return int(self.raw.get("next-row-id") or 0)

    @cached_property
    def schemas(self) -> dict[int, Schema]:
        schemas = {int(s.get("schema-id", 0)): schema_from_json(s) for s in self.raw["schemas"]}
        return ById(schemas, "schema", "schema-id")

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[int(self.raw["current-schema-id"])]

    @cached_property
    def specs(self) -> dict[int, PartitionSpec]:
        specs = {int(s["spec-id"]): spec_from_json(s) for s in self.raw["partition-specs"]}
        return ById(specs, "partition-spec", "partition_spec_id")

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return self.specs[int(self.raw["default-spec-id"])]

    @cached_property
    def snapshots(self) -> dict[int, Snapshot]:
        snapshots = map(Snapshot.from_json, self.raw.get("snapshots") or ())
        return ById({s.snapshot_id: s for s in snapshots}, "snapshot", "snapshot-id")

    @property
    def refs(self) -> dict[str, Mapping[str, Any]]:
        """Branches and tags by name: `{"snapshot-id": ..., "type": "branch" | "tag", ...}`."""
        return dict(self.raw.get("refs") or {})

    @property
    def current_snapshot(self) -> Snapshot | None:
        return self.snapshot_of_ref(MAIN)

    @cached_property
    def all_fields(self) -> dict[int, Any]:
        """Every field that the table ever had, by id, as the newest schema that has it defines it.

        An equality delete on a dropped column still applies (spec "Equality Delete Files").
        """
        schemas = [*(self.schemas[schema_id] for schema_id in sorted(self.schemas)), self.schema]
        return {field_id: field for schema in schemas for field_id, field in index_by_id(schema).items()}

    @cached_property
    def untrusted_bounds(self) -> dict[str, frozenset[int]]:
        """Field ids whose metrics must not prune, by file format; "" is every format.

        Java orders uuid bounds signed (apache/iceberg#14216), and its ORC writer miscounts nulls of nested fields.
        """
        uuids = {i for i, f in self.all_fields.items() if str(f.field_type) == "uuid"}
        top = {f.field_id for s in self.schemas.values() for f in s.fields}
        return {"": frozenset(uuids), "ORC": frozenset(set(self.all_fields) - top)}

    def untrusted_bounds_of(self, file_format: str) -> frozenset[int]:
        """Return the field ids whose metrics in files of this format must not prune."""
        return self.untrusted_bounds[""] | self.untrusted_bounds.get(file_format, frozenset())

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot. Raise NotFoundError, naming the id, if it is unknown or has expired."""
        if snapshot_id not in self.snapshots:
            raise NotFoundError("no such snapshot", kind="snapshot-not-found", field="snapshot_id", found=snapshot_id)
        return self.snapshots[snapshot_id]

    def snapshot_of_ref(self, ref: str) -> Snapshot | None:
        """Return the snapshot of a branch or tag, None for a `main` without a snapshot. Raises NotFoundError."""
        if ref not in self.refs:
            if ref == MAIN:
                return None
            raise NotFoundError("no such branch or tag", "ref-not-found", "ref", ref, sorted(self.refs))
        return self.snapshot_by_id(int(self.refs[ref]["snapshot-id"]))

    def snapshot_as_of(self, timestamp_ms: int) -> Snapshot:
        """Return the snapshot that was current at a time, by the snapshot log. The log need not be sorted."""
        log = [e for e in self.raw.get("snapshot-log") or () if e["timestamp-ms"] <= timestamp_ms]
        if not log:
            raise NotFoundError("no snapshot at or before this time", "snapshot-not-found", "as_of", timestamp_ms)
        newest = max(reversed(log), key=lambda entry: entry["timestamp-ms"])  # the later of two at one time
        return self.snapshot_by_id(newest["snapshot-id"])

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """Yield a snapshot, its parent, its parent's parent, as far as the table still has them (Java SnapshotUtil)."""
        seen: set[int] = set()
        while snapshot_id in self.snapshots and snapshot_id not in seen:
            seen.add(snapshot_id)
            yield self.snapshots[snapshot_id]
            snapshot_id = self.snapshots[snapshot_id].parent_snapshot_id

    def is_ancestor(self, snapshot_id: int, ancestor_id: int) -> bool:
        """Tell whether `ancestor_id` is `snapshot_id` or one of its ancestors."""
        return any(s.snapshot_id == ancestor_id for s in self.ancestors(snapshot_id))

    def use_of(self, column: NestedField) -> str | None:
        """Say in a few words what a column, or a field below it, is used for besides its values. None if for nothing.

        Iceberg's Java cannot open a table whose current spec, sort order or identifier names a missing column.
        """
        orders = {order["order-id"]: order["fields"] for order in self.raw.get("sort-orders", ())}
        sorted_by = orders.get(self.raw.get("default-sort-order-id"), ())
        uses = {
            "rows are partitioned by it": (f.source_id for f in self.spec.fields),
            "rows are sorted by it": (f.get("source-id") for f in sorted_by),
            "it identifies rows": self.schema.identifier_field_ids,
        }
        ids = Schema(column).field_ids
        return next((use for use, of in uses.items() if not ids.isdisjoint(of)), None)

    def schema_of(self, snapshot: Snapshot) -> Schema:
        """Return the schema that a snapshot was written with. Return the current one if the snapshot names none."""
        if snapshot.schema_id is not None and snapshot.schema_id in self.schemas:
            return self.schemas[snapshot.schema_id]
        return self.schema


def parse_metadata(data: bytes, file: str | None = None) -> TableMetadata:
    """Parse a metadata file, gzip-compressed or not.

    Raises UnsupportedError for format version 4 and later, FormatError for anything that is not table metadata.
    """
    try:
        if data[:2] == b"\x1f\x8b":  # not more than a metadata file can hold
            data = decompress("gzip", data, limit=json_limit(len(data)), kind="table-metadata", field="gzip")
        return _parsed(data)
    except (FormatError, UnsupportedError) as e:
        raise e.in_file(file) if file else e from e


def _parsed(text: bytes) -> TableMetadata:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise FormatError("table metadata is not JSON", "table-metadata", found=str(e)) from e
    if not isinstance(raw, dict):
        raise FormatError("table metadata is not a JSON object", "table-metadata", found=type(raw).__name__)
    try:
        _check_version(raw.get("format-version"))
        metadata = TableMetadata(in_v2_terms(raw, MAIN))
        _check(metadata)
    except (FormatError, UnsupportedError):
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise FormatError("bad table metadata", "table-metadata", found=f"{type(e).__name__}: {e}") from e
    return metadata


def _check_version(version: Any) -> None:
    if isinstance(version, int) and version > NEWEST:
        raise later_version(version)
    if version not in FORMAT_VERSIONS:
        raise FormatError("bad table metadata", "table-metadata", "format-version", version, "1, 2 or 3")


def serialise_metadata(metadata: TableMetadata) -> bytes:
    """Return the document as bytes. v1 keeps its `schema` and `partition-spec` fields for old readers."""
    raw = dict(metadata.raw)
    if metadata.version.keeps_single_schema:
        raw["schema"] = next(s for s in raw["schemas"] if s.get("schema-id", 0) == raw["current-schema-id"])
        spec = next(s for s in raw["partition-specs"] if s["spec-id"] == raw["default-spec-id"])
        raw["partition-spec"] = spec["fields"]
        raw.pop("last-sequence-number", None)
    if metadata.version.has_snapshot_id_for_none and raw.get("current-snapshot-id") is None:
        raw["current-snapshot-id"] = -1
    return json.dumps(raw, separators=(",", ":")).encode()


def new_metadata(
    schema: Schema,
    spec: PartitionSpec,
    *,
    location: str,
    format_version: int,
    properties: Mapping[str, str] | None = None,
    sort_fields: Sequence[Mapping[str, Any]] = (),
) -> TableMetadata:
    """Return metadata of a table without a snapshot. The ids in `schema`, `spec` and the fields are used as given.

    Raises InvalidInputError for an unknown format version, or a type or default that the version does not have.
    """
    if format_version not in FORMAT_VERSIONS:
        kind, field, expected = "format-version", "format_version", "1, 2 or 3"
        raise InvalidInputError("format version cannot be written", kind, field, format_version, expected)
    check_schema_version(schema, format_version)
    check_reserved_names(schema, format_version)
    check_properties(properties or {})
    raw: dict[str, Any] = {
        "format-version": format_version,
        "table-uuid": str(uuid.uuid4()),
        "location": normalised(location) if location else "",
        "last-sequence-number": 0,
        "last-updated-ms": int(time.time() * 1000),
        "last-column-id": schema.highest_field_id,
        "current-schema-id": schema.schema_id,
        "schemas": [schema_to_json(schema)],
        "default-spec-id": spec.spec_id,
        "partition-specs": [spec_to_json(spec)],
        "last-partition-id": max([999, *(f.field_id for f in spec.fields)]),
        "default-sort-order-id": int(bool(sort_fields)),
        "sort-orders": [{"order-id": int(bool(sort_fields)), "fields": [*sort_fields]}],
        "properties": normalised_properties(properties or {}),
        "current-snapshot-id": None,
        "refs": {},
        **{name: [] for name in ("snapshots", "statistics", "partition-statistics", "snapshot-log", "metadata-log")},
    }
    if FormatVersion(format_version).has_row_lineage:
        raw["next-row-id"] = 0
    return TableMetadata(raw)


def spec_to_json(spec: PartitionSpec) -> dict[str, Any]:
    """Return a partition spec as metadata stores it."""
    raw: dict[str, Any] = json.loads(spec.model_dump_json(by_alias=True))
    return raw


def check_schema_version(schema: Schema, format_version: int) -> None:
    """Raise InvalidInputError if a column needs a newer format version than the table has."""
    for column in index_by_id(schema).values():
        needs = int(column.field_type.minimum_format_version())
        if column.initial_default is not None or column.write_default is not None:
            needs = max(needs, 3)
        if needs > format_version:
            advice = ", or a type: Arrow's null is Iceberg's unknown" if str(column.field_type) == "unknown" else ""
            message, expected = "column needs a newer format version", f"format version {needs}{advice}"
            found = f"{column.field_type} in format version {format_version}"
            raise InvalidInputError(message, kind="format-version", field=column.name, found=found, expected=expected)


def check_reserved_names(schema: Schema, format_version: int) -> None:
    """Raise InvalidInputError for a column with a name under which files of this version store row lineage."""
    for name in LINEAGE_NAMES if FormatVersion(format_version).has_row_lineage else ():
        if any(column.name == name for column in schema.fields):
            message = f"data files of format version {format_version} store row lineage under this name"
            raise InvalidInputError(message, "reserved-name", name, "a column", "another name")


def _check(metadata: TableMetadata) -> None:
    """Parse every lazy part once, so that damage is found, with its field, when the table is loaded."""
    raw = metadata.raw
    for name in ("location", "last-column-id", "current-schema-id", "default-spec-id"):
        if raw.get(name) is None:
            raise FormatError("table metadata lacks a field", "table-metadata", name)
    if not isinstance(raw.get("properties") or {}, dict):
        raise FormatError("bad table metadata", "table-metadata", "properties", raw["properties"])
    if int(raw["current-schema-id"]) not in metadata.schemas:
        raise FormatError("no such schema", "table-metadata", "current-schema-id", raw["current-schema-id"])
    if int(raw["default-spec-id"]) not in metadata.specs:
        raise FormatError("no such partition spec", "table-metadata", "default-spec-id", raw["default-spec-id"])
    for ref, value in metadata.refs.items():
        if value.get("snapshot-id") not in metadata.snapshots:
            raise FormatError("ref points to no snapshot", "table-metadata", f"refs.{ref}", value.get("snapshot-id"))
