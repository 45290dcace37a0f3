"""Write rows to a file as they come: Parquet, CSV, JSON lines or Arrow. The file appears when it is whole."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from deletekit.cli.options import check_new
from deletekit.errors import DeletekitError, InvalidInputError, UnsupportedError, storage_error
from deletekit.table.python_values import check_calendar, python_rows
from deletekit.text import json_ready

_LINES = 10_000
"""So many rows are Python's values at once."""
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
    kind = kind or kind_of(target, _SUFFIXES)
    if kind == "csv":
        _check_flat(schema)
    rows = 0
    with whole_file(target, overwrite=overwrite) as part, _WRITERS[kind](str(part), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += len(batch)
    return rows


def kind_of(target: Path, suffixes: Mapping[str, str]) -> str:
    """Return the format that a file's name tells. Raise InvalidInputError for a name that tells none."""
    kind = suffixes.get(target.suffix.lower())
    if kind is None:
        expected = f"{', '.join(suffixes)}, or --format"
        raise InvalidInputError(
            "the name does not tell the format", kind="file-format", file=str(target), expected=expected
        )
    return kind


@contextmanager
def whole_file(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a path to write to. What is there in the end becomes `target`; after an error, nothing is left of it.

    Raises InvalidInputError for a file that exists, unless it may be replaced; StorageError.
    """
    check_new(target, overwrite=overwrite)
    part = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
    try:
        yield part
        part.replace(target)
    except DeletekitError:  # of reading the table
        raise
    except OSError as e:
        raise storage_error(e, str(target)) from e
    finally:
        with suppress(OSError):
            part.unlink()


def json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yield each row as a JSON object, as `json_ready` has it."""
    for batch in batches:
        parts = (batch.slice(start, _LINES) for start in range(0, len(batch), _LINES))
        for row in chain.from_iterable(map(python_rows, parts)):
            yield json.dumps(json_ready(row), allow_nan=False)


class _JsonLines:
    """Writes `json_lines`."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._file.writelines(f"{line}\n" for line in json_lines([batch]))


@contextmanager
def _json_lines(path: str, _: pa.Schema) -> Any:
    with Path(path).open("w", encoding="utf-8") as file:
        yield _JsonLines(file)


class _Csv:
    """Writes CSV. Arrow's own text of a day or time that Python does not have is none that is read again."""

    def __init__(self, writer: pa_csv.CSVWriter) -> None:
        self._writer = writer

    def write_batch(self, batch: pa.RecordBatch) -> None:
        check_calendar(batch, "CSV", "json, parquet or arrow; or leave it out by --column")
        self._writer.write_batch(batch)


@contextmanager
def _csv(path: str, schema: pa.Schema) -> Any:
    with pa_csv.CSVWriter(path, schema) as writer:
        yield _Csv(writer)


_WRITERS: dict[str, Callable[[str, pa.Schema], AbstractContextManager[Any]]] = {
    "parquet": lambda path, schema: pq.ParquetWriter(path, schema, compression="zstd"),
    "csv": _csv,
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
