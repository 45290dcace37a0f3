"""Pages of figures are as results.json has them, and what misses its target is said to."""

import re
from pathlib import Path

import pytest

from tests.benchmarks.publish import PAGES, RESULTS, ROOT, made, publish, results, verdicts
from tests.benchmarks.report import PARTS, Part, table_of, tables_in

TABLE = table_of(
    ["what", "deletekit", "Java", "ratio", "target 1.2"], [["`a plan`", "300 ms", "1.20 s", "0.25", "met"]]
)
PART: Part = {
    "date": "2026-11-26",
    "commit": "4d768479",
    "command": "python -m tests.benchmarks --only start",
    "machine": "2 cores",
    "text": TABLE.splitlines(),
}


@pytest.mark.parametrize("path", made(), ids=str)
def test_a_page_is_as_the_figures_have_it(path: Path) -> None:
    found = (ROOT / path).read_text(encoding="utf-8")
    assert found == made()[path], f"run `python -m tests.benchmarks --publish {RESULTS}`"


def test_every_part_has_its_block() -> None:
    assert set(results()) == {*results()} & {*PARTS}
    text = (ROOT / "tests/benchmarks/RESULTS.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- part: (\w+) -->", text)
    assert blocks == ["targets", *(name for name in PARTS if name in blocks)]
    assert set(blocks) >= set(results())


def test_the_page_for_users_has_no_figure_of_its_own() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    by_hand = re.sub(r"<!-- part: .*?<!-- end -->", "", page, flags=re.DOTALL)
    assert "|" not in by_hand
    assert re.findall(r"\d (?:µs|ms|s|times|MB)\b", by_hand) == []


def test_every_line_with_a_target_says_whether_it_is_met() -> None:
    for name, part in results().items():
        for header, rows in tables_in("\n".join(part["text"])):
            for row in rows:
                assert len(row) == len(header), (name, row)
                for place, (title, cell) in enumerate(zip(header, row, strict=True)):
                    judged = row[place + 1] if title == "target" else cell
                    if title.startswith("target") and cell:
                        assert judged.startswith(("met", "MISSED")), (name, row)


def test_verdicts_are_found_in_tables_and_sentences() -> None:
    text = [*TABLE.replace("met", "MISSED, behind Java").splitlines(), "It is flat: MISSED.", "Few are read: met."]
    found = list(verdicts(PART | {"text": text}))
    assert found == [("a plan: target 1.2", False), ("It is flat", False), ("Few are read", True)]


def test_publishing_a_part_leaves_the_others(tmp_path: Path) -> None:
    for path in (RESULTS, *PAGES):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
    before = results(tmp_path)
    failed = PART | {"text": ["failed: ZeroDivisionError: division by zero"]}
    assert publish({"start": PART}, {"scan": failed}, root=tmp_path) == 1
    assert results(tmp_path) == before | {"start": PART}
    page = (tmp_path / "tests/benchmarks/RESULTS.md").read_text(encoding="utf-8")
    assert f"{TABLE}\n\n2026-11-26, commit 4d768479, `python -m tests.benchmarks --only start`; 2 cores." in page
