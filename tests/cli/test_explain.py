"""`deletekit explain`: what deletekit.explain found, in words and in JSON."""

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
