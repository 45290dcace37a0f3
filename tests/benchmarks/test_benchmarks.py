"""The benchmark command runs, and says what is right, wrong, refused, too slow or dead. Times are not looked at."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.__main__ import main
from tests.benchmarks.measure import Worker, in_turns
from tests.benchmarks.read import wrong
from tests.benchmarks.read_tables import SPARK
from tests.benchmarks.report import table_of, tables_in
from tests.benchmarks.tables import build


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


def report_of(work: Path, *arguments: str) -> str:
    out = work / "report.md"
    assert main(["--small", "--rows", "20000", "--runs", "1", "--work", str(work), "--out", str(out), *arguments]) == 0
    return out.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.peers
def test_every_read_is_right(work: Path) -> None:
    report = report_of(work, "--only", "read", "--peers", "polars", "--tables", SPARK, "nested")
    (header, shapes), (_, deletes) = tables_in(report)
    assert header[:6] == ["files", "pyarrow", "deletekit", "polars, files alone", "scan_polars", "polars"]
    assert [row[0] for row in shapes] == [SPARK, "nested"]
    assert len(deletes) == 8
    for row in (*shapes, *deletes):
        # A cell has figures only after rows and sums were found right in the engine's process.
        assert all(" ms" in cell for cell in row[1:4]), report
        assert row[4] == "refuses" if row[0].startswith("keys") else " ms" in row[4], report


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [
        ["changelog"],
        pytest.param(["start", "maintain", "ladder", "delta_ladder"], marks=pytest.mark.long),
    ],
    ids=["short", "long"],
)
def test_other_parts_run(work: Path, parts: list[str]) -> None:
    report = report_of(work, "--only", *parts, "--peers", "--tables", "dv_10")
    assert f"\n{report}".count("\n### ") == len(parts)
    assert "wrong" not in report.lower()
    assert "refuses" not in report


@pytest.mark.slow
def test_tables_are_built_once(work: Path) -> None:
    first, again = (build(work, 5_000, ["dv_1"]).by_name for _ in range(2))
    assert first == again  # the names of metadata files are random
    more = build(work, 5_000, ["dv_1", "dv_10"]).by_name
    assert list(more) == ["none", "dv_1", "dv_10"]


def test_a_part_that_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(["what", "deletekit", "Java"], [["a plan", "300 ms", "1.20 s (4.0)"]])
    monkeypatch.setattr("tests.benchmarks.plan.run", lambda _: f"About it.\n\n{table}")
    monkeypatch.setattr("tests.benchmarks.start.run", lambda _: 1 / 0)
    out = tmp_path / "report.md"
    arguments = ["--small", "--only", "start", "plan", "--tables", "none", "dv_*"]
    assert main([*arguments, "--work", str(tmp_path), "--out", str(out)]) == 1
    assert "failed: ZeroDivisionError" in capsys.readouterr().out
    found = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    assert f"{os.cpu_count()} cores" in found["plan"]["machine"]
    assert found["plan"]["command"] == "python -m tests.benchmarks --only plan --small --tables none 'dv_*'"
    assert found["start"]["text"] == ["failed: ZeroDivisionError: division by zero"]
    assert found["plan"]["text"] == ["About it.", "", *table.splitlines()]


# --- what a worker can come to ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "job", "verdict", "why"),
    [
        (("functools:partial", dict), {"rows": 7}, None, ""),
        (("builtins:int", "seven"), {}, "refuses", "ValueError: invalid literal for int() with base 10: 'seven'"),
        (("functools:partial", int), "eight", "refuses", "ValueError: invalid literal for int() with base 10: 'eight'"),
        (("functools:partial", os._exit), 3, "crash", "the process ended with 3"),
        (("functools:partial", time.sleep), 60, "> 1 s", "no answer in that time"),
    ],
    ids=["right", "refuses to start", "refuses to run", "crashes", "takes too long"],
)
def test_verdicts(arguments: tuple[Any, ...], job: Any, verdict: str | None, why: str) -> None:
    cell = in_turns({"it": lambda: Worker(*arguments, seconds=1)}, job, runs=2)["it"]
    assert (cell.verdict, cell.why) == (verdict, why)
    assert len(cell.seconds) == (2 if verdict is None else 0)


def test_wrong_facts_end_a_cell() -> None:
    def check(name: str, facts: dict[str, Any]) -> str | None:
        return None if facts["rows"] == 8 else f"{name} has {facts['rows']}"

    cell = in_turns({"it": lambda: Worker("functools:partial", dict)}, {"rows": 7}, runs=2, check=check)["it"]
    assert (cell.verdict, cell.why, cell.median) == ("wrong", "it has 7", None)


@pytest.mark.parametrize("change", [{"rows": 9}, {"sum_id": 46}, {"sum_value": 4.51}, {"sum_value": None}])
def test_every_fact_is_compared(change: dict[str, Any]) -> None:
    right = {"rows": 10, "sum_id": 45, "sum_value": 4.5}
    assert wrong(right, right) is None
    assert wrong(right, right | change) is not None
