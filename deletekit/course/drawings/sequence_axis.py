"""Data files and deletes on the axis of sequence numbers, and an arrow from each delete to the files that need it."""

from typing import Any

from deletekit.course.drawings.file_tree import FILLS
from deletekit.course.drawings.svg import GAP, LONGEST, PAD, Box, Canvas, Svg, label, text_width
from deletekit.course.translations import Messages
from deletekit.course.views.page import Grid
from deletekit.course.views.sequence_timeline import sequence_timeline
from deletekit.course.views.table_view import as_table_view
from deletekit.text import brief

_STEP = 34.0


def sequence_axis(table: Any, *, snapshot: str | None = None, lang: str | None = None) -> Svg:
    """Draw what `SequenceTimeline` shows: which delete must be opened for which data file, and how old both are.

    Parameters
    ----------
    table: a table, or the path of a metadata file.
    snapshot: as `S2`; None is the current one.

    Raises NotFoundError for a snapshot that does not exist.
    """
    view, say = as_table_view(table), Messages(lang)
    page = sequence_timeline(view, snapshot=snapshot, lang=say.lang)
    canvas = Canvas(say("draw-axis-title", table=brief(view.name, LONGEST)), say.lang)
    grids = [block for block in page.blocks if isinstance(block, Grid)]
    if not grids or not grids[0].figure["points"]:
        return canvas.finish([page.sentence])
    figure, kinds = grids[0].figure, {row: kind for row, kind, _ in grids[0].figure["lanes"]}
    boxes = _boxes(canvas, figure)
    for delete, data in figure["arrows"]:
        canvas.arrow(boxes[delete].at(0.5, 0), boxes[data].at(0.5, 1), "applies")
    more = [grid.shown for grid in grids if grid.shown]
    canvas.lines(GAP, canvas.below + GAP, [figure["arrow"], *more])
    points = figure["points"]
    facts = [say("draw-axis-point", file=p["name"], kind=kinds[p["row"]], number=p["at"]) for p in points]
    for name, _, opened in (line.cells for line in grids[0].lines):
        facts.append(say("timeline-none" if opened == "-" else "timeline-one", file=name, deletes=opened))
    return canvas.finish([page.sentence, *facts, *more])


def _boxes(canvas: Canvas, figure: Any) -> dict[str, Box]:
    """Draw the lanes, the points in them, and the axis below."""
    wide = max(label(p["name"]).size[0] for p in figure["points"]) + PAD
    words = (figure["axis"], *(kind for _, kind, _ in figure["lanes"]))
    left, top = 2 * GAP + max(text_width(word, bold=True) for word in words), canvas.below

    def across(x: float, column: int) -> float:
        return left + x * wide + column * GAP

    for _, kind, y in figure["lanes"]:
        canvas.words(GAP, top + y * _STEP + 18, kind, bold=True)
    found = {
        p["name"]: canvas.box(across(p["x"], p["column"]), top + p["y"] * _STEP, label(p["name"], fill=_fill(p["row"])))
        for p in figure["points"]
    }
    y = top + figure["lines"] * _STEP
    canvas.arrow((left - PAD, y), (across(figure["boxes"], len(figure["numbers"])), y))
    for number, x, column, boxes in figure["numbers"]:
        middle = across(x + boxes / 2, column)
        canvas.arrow((middle, y - 4), (middle, y + 4), head=False)
        canvas.words(middle - text_width(number) / 2, y + 22, number)
    canvas.words(GAP, y + 22, figure["axis"], bold=True)
    return found


def _fill(row: str) -> str:
    return FILLS.get(row, "data")
