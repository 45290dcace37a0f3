"""Write rows to a file as they come: Parquet, CSV, JSON lines or Arrow. The file appears when it is whole."""

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from deletekit.errors import DeletekitError, InvalidInputError, UnsupportedError, storage_error
from deletekit.safe_text import json_ready

_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".arrow": "arrow"}


def write_rows(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], target: Path, kind: str | None, *, overwrite: bool
) -> int:
    """Write batches to a file, and return how many rows they have.

    Parameters
    ----------
    kind: parquet, csv, json or arrow; None is by the suffix.

    Raises InvalidInputError for a file that exists, unless it may be replaced, or an unknown suffix; UnsupportedError
    for a column that the format cannot hold; StorageError.
    """
    if target.exists() and not overwrite:
        expected = "another name, or --overwrite"
        raise InvalidInputError("file exists already", kind="output-exists", file=str(target), expected=expected)
    kind = kind or _SUFFIXES.get(target.suffix.lower())
    if kind is None:
        expected = f"{', '.join(_SUFFIXES)}, or --format"
        raise InvalidInputError(
            "the name does not tell the format", kind="file-format", file=str(target), expected=expected
        )
    if kind == "csv":
        _check_flat(schema)
    part, rows = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part"), 0
    try:
        with _WRITERS[kind](str(part), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += len(batch)
        part.replace(target)
    except DeletekitError:  # of reading the table
        raise
    except OSError as e:
        raise storage_error(e, str(target)) from e
    finally:
        with suppress(OSError):
            part.unlink()
    return rows


def python_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as Python's values. Days and times become text in a column with one that Python does not have.

    These are years before 1 and after 9999 and, without pandas, nanoseconds. Raises UnsupportedError if they are inside
    another value.
    """
    columns = [_python_values(name, rows.column(i)) for i, name in enumerate(rows.schema.names)]
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _python_values(name: str, column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as e:
        if not pa.types.is_temporal(column.type):
            message, expected = "Python has no such day or time", "parquet or arrow; or leave it out by --column"
            raise UnsupportedError(message, kind="column-type", field=name, found=str(e), expected=expected) from e
        values = pc.replace_substring(column.cast(pa.string()), " ", "T").to_pylist()
    return values


class _JsonLines:
    """Writes each row as one JSON object, as `json_ready` has it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for row in python_rows(batch):
            self._file.write(json.dumps(json_ready(row), allow_nan=False) + "\n")


@contextmanager
def _json_lines(path: str, _: pa.Schema) -> Any:
    with Path(path).open("w", encoding="utf-8") as file:
        yield _JsonLines(file)


_WRITERS: dict[str, Callable[[str, pa.Schema], AbstractContextManager[Any]]] = {
    "parquet": lambda path, schema: pq.ParquetWriter(path, schema, compression="zstd"),
    "csv": pa_csv.CSVWriter,
    "json": _json_lines,
    "arrow": pa.ipc.new_file,
}


def _check_flat(schema: pa.Schema) -> None:
    """Raise UnsupportedError for a column that CSV has no text for."""
    types = pa.types
    without = (types.is_nested, types.is_binary, types.is_fixed_size_binary, types.is_large_binary)
    for field in schema:
        if isinstance(field.type, pa.BaseExtensionType) or any(is_kind(field.type) for is_kind in without):
            raise UnsupportedError(
                "CSV cannot hold this column",
                kind="column-type",
                field=field.name,
                found=str(field.type),
                expected="json, parquet or arrow; or leave it out by --column",
            )
