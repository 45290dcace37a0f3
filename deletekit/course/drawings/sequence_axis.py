"""Data files and deletes on the axis of sequence numbers, with an arrow from each delete to the files it applies to."""

from typing import Any

from deletekit.course.drawings.file_tree import FILLS
from deletekit.course.drawings.svg import GAP, LONGEST, PAD, Box, Canvas, Svg, label, text_width
from deletekit.course.translations import Messages
from deletekit.course.views.page import Grid
from deletekit.course.views.sequence_timeline import sequence_timeline
from deletekit.course.views.table_view import as_table_view
from deletekit.text import brief

_ROWS = {"data": "data-file", **{kind: kind for kind in ("equality-delete", "position-delete", "deletion-vector")}}
_STEP = 34.0
_BESIDE = 8


def sequence_axis(table: Any, *, snapshot: str | None = None, lang: str | None = None) -> Svg:
    """Draw what `SequenceTimeline` shows: which delete applies to which data file, and how old both are.

    Parameters
    ----------
    table: a table, or the path of a metadata file.
    snapshot: as `S2`; None is the current one.

    Raises NotFoundError for a snapshot that does not exist.
    """
    view, say = as_table_view(table), Messages(lang)
    page = sequence_timeline(view, snapshot=snapshot, lang=say.lang)
    canvas = Canvas(say("draw-axis-title", table=brief(view.name, LONGEST)), say.lang)
    if not page.blocks:
        return canvas.finish([page.sentence])
    files = page.block("files")
    assert isinstance(files, Grid)
    points, arrows = files.figure["points"], files.figure["arrows"]
    if not points:
        return canvas.finish([page.sentence])
    boxes = _boxes(canvas, say, points)
    for delete, data in arrows:
        start, end = boxes[delete], boxes[data]
        canvas.arrow(start.at(0.5, 0), end.at(0.5, 1), "applies")
    deletes = page.block("deletes")
    assert isinstance(deletes, Grid)
    more = [words for words in (files.shown, deletes.shown) if words]
    canvas.lines(GAP, canvas.below + GAP, [say("draw-applies-legend"), *more])
    facts = [say("draw-axis-point", file=p["name"], kind=_kind(say, p["row"]), number=p["at"]) for p in points]
    for line in files.lines:
        applying = files.columns and line.cells[2]
        key = "timeline-none" if applying == "-" else "timeline-one"
        facts.append(say(key, file=line.cells[0], deletes=applying))
    return canvas.finish([page.sentence, *facts, *more])


def _boxes(canvas: Canvas, say: Messages, points: list[dict[str, Any]]) -> dict[str, Box]:
    """Draw a column for each sequence number, rows for the kinds, and files of both side by side."""
    numbers = sorted({p["at"] for p in points})
    kinds = [row for row in _ROWS if any(p["row"] == row for p in points)]
    cells = {(row, n): [p["name"] for p in points if (p["row"], p["at"]) == (row, n)] for row in kinds for n in numbers}
    wide = max(label(p["name"]).size[0] for p in points) + PAD
    x = GAP + max(text_width(words, bold=True) for words in (say("draw-axis"), *(_kind(say, k) for k in kinds))) + GAP
    columns = dict[int, tuple[float, float]]()
    for number in numbers:
        columns[number] = x, wide * min(max(len(cells[row, number]) for row in kinds), _BESIDE)
        x += columns[number][1] + GAP
    y, found = canvas.below, dict[str, Box]()
    for row in kinds:
        canvas.words(GAP, y + 18, _kind(say, row), bold=True)
        for number in numbers:
            for i, name in enumerate(cells[row, number]):
                place = columns[number][0] + i % _BESIDE * wide, y + i // _BESIDE * _STEP
                found[name] = canvas.box(*place, label(name, fill=FILLS[_ROWS[row]]))
        y += _STEP * (1 + max(-(-len(cells[row, n]) // _BESIDE) for n in numbers))
    canvas.arrow((columns[numbers[0]][0] - PAD, y), (x, y))
    for number, (start, width) in columns.items():
        canvas.arrow((start + width / 2, y - 4), (start + width / 2, y + 4), head=False)
        canvas.words(start + width / 2 - text_width(str(number)) / 2, y + 22, str(number))
    canvas.words(GAP, y + 22, say("draw-axis"), bold=True)
    return found


def _kind(say: Messages, row: str) -> str:
    return say("kind-" + _ROWS[row])
