"""Tables to look at, and two ways to run the command line: in this process, and as a user does."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import deletekit as dk
from deletekit.cli import main
from tests.tables import new_catalog

ROOT = Path(__file__).parents[2]

Run = Callable[..., Result]
RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]

EVIL = "[bold]x[/bold]\x1b]0;owned\x07\x1b[2J\x9b31m\r\nnew:smile:\u202egnp.exe\u2066"
"""A title, a cleared screen, a colour in C1, a new line, an emoji code, and text turned round."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: object, columns: int | None = None) -> Result:
        env = {"COLUMNS": str(columns)} if columns else None
        return CliRunner().invoke(main, [str(a) for a in arguments], env=env, prog_name="deletekit")

    return run


@pytest.fixture
def program() -> RunProgram:
    """Run a command in a process of its own."""

    def program(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "deletekit.cli", *map(str, arguments)],
            env=environment(**variables),
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    return program


def environment(**variables: str) -> dict[str, str]:
    """Give the variables by which a child finds this checkout and no terminal's width."""
    mine = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")}
    return {**mine, "PYTHONPATH": str(ROOT), **variables}


USERS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "name": ["User-1", "User-2", "User-3", None],
        "value": [100.0, 200.0, float("nan"), 400.0],
    }
)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables that no test changes."""
    directory = tmp_path_factory.mktemp("cli") / "warehouse"
    with new_catalog(directory) as catalog:
        _users(catalog)
        _history(catalog)
        _parts(catalog)
        _types(catalog)
        _evil(catalog)
        dk.create_table(catalog, "demo.empty", USERS.schema)
    return directory


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A warehouse to change: `demo.users` in format version 3 and `demo.old` in 2, four rows each."""
    directory = tmp_path / "warehouse"
    with new_catalog(directory) as catalog:
        for name, version in (("demo.users", 3), ("demo.old", 2)):
            dk.append(dk.create_table(catalog, name, USERS.schema, format_version=version), USERS)
    return directory


@pytest.fixture
def table(warehouse: Path) -> Iterator[Callable[[str], dk.Table]]:
    """Load a table of the warehouse."""
    with new_catalog(warehouse) as catalog:
        yield lambda name: dk.load_table(catalog, name)


def _users(catalog: dk.Catalog) -> None:
    table = dk.create_table(
        catalog, "demo.users", USERS.schema, format_version=3, properties={"write.delete.mode": "merge-on-read"}
    )
    dk.append(table, USERS)
    dk.delete(table, "id in (1, 3)")


def _history(catalog: dk.Catalog) -> None:
    """Equality deletes, an update, a branch, a tag, a renamed and a nested column."""
    nested = pa.struct([pa.field("city", pa.string()), pa.field("tags", pa.list_(pa.string()))])
    rows = USERS.append_column(pa.field("home", nested), pa.array([None, {"city": "Ulm", "tags": ["a"]}, None, None]))
    table = dk.create_table(catalog, "demo.history", rows.schema, format_version=2)
    dk.append(table, rows)
    dk.create_tag(table, "loaded")
    dk.delete(table, "id in (1, 3)", mode="equality-delete")
    dk.update(table, {"value": 999.0}, where="id = 2", mode="equality-delete")
    dk.create_branch(table, "dev")
    dk.rename_column(table, "name", "full_name")


def _parts(catalog: dk.Catalog) -> None:
    """Two partitions, position deletes in runs, rows stored in the delete files."""
    days = [datetime.fromisoformat(f"2026-01-0{1 + i // 50}T12:00") for i in range(100)]
    rows = pa.table({"id": range(100), "at": pa.array(days, pa.timestamp("us")), "kind": ["a", "b"] * 50})
    table = dk.create_table(catalog, "demo.parts", rows.schema, format_version=2, partition_by=["day(at)", "kind"])
    dk.append(table, rows)
    dk.delete(table, "id < 12 or id = 20 or id = 77", mode="position-delete", with_rows=True)


TYPED: dict[str, Any] = {
    "b": b"\x00\xff\x1b[31m",
    "d": date(2026, 2, 28),
    "n": Decimal("12.340"),
    "f": float("nan"),
    "i": float("-inf"),
    "t": datetime.fromisoformat("2026-02-28T12:30:00.000001"),
    "u": UUID("00010203-0405-0607-0809-0a0b0c0d0e0f"),
    "m": [("k", 1)],
    "l": [b"\x01", None],
    "s": {"x": float("inf"), "y": date(2026, 1, 1)},
}


def _types(catalog: dk.Catalog) -> None:
    """Values that JSON has no word for, as keys of equality deletes, as partitions and as bounds."""
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("b", pa.binary()),
            ("d", pa.date32()),
            ("n", pa.decimal128(9, 3)),
            ("f", pa.float64()),
            ("i", pa.float64()),
            ("t", pa.timestamp("us")),
            ("u", pa.uuid()),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("l", pa.list_(pa.binary())),
            ("s", pa.struct([("x", pa.float64()), ("y", pa.date32())])),
        ]
    )
    table = dk.create_table(catalog, "demo.types", schema, format_version=3, partition_by=["d", "n", "u", "b"])
    rows = [{"id": 1, **TYPED}, {"id": 2, **dict.fromkeys(TYPED)}]
    columns = [pa.array([r[f.name] for r in rows], f.type if f.name != "u" else None) for f in schema]
    columns[schema.get_field_index("u")] = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([TYPED["u"].bytes, None], pa.binary(16))
    )
    dk.append(table, pa.Table.from_arrays(columns, schema=schema))
    dk.delete_keys(table, [{k: TYPED[k] for k in ("b", "d", "n", "t")}], scope="global")


def _evil(catalog: dk.Catalog) -> None:
    """Every text that a table can hold and its reader did not choose."""
    rows = pa.table({"id": [1, 2], EVIL: [EVIL, "[red]plain"]})
    table = dk.create_table(catalog, "demo.evil", rows.schema, format_version=2, properties={"note" + EVIL: EVIL})
    dk.append(table, rows, commit_properties={"who" + EVIL: EVIL})
    dk.delete(table, "id = 1", mode="equality-delete", on=[EVIL])
    dk.create_branch(table, "b[red]" + EVIL)
