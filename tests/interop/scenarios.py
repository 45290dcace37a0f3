"""Tables that deletekit writes for others to read, each with the rows that must be live, worked out by hand.

Every scenario ends in a state that a sloppy writer gets wrong: a stale delete, a reused id, a lost row, a wrong scope.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import deletekit as dk

Rows = list[dict[str, Any]]
MODES = {
    2: ("copy-on-write", "equality-delete", "position-delete"),
    3: ("copy-on-write", "equality-delete", "deletion-vector"),
}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """`make` fills an empty namespace's table `name` and returns it with its live rows."""

    name: str
    make: Callable[[dk.Catalog, str], tuple[dk.Table, Rows]]
    version: int
    mode: str

    @property
    def has_equality_deletes(self) -> bool:
        return self.mode == "equality-delete"


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("category", pa.string()),
        ("value", pa.float64()),
        ("day", pa.date32()),
    ]
)


def rows(start: int, stop: int) -> Rows:
    """Rows with every third category NULL and three days."""
    import datetime as dt  # noqa: PLC0415

    return [
        {"id": i, "category": None if i % 3 == 0 else f"c{i % 4}", "value": i / 2, "day": dt.date(2024, 1, 1 + i % 3)}
        for i in range(start, stop)
    ]


def _table(catalog: dk.Catalog, name: str, version: int, partition_by: tuple[str, ...] = ()) -> dk.Table:
    table = dk.create_table(catalog, name, SCHEMA, format_version=version, partition_by=partition_by)
    dk.append(table, rows(0, 12))
    dk.append(table, rows(12, 24))
    return table


def deletes(catalog: dk.Catalog, name: str, version: int, mode: str, partition_by: tuple[str, ...] = ()) -> Any:
    """Two deletes on the same files, one that empties a file, one of NULLs."""
    table = _table(catalog, name, version, partition_by)
    dk.delete(table, "id in (1, 3, 13)", mode=mode)
    dk.delete(table, "id = 2", mode=mode)
    dk.delete(table, "category is null", mode=mode)
    dk.append(table, rows(24, 30))
    dk.delete(table, "id >= 24 and id < 30 and value >= 0", mode="copy-on-write")
    live = [r for r in rows(0, 24) if r["id"] not in (1, 2, 3, 13) and r["category"] is not None]
    return table, live


def updates(catalog: dk.Catalog, name: str, version: int, mode: str, partition_by: tuple[str, ...] = ()) -> Any:
    """An update, an update of the updated row, a merge that updates and inserts, and a key deleted and put back."""
    table = _table(catalog, name, version, partition_by)
    dk.update(table, {"value": 100.0}, where="id = 4", mode=mode)
    dk.update(table, {"value": 200.0}, where="id = 4", mode=mode)
    dk.merge(table, [{"id": 5, "value": -1.0}, {"id": 99, "value": -2.0}], on=["id"], mode=mode)
    dk.delete(table, "id = 7", mode=mode)
    dk.append(table, [{"id": 7, "category": "again", "value": 0.0, "day": None}])
    live = {r["id"]: r for r in rows(0, 24)}
    live[4]["value"] = 200.0
    live[5]["value"] = -1.0
    live[99] = {"id": 99, "category": None, "value": -2.0, "day": None}
    live[7] = {"id": 7, "category": "again", "value": 0.0, "day": None}
    return table, list(live.values())


def evolved(catalog: dk.Catalog, name: str, version: int, mode: str, partition_by: tuple[str, ...] = ()) -> Any:
    """Deletes before and after a rename, a promotion, a new partition field and a dropped and re-added column."""
    del partition_by
    schema = pa.schema([pa.field("k", pa.int32()), ("old", pa.string()), ("part", pa.int32())])
    table = dk.create_table(catalog, name, schema, format_version=version, partition_by=["part"])
    dk.append(table, [{"k": i, "old": f"o{i}", "part": i % 2} for i in range(6)])
    dk.delete(table, "k = 1 and part = 1", mode=mode)
    dk.update_column(table, "k", type="long")
    dk.rename_column(table, "k", "key")
    dk.drop_column(table, "old")
    dk.add_column(table, "old", "string")
    dk.add_partition_field(table, "bucket(4, key)")
    dk.append(table, [{"key": 2**40, "old": "new", "part": 0}, {"key": 1, "old": "new", "part": 1}])
    dk.delete(table, "key = 2 and part = 0", mode=mode)
    dk.drop_partition_field(table, "part")
    dk.append(table, [{"key": 7, "old": None, "part": 1}])
    dk.delete(table, "key in (3, 7)", mode=mode)
    live = [{"key": k, "part": k % 2, "old": None} for k in (0, 4, 5)]
    live += [{"key": 2**40, "part": 0, "old": "new"}, {"key": 1, "part": 1, "old": "new"}]
    return table, live


def keyed(catalog: dk.Catalog, name: str, version: int, mode: str, partition_by: tuple[str, ...] = ()) -> Any:
    """Equality keys nobody looked up: several columns, NULLs, a nested field, in one partition and in all."""
    del mode, partition_by
    person = pa.struct([("name", pa.string()), ("zip", pa.int32())])
    schema = pa.schema([("id", pa.int32()), ("category", pa.string()), ("person", person), ("part", pa.string())])
    table = dk.create_table(catalog, name, schema, format_version=version, partition_by=["part"])
    people = [{"name": "Ann", "zip": 1}, {"name": "Bob", "zip": None}, None]
    all_rows = [
        {"id": i, "category": None if i % 2 else "x", "person": people[i % 3], "part": "ab"[i % 2]} for i in range(12)
    ]
    dk.append(table, all_rows)
    dk.delete_keys(table, [{"id": 3, "category": None}, {"id": 4, "category": None}, {"id": 6, "category": "x"}])
    dk.delete_keys(table, [{"id": 8, "part": "a"}, {"id": 9, "part": "a"}], scope="partition")
    dk.delete_keys(table, pa.table({"person.zip": pa.array([1], pa.int32()), "id": pa.array([0], pa.int32())}))
    dk.append(table, all_rows[3:4])
    gone = {3, 6, 8, 0}
    return table, [r for r in all_rows if r["id"] not in gone] + [all_rows[3]]


def upgraded(catalog: dk.Catalog, name: str, version: int, mode: str, partition_by: tuple[str, ...] = ()) -> Any:
    """Position deletes and equality deletes of v2, then v3: vectors take the position deletes in."""
    del version, mode, partition_by
    table = _table(catalog, name, 2)
    dk.delete(table, "id in (1, 13)", mode="position-delete", granularity="partition")
    dk.delete(table, "id in (2, 14)", mode="position-delete", granularity="file")
    dk.delete(table, "id = 3", mode="equality-delete")
    dk.upgrade_format_version(table, 3)
    dk.delete(table, "id = 4", mode="deletion-vector")
    dk.update(table, {"value": 7.5}, where="id = 15", mode="deletion-vector")
    live = [r for r in rows(0, 24) if r["id"] not in (1, 2, 3, 4, 13, 14)]
    return table, [{**r, "value": 7.5} if r["id"] == 15 else r for r in live]


def _all() -> Iterator[Scenario]:
    partitionings = {"flat": (), "parted": ("day", "bucket(2, id)")}
    for version, modes in MODES.items():
        for mode in modes:
            for shape, partition_by in partitionings.items():
                for recipe in (deletes, updates):
                    yield _scenario(f"{recipe.__name__}_{shape}", recipe, version, mode, partition_by)
            yield _scenario("evolved", evolved, version, mode)
        yield _scenario("keyed", keyed, version, "equality-delete")
    yield _scenario("upgraded", upgraded, 3, "equality-delete")


def _scenario(name: str, recipe: Any, version: int, mode: str, partition_by: tuple[str, ...] = ()) -> Scenario:
    def make(catalog: dk.Catalog, table: str) -> tuple[dk.Table, Rows]:
        made: tuple[dk.Table, Rows] = recipe(catalog, table, version, mode, partition_by)
        return made

    return Scenario(f"{name}_v{version}_{mode.replace('-', '_')}", make, version, mode)


SCENARIOS = tuple(_all())
