"""What a table should hold: rows as plain dicts, and the columns they are seen through.

A row maps the key of a column to a value, and a key never changes: renaming, adding and dropping columns touch no row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any

Values = dict[int, Any]
Row = dict[str, Any]
Test = Callable[[Values], bool]

UTC = dt.UTC
# No time in the second before 1970: ORC's Java writer moves it to the second after.
VALUES: Mapping[str, Sequence[Any]] = {
    "int": (0, 1, 2, 3, -7, 2**31 - 1),
    "long": (0, 1, 2, 3, -(2**40), 2**40),
    "string": ("", "a", "ab", "b", "é", "0"),
    "float": (0.0, 0.5, -2.5, float("nan"), float("inf")),
    "double": (0.0, -0.0, 1.5, -3.25, float("nan"), float("-inf")),
    "date": tuple(dt.date.fromisoformat(d) for d in ("1969-12-31", "2020-02-29", "2020-03-01", "2024-12-31")),
    "timestamptz": tuple(
        dt.datetime.fromisoformat(t).replace(tzinfo=UTC)
        for t in ("1969-12-31T23:59:58.999999", "2020-02-29T12:00:00", "2020-02-29T23:59:59.5", "2024-12-31T00:00:00")
    ),
    "decimal": (Decimal("0.00"), Decimal("1.50"), Decimal("-1.51"), Decimal("1234567.89")),
    "boolean": (True, False),
    "binary": (b"", b"\x00\xff", b"a"),
    "list": ([], ["a"], ["a", None, "b"]),
}
IDS = range(10)
_keys = count()


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column; `kind` is a key of `VALUES` or `struct`, and `size` the digits of a decimal."""

    name: str
    kind: str
    key: int = field(default_factory=lambda: next(_keys))
    default: Any = None
    size: int = 9
    fields: tuple[Column, ...] = ()

    @property
    def spark_type(self) -> str:
        """Spark's name of the type."""
        if self.kind == "struct":
            return f"struct<{', '.join(f'{f.name}: {f.spark_type}' for f in self.fields)}>"
        names = {
            "long": "bigint",
            "timestamptz": "timestamp",
            "list": "array<string>",
            "decimal": f"decimal({self.size},2)",
        }
        return names.get(self.kind, self.kind)

    @property
    def iceberg_type(self) -> str:
        """Iceberg's name of the type."""
        return f"decimal({self.size}, 2)" if self.kind == "decimal" else self.kind

    def shown(self, values: Mapping[int, Any]) -> Any:
        """The value of this column in a row, as a reader gives it."""
        value = values.get(self.key, self.default)
        if self.kind != "struct" or value is None:
            return value
        return {f.name: f.shown(value) for f in self.fields}


def start_columns() -> list[Column]:
    """The columns that each table begins with; `uid` says which row is which."""
    kinds = {
        "uid": "long",
        "id": "int",
        "num": "int",
        "cat": "string",
        "val": "double",
        "few": "float",
        "d": "date",
        "ts": "timestamptz",
        "dec": "decimal",
        "flag": "boolean",
        "bin": "binary",
        "tags": "list",
    }
    columns = [Column(name=name, kind=kind) for name, kind in kinds.items()]
    fields = (Column(name="a", kind="int"), Column(name="b", kind="string"))
    return [*columns, Column(name="st", kind="struct", fields=fields)]


def sql(column: Column, value: Any) -> str:
    """A value as Spark's SQL writes it."""
    if value is None:
        return f"CAST(NULL AS {column.spark_type})"
    if column.kind == "struct":
        return "named_struct(" + ", ".join(f"'{f.name}', {sql(f, f.shown(value))}" for f in column.fields) + ")"
    if column.kind == "list":
        items = ", ".join("NULL" if v is None else f"'{v}'" for v in value)
        return f"CAST(array({items}) AS array<string>)"
    if column.kind == "string":
        return f"'{value}'"
    if column.kind == "binary":
        return f"X'{value.hex()}'"
    if column.kind == "timestamptz":
        return f"TIMESTAMP '{value.isoformat()}'"
    if column.kind == "date":
        return f"DATE '{value}'"
    return f"CAST('{value}' AS {column.spark_type})"


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The same filter for Spark, for deletekit and for Python; a text is None where its engine is not to be asked."""

    spark: str | None
    ours: str | None
    test: Test


@dataclass
class Branch:
    """The rows of a branch, and the lineage of each that was seen last: (`_row_id`, last updated)."""

    rows: list[Values] = field(default_factory=list)
    lineage: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)


@dataclass
class Model:
    """Columns and branches of one table, and what its snapshots held."""

    columns: list[Column]
    null_structs: bool
    branches: dict[str, Branch] = field(default_factory=lambda: {"main": Branch()})
    tags: dict[str, int] = field(default_factory=dict)
    snapshots: dict[int, tuple[list[Values], list[Column]]] = field(default_factory=dict)
    uids: int = 0
    names: int = 0

    def named(self, name: str) -> Column:
        """The column that has this name today."""
        return next(c for c in self.columns if c.name == name)

    def of_kind(self, *kinds: str) -> list[Column]:
        """The columns of these kinds, without `uid`."""
        return [c for c in self.columns if c.kind in kinds and c.name != "uid"]

    def shown(self, rows: Sequence[Values], columns: Sequence[Column] | None = None) -> list[Row]:
        """Rows as a reader gives them."""
        return [{c.name: c.shown(row) for c in columns or self.columns} for row in rows]

    def uid(self, row: Values) -> int:
        """Which row it is."""
        return int(self.columns_uid.shown(row))

    @property
    def columns_uid(self) -> Column:
        """The column `uid`."""
        return self.named("uid")

    def new_name(self, prefix: str) -> str:
        """A name that no column, branch or tag has had."""
        self.names += 1
        return f"{prefix}{self.names}"

    def value(self, rng: Random, column: Column) -> Any:
        """A random value for a column."""
        if column.name == "id":
            return None if rng.random() < 0.1 else rng.choice(IDS)
        if column.kind == "struct":
            if self.null_structs and rng.random() < 0.2:
                return None
            return {f.key: self.value(rng, f) for f in column.fields}
        return None if rng.random() < 0.2 else rng.choice(VALUES[column.kind])

    def row(self, rng: Random) -> Values:
        """A random row with a new uid."""
        self.uids += 1
        return self.row_of(rng, self.uids)

    def row_of(self, rng: Random, uid: int) -> Values:
        """A random row with this uid."""
        return {c.key: uid if c.name == "uid" else self.value(rng, c) for c in self.columns}

    def change_column(self, path: str, **edits: Any) -> None:
        """Rename or promote a column; `parent.child` names a nested one."""
        parent, _, child = path.partition(".")
        column = self.named(parent)
        if child:
            fields = tuple(replace(f, **edits) if f.name == child else f for f in column.fields)
            edits = {"fields": fields}
        self.columns[self.columns.index(column)] = replace(column, **edits)

    def remember(self, snapshot_id: int, rows: Sequence[Values]) -> None:
        """Keep what a snapshot holds, with the columns of now."""
        self.snapshots.setdefault(snapshot_id, (deepcopy(list(rows)), list(self.columns)))

    def move(self, ref: str, snapshot_id: int) -> None:
        """A branch is at a snapshot that is known. Which row ids its rows had is not remembered."""
        self.branches[ref] = Branch(deepcopy(self.snapshots[snapshot_id][0]))

    def filter(self, rng: Random, branch: str = "main") -> Filter:
        """A random filter on the rows of a branch."""
        kinds = (_on_uid, _on_uid, _on_id, _on_value, _on_value, _on_null, _on_both, _on_struct, _on_order, _on_not)
        while True:
            found = rng.choice(kinds)(self, rng, self.branches[branch].rows)
            if found is not None:
                return found


def _some(rng: Random, rows: Sequence[Values], most: int = 3) -> list[Values]:
    return rng.sample(list(rows), min(len(rows), rng.randint(1, most)))


def _on_uid(model: Model, rng: Random, rows: Sequence[Values]) -> Filter:
    uids = {model.uid(row) for row in _some(rng, rows)} | {0}
    text = f"uid in ({', '.join(map(str, sorted(uids)))})"
    return Filter(spark=text, ours=text, test=lambda row: model.uid(row) in uids)


def _on_id(model: Model, rng: Random, rows: Sequence[Values]) -> Filter:
    low, column = rng.choice(IDS), model.named("id")
    sign, test = rng.choice([("=", int.__eq__), ("<", int.__lt__), (">=", int.__ge__)])
    if sign != "=" and rng.random() < 0.7:
        low = 1 if sign == "<" else 8  # not too many rows at once
    text = f"id {sign} {low}"
    return Filter(
        spark=_without_nulls(text, "id"),
        ours=text,
        test=lambda row: column.shown(row) is not None and test(column.shown(row), low),
    )


# Not floats: Java's order of -0.0 and NaN is not SQL's, and its metadata deletes go by Java's.
_COMPARED = ("int", "long", "string", "date", "timestamptz", "decimal", "boolean")


def _on_value(model: Model, rng: Random, rows: Sequence[Values]) -> Filter | None:
    columns = [c for c in model.of_kind(*_COMPARED) if c.name != "id"]
    if not columns:
        return None
    column = rng.choice(columns)
    value = rng.choice(VALUES[column.kind])
    return Filter(
        spark=_without_nulls(f"{column.name} = {sql(column, value)}", column.name),
        ours=f"{column.name} = {_ours(column, value)}",
        test=lambda row: column.shown(row) == value,
    )


def _on_null(model: Model, rng: Random, rows: Sequence[Values]) -> Filter:
    column = rng.choice([c for c in model.columns if c.name != "uid"])
    if column.kind in ("float", "double") and rng.random() < 0.7:
        return Filter(
            spark=f"isnan({column.name})",
            ours=f"{column.name} is nan",
            test=lambda row: column.shown(row) is not None and column.shown(row) != column.shown(row),
        )
    text = f"{column.name} is null"
    ours = None if column.kind in ("list", "struct") else text
    return Filter(spark=text, ours=ours, test=lambda row: column.shown(row) is None)


def _on_both(model: Model, rng: Random, rows: Sequence[Values]) -> Filter | None:
    one, other = _on_id(model, rng, rows), _on_value(model, rng, rows)
    if other is None:
        return None
    word = rng.choice(["and", "or"])
    return Filter(
        spark=f"({one.spark} {word} {other.spark})",
        ours=f"({one.ours} {word} {other.ours})",
        test=lambda row: (one.test(row) and other.test(row)) if word == "and" else (one.test(row) or other.test(row)),
    )


def _on_struct(model: Model, rng: Random, rows: Sequence[Values]) -> Filter | None:
    structs = model.of_kind("struct")
    if not structs:
        return None
    column = rng.choice(structs)
    child = rng.choice(column.fields)
    value = rng.choice(VALUES[child.kind])

    def test(row: Values) -> bool:
        shown = column.shown(row)
        return shown is not None and shown[child.name] == value

    name = f"{column.name}.{child.name}"
    return Filter(spark=f"{name} = {sql(child, value)}", ours=f"{name} = {_ours(child, value)}", test=test)


def _on_order(model: Model, rng: Random, rows: Sequence[Values]) -> Filter | None:
    columns = model.of_kind("date", "timestamptz", "decimal", "string")
    if not columns:
        return None
    column = rng.choice(columns)
    value = min(VALUES[column.kind]) if rng.random() < 0.5 else max(VALUES[column.kind])
    sign = "<=" if value == min(VALUES[column.kind]) else ">="

    def test(row: Values) -> bool:
        shown = column.shown(row)
        return shown is not None and (shown <= value if sign == "<=" else shown >= value)

    return Filter(
        spark=_without_nulls(f"{column.name} {sign} {sql(column, value)}", column.name),
        ours=f"{column.name} {sign} {_ours(column, value)}",
        test=test,
    )


def _without_nulls(text: str, name: str) -> str:
    """A comparison for Spark, whose metadata deletes take NULL for less than any value, and for other than any value.

    Spark makes `not flag` of `flag = false`, for which they drop a file whose `flag` is NULL in every row.
    """
    return f"({text} and {name} is not null)" if "<" in text or "False" in text else text


def _on_not(model: Model, rng: Random, rows: Sequence[Values]) -> Filter | None:
    """What Spark's metadata deletes take wrong: `x != 5`, `NOT (x = 5)` and `NOT IN` drop files whose x is NULL."""
    columns = [c for c in model.of_kind(*_COMPARED) if c.name != "id"]
    if not columns:
        return None
    column, low = rng.choice(columns), rng.choice(IDS)
    value, key = rng.choice(VALUES[column.kind]), model.named("id")
    one = _ours(column, value)
    form = rng.choice([f"{column.name} != {one}", f"not ({column.name} = {one})", f"{column.name} not in ({one})"])
    return Filter(
        spark=None,
        ours=f"{form} and id = {low}",
        test=lambda row: column.shown(row) not in (None, value) and key.shown(row) == low,
    )


def _ours(column: Column, value: Any) -> str:
    """A value as deletekit's filters write it."""
    if column.kind in ("string", "date", "decimal"):
        return f"'{value}'"
    if column.kind == "timestamptz":
        return f"'{value.isoformat()}'"
    return str(value).lower() if column.kind == "boolean" else str(value)
