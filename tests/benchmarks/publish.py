"""Put figures where they are read: results.json, RESULTS.md and docs/benchmarks.md.

results.json keeps the newest figures of each part, with where they are from. A page has a block for a part, between
`<!-- part: NAME -->` and `<!-- end -->`, which is made of that file; the rest of a page is written by hand.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.report import PARTS, Part, block_of, failed, table_of, tables_in, write_parts

ROOT = Path(__file__).parents[2]
RESULTS = Path("tests/benchmarks/results.json")
PAGES = (Path("tests/benchmarks/RESULTS.md"), Path("docs/benchmarks.md"))

_BLOCK = re.compile(r"<!-- part: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def publish(*reports: Path | dict[str, Part], root: Path = ROOT) -> int:
    """Keep the parts of these reports, and write every page. Returns 1 if measuring one had failed."""
    parts = results(root)
    found = [part for each in reports for part in (_read(each) if isinstance(each, Path) else each).items()]
    parts |= {name: part for name, part in found if not failed(part)}
    write_parts(root / RESULTS, {name: parts[name] for name in PARTS if name in parts})
    for path, text in made(root).items():
        (root / path).write_text(text, encoding="utf-8")
    return int(any(failed(part) for _, part in found))


def results(root: Path = ROOT) -> dict[str, Part]:
    """The newest figures of each part."""
    return _read(root / RESULTS)


def made(root: Path = ROOT) -> dict[Path, str]:
    """Every page, with its blocks as the figures have them."""
    parts = results(root)
    return {page: _filled((root / page).read_text(encoding="utf-8"), parts) for page in PAGES}


def _read(path: Path) -> dict[str, Part]:
    parts: dict[str, Part] = json.loads(path.read_text(encoding="utf-8"))
    return parts


def _filled(page: str, parts: dict[str, Part]) -> str:
    def block(found: re.Match[str]) -> str:
        name = found[1]
        shown = targets(parts) if name == "targets" else block_of(name, parts[name])
        return "\n".join([f"<!-- part: {name} -->", "", shown, "<!-- end -->"])

    return _BLOCK.sub(block, page)


def targets(parts: dict[str, Part]) -> str:
    """How many lines of each part met their targets, and which did not."""
    rows = []
    for name, part in parts.items():
        found = list(verdicts(part))
        missed = [label for label, met in found if not met]
        if found:
            rows.append([PARTS[name], str(len(found) - len(missed)), str(len(missed)), "; ".join(missed)])
    return table_of(["part", "met", "MISSED", "what missed"], rows) + "\n"


def verdicts(part: Part) -> Iterator[tuple[str, bool]]:
    """Of each line that has a target what it is about, and whether it is met."""
    text = "\n".join(part["text"])
    for header, rows in tables_in(text):
        for row in rows:
            for before, name, cell in zip(header, header[1:], row[1:], strict=False):
                if cell.startswith(("met", "MISSED")):
                    target = name or before
                    yield label_of(row) + ("" if target == "target" else f": {target}"), "MISSED" not in cell
    for line in part["text"]:
        if not line.startswith("|") and line.endswith((": met.", ": MISSED.")):
            yield line.rpartition(":")[0], line.endswith("met.")


def label_of(row: Sequence[str]) -> str:
    """Return what a line of a table is about: its first cell, and those behind it that are words."""
    words = next((i for i, cell in enumerate(row) if i and not cell[:1].isalpha()), len(row))
    return ", ".join(cell.replace("`", "") for cell in row[:words])
