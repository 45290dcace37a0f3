"""docs/conformance.md shows the verdicts of today's file, and its two engines work."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from conformance.runner import run_engine, suite_folder
from conformance.suite import Case, load_suite
from conformance.verdicts import VERDICTS, read_verdicts, summary
from deletekit.conformance.engines import Engine
from tests.test_docs import blocks_of
from tests.tools.conformance_page import PAGE, conformance_page
from tests.tools.lessons import ROOT
from tests.tools.suite_features import FILE

CASES = {case.name: case for case in load_suite(suite_folder())}
PYTHON, SHELL = (block.code.lstrip("\n") for block in blocks_of(PAGE)[-2:])


def verdicts(engine: Engine, *cases: Case) -> list[tuple[str, str | None]]:
    return [(v.verdict, v.words) for v in run_engine(engine, cases).verdicts]


def test_the_page_is_that_of_the_verdicts() -> None:
    assert conformance_page() == PAGE.read_text(encoding="utf-8"), "run `python -m tests.tools.conformance_page`"


def test_the_matrix_of_readme_is_that_of_the_verdicts() -> None:
    document: Any = read_verdicts(VERDICTS)
    results = [result for result in document["results"] if result["verified"]]
    features = json.loads(FILE.read_text(encoding="utf-8"))
    right = [r for r in results if r["verdict"] == "right"]
    keys = [r["engine"] for r in right if "equality-delete" in features[r["case"]][r["ref"]]]
    expected = {engine: [*map(str, counts), str(keys.count(engine))] for engine, _, *counts in summary(results)}
    names = {"sail": "pysail", "clickhouse": "chdb"}
    lines = (ROOT / "README.md").read_text(encoding="utf-8").partition("right of the 87")[2].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()[2:]]
    assert len(rows) == 8
    for name, *counts in rows:
        engine = name.split()[0].lower()
        assert counts == expected[names.get(engine, engine)], name


def test_the_engine_in_python() -> None:
    engine = Engine(name="mine", command=(sys.executable, "-c", PYTHON))
    [(verdict, words)] = verdicts(engine, CASES["two_key_columns"])
    assert verdict == "refuses"
    assert "does not yet support equality deletes" in (words or "")


def test_the_engine_in_shell(tmp_path: Path) -> None:
    reader = tmp_path / "my-reader"
    rows = json.dumps(CASES["two_key_columns"].expected())
    reader.write_text(f"#!/bin/sh\ntest -f \"$1\" && echo '{rows}'\n")
    reader.chmod(0o755)
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    engine = Engine(name="mine", command=("sh", "-c", SHELL), variables={"PATH": path})
    found = verdicts(engine, CASES["two_key_columns"], CASES["vector_of_a_run"], CASES["two_key_columns"])
    assert found == [("right", None), ("refuses", "my-reader knows no format version 3"), ("right", None)]
