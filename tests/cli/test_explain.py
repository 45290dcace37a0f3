"""`deletekit explain`: what deletekit.explain found, in words and in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

import deletekit as dk
from deletekit.text import json_ready
from tests.cli.conftest import Run

Load = Callable[[str], dk.Table]


def test_a_row_that_a_vector_hides(run: Run, warehouse: Path) -> None:
    text = run("explain", "--warehouse", warehouse, "demo.users", "id = 1").stdout
    assert re.match(r"demo\.users  snapshot \d+  0 live, 1 hidden\n", text)
    assert "HIDDEN  id=1  name='User-1'  value=100.0" in text
    assert "row 0 of data/" in text
    assert "hidden by a deletion vector of sequence 2; the row is of sequence 1" in text
    assert re.sub(r"\s+", " ", text).endswith("has its position, and 1 <= 2 ")


def test_versions_of_an_updated_row(run: Run, warehouse: Path) -> None:
    text = run("explain", "--warehouse", warehouse, "demo.history", "id = 2", "--columns", "id, value").stdout
    assert "1 live, 1 hidden" in text
    old, new = text.index("HIDDEN  id=2  value=200.0"), text.index("live  id=2  value=999.0")
    assert old < new
    assert "hidden by an equality delete of sequence 3; the row is of sequence 1" in text[old:new]
    assert "not hidden by an equality delete of sequence 3; the row is of sequence 3" in text[new:]
    assert "3 < 3 is false" in text[new:]
    assert "name" not in text


def test_a_row_no_delete_applies_to(run: Run, warehouse: Path) -> None:
    text = run("explain", "--warehouse", warehouse, "demo.users", "id = 2").stdout
    assert "no delete applies to it; it is of sequence 1" in text
    nothing = run("explain", "--warehouse", warehouse, "demo.users", "id = 99")
    assert nothing.exit_code == 0
    assert "no version of such a row" in nothing.stdout
    assert "no snapshot yet" in run("explain", "--warehouse", warehouse, "demo.empty", "id = 99").stdout


def test_values_are_written_as_in_sql(run: Run, warehouse: Path) -> None:
    text = run("explain", "--warehouse", warehouse, "demo.types", "id = 1").stdout
    for value in (
        "b=X'00ff1b5b33316d'",
        "d=2026-02-28",
        "n=12.340",
        "f=NaN",
        "i=-Infinity",
        "t=2026-02-28 12:30:00.000001",
        "u=00010203-0405-0607-0809-0a0b0c0d0e0f",
        "m=[['k', 1]]",
        "l=[X'01', NULL]",
        "s={x: Infinity, y: 2026-01-01}",
    ):
        assert f"  {value}" in text, value


@pytest.mark.parametrize("name", ["users", "history", "parts", "types", "evil", "empty"])
def test_json(run: Run, warehouse: Path, table: Load, name: str) -> None:
    result = run("explain", "--warehouse", warehouse, f"demo.{name}", "true", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout, parse_constant=pytest.fail)
    found = dk.explain(table(f"demo.{name}"), "true")
    assert document["table"] == found.table
    assert document["snapshot_id"] == found.snapshot_id
    assert len(document["versions"]) == len(found)
    for shown, version in zip(document["versions"], found, strict=True):
        known = {"live": version.live, "verdict": version.verdict, "unknown": False}
        assert shown == json_ready(version) | known


def test_limit(run: Run, warehouse: Path) -> None:
    text = run("explain", "--warehouse", warehouse, "demo.parts", "true", "--limit", 3).stdout
    assert text.count("├── row ") == 3
    assert "… and 97 more versions; --limit 0 shows all" in text
    assert run("explain", "--warehouse", warehouse, "demo.parts", "true", "--limit", 0).stdout.count("├── row ") == 100


def test_it_fits_80_columns(run: Run, warehouse: Path) -> None:
    for name in ("users", "history", "parts", "types", "evil"):
        lines = run("explain", "--warehouse", warehouse, f"demo.{name}", "true", columns=80).stdout.splitlines()
        assert [line for line in lines if cell_len(line) > 80] == []


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [(["nope = 1"], "filter"), (["id ="], "filter"), (["id = 1", "--columns", "nope"], "column-not-found")],
)
def test_bad_questions(run: Run, warehouse: Path, arguments: list[str], kind: str) -> None:
    result = run("explain", "--warehouse", warehouse, "demo.users", *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.search(r"kind +(\S+)", result.stderr)[1] in (kind, "column-not-found")  # type: ignore[index]
