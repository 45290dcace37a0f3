"""The windows of failure of a sink: what is in storage when it stops at each point, and what the next start does."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from deletekit.course.drawings.svg import GAP, PAD, Canvas, Label, Mark, Svg, label, wrapped
from deletekit.course.translations import Messages
from deletekit.course.views.stream_stepper import CRASHES, Crash, StreamCall, StreamRecord

_STEPS = ("files", "manifests", "swap", "answer")
_AFTER = {"before-files": 0, "before-manifests": 1, "before-commit": 2, "answer-lost": 3, "after-commit": 4}
"""How many of the steps are done when the sink stops there."""


def sink_windows(records: Mapping[Crash, tuple[StreamRecord, StreamRecord]], *, lang: str | None = None) -> Svg:
    """Draw the steps of a batch, the points where a sink can stop, and what follows from each.

    Parameters
    ----------
    records: for each point what was recorded after the stop, and after another process went on, as `record_windows`
        returns them.
    """
    say = Messages(lang)
    canvas = Canvas(say("draw-sink-title"), say.lang)
    points = [point for point in CRASHES if point in records]
    facts, y = list[str](), canvas.below
    steps = canvas.row(y, [label(f"{i}", say(f"draw-sink-{s}")) for i, s in enumerate(_STEPS, 1)], 0, gap=3 * GAP)
    for a, b in pairwise(steps):
        canvas.arrow(a.at(1, 0.5), b.at(0, 0.5))
    rows: list[tuple[Label, Label, Label]] = []
    for point in points:
        stopped, resumed = records[point]
        where = _where(say, point)
        left, again = _left(say, stopped), _again(say, stopped, resumed)
        rows.append((_box(where, "plain", ""), _outcome(left, stopped), _outcome(again, resumed)))
        facts.append(f"{say('crash-' + point)}: {' '.join(left)} {say('draw-sink-again')}: {' '.join(again)}")
    _table(canvas, [say("draw-sink-stop"), say("draw-sink-left"), say("draw-sink-again")], rows)
    order = "; ".join(f"{i}. {say(f'draw-sink-{s}')}" for i, s in enumerate(_STEPS, 1))
    return canvas.finish([say("draw-sink-order", steps=order), *facts])


def _table(canvas: Canvas, heads: Sequence[str], rows: Sequence[tuple[Label, Label, Label]]) -> None:
    """Draw three columns of boxes, an arrow from each box to the next."""
    widths = [max([one[i].size[0] for one in rows] + [label(heads[i]).size[0]]) for i in range(3)]
    xs = [GAP, GAP + widths[0] + 2 * GAP, GAP + widths[0] + widths[1] + 4 * GAP]
    y = canvas.below + GAP
    for x, head in zip(xs, heads, strict=True):
        canvas.words(x, y, head, bold=True)
    y += PAD
    for row in rows:
        height = max(one.size[1] for one in row)
        boxes = [canvas.box(x, y, one, w, height) for x, one, w in zip(xs, row, widths, strict=True)]
        canvas.arrow(boxes[0].at(1, 0.5), boxes[1].at(0, 0.5))
        canvas.arrow(boxes[1].at(1, 0.5), boxes[2].at(0, 0.5))
        y += height + PAD


def _where(say: Messages, point: Crash) -> list[str]:
    done = _AFTER.get(point)
    text = say(f"crash-{point}")
    return [text] if done is None else [text, say("draw-sink-done", done=done, total=len(_STEPS))]


def _left(say: Messages, record: StreamRecord) -> list[str]:
    """Say what a stop left: whether the batch is in the table, and orphan files."""
    if not record.stopped:
        return [say("draw-sink-goes-on"), _verdict(say, record)]
    right = record.rows == record.expected
    moved = "draw-sink-landed" if right else "draw-sink-half"
    return [
        say(moved if _last_write(record).snapshots else "draw-sink-not-landed"),
        say("draw-sink-orphans", count=len(record.orphans)),
        _verdict(say, record),
    ]


def _again(say: Messages, stopped: StreamRecord, resumed: StreamRecord) -> list[str]:
    """Say what the next process did with the batch, which the source sends again."""
    if not stopped.stopped:
        return [say("draw-sink-no-restart"), _verdict(say, resumed)]
    status = getattr(_last_write(resumed).progress, "status", None) or "-"
    key = f"draw-sink-{status}" if status in ("committed", "skipped") else "draw-sink-other"
    return [say(key), _verdict(say, resumed)]


def _last_write(record: StreamRecord) -> StreamCall:
    return [call for call in record.calls if call.name == "write"][-1]


def _verdict(say: Messages, record: StreamRecord) -> str:
    return say("draw-sink-right" if record.rows == record.expected else "draw-sink-wrong")


def _outcome(lines: list[str], record: StreamRecord) -> Label:
    right = record.rows == record.expected
    return _box(lines, "good" if right else "bad", "chosen" if right else "wrong")


def _box(lines: list[str], fill: str, mark: Mark) -> Label:
    return label(*(piece for line in lines for piece in wrapped(line, 34)), fill=fill, mark=mark, heading=False)
