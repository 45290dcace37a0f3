"""Make Parquet files that are there already part of a table, where they lie: Iceberg's add_files.

Counts and bounds come from the footers. Columns of partitions are read, so that no row is in a partition that it does
not belong to. A file without field ids is read by the table's name mapping, which is set if it has none.
Spec: "Column Projection", "Name Mapping Serialization"; Java TableMigrationUtil.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import NestedField, PrimitiveType, StructType

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.swap import Commit
from deletekit.engines.current import engine_or_default
from deletekit.errors import FormatError, InvalidInputError
from deletekit.filters.row_group_pruning import bounds_of
from deletekit.formats.content_file import DataFile, partition_key
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.metrics import field_id_of, to_optional, upper_prefix
from deletekit.formats.parquet import column_sizes, split_offsets
from deletekit.formats.tabular import ColumnStatistics, TabularFile, open_tabular
from deletekit.rows.data_file_writer import split_by_partition
from deletekit.rows.projection import FileColumns, project, with_field_ids
from deletekit.table.locations import KnownFiles, SpellingRules, normalised
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.properties import NAME_MAPPING
from deletekit.table.table import Table
from deletekit.table.types import arrow_type
from deletekit.verbs.shared.guards import Guards, commit_guarded

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def add_files(
    table: Table,
    files: Sequence[str | Path],
    *,
    ref: str = MAIN,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Commit:
    """Register Parquet files as data files of the table, in one commit. They are not copied.

    Parameters
    ----------
    files: their locations. They are the table's from then on: it removes them when no snapshot has them any more.
    ref: branch to commit to.
    dry_run: check the files, and change nothing.

    A file's columns are those with the table's field ids, or names if it has no ids. All its rows must be in one
    partition. For a partition column that the file leaves out, the value is that of a folder `column=value`.

    Raises InvalidInputError, before anything is committed, naming the file and the column: for a column that the table
    has not, a type that cannot be read as the table's, a null in a required column, rows of several partitions, a file
    without rows, and one that the table has already. NotFoundError for a missing file, FormatError for a damaged one.
    """
    paths = [normalised(str(path), "files") for path in files]

    def plan(base: Base) -> RowDelta:
        metadata = base.metadata
        _check_new(base, paths)
        mapping = metadata.properties.get(NAME_MAPPING)
        chosen = mapping or create_mapping_from_schema(metadata.schema).model_dump_json()
        found = [_data_file(base, path, chosen) for path in paths]
        sets: tuple[Mapping[str, Any], ...] = ()
        if mapping is None and any(by_name for _, by_name in found):
            sets = ({"action": "set-properties", "updates": {NAME_MAPPING: chosen}},)
        added = tuple(file for file, _ in found)
        return RowDelta(added_data_files=added, metadata_updates=sets, matched_rows=0, read_set=ReadSet())

    guards = Guards(ref, commit_properties, dry_run)
    return commit_guarded(table, lambda base, _: plan(base), guards, engine_or_default(None))


def _refused(message: str, file: str, field: str | None = None, found: Any = None, expected: Any = None) -> Exception:
    return InvalidInputError(message, "add-files", file=file, field=field, found=found, expected=expected)


def _check_new(base: Base, paths: Sequence[str]) -> None:
    """Refuse a file that the table has, or that is named twice, by any spelling."""
    live = base.reader.live_entries(base.snapshot, ManifestContent.DATA) if base.snapshot else ()
    known = KnownFiles(SpellingRules(), (e.data_file.file_path for e in live))
    for path in paths:
        if path in known:
            raise _refused("file is in the table already", path)
        known.add([path])


def _data_file(base: Base, path: str, mapping: str) -> tuple[DataFile, bool]:
    """Return the entry of a file, and whether its columns are found by name."""
    metadata = base.metadata
    with base.table.io.open(path) as source:
        try:
            file = open_tabular(source, "PARQUET")
            schema = with_field_ids(file.schema, mapping)
            columns = FileColumns(schema, _constants(metadata, path))
            _check_columns(metadata, schema, columns, path, by_name=schema is not file.schema)
            partition = _partition(base, file, columns, path)
        except FormatError as e:
            if e.kind in ("column-type", "missing-column"):
                raise _refused(e.message, path, e.field, e.found, e.expected) from e
            raise e.in_file(path) from e
        return DataFile(
            spec_id=metadata.spec.spec_id,
            partition=partition,
            file_path=path,
            file_format="PARQUET",
            record_count=sum(group.num_rows for group in file.row_groups),
            file_size_in_bytes=base.table.io.size(path),
            column_sizes=to_optional(column_sizes(file.footer, schema)),
            split_offsets=split_offsets(file.footer),
            **_metrics(base, file, columns),
        ), schema is not file.schema


def _constants(metadata: TableMetadata, path: str) -> dict[int, pa.Scalar]:
    """Return the values of identity partition columns that the path names, as Hive does; by field id."""
    parts = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    named = {unquote(name): unquote(text) for name, _, text in parts}
    out = {}
    for field in metadata.spec.fields:
        source = metadata.schema.find_field(field.source_id)
        if isinstance(field.transform, IdentityTransform) and field.name in named:
            kind, text = arrow_type(source.field_type), named[field.name]
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # refused if the file has no such column
                out[source.field_id] = pa.scalar(None if text == _HIVE_NULL else text).cast(kind)
    return out


def _check_columns(
    metadata: TableMetadata, schema: pa.Schema, columns: FileColumns, path: str, *, by_name: bool
) -> None:
    """Refuse columns that the table has not or cannot read, and field ids of another table.

    A file's own id must belong to a column that had the name of the file's. One by name must be a column of now: a name
    that the mapping still gives to a dropped or renamed column may be that of a new one.
    """
    seen: set[int | None] = set()
    for name, stored in _fields(schema):
        number = field_id_of(stored)
        schemas = [metadata.schema] if by_name else metadata.schemas.values()
        names = {s.find_column_name(number) for s in schemas} if number is not None else set()
        known = sorted({known.split(".")[-1] for known in names if known is not None})
        if number is None and not by_name:
            message, expected = (
                "a column of the file has no field id, and others have",
                "a field id for each, or for none",
            )
            raise _refused(message, path, stored.name, None, expected)
        if not known:
            expected = ", ".join(f.name for f in metadata.schema.fields)
            raise _refused("the table has no such column", path, stored.name, number, expected)
        if not by_name and name not in known:
            raise _refused("the field id is that of another column", path, stored.name, number, ", ".join(known))
        if number in seen:
            raise _refused("two columns of the file are one of the table", path, stored.name, number)
        seen.add(number)
    moved = next(_renamed_away(schema, metadata.schema.fields), None) if by_name else None
    if moved is not None:
        message = "the name mapping gives this name to a column that has another one now"
        raise _refused(message, path, moved.name, field_id_of(moved), "field ids in the file")
    for field in metadata.spec.fields:
        source = _top_level(metadata, field.source_id)
        if source is None or source.field_id in columns.by_id or source.field_id in columns.constants:
            continue
        if not isinstance(field.transform, VoidTransform):
            raise _refused("neither the file nor its folders have the partition column", path, source.name)
    empty = pa.Table.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    for column in metadata.schema.fields:
        project(empty, columns, column)


def _fields(parent: Iterable[pa.Field], *names: str) -> Iterator[tuple[str, pa.Field]]:
    """Yield fields at any depth with their names, or with `names` in the place of theirs: those of lists and maps."""
    for at, field in enumerate(parent):
        yield (names[at] if names else field.name), field
        kind = field.type
        if pa.types.is_map(kind):
            yield from _fields((kind.key_field, kind.item_field), "key", "value")
        elif kind.num_fields:
            below = [kind.field(i) for i in range(kind.num_fields)]
            yield from _fields(below, *(() if pa.types.is_struct(kind) else ("element",)))


def _renamed_away(stored: Iterable[pa.Field], fields: Iterable[NestedField]) -> Iterator[pa.Field]:
    """Yield fields of a file whose name is that of another column of the table now than the one they are mapped to."""
    columns = {f.field_id: f for f in fields}
    names = {f.name: number for number, f in columns.items()}
    for field in stored:
        number = field_id_of(field)
        column = columns.get(number) if number is not None else None
        if names.get(field.name, number) != number:
            yield field
        elif column is not None and isinstance(column.field_type, StructType) and pa.types.is_struct(field.type):
            yield from _renamed_away(list(field.type), column.field_type.fields)


def _partition(base: Base, file: TabularFile, columns: FileColumns, path: str) -> tuple[Any, ...]:
    """Return the one partition of all rows. Also check that no required column has a null."""
    metadata = base.metadata
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    sources = [_top_level(metadata, f.source_id) for f in metadata.spec.fields]
    for group in file.row_groups:
        statistics = file.statistics(group)
        fields = [*(s for s in sources if s is not None)]
        fields += [f for f in metadata.schema.fields if f.required and _may_be_null(f, columns, statistics)]
        fields = list({f.field_id: f for f in fields}.values())
        stored = file.read(group, columns.names(fields))
        rows = pa.table({f.name: project(stored, columns, f) for f in fields}) if fields else stored
        for field in fields:
            if field.required and rows.column(field.name).null_count:
                raise _refused("a required column has a null", path, field.name)
        split = split_by_partition(base.write, rows, metadata.spec)
        found |= {partition_key(values): values for values, _ in split}
    if len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(f.name for f in metadata.spec.fields)
    if found:
        raise _refused("rows of the file are in several partitions", path, names, len(found), 1)
    raise _refused("file has no rows", path)


def _top_level(metadata: TableMetadata, source_id: int) -> NestedField | None:
    """Return the top-level column that a partition field is made from; None for a dropped one."""
    name = metadata.schema.find_column_name(source_id)
    return None if name is None else next(f for f in metadata.schema.fields if name.split(".")[0] == f.name)


def _may_be_null(field: NestedField, columns: FileColumns, statistics: Mapping[str, ColumnStatistics]) -> bool:
    stored = columns.by_id.get(field.field_id)
    if stored is None or not stored.nullable:
        return False
    known = statistics.get(stored.name)
    return known is None or known.nulls != 0


def _metrics(base: Base, file: TabularFile, columns: FileColumns) -> dict[str, Any]:
    """Return the metrics that the footer proves, of columns of primitive type, by the table's metrics modes."""
    metadata, groups = base.metadata, [(g, file.statistics(g)) for g in file.row_groups]
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for field in metadata.schema.fields:
        kind = field.field_type
        mode, stored = base.write.metrics_mode(field.field_id, field.name), columns.by_id.get(field.field_id)
        if stored is None or not mode.counts or not isinstance(kind, PrimitiveType):
            continue
        values[field.field_id] = sum(group.num_rows for group, _ in groups)
        known = [found[stored.name] for _, found in groups if stored.name in found]
        counts = [s.nulls for s in known if s.nulls is not None]
        if len(counts) == len(groups):
            nulls[field.field_id] = sum(counts)
        live = [s for s, (g, _) in zip(known, groups, strict=False) if s.nulls != g.num_rows]
        bounds = [bounds_of(kind, stored.type, s) for s in live] if len(known) == len(groups) else []
        if mode.bounds and bounds and all(bounds):
            low, high = _cut(min(b[0] for b in bounds if b), max(b[1] for b in bounds if b), mode.length)
            lower[field.field_id] = to_bytes(kind, low)
            if high is not None:
                upper[field.field_id] = to_bytes(kind, high)
    maps: dict[str, Mapping[int, Any]] = {
        "value_counts": values,
        "null_value_counts": nulls,
        "lower_bounds": lower,
        "upper_bounds": upper,
    }
    return {name: to_optional(found) for name, found in maps.items()}


def _cut(low: Any, high: Any, length: int | None) -> tuple[Any, Any]:
    if isinstance(low, str):
        return low[:length], upper_prefix(high, length)
    if isinstance(low, float):  # -0.0 sorts before 0.0 in bounds, and a footer may mean either
        return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    return low, high
