"""Answer the runner's requests: a line of JSON on standard input for each, a line of JSON on standard output back.

An adapter gives a function that opens its engine, and what that returns reads a table as Arrow.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deletekit.conformance.rows import rows_of

# What an engine's code raises when it is wrong about itself. By any other error the engine says that it refuses.
_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError)
_BUG_NAMES = {"InternalException"}  # DuckDB's
# Engines give the same values in several of Arrow's types; rows are compared, not types.
_ARROW = {
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "string": pa.string(),
    "binary": pa.binary(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}


class RefusedError(Exception):
    """The engine has no way to read what is asked; or these are its words, without the library that gave them."""


class BugError(Exception):
    """The engine failed by its own bug, which only its words show."""


@dataclass(frozen=True)
class Request:
    """What an engine is asked to read.

    Attributes
    ----------
    metadata: the path of the metadata file.
    ref, snapshot_id: a branch or tag, and the snapshot that it points to.
    columns: name and Iceberg type of each column, in the order of the answer.
    """

    metadata: str
    ref: str
    snapshot_id: int
    columns: list[dict[str, str]]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column["name"] for column in self.columns]

    @property
    def is_main(self) -> bool:
        return self.ref == "main"

    @property
    def folder(self) -> str:
        """The table's folder."""
        return self.metadata.rsplit("/metadata/", 1)[0]

    def sql_columns(self, quote: str = '"') -> str:
        """Return the columns as SQL names them."""
        return ", ".join(quote + name.replace(quote, quote * 2) + quote for name in self.names)


Read = Callable[[Request], "pa.Table | tuple[pa.Table, str]"]


def serve(open_engine: Callable[[], tuple[str, Read]]) -> None:
    """Answer each line of standard input until it ends.

    Parameters
    ----------
    open_engine: returns the engine's version, and what reads a table. With the rows that may give a note.

    After an error that is the engine's own bug the program ends: the next request gets a fresh one.
    """
    # Engines print logs and progress on standard output: from here on that goes where errors go.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        version, read = "", None
        for line in sys.stdin:
            try:
                if read is None:
                    version, read = open_engine()
                said = _answer(read, Request(**json.loads(line)))
            except ImportError as e:
                said = {"unavailable": f"not installed: {e}"}
            except BaseException as e:  # noqa: BLE001  # a panic of Rust is not an Exception
                said = {_kind(e): _words(e)}
            answers.write(json.dumps({"version": version, **said}) + "\n")
            answers.flush()
            if "crashes" in said:
                return


def _answer(read: Read, request: Request) -> dict[str, Any]:
    found = read(request)
    table, note = found if isinstance(found, tuple) else (found, None)
    types = {column["name"]: _ARROW.get(column["type"]) for column in request.columns}
    columns = [_as_type(table.column(name), wanted) for name, wanted in types.items()]
    return {"rows": rows_of(pa.table(columns, names=list(types))), "words": note}


def _as_type(column: pa.ChunkedArray, wanted: pa.DataType | None) -> pa.ChunkedArray:
    """Return a column in the unit and the encoding of its Iceberg type, if it has the same values there."""
    try:
        return column if wanted is None else column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column


def _kind(error: BaseException) -> str:
    is_bug = (
        isinstance(error, (*_BUGS, BugError)) or not isinstance(error, Exception) or type(error).__name__ in _BUG_NAMES
    )
    return "crashes" if is_bug else "refuses"


def _words(error: BaseException) -> str:
    line = str(error).strip().partition("\n")[0]  # what follows are plans, stacks and carets
    return line if isinstance(error, RefusedError | BugError) else f"{type(error).__name__}: {line}"
