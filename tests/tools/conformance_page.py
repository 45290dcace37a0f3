"""Write the verdicts into docs/conformance.md, from deletekit/reader_verdicts/verdicts.json and the suite's cases.

`python -m tests.tools.conformance_page`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from conformance.runner import KINDS, suite_folder
from conformance.suite import load_suite
from conformance.verdicts import VERDICTS, engines_of, matrix, read_verdicts, spoken, summary
from tests.tools.lessons import ROOT

PAGE = ROOT / "docs" / "conformance.md"
BEGIN, END = "<!-- verdicts: written by `python -m tests.tools.conformance_page` -->", "<!-- end of verdicts -->"


def conformance_page() -> str:
    """Return the page with the verdicts of today's files in it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{verdicts()}\n{END}{rest.partition(END)[2]}"


def verdicts() -> str:
    """Return the tables: how often each engine is right, each case, and the words of engines."""
    document: Any = read_verdicts(VERDICTS)
    results = [result for result in document["results"] if result["verified"]]
    rules = {case.name: case.rule for case in load_suite(suite_folder())}
    engines = engines_of(results)
    alone = [name if sum(name == other for other, _ in engines) == 1 else f"{name} {v}" for name, v in engines]
    words = spoken(result for result in results if result["verdict"] != "WRONG")
    rows = [[row[0], rules.get(row[0].partition(",")[0], ""), *map(shown, row[1:])] for row in matrix(results)]
    return "\n".join([
        f"Found on {document['date']}; {document['machine']}. A row counts a ref of a case.\n",
        table(("engine", "version", *KINDS), summary(results)),
        table(("case", "rule", *alone), rows),
        "What engines said that is not the rows:\n",
        table(("engine", "verdict", "refs", "words"), [[*row[:3], code(row[3])] for row in words]),
    ])  # fmt: skip


def shown(cell: str) -> str:
    """Return a verdict as the table shows it: what is wrong stands out."""
    return f"**{cell}**" if cell.startswith(("WRONG", "crashes")) else cell


def code(text: str) -> str:
    """Return a text that Markdown shows as it is, in a table."""
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"


def table(columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of Markdown."""
    names = list(columns)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(conformance_page(), encoding="utf-8")
