"""Put figures where they are read: results.json, RESULTS.md, docs/benchmarks.md, and its pictures.

results.json keeps the newest figures of each part, with where they are from. A page has a block for a part, between
`<!-- part: NAME -->` and `<!-- end -->`, which is made of that file; the rest of a page is written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.pictures import DRAWN, drawing, label_of
from tests.benchmarks.report import PARTS, Part, block_of, failed, table_of, tables_in, write_parts

ROOT = Path(__file__).parents[2]
RESULTS = Path("tests/benchmarks/results.json")
PICTURES = Path("docs/pictures")
PAGES = {Path("tests/benchmarks/RESULTS.md"): "../../docs/pictures", Path("docs/benchmarks.md"): "pictures"}
"""And from where they see the pictures."""

_BLOCK = re.compile(r"<!-- part: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def publish(*reports: Path | dict[str, Part], root: Path = ROOT) -> int:
    """Keep the parts of these reports, and write every page and picture. Returns 1 if measuring one had failed."""
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
    """Every page, with its blocks as the figures have them, and every picture."""
    parts = results(root)
    pages = {page: _filled((root / page).read_text(encoding="utf-8"), parts, seen) for page, seen in PAGES.items()}
    return pages | {PICTURES / f"{name}.svg": drawing(name, parts).markup for name in DRAWN}


def _read(path: Path) -> dict[str, Part]:
    parts: dict[str, Part] = json.loads(path.read_text(encoding="utf-8"))
    return parts


def _filled(page: str, parts: dict[str, Part], pictures: str) -> str:
    def block(found: re.Match[str]) -> str:
        name = found[1]
        drawn = [
            f"![{title}: the table as bars]({pictures}/{each}.svg)\n"
            for each, (part, title, *_) in DRAWN.items()
            if part == name
        ]
        shown = targets(parts) if name == "targets" else block_of(name, parts[name])
        return "\n".join([f"<!-- part: {name} -->", "", shown, *drawn, "<!-- end -->"])

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
