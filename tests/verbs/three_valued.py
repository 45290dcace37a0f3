"""Rows with NULLs, filters over them, and what SQLite says the filters choose."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa

from tests.tables import Row

LOGIC = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("a", pa.int32()),
        pa.field("b", pa.int64()),
        pa.field("s", pa.string()),
    ]
)
ROWS: list[Row] = [
    {"id": i, "a": a, "b": b, "s": s}
    for i, (a, b, s) in enumerate(
        (a, b, s) for a in (None, 1, 2, 3) for b in (None, 10, 20) for s in (None, "", "x", "xy")
    )
]

FILTERS = [
    "a = 1",
    "a != 1",
    "not (a = 1)",
    "not (a != 1)",
    "a in (1, 3)",
    "a not in (1, 3)",
    "not (a in (1, 3))",
    "not (a not in (1, 2))",
    "a is null",
    "a is not null",
    "not (a is null)",
    "a < 2",
    "not (a < 2)",
    "a >= 2 and b = 10",
    "not (a >= 2 and b = 10)",
    "a = 1 or b = 10",
    "not (a = 1 or b = 10)",
    "a != 1 and b != 10",
    "a != 1 or b != 10",
    "not (a != 1 or b is null)",
    "a = 1 or a is null",
    "not (a = 1) or b is null",
    "a in (2) and not (b in (10)) and s = 'x'",
    "s = ''",
    "s != 'x'",
    "s like 'x%'",
    "s not like 'x%'",
    "not (s like 'x%')",
    "s >= 'x' and s < 'xy'",
    "(a = 1 or a = 2) and (b is null or not (s = 'x'))",
    "not ((a = 1 or b = 20) and (s is null or a != 2))",
    "b > 10 and a = 99",
]


def sqlite_ids(rows: Sequence[Row], where: str) -> list[int]:
    """The ids that SQLite chooses."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA case_sensitive_like = ON")
        database.execute("CREATE TABLE rows (id INTEGER, a INTEGER, b INTEGER, s TEXT)")
        database.executemany("INSERT INTO rows VALUES (:id, :a, :b, :s)", rows)
        return [row[0] for row in database.execute(f"SELECT id FROM rows WHERE {where} ORDER BY id")]
