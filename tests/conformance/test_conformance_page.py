"""docs/conformance.md shows the verdicts of today's file, its readers work, and the site has a page of the cases."""

import json
import os
import re
from pathlib import Path

from conformance.run import engine_of, load_suite, run_engine
from deletekit.reader_verdicts.known_verdicts import verified_verdicts
from tests.test_docs import blocks_of
from tests.tools.conformance_page import PAGE, conformance_page, counts, write_cases_page
from tests.tools.lessons import ROOT

CASES = {case.name: case for case in load_suite()}


def test_the_page_is_that_of_the_verdicts() -> None:
    assert conformance_page() == PAGE.read_text(encoding="utf-8"), "run `python -m tests.tools.conformance_page`"


def test_the_matrix_of_readme_is_that_of_the_verdicts() -> None:
    keys = [v.engine for v in verified_verdicts() if v.verdict == "right" and "equality-delete" in v.features]
    expected = {engine: [*map(str, of.values()), str(keys.count(engine))] for (engine, _), of in counts().items()}
    names = {"sail": "pysail", "clickhouse": "chdb"}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = text.partition("right of the ")[2].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()[2:]]
    assert len(rows) == 8
    for name, *numbers in rows:
        engine = name.split()[0].lower()
        assert numbers == expected[names.get(engine, engine)], name


def test_the_page_of_the_site_has_each_rule_and_case(tmp_path: Path) -> None:
    write_cases_page(tmp_path)
    text = (tmp_path / "conformance_cases.md").read_text(encoding="utf-8")
    anchors = re.findall(r'id="((?:case|rule)-[^"]+)"', text)
    assert len(anchors) == len(set(anchors))
    assert {a.removeprefix("case-") for a in anchors if a.startswith("case-")} == set(CASES)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(anchors)
    assert text.count("<tr data-rule=") == sum(len(case.refs) for case in CASES.values())
    broken = {v.breaks for v in verified_verdicts() if v.breaks} - {"other rows"}
    assert text.count(">right</caption>") == len(broken)


def test_the_reader_in_shell(tmp_path: Path) -> None:
    """The last block of README.md of the suite, around a reader that knows one table."""
    (block,) = [b for b in blocks_of(ROOT / "conformance" / "README.md") if "#!/bin/sh" in b.code]
    (tmp_path / "reader.sh").write_text(block.code.lstrip("\n"))
    rows = json.dumps(CASES["two_key_columns"].expected()["rows"])
    reader = tmp_path / "my-reader"
    reader.write_text(f"#!/bin/sh\ntest -f \"$1\" && echo '{rows}'\n")
    reader.chmod(0o755)
    engine = engine_of(f"env PATH={tmp_path}:{os.environ['PATH']} sh {tmp_path / 'reader.sh'} {{table}} {{ref}}")
    found, _ = run_engine(engine, [CASES["two_key_columns"], CASES["vector_of_a_run"]])
    assert [(v.verdict, v.words) for v in found] == [
        ("right", None),
        ("refuses", "my-reader knows no format version 3"),
    ]
