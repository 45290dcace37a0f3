"""Write rows to a file as they come: Parquet, CSV, JSON lines or Arrow. The file appears when it is whole."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
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
_WRITERS: dict[str, Callable[[str, pa.Schema], Any]] = {
    "parquet": partial(pq.ParquetWriter, compression="zstd"),
    "csv": pa_csv.CSVWriter,
    "arrow": pa.ipc.new_file,
}


def json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yield each row as a JSON object, as `json_ready` has it."""
    for batch in batches:
        parts = (batch.slice(start, _LINES) for start in range(0, len(batch), _LINES))
        for row in chain.from_iterable(map(python_rows, parts)):
            yield json.dumps(json_ready(row), allow_nan=False)


class Counted:
    """Batches, and how many rows were taken of them."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            yield batch
            self.rows += len(batch)


def write_rows(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    target: Path,
    kind: str | None,
    *,
    overwrite: bool,
    lines: Callable[[Iterable[pa.RecordBatch]], Iterator[str]] = json_lines,
) -> int:
    """Write batches to a file, and return how many rows they have.

    Parameters
    ----------
    kind: parquet, csv or arrow; any other name writes lines. None is by the suffix.
    lines: makes lines of batches.

    Raises InvalidInputError for a file that exists, unless it may be replaced, or an unknown suffix; UnsupportedError
    for a column that the format cannot hold; StorageError.
    """
    kind = kind or kind_of(target, _SUFFIXES)
    if kind == "csv":
        _check_flat(schema)
    counted = Counted(batches)
    with whole_file(target, overwrite=overwrite) as part:
        if kind not in _WRITERS:
            with part.open("w", encoding="ascii") as file:
                file.writelines(f"{line}\n" for line in lines(counted))
            return counted.rows
        with _WRITERS[kind](str(part), schema) as writer:
            for batch in counted:
                if kind == "csv":  # Arrow's own text of such a day is none that is read again
                    check_calendar(batch, "CSV", "json, parquet or arrow; or leave it out by --column")
                writer.write_batch(batch)
    return counted.rows


def kind_of(target: Path, suffixes: Mapping[str, str]) -> str:
    """Return the format that a file's name tells. Raise InvalidInputError for a name that tells none."""
    kind = suffixes.get(target.suffix.lower())
    if kind is None:
        expected = f"{', '.join(suffixes)}, or --format"
        raise InvalidInputError("the name does not tell the format", "file-format", file=str(target), expected=expected)
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


def _check_flat(schema: pa.Schema) -> None:
    """Raise UnsupportedError for a column that CSV has no text for."""
    types = pa.types
    without = (types.is_nested, types.is_binary, types.is_fixed_size_binary, types.is_large_binary)
    for field in schema:
        if isinstance(field.type, pa.BaseExtensionType) or any(is_kind(field.type) for is_kind in without):
            raise UnsupportedError(
                "CSV cannot hold this column",
                "column-type",
                field.name,
                str(field.type),
                "json, parquet or arrow; or leave it out by --column",
            )
