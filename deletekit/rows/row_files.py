"""Read files of rows: Parquet, Arrow, CSV with a header, JSON lines. A value gets the type of the table's column."""

import csv
import re
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.json as pa_json
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.rows.projection import is_a
from deletekit.table.types import arrow_type
from deletekit.text import plain

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
        found = "no such file" if isinstance(e, FileNotFoundError) else str(e)
        raise InvalidInputError("rows cannot be read", kind="rows", file=file, found=found) from e


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
    try:
        rows = pa_csv.read_csv(file, parse_options=parse, convert_options=options)
        if rows.num_columns == 1:  # an empty line is a null, as Arrow writes it, which Arrow by itself passes over
            parse.ignore_empty_lines = False
            rows = pa_csv.read_csv(file, parse_options=parse, convert_options=options)
        names = rows.column_names
    except (pa.ArrowInvalid, UnicodeDecodeError) as e:  # the second where Arrow's words would quote what is no UTF-8
        raise pa.ArrowInvalid(_place_in_csv(file, e)) from e
    return _typed(file, rows, {name: kinds[name] for name in uuids if name in names})


def _place_in_csv(file: str, error: Exception) -> str:
    """Return an error of Arrow with the line and the column's name; Arrow has the number of the column at most."""
    found = re.search(r"In CSV column #(\d+): (.*)", str(error), re.DOTALL)
    if found is None and not isinstance(error, UnicodeDecodeError):
        return str(error)
    number, words = (int(found[1]), found[2]) if found else (None, "invalid UTF8 data")
    value = re.search("'(.*)'", words, re.DOTALL)
    with Path(file).open(encoding="utf-8", errors="replace", newline="") as source:
        lines = csv.reader(source)
        head = next(lines)
        for row in chain([head], lines):
            for at in range(len(row[: len(head)])) if number is None else [number]:
                if row[at : at + 1] == [value[1]] if value else "\ufffd" in "".join(row[at : at + 1]):
                    return f"line {lines.line_num}, column {plain(head[at])}: {words}"
    return f"column {plain(head[number or 0])}: {words}"


def _read_json(file: str, kinds: Kinds) -> Any:
    # Arrow adds columns of an explicit schema even if no row has them, so find the existing ones first.
    known = {n: kinds[n] for n in pa_json.read_json(file).column_names if n in kinds}
    stored = pa.schema({n: _in_json(kind) for n, kind in known.items()})
    rows = pa_json.read_json(file, parse_options=pa_json.ParseOptions(explicit_schema=stored))
    return _typed(file, rows, known)


def _in_json(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow reads from JSON for a type, at any depth.

    Arrow takes text for bytes, passes over time zones, has no map, and makes infinity of a text that is too large for a
    float.
    """
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([(f.name, _in_json(f.type)) for f in kind])
    if types.is_map(kind):
        return pa.list_(pa.struct([("key", _in_json(kind.key_type)), ("value", _in_json(kind.item_type))]))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_in_json(kind.value_type))
    if isinstance(kind, pa.UuidType) or is_a(kind, *_TEXTS):
        return pa.string()
    return pa.float64() if kind == pa.float32() else kind


_TEXTS = ("timestamp", "time", "date", "binary", "fixed_size_binary")


def _typed(file: str, rows: pa.Table, kinds: Kinds) -> Any:
    """Return rows with the texts in columns of these types read. Raises InvalidInputError, naming the column."""
    for name, kind in kinds.items():
        chunks = [_of_stored(file, chunk, kind, name) for chunk in rows[name].chunks]
        if chunks:
            rows = rows.set_column(rows.column_names.index(name), name, pa.chunked_array(chunks))
    return rows.to_reader()


def _of_stored(file: str, array: Any, kind: pa.DataType, path: str) -> Any:
    """Return an array of `_in_json` of a type with its texts read; what the type does not name stays."""
    types, found = pa.types, array.type
    if types.is_struct(kind) and types.is_struct(found):
        named = {f.name: f.type for f in kind}
        parts = [
            _of_stored(file, part, named[f.name], f"{path}.{f.name}") if f.name in named else part
            for f, part in zip(found, (array.field(i) for i in range(found.num_fields)), strict=True)
        ]
        return pa.StructArray.from_arrays(parts, [f.name for f in found], mask=array.is_null())
    if types.is_nested(kind) and types.is_list(found):
        inner = (
            pa.struct([("key", kind.key_type), ("value", kind.item_type)]) if types.is_map(kind) else kind.value_type
        )
        made = _of_stored(file, array.values, inner, f"{path}.{'entries' if types.is_map(kind) else 'element'}")
        return pa.ListArray.from_arrays(array.offsets, made, mask=array.is_null())
    if not types.is_string(found) or types.is_string(kind):
        return array
    try:
        return _of_text(array, kind)
    except (pa.ArrowException, pl.exceptions.ComputeError) as e:
        expected = "base64" if is_a(kind, "binary", "fixed_size_binary") else str(kind)
        message, found = "rows cannot be read", str(e).partition("\n")[0]
        raise InvalidInputError(message, kind="rows", file=file, field=path, found=found, expected=expected) from e


def _of_text(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_time(kind):  # Arrow casts no text to a time
        return pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("us")).cast(kind)
    if not isinstance(kind, pa.UuidType) and not is_a(kind, "binary", "fixed_size_binary"):
        return texts.cast(kind)  # text with a zone is refused for a type without, and the other way round
    values: Any = pl.Series("", texts)
    if isinstance(kind, pa.UuidType):
        wrong = values.filter(~values.str.contains(_UUID))
        if len(wrong):
            raise pa.ArrowInvalid(f"{wrong[0]!r} is not a UUID")
        decoded = values.str.replace_all("-", "", literal=True).str.decode("hex").to_arrow()
        return pa.ExtensionArray.from_storage(kind, decoded.cast(pa.binary()).cast(pa.binary(16)))
    return values.str.decode("base64", strict=True).to_arrow().cast(pa.binary()).cast(kind)
