"""Read a data or delete file to rows by field id, with fastavro and pyarrow alone.

A row is `{field id: value}`; a struct in it too. A column without an id is under its name. Timestamps are numbers that
count from 1970 in the unit of the type, so nothing is rounded.
"""

import datetime as dt
import io
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

Row = dict[Any, Any]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ID_KEYS = (b"PARQUET:field_id", b"iceberg.id")


@cache
def read(data: bytes, file_format: str) -> tuple[list[Row], list[int], dict[Any, tuple[str, str]]]:
    """Return the rows, how many each row group has, and by id, in the file's order, name and type of each column.

    What is returned is kept, so it must not be changed.
    """
    if file_format.upper() == "AVRO":
        return _avro(data)
    groups: list[int] = []
    if file_format.upper() == "ORC":
        table = po.ORCFile(io.BytesIO(data)).read()
    else:
        opened = pq.ParquetFile(io.BytesIO(data))
        table, groups = opened.read(), [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
    columns = {_id(field): (field.name, str(field.type)) for field in table.schema}
    values = [_values(column) for column in table.columns]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    return rows, groups or [len(rows)], columns


def _id(field: pa.Field) -> Any:
    return next((int(field.metadata[k]) for k in ID_KEYS if k in (field.metadata or {})), field.name)


def _values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).to_pylist()
    if not pa.types.is_struct(kind):
        return column.to_pylist()
    parts = [_values(pa.chunked_array([c.field(i) for c in column.chunks], kind[i].type)) for i in range(len(kind))]
    rows = [dict(zip(map(_id, kind), row, strict=True)) for row in zip(*parts, strict=True)]
    return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]


def _avro(data: bytes) -> tuple[list[Row], list[int], dict[Any, tuple[str, str]]]:
    reader = fastavro.reader(io.BytesIO(data))
    fields = [(f.get("field-id", f["name"]), f["name"], f["type"]) for f in reader.writer_schema["fields"]]
    rows = [{i: _plain(row[name], kind) for i, name, kind in fields} for row in reader]
    return rows, [len(rows)], {i: (name, str(kind)) for i, name, kind in fields}


def _plain(value: Any, kind: Any) -> Any:
    if isinstance(kind, list):
        kind = next(k for k in kind if k != "null")
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dict) and kind.get("type") == "record":
        return {f.get("field-id", f["name"]): _plain(value[f["name"]], f["type"]) for f in kind["fields"]}
    return value
