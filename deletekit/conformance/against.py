"""Run engines on a table, and compare the rows that they read with the right ones."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deletekit.conformance.engines import Answer, EngineProcess, engine_of
from deletekit.conformance.rows import counted, rows_of
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
from deletekit.verbs.scan import scan

_SECONDS = 600.0
_MOST_ROWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The rows that an engine really reads from the table, compared with the right ones.

    Attributes
    ----------
    verdict: `right`, `refuses`, `crashes`, `WRONG`, or `unavailable` if it is not installed.
    words: what the engine said instead of rows, or how it read them.
    missing, extra: how many rows it lacks, and has too many.
    missing_rows, extra_rows: up to five of them.
    """

    engine: str
    verdict: str
    words: str | None = None
    missing: int = 0
    extra: int = 0
    missing_rows: tuple[object, ...] = ()
    extra_rows: tuple[object, ...] = ()


def compare(table: Table, engines: Iterable[str], *, ref: str = MAIN) -> tuple[Comparison, ...]:
    """Return what each engine reads from a ref of the table, compared with what deletekit reads.

    Parameters
    ----------
    engines: those of the conformance runner, by name or as `NAME=COMMAND`.

    Raises InvalidInputError for an engine that is not among them.
    """
    asked = [engine_of(name) for name in engines]
    if not asked:
        return ()
    read = scan(table, ref=ref)
    right = rows_of(read.to_arrow())
    request = {
        "metadata": re.sub(r"^file:(?://(?=/))?", "", table.metadata_location),
        "ref": ref,
        "snapshot_id": read.snapshot.snapshot_id if read.snapshot else -1,
        "columns": [{"name": f.name, "type": str(f.field_type)} for f in read.schema.fields],
    }
    found = []
    with TemporaryDirectory(prefix="deletekit-readers-", ignore_cleanup_errors=True) as folder:
        for engine in asked:
            with EngineProcess(engine, Path(folder), _SECONDS) as process:
                found.append(_compared(engine.name, process.ask(request), right))
    return tuple(found)


def _compared(engine: str, answer: Answer, right: Any) -> Comparison:
    if answer.kind != "rows":
        return Comparison(engine=engine, verdict=answer.kind, words=answer.words)
    rows, expected = counted(answer.rows), counted(right)
    missing, extra = expected - rows, rows - expected
    return Comparison(
        engine=engine,
        verdict="WRONG" if missing or extra else "right",
        words=answer.words or None,
        missing=missing.total(),
        extra=extra.total(),
        missing_rows=_some(right, missing),
        extra_rows=_some(answer.rows, extra),
    )


def _some(rows: Iterable[Any], those: Counter[Any]) -> tuple[object, ...]:
    """Return the first few of some rows, as the engine or deletekit gave them."""
    return tuple(row for row in rows if counted([row]).keys() <= those.keys())[:_MOST_ROWS]
