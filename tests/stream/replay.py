"""A stream of changes, and the dict that says what a table must hold after it."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

import deletekit as dk
from tests.interop.rows import same_rows
from tests.tables import make

Row = dict[str, Any]
State = dict[Any, Row]

PEOPLE = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("score", pa.float64())])
PUTS = {"INSERT", "UPDATE_AFTER", "+I", "+U"}


def people(catalog: dk.Catalog, **options: Any) -> dk.Table:
    """Make a table of people."""
    return make(catalog, schema=PEOPLE, **{"format_version": 3, **options})


def opened(table: dk.Table, sink_id: str = "people", **options: Any) -> dk.stream.Sink:
    """Open a sink whose key is `id`."""
    return dk.stream.sink(table, sink_id, **{"on": ["id"], **options})


def put(key: Any, name: str | None = "x") -> Row:
    """Return the change that inserts a person."""
    return {"id": key, "name": name, "score": 0.0, "_change_type": "INSERT"}


def replay(
    batches: Sequence[Sequence[Row]], key: Sequence[str] = ("id",), start: Mapping[Any, Row] | None = None
) -> State:
    """Apply change rows to a dict, one after another."""
    state = dict(start or {})
    for batch in batches:
        for row in batch:
            values = {n: v for n, v in row.items() if not n.startswith("_")}
            at = tuple(values[n] for n in key)
            if row["_change_type"] in PUTS:
                state[at] = values
            else:
                state.pop(at, None)
    return state


def random_batches(seed: int, batches: int, rows: int, keys: int) -> Iterator[list[Row]]:
    """Changes of all types, with several of one key in a batch, and keys that move."""
    random_ = random.Random(seed)
    state: State = {}
    for _ in range(batches):
        batch: list[Row] = []
        for _ in range(rows):
            number = random_.choice([*range(keys), None]) if seed % 2 else random_.randrange(keys)
            row = {"id": number, "name": random_.choice(["a", "b", None, "ü"]), "score": random_.random()}
            kind = random_.choice(["INSERT", "INSERT", "UPDATE_AFTER", "DELETE", "update"])
            if kind == "update":  # of the whole row, the key too
                old = random_.choice(list(state.values())) if state else row
                new = [{**old, "_change_type": "UPDATE_BEFORE"}, {**row, "_change_type": "UPDATE_AFTER"}]
            elif kind == "DELETE":
                new = [{"id": number, "name": None, "score": None, "_change_type": "DELETE"}]
            else:
                new = [{**row, "_change_type": kind}]
            batch += new
            state = replay([new], start=state)
        yield batch


def check(table: dk.Table, state: State, ref: str = "main", *, known: Collection[str] = ()) -> None:
    """Hold that a branch has the rows of the dict, and that nothing is wrong with the table but `known` findings."""
    same_rows(dk.scan(table.refresh(), ref=ref).to_arrow().to_pylist(), state.values())
    # Deletes of keys that nobody looked for, and position delete files of several data files, all of which are gone.
    blind = {"dangling-equality-delete", "dangling-position-delete", *known}
    found = [f for f in dk.verify(table).findings if f.kind not in blind]
    assert not found, found
