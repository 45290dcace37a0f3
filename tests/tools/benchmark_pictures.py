"""Draw the tables of docs/benchmarks.md: a bar for each engine, one below the other.

    python -m tests.tools.benchmark_pictures

The figures are read from that page, whose figures are those of RESULTS.md. So after `python -m tests.benchmarks`, and
with its figures in both, this command draws what they say.
"""

from __future__ import annotations

import math
import re

from deletekit.course.drawings import Svg
from deletekit.course.drawings.svg import LINE, Canvas, label
from tests.tools.pictures import PICTURES, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
DRAWN = {"scan": ("Scan to Arrow", "Scan to Arrow: milliseconds, on a logarithmic scale")}
"""By the name of the picture: the heading above the table, and the title."""

_NUMBER = re.compile(r"([\d,.]+)( m?s)?(?: \(.*\))?")
_NAMES, _DECADE, _LEAST = 130.0, 200.0, 100.0  # where bars begin, a factor of ten, and the figure at which bars begin


def main() -> None:
    """Write each picture."""
    for name, (heading, title) in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(drawing(heading, title).markup, encoding="utf-8")


def drawing(heading: str, title: str) -> Svg:
    """Draw the first table below a heading."""
    return bars(title, *table_of_page(PAGE.read_text(encoding="utf-8"), heading))


def bars(title: str, header: list[str], rows: list[list[str]]) -> Svg:
    """Draw the figures of a table."""
    canvas, facts = Canvas(title, "en"), []
    for row in rows:
        y = canvas.below + LINE
        canvas.words(16, y, row[0], bold=True)
        found = [(engine, cell) for engine, cell in zip(header[1:], row[1:], strict=True) if cell]
        for engine, cell in found:
            top = canvas.below - LINE + 4
            canvas.words(16, top + LINE - 2, engine)
            length = bar_length(cell)
            if length is None:
                canvas.words(16 + _NAMES, top + LINE - 2, cell)
            else:
                fill = "good" if engine == "deletekit" else "plain"
                canvas.box(16 + _NAMES, top, label(cell, fill=fill, heading=False), width=length)
        facts.append(f"{row[0]}: " + ", ".join(f"{engine} {cell}" for engine, cell in found))
    return canvas.finish(facts)


def table_of_page(page: str, heading: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the first table below a heading."""
    lines = page.partition(f"\n## {heading}\n")[2].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    last = next(i for i, line in enumerate(lines) if i > first and not line.startswith("|"))
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:last])
    return header, rows


def bar_length(cell: str) -> float | None:
    """Return how long the bar of a figure is, in milliseconds or of a unit; None for a cell that is no figure."""
    found = _NUMBER.fullmatch(cell)
    if not found:
        return None
    milliseconds = float(found[1].replace(",", "")) * (1000 if found[2] == " s" else 1)
    return _DECADE * math.log10(max(milliseconds, _LEAST) / _LEAST) + 1


if __name__ == "__main__":
    main()
