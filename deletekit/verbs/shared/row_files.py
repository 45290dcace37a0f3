"""Read files of rows: Parquet, Arrow, CSV with a header, JSON lines. A value gets the type of the table's column."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.json as pa_json
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.table.types import arrow_type

Kinds = dict[str, pa.DataType]


def open_rows(file: str, schema: Schema, more: Mapping[str, pa.DataType] | None = None) -> pa.RecordBatchReader:
    """Return a reader of a file's rows; the file's suffix tells its format.

    In CSV a column of the table is read as its type, so `007` is text if the column is. Nothing between two commas is
    null, and `""` is the empty text.

    Parameters
    ----------
    more: types of further columns, or of others than the table's.

    Raises InvalidInputError for another format, and for values that cannot be read as the table's types.
    """
    kinds = {f.name: arrow_type(f.field_type) for f in schema.fields} | dict(more or {})
    try:
        return reader_of(file)(file, kinds)
    except (pa.ArrowException, OSError) as e:
        raise InvalidInputError("rows cannot be read", kind="rows", file=file, found=str(e)) from e


def reader_of(file: str) -> Callable[[str, Kinds], pa.RecordBatchReader]:
    """Return what reads a file of this suffix. Raises InvalidInputError for another format."""
    suffix = Path(file).suffix
    readers: dict[str, Callable[[str, Kinds], pa.RecordBatchReader]] = {
        ".parquet": lambda file, kinds: _dataset(file, "parquet", kinds),
        ".arrow": lambda file, kinds: _dataset(file, "ipc", kinds),
        ".csv": _read_csv,
        ".json": _read_json,
        ".jsonl": _read_json,
    }
    if suffix.lower() not in readers:
        message, known = "rows are read from Parquet, Arrow, CSV and JSON lines", ", ".join(readers)
        raise InvalidInputError(message, kind="file-format", file=file, found=suffix, expected=known)
    return readers[suffix.lower()]


def _dataset(file: str, form: str, kinds: Kinds) -> Any:
    """Read a file. A folder `column=value` gives a column if the file has none: pyarrow would overrule its values."""
    found = pa_dataset.dataset(file, format=form)
    folders = dict.fromkeys(part.partition("=")[0] for part in Path(file).parts[:-1] if "=" in part)
    lacking = [(name, kinds.get(name, pa.string())) for name in folders if name not in found.schema.names]
    if lacking:
        folder_columns = pa_dataset.partitioning(pa.schema(lacking), flavor="hive")
        found = pa_dataset.dataset(file, format=form, partitioning=folder_columns)
    return found.scanner().to_reader()


def _read_csv(file: str, kinds: Kinds) -> Any:
    options = pa_csv.ConvertOptions(
        column_types=kinds, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    return pa_csv.read_csv(file, parse_options=parse, convert_options=options).to_reader()


def _read_json(file: str, kinds: Kinds) -> Any:
    # Arrow adds columns of an explicit schema even if no row has them, so find the existing ones first.
    names = pa_json.read_json(file).column_names
    told = pa.schema([pa.field(n, kinds[n]) for n in names if n in kinds and _json_has(kinds[n])])
    return pa_json.read_json(file, parse_options=pa_json.ParseOptions(explicit_schema=told)).to_reader()


def _json_has(kind: pa.DataType) -> bool:
    """Return whether Arrow can be told to read a type from JSON. It infers the others."""
    if pa.types.is_nested(kind):
        return all(_json_has(kind.field(i).type) for i in range(kind.num_fields))
    without = (pa.types.is_date, pa.types.is_time, pa.types.is_fixed_size_binary)
    return not isinstance(kind, pa.BaseExtensionType) and not any(is_kind(kind) for is_kind in without)
