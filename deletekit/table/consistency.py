"""Find contradictions in table metadata that a writer relies on: ids, references, sequence numbers, row ids.

`verify` reports them, a commit refuses to build on them, and a read warns. Java's TableMetadata refuses most of them
when it loads a table.
Spec: "Table Metadata Fields", "Sequence Numbers", "Row Lineage", https://iceberg.apache.org/spec/
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain, islice
from typing import Any

from deletekit.errors import FormatError
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One contradiction, with the fields of a finding of `verify`. `ambiguous`: a reader cannot know what is meant."""

    kind: str
    message: str
    field: str
    found: Any = None
    expected: Any = None
    _: KW_ONLY
    file: str | None = None
    snapshot_ids: tuple[int, ...] = ()
    ambiguous: bool = False

    def error(self, message: str, file: str) -> FormatError:
        """Return the contradiction as an error about a file."""
        fields = {"field": self.field, "found": self.found, "expected": self.expected}
        return FormatError(message, kind=self.kind, file=file, **fields)


def check_writable(metadata: TableMetadata, location: str) -> None:
    """Raise FormatError, naming the first contradiction, for metadata that contradicts itself.

    A document never changes, so it is checked once: a commit asks several times.
    """
    if metadata.is_consistent:
        return
    try:
        _refuse(in_metadata(metadata), location)
        metadata.is_consistent = True
    except (TypeError, KeyError, AttributeError, LookupError) as e:
        message, found = "table metadata has a value of another type, and is not written on", type(e).__name__
        raise FormatError(message, kind="table-metadata", file=location, found=f"{found}: {e}") from e


def check_manifest_list(
    metadata: TableMetadata, snapshot: Snapshot | None, listed: Sequence[ManifestFile], location: str
) -> None:
    """Raise FormatError for a manifest list that is ahead of the metadata, or that is empty and was not.

    `verify` checks each file of the list.
    """
    _refuse(_in_manifest_list(metadata, listed), location)
    if snapshot is not None:
        _refuse(_lost_files(snapshot, listed), snapshot.manifest_list or location)


def _lost_files(snapshot: Snapshot, listed: Sequence[ManifestFile]) -> Iterator[Contradiction]:
    """Yield the total of a snapshot that lists no live data file at all under a summary that counts some."""
    if any(m.content == ManifestContent.DATA and m.has_live_files for m in listed):
        return
    name = next((total for total in ("total-data-files", "total-records") if total in snapshot.summary), None)
    if name is None:
        return
    stated = str(snapshot.summary[name])
    if stated.isdecimal() and int(stated) > 0:
        message = f"snapshot {snapshot.snapshot_id} lists no data file, and its summary counts some"
        expected = "rollback to a snapshot that lists them, or repair where no file was lost"
        yield Contradiction("lost-files", message, name, f"{stated}, and 0 listed", expected)


def _refuse(contradictions: Iterator[Contradiction], location: str) -> None:
    for found in contradictions:
        message = f"table metadata contradicts itself, and nothing is written on it: {found.message} (see verify)"
        raise found.error(message, found.file or location)


def warn_reader(metadata: TableMetadata) -> None:
    """Warn of the first contradiction that commits refuse and that reading does not depend on.

    Raises FormatError if a reader cannot know what is meant: two different things have one id.
    """
    for found in in_metadata(metadata):
        if found.ambiguous:
            raise found.error(found.message, f"{metadata.location}/metadata")
        said = f"{found.message}; field {found.field}; found {found.found}; expected {found.expected}"
        warnings.warn(
            f"metadata of the table at {metadata.location} contradicts itself, and commits are refused: {said}",
            stacklevel=4,
        )
        return


def in_metadata(metadata: TableMetadata) -> Iterator[Contradiction]:
    """Yield every contradiction within the document."""
    rules = (_ids_once, _references, _default_spec, _refs, _counters, _below_parents, _row_ids)
    yield from chain.from_iterable(rule(metadata) for rule in rules)


def _in_manifest_list(metadata: TableMetadata, listed: Iterable[ManifestFile]) -> Iterator[Contradiction]:
    """Yield contradictions between the document and the rows of a manifest list."""
    for row in listed:
        last, path = metadata.last_sequence_number, row.manifest_path
        if row.sequence_number > last:
            kind, message, expected = "last-sequence-number", "a manifest has a higher one", f">= {row.sequence_number}"
            yield Contradiction(kind, message, kind, last, expected, file=path)
        stop = (row.first_row_id or 0) + (row.added_rows_count or 0) + (row.existing_rows_count or 0)
        is_data = row.content == ManifestContent.DATA and row.first_row_id is not None
        if is_data and metadata.version.has_row_lineage and stop > metadata.next_row_id:
            kind, message = "next-row-id", "a manifest has row ids that were not given out"
            yield Contradiction(kind, message, kind, metadata.next_row_id, f">= {stop}", file=path)


def field_ids(raw: Any) -> Iterator[int]:
    """Yield every field id of a schema or type as JSON."""
    if isinstance(raw, Mapping):
        yield from (raw[key] for key in ("id", "element-id", "key-id", "value-id") if key in raw)
        for key in ("fields", "type", "element", "key", "value"):
            yield from field_ids(raw.get(key))
    elif isinstance(raw, list):
        for item in raw:
            yield from field_ids(item)


def _ids_once(metadata: TableMetadata) -> Iterator[Contradiction]:
    raw = metadata.raw
    for name, key in (
        ("schemas", "schema-id"),
        ("partition-specs", "spec-id"),
        ("sort-orders", "order-id"),
        ("snapshots", "snapshot-id"),
    ):
        ids = [thing.get(key) for thing in raw.get(name) or ()]
        if len({*ids}) < len(ids):
            yield from _twice("id is given twice", f"{name}.{key}", [*zip(ids, raw[name], strict=True)])
    for schema in raw["schemas"]:
        # Two fields with one id are ambiguous even if they are equal: each is numbered, so that none equals another.
        fields = [(field_id, number) for number, field_id in enumerate(field_ids(schema))]
        yield from _twice("field id is given twice", f"schemas.{schema.get('schema-id')}", fields)


def _twice(message: str, field: str, things: list[tuple[Any, Any]]) -> Iterator[Contradiction]:
    """Yield the ids that several things have, each once. It is ambiguous if the things differ."""
    first: dict[Any, Any] = {}
    told = set()
    for value, thing in things:
        if value in first and value not in told:
            told.add(value)
            yield Contradiction("duplicate-id", message, field, value, "once", ambiguous=thing != first[value])
        first.setdefault(value, thing)


def _references(metadata: TableMetadata) -> Iterator[Contradiction]:
    raw = metadata.raw
    orders = {0, *(order.get("order-id") for order in raw["sort-orders"])}
    checks: list[tuple[str, Any, Any]] = [
        ("current-schema-id", raw["current-schema-id"], metadata.schemas),
        ("default-spec-id", raw["default-spec-id"], metadata.specs),
        ("default-sort-order-id", raw.get("default-sort-order-id", 0), orders),
    ]
    checks += [(f"refs.{name}", ref.get("snapshot-id"), metadata.snapshots) for name, ref in metadata.refs.items()]
    if raw.get("current-snapshot-id") is not None:
        checks.append(("current-snapshot-id", raw["current-snapshot-id"], metadata.snapshots))
    for field, found, known in checks:
        if found not in known:
            yield Contradiction("reference", "id does not resolve", field, found, sorted(islice(known, 20)))


def _default_spec(metadata: TableMetadata) -> Iterator[Contradiction]:
    """Check that the current schema has the source columns of the default spec. Older specs may use dropped columns."""
    spec_id = metadata.raw["default-spec-id"]
    spec = metadata.specs.get(spec_id)
    for field in spec.fields if spec is not None else ():
        if str(field.transform) != "void" and metadata.schema.find_column_name(field.source_id) is None:
            message = "source column of the default partition spec is not in the current schema"
            where = f"partition-specs.{spec_id}.{field.name}"
            yield Contradiction("partition-spec", message, where, field.source_id)


def _refs(metadata: TableMetadata) -> Iterator[Contradiction]:
    for name, ref in metadata.refs.items():
        if ref.get("type") not in ("branch", "tag"):
            yield Contradiction("ref", "ref has no type", f"refs.{name}.type", ref.get("type"), "branch, tag")
    main = metadata.refs.get(MAIN, {})
    if main.get("type") == "tag":
        yield Contradiction("ref", "main is a branch", "refs.main.type", "tag", "branch")
    current, head = metadata.raw.get("current-snapshot-id"), main.get("snapshot-id")
    if current != head:
        message = "current snapshot is not the head of main"
        yield Contradiction("current-snapshot", message, "current-snapshot-id", current, head)


def _counters(metadata: TableMetadata) -> Iterator[Contradiction]:
    """Check that the counters are there, and not behind what they count."""
    has_numbers = metadata.version.has_sequence_numbers
    partition_fields = (f.field_id for spec in metadata.specs.values() for f in spec.fields)
    for name, is_needed, least in (
        ("last-column-id", True, max(metadata.all_fields, default=0)),
        ("last-partition-id", has_numbers, max(partition_fields, default=0)),
        ("last-sequence-number", has_numbers, max((s.sequence_number for s in metadata.snapshots.values()), default=0)),
        ("next-row-id", metadata.version.has_row_lineage, 0),
    ):
        found = metadata.raw.get(name)
        if found is None and is_needed:
            yield Contradiction("metadata-field", "table metadata lacks a field", name, expected="a value")
        if found is not None and found < least:
            yield Contradiction(name, "a higher one is in use", name, found, f">= {least}")


def _below_parents(metadata: TableMetadata) -> Iterator[Contradiction]:
    """Check that sequence numbers grow. Equal numbers on two branches harm no writer; only `verify` reports those."""
    snapshots = metadata.snapshots
    for snapshot in snapshots.values():
        number, parent = snapshot.sequence_number, snapshots.get(snapshot.parent_snapshot_id or 0)
        if parent is not None and number <= parent.sequence_number and (number or parent.sequence_number):
            message, expected = "sequence number is not above that of the parent", f"above {parent.sequence_number}"
            ids = (snapshot.snapshot_id,)
            yield Contradiction("snapshot-sequence", message, "sequence-number", number, expected, snapshot_ids=ids)


def _row_ids(metadata: TableMetadata) -> Iterator[Contradiction]:
    if not metadata.version.has_row_lineage:
        return
    free = metadata.next_row_id
    for snapshot in metadata.snapshots.values():
        first, added = snapshot.first_row_id, snapshot.added_rows
        if first is not None and added is not None and (first < 0 or added < 0 or first + added > free):
            kind, message = "next-row-id", "snapshot takes row ids that were not given out"
            expected, ids = f">= {first + added}", (snapshot.snapshot_id,)
            yield Contradiction(kind, message, kind, free, expected, snapshot_ids=ids)
