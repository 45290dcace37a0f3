"""Read files of rows: Parquet, Arrow, CSV with a header, JSON lines. A value gets the type of the table's column."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.json as pa_json
from pyiceberg.schema import Schema

from deletekit.deletes.projection import is_a
from deletekit.errors import InvalidInputError
from deletekit.table.types import arrow_type

Kinds = dict[str, pa.DataType]

_UUID = "^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$"


def open_rows(file: str, schema: Schema, more: Mapping[str, pa.DataType] | None = None) -> pa.RecordBatchReader:
    """Return a reader of a file's rows; the file's suffix tells its format.

    In CSV a column of the table is read as its type, so `007` is text if the column is. Nothing between two commas is
    null, as is an empty line of a file of one column, and `""` is the empty text. In JSON bytes are base64.

    Parameters
    ----------
    more: types of further columns, or of others than the table's.

    Raises InvalidInputError for another format, and for values that cannot be read as the table's types.
    """
    kinds = {f.name: arrow_type(f.field_type) for f in schema.fields} | dict(more or {})
    # Of a text that is too large for a float, Arrow makes infinity; `align` refuses a double that is.
    kinds = {name: pa.float64() if kind == pa.float32() else kind for name, kind in kinds.items()}
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
    """Read a file. A folder `column=value` gives a column of the table that the file lacks, and overrules none."""
    found = pa_dataset.dataset(file, format=form)
    folders = dict.fromkeys(part.partition("=")[0] for part in Path(file).parts[:-1] if "=" in part)
    lacking = [(name, kinds[name]) for name in folders if name in kinds and name not in found.schema.names]
    if lacking:
        folder_columns = pa_dataset.partitioning(pa.schema(lacking), flavor="hive")
        found = pa_dataset.dataset(file, format=form, partitioning=folder_columns)
    return found.scanner().to_reader()


def _read_csv(file: str, kinds: Kinds) -> Any:
    uuids = [name for name, kind in kinds.items() if isinstance(kind, pa.UuidType)]  # Arrow reads none of text
    options = pa_csv.ConvertOptions(
        column_types=kinds | dict.fromkeys(uuids, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    rows = pa_csv.read_csv(file, parse_options=parse, convert_options=options)
    if rows.num_columns == 1:  # an empty line is a null, as Arrow writes it, which Arrow by itself passes over
        parse.ignore_empty_lines = False
        rows = pa_csv.read_csv(file, parse_options=parse, convert_options=options)
    return _with_texts_read(file, rows, {name: kinds[name] for name in uuids if name in rows.column_names})


def _read_json(file: str, kinds: Kinds) -> Any:
    # Arrow adds columns of an explicit schema even if no row has them, so find the existing ones first.
    names = pa_json.read_json(file).column_names
    texts = {n: kinds[n] for n in names if n in kinds and _is_text_in_json(kinds[n])}
    told = {n: kinds[n] for n in names if n in kinds and _json_has(kinds[n])} | dict.fromkeys(texts, pa.string())
    rows = pa_json.read_json(file, parse_options=pa_json.ParseOptions(explicit_schema=pa.schema(told)))
    return _with_texts_read(file, rows, texts)


def _is_text_in_json(kind: pa.DataType) -> bool:
    """Return whether values are read as text first: Arrow's JSON takes text for bytes, and passes over time zones."""
    return isinstance(kind, pa.UuidType) or is_a(kind, "timestamp", "time", "binary", "fixed_size_binary")


def _with_texts_read(file: str, rows: pa.Table, kinds: Kinds) -> Any:
    """Return rows with the columns of these types made of their text. Raises InvalidInputError, naming the column."""
    for name, kind in kinds.items():
        try:
            made = _of_text(rows[name], kind)
        except (pa.ArrowException, pl.exceptions.ComputeError) as e:
            expected = "base64" if is_a(kind, "binary", "fixed_size_binary") else str(kind)
            message, found = "rows cannot be read", str(e).partition("\n")[0]
            raise InvalidInputError(message, kind="rows", file=file, field=name, found=found, expected=expected) from e
        rows = rows.set_column(rows.column_names.index(name), name, made)
    return rows.to_reader()


def _of_text(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_time(kind):  # Arrow casts no text to a time
        return pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("us")).cast(kind)
    if pa.types.is_timestamp(kind):
        return texts.cast(kind)  # text with a zone is refused for a type without, and the other way round
    values: Any = pl.Series("", texts)
    if isinstance(kind, pa.UuidType):
        wrong = values.filter(~values.str.contains(_UUID))
        if len(wrong):
            raise pa.ArrowInvalid(f"{wrong[0]!r} is no UUID")
        decoded, kind = values.str.replace_all("-", "", literal=True).str.decode("hex"), pa.binary(16)
    else:
        decoded, kind = values.str.decode("base64", strict=True), pa.binary()
    return pa.chunked_array([decoded.to_arrow().cast(pa.binary()).cast(kind)])


def _json_has(kind: pa.DataType) -> bool:
    """Return whether Arrow can be told to read a type from JSON. It infers the others."""
    if pa.types.is_nested(kind):
        return all(_json_has(kind.field(i).type) for i in range(kind.num_fields))
    without = (pa.types.is_date, pa.types.is_time, pa.types.is_fixed_size_binary)
    return not isinstance(kind, pa.BaseExtensionType) and not any(is_kind(kind) for is_kind in without)
