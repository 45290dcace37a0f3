"""Read and write position delete files and equality delete files: their columns, order, metadata and metrics.

Spec: "Position Delete Files" and "Equality Delete Files", https://iceberg.apache.org/spec/#delete-formats
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.metrics import FIELD_ID_KEY, Metrics, MetricsMode, collect_metrics, field_id_of
from deletekit.formats.parquet import ParquetOptions, WrittenParquet, encode_parquet
from deletekit.formats.reserved_fields import FILE_PATH_ID, POS_ID, ROW_STRUCT_ID
from deletekit.formats.tabular import RowGroup, TabularFile


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedDeletes:
    """A delete file's bytes, and the counts and metrics for its manifest entry."""

    file: WrittenParquet
    record_count: int
    metrics: Metrics


def encode_position_deletes(
    positions: Mapping[str, PositionBitmap],
    *,
    rows: Mapping[str, pa.Table] | None = None,
    options: ParquetOptions | None = None,
) -> EncodedDeletes:
    """Encode deletes of one or more data files, sorted by path then position.

    Parameters
    ----------
    positions: data file path, character for character as in the manifest -> positions to delete (not empty).
    rows: the deleted rows of each path, in position order, with field ids. The spec has `row` for all paths or none.

    Path bounds are kept, untruncated, only when a single data file is referenced: readers take equal bounds to mean
    that the file belongs to that data file alone (Java PositionDeleteWriter, ContentFileUtil).

    Raises InvalidInputError for no positions, or rows that do not line up with the positions.
    """
    paths = sorted(p for p in positions if positions[p])
    if not paths:
        raise InvalidInputError("a position delete file needs at least one position", kind="empty-delete")
    counts = [len(positions[p]) for p in paths]
    columns = {
        "file_path": pa.DictionaryArray.from_arrays(np.repeat(np.arange(len(paths), dtype=np.int32), counts), paths),
        "pos": pa.array(np.concatenate([positions[p].to_numpy() for p in paths])),
    }
    schema, schema_json = position_delete_schema()
    fields = [schema.field(0).with_type(columns["file_path"].type), schema.field(1)]  # stored as text
    if rows is not None:
        struct = _row_struct(rows, paths, counts)
        columns["row"] = struct
        fields.append(_required("row", struct.type, ROW_STRUCT_ID))
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    metadata = {"delete-type": "position"}
    if rows is None:
        metadata["iceberg.schema"] = json.dumps(schema_json, separators=(",", ":"))
    written = encode_parquet(table, metadata, options or ParquetOptions())
    return EncodedDeletes(file=written, record_count=len(table), metrics=_position_metrics(table, paths))


def encode_equality_deletes(
    keys: pa.Table,
    equality_ids: Sequence[int],
    *,
    schema_json: Mapping[str, Any],
    mode_of: Callable[[int, str], MetricsMode],
    options: ParquetOptions | None = None,
) -> EncodedDeletes:
    """Encode rows whose `equality_ids` columns are the keys to delete; readers ignore other columns.

    Parameters
    ----------
    keys: not empty, with field ids; columns hold at least `equality_ids` (nested leaves count).
    schema_json: the delete schema, for the footer's `iceberg.schema`.
    mode_of: metrics mode by field id and column name.

    Raises InvalidInputError for no rows.
    """
    if not len(keys):
        raise InvalidInputError("an equality delete file needs at least one row", kind="empty-delete")
    metadata = {
        "delete-type": "equality",
        "delete-field-ids": ", ".join(str(i) for i in equality_ids),
        "iceberg.schema": json.dumps(schema_json, separators=(",", ":")),
    }
    written = encode_parquet(keys, metadata, options or ParquetOptions())
    return EncodedDeletes(file=written, record_count=len(keys), metrics=collect_metrics(keys, mode_of))


def position_delete_schema() -> tuple[pa.Schema, dict[str, Any]]:
    """Return the columns of a position delete file without rows, and their JSON for the footer's `iceberg.schema`."""
    fields = [_required("file_path", pa.string(), FILE_PATH_ID), _required("pos", pa.int64(), POS_ID)]
    path_doc = "Path of a file in which a deleted row is stored"
    pos_doc = "Ordinal position of a deleted row in the data file"
    json_fields = [
        {"id": FILE_PATH_ID, "name": "file_path", "required": True, "type": "string", "doc": path_doc},
        {"id": POS_ID, "name": "pos", "required": True, "type": "long", "doc": pos_doc},
    ]
    return pa.schema(fields), {"type": "struct", "schema-id": 0, "fields": json_fields}


def read_position_deletes(file: TabularFile, each: Callable[..., Iterable[Any]] = map) -> dict[str, PositionBitmap]:
    """Return positions by data file path. Order and duplicates do not matter, `row` is not read.

    `each` is `map`, or that of a pool of threads, which reads several row groups at a time.
    Raises FormatError when `file_path` or `pos` is missing, null or of another type.
    """
    names = [_column(file.schema, FILE_PATH_ID, "file_path"), _column(file.schema, POS_ID, "pos")]
    found: dict[str, PositionBitmap] = {}
    for bitmaps in each(partial(_bitmaps, file, names), file.row_groups):
        for path, bitmap in bitmaps:
            found[path] = found[path] | bitmap if path in found else bitmap
    return found


def _bitmaps(file: TabularFile, names: Sequence[str], group: RowGroup) -> list[tuple[str, PositionBitmap]]:
    table = file.read(group, names)
    try:
        return [(path, PositionBitmap(part)) for path, part in _by_path(table.column(0), table.column(1))]
    except InvalidInputError as e:
        raise FormatError("bad position in position delete file", "position-delete", "pos", e.found) from e


def _required(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={FIELD_ID_KEY: str(field_id)})


def _row_struct(rows: Mapping[str, pa.Table], paths: Sequence[str], counts: Sequence[int]) -> pa.Array:
    for path, count in zip(paths, counts, strict=True):
        found = len(rows[path]) if path in rows else None
        if found != count:
            message = "deleted rows do not line up with their positions"
            kind = "position-delete-rows"
            raise InvalidInputError(message, kind=kind, file=path, field="row", found=found, expected=count)
    return pa.concat_tables([rows[p] for p in paths]).to_struct_array().combine_chunks()


def _position_metrics(table: pa.Table, paths: Sequence[str]) -> Metrics:
    own = {FILE_PATH_ID, POS_ID}
    metrics = collect_metrics(
        table.drop_columns(["file_path"]), lambda field_id, _: MetricsMode(length=None if field_id in own else 16)
    )
    dropped: list[dict[int, Any]] = [metrics.value_counts, metrics.null_value_counts, metrics.nan_value_counts]
    bounds = [metrics.lower_bounds, metrics.upper_bounds]
    for values in dropped if len(paths) == 1 else [*dropped, *bounds]:
        values.pop(POS_ID, None)
    if len(paths) > 1:
        return metrics
    lower, upper = ({FILE_PATH_ID: paths[0].encode(), **values} for values in bounds)
    return replace(metrics, lower_bounds=lower, upper_bounds=upper)


def _column(schema: pa.Schema, field_id: int, name: str) -> str:
    by_id = [f.name for f in schema if field_id_of(f) == field_id]
    if by_id:
        return str(by_id[0])
    if name in schema.names:
        return name
    raise FormatError("not a position delete file", "position-delete", name, ", ".join(schema.names), f"id {field_id}")


def _by_path(paths: pa.ChunkedArray, positions: pa.ChunkedArray) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    _check_columns(paths, positions)
    encoded = paths if pa.types.is_dictionary(paths.type) else paths.dictionary_encode()
    at = 0
    for chunk in encoded.chunks:
        # There are no nulls here, and `to_numpy` would import pandas where that is installed.
        part = np.from_dlpack(positions.slice(at, len(chunk)).combine_chunks()).astype(np.int64, copy=False)
        at += len(chunk)
        codes: Any = np.from_dlpack(chunk.indices)
        names = chunk.dictionary.to_pylist()
        for code, values in _runs(codes, part, len(names)):
            yield names[code], values


def _runs(
    codes: npt.NDArray[np.integer], values: npt.NDArray[np.int64], distinct: int
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield the values of each code. Sorted files, as the spec wants them, have one run for each; others are sorted."""
    edges = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    if len(edges) >= distinct:
        order = np.argsort(codes, kind="stable")
        codes, values = codes[order], values[order]
        edges = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    bounds = [0, *edges.tolist(), len(codes)]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield int(codes[start]), values[start:stop]


def _check_columns(paths: pa.ChunkedArray, positions: pa.ChunkedArray) -> None:
    kind = paths.type.value_type if pa.types.is_dictionary(paths.type) else paths.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    for field, column, fits in (("file_path", paths, is_text), ("pos", positions, pa.types.is_integer(positions.type))):
        if not fits or column.null_count:
            expected = "text" if field == "file_path" else "whole numbers"
            found = "null" if fits else str(column.type)
            raise FormatError("bad column in position delete file", "position-delete", field, found, expected)
