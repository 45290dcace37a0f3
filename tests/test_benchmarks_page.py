"""docs/benchmarks.md has no figure of its own: each is in RESULTS.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r"\d[\d,.]*\d|\d")


def test_every_figure_of_a_table_is_in_the_results() -> None:
    results = (ROOT / "tests" / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    known = set(FIGURE.findall(results)) | {each.replace(",", "") for each in FIGURE.findall(results)}
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and not line.startswith("|---")]
    cells = [cell for row in rows for cell in row.strip("|").split("|")[1:]]
    shown = [figure for cell in cells for figure in FIGURE.findall(cell)]
    assert len(shown) > 50
    assert [figure for figure in shown if figure not in known] == []
