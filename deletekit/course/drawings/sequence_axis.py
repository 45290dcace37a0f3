"""Data files and deletes on the axis of sequence numbers, and an arrow from each delete to the files that need it."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from deletekit.course.svg import GAP, KINDS, LONGEST, PAD, Box, Canvas, Label, Mark, Svg, label, text_width
from deletekit.course.translations import Messages
from deletekit.course.views.page import Grid, Page
from deletekit.course.views.sequence_timeline import sequence_timeline
from deletekit.course.views.table_view import as_table_view
from deletekit.text import brief

_STEP = 42.0


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
    return _drawn(page, say("draw-axis-title", table=brief(view.name, LONGEST)))


def with_drawing(view: Callable[..., Page]) -> Callable[..., Page]:
    """Let a view of `SequenceTimeline` give what its script shows: the drawing, and the data file of each box."""

    @wraps(view)
    def drawn(*sources: Any, **state: Any) -> Page:
        page = view(*sources, **state)
        if not page.blocks or not isinstance(files := page.blocks[0], Grid):
            return page
        keys = [p["key"] if p["row"] == "data-file" else None for p in files.figure["points"]]
        figure = {"svg": _drawn(page).markup, "keys": keys, "note": files.figure["note"]}
        return replace(page, blocks=[replace(files, figure=figure), *page.blocks[1:]])

    return drawn


def _drawn(page: Page, title: str = "") -> Svg:
    """Draw a page; a widget has the title and the notes itself."""
    canvas, say = Canvas(title, page.lang), Messages(page.lang)
    grids = [block for block in page.blocks if isinstance(block, Grid)]
    if not grids or not grids[0].figure["points"]:
        return canvas.finish([page.sentence])
    figure, points = grids[0].figure, grids[0].figure["points"]
    marks: dict[str, Mark] = {p["name"]: "chosen" for p in points if p["key"] == grids[0].selected}
    labels = {p["name"]: label(p["name"], fill=KINDS[p["row"]], mark=marks.get(p["name"], "")) for p in points}
    boxes = _boxes(canvas, say, figure, labels)
    for delete, data in sorted(figure["arrows"], key=lambda arrow: arrow[1] in marks):
        start, end = boxes[delete].at(0.5, 0), boxes[data].at(0.5, 1)
        canvas.arrow(start, end, marks.get(data, "applies"), upright=True)
    for name, box in boxes.items():  # over the arrows
        canvas.box(box.x, box.y, labels[name])
    more = [grid.shown for grid in grids if grid.shown]
    if title:
        canvas.lines(GAP, canvas.below + GAP, [figure["note"], *more])
    facts = [say("draw-axis-point", file=p["name"], kind=say("kind-" + p["row"]), number=p["at"]) for p in points]
    for name, _, opened in (line.cells for line in grids[0].lines):
        facts.append(say("timeline-none" if opened == "-" else "timeline-one", file=name, deletes=opened))
    return canvas.finish([page.sentence, *facts, *more])


def _boxes(canvas: Canvas, say: Messages, figure: Any, labels: dict[str, Label]) -> dict[str, Box]:
    """Draw the lanes and the axis below them; return where the points are: each column is as wide as what is in it."""
    top, found = canvas.below, dict[str, Box]()
    y = top + figure["lines"] * _STEP
    names = {say("draw-axis"): y + 22, **{say("kind-" + row): top + at * _STEP + 18 for row, at in figure["lanes"]}}
    for name, at in names.items():
        canvas.words(GAP, at, name, bold=True)
    x = begin = 2 * GAP + max(text_width(name, bold=True) for name in names)
    for column, number in enumerate(figure["numbers"]):
        here = [p for p in figure["points"] if p["column"] == column]
        wide = max(text_width(number), *(labels[p["name"]].size[0] for p in here)) + PAD
        places = 1 + max(p["place"] for p in here)
        for p in here:
            beside = sum(q["y"] == p["y"] for q in here)  # a short lane stands in the middle
            own, height = labels[p["name"]].size
            left = x + (p["place"] + (places - beside) / 2) * wide + (wide - own) / 2
            found[p["name"]] = Box(left, top + p["y"] * _STEP, own, height)
        middle = x + places * wide / 2
        canvas.arrow((middle, y - 4), (middle, y + 4), head=False)
        canvas.words(middle - text_width(number) / 2, y + 22, number)
        x += places * wide + PAD
    canvas.arrow((begin - PAD, y), (x, y))
    return {p["name"]: found[p["name"]] for p in figure["points"]}
