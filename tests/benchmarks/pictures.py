"""Draw figures of parts: a bar for each engine, one below the other."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from deletekit.course.drawings import Svg
from deletekit.course.drawings.svg import LINE, Canvas, label
from tests.benchmarks.report import Part, tables_in

DRAWN = {
    "scan": ("scan", "Scan to Arrow", 0, ()),
    "plan": ("plan", "Planning, each planner", 0, ()),
    "plan_ladder": ("plan", "Planning, by the number of entries", 1, ("plan",)),
    "maintain": ("maintain", "Actions that write", 0, ()),
    "on_spark": ("spark", "An aggregate on Spark", 1, ()),
    "changelog": ("changelog", "What changed", 0, ()),
    "ladder": ("ladder", "A batch of a stream, by keys and changes", 0, ("a batch",)),
}
"""By the name of the picture: the part, the title, which of its tables, and which columns; all with times if none."""

_TIME = re.compile(r"([\d,.]+) (µs|ms|s)(?: \(.*\))?")
_SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}
_NAMES, _WIDTH = 160.0, 520.0  # where bars begin, and how long the longest is


def drawing(name: str, parts: dict[str, Part]) -> Svg:
    """Draw a table of a part."""
    part, title, number, columns = DRAWN[name]
    header, rows = tables_in("\n".join(parts[part]["text"]))[number]
    return bars(f"{title}: time, on a logarithmic scale", header, rows, columns)


def bars(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[str] = ()) -> Svg:
    """Draw the columns of a table that have times."""
    shown = [
        i for i, name in enumerate(header) if (name in columns if columns else any(seconds_of(r[i]) for r in rows))
    ]
    times = [seconds for row in rows for i in shown if (seconds := seconds_of(row[i]))]
    canvas, facts = Canvas(title, "en"), []
    for row in rows:
        canvas.words(16, canvas.below + LINE, label_of(row), bold=True)
        found = [(header[i], row[i]) for i in shown if row[i]]
        for engine, cell in found:
            top = canvas.below - LINE + 4
            canvas.words(16, top + LINE - 2, engine)
            seconds = seconds_of(cell)
            if seconds is None:
                canvas.words(16 + _NAMES, top + LINE - 2, cell)
            else:
                bar = label(" ", fill="good" if "deletekit" in engine or label_of(row) == "deletekit" else "plain")
                right = canvas.box(16 + _NAMES, top, bar, width=_WIDTH * length_of(seconds, times)).at(1, 0)[0]
                canvas.words(right + 6, top + LINE - 2, cell)
        facts.append(f"{label_of(row)}: " + ", ".join(f"{engine} {cell}" for engine, cell in found))
    return canvas.finish(facts)


def label_of(row: Sequence[str]) -> str:
    """Return what a line of a table is about: its first cell, and those behind it that are words."""
    words = next((i for i, cell in enumerate(row) if i and not cell[:1].isalpha()), len(row))
    return ", ".join(cell.replace("`", "") for cell in row[:words])


def seconds_of(cell: str) -> float | None:
    """Return the time that a cell has first; None for any other cell."""
    found = _TIME.fullmatch(cell)
    return float(found[1].replace(",", "")) * _SECONDS[found[2]] if found else None


def length_of(seconds: float, times: Sequence[float]) -> float:
    """Return how long a bar is, of 1: the scale begins at the power of ten below the least time."""
    least = 10 ** math.floor(math.log10(min(times)))
    return math.log10(seconds / least) / max(1.0, math.log10(max(times) / least))
