"""A race of two writers for one catalog: both read a snapshot, one swaps first, the other must look again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from deletekit.course.aliases import alias_number
from deletekit.course.race import outcome
from deletekit.course.svg import GAP, LONGEST, Box, Canvas, Mark, Svg, label, wrapped
from deletekit.course.translations import Messages
from deletekit.course.views.table_view import as_table_view
from deletekit.errors import InvalidInputError
from deletekit.text import brief

_DOWN = 26.0


def commit_race(table: Any, commit: Any, *, base: str | None = None, lang: str | None = None) -> Svg:
    """Draw how a commit came to be: what it read, which swap was refused and why, and what the writer did then.

    Parameters
    ----------
    table: the table after the commit.
    commit: what the verb returned: its attempts and its plans are drawn.
    base: the snapshot that the writer read first, as `S1`; None means that each lost attempt lost to one commit.

    Raises InvalidInputError for a commit that is not a snapshot of the table, or that is not after `base`.
    """
    view, say = as_table_view(table), Messages(lang)
    name = view.aliases.snapshot_name
    history = [name(s.snapshot_id) for s in view.metadata.ancestors(commit.snapshot_id)][::-1]
    first = history.index(base) if base in history else len(history) - 1 - max(commit.attempts, 1)
    if len(history) < 2 or base not in (None, *history[:-1]):
        raise InvalidInputError("no such commit", kind="race", field="base", found=base, expected=", ".join(history))
    begun, landed, ours = history[max(first, 0)], history[max(first, 0) + 1 : -1], history[-1]
    canvas = Canvas(say("draw-race-title", table=brief(view.name, LONGEST)), say.lang)
    landed = landed if commit.attempts > 1 else []
    lost = max(commit.attempts - 1, 0)
    steps = [*_other(say, begun, landed), *_ours(say, begun, landed, ours, outcome(commit), lost)]
    _draw(canvas, say, steps)
    facts = [f"{say('draw-race-' + step.lane)}: {step.words}" for step in steps]
    return canvas.finish([*facts, say("draw-race-counts", attempts=commit.attempts, plans=commit.plans)])


class Step(NamedTuple):
    """What happens in a lane; `told`: because of what the catalog has or answered."""

    lane: str
    words: str
    look: str
    told: bool = False


def _other(say: Messages, base: str, landed: Sequence[str]) -> list[Step]:
    """Return the steps until another writer was first; without one, only what was read."""
    begin = Step("catalog", say("draw-race-has", snapshot=base), "plain")
    read = Step("ours", say("draw-race-read", snapshot=base), "vector", told=True)
    if not landed:
        return [begin, read]
    theirs = Step("other", say("draw-race-read", snapshot=base), "data", told=True)
    swap = Step("other", say("draw-race-swap", before=base, after=", ".join(landed)), "data")
    return [begin, read, theirs, swap, Step("catalog", say("draw-race-done", snapshot=landed[-1]), "good")]


def _ours(say: Messages, base: str, landed: Sequence[str], ours: str, how: str, lost: int) -> list[Step]:
    head = landed[-1] if landed else base
    steps: list[Step] = []
    if landed:
        steps.append(Step("ours", say("draw-race-swap", before=base, after=f"S{alias_number(base) + 1}?"), "vector"))
        steps.append(Step("catalog", say("draw-race-refused", snapshot=head, count=lost), "bad"))
        steps.append(Step("ours", say(f"draw-race-{how}", snapshot=head), "vector", told=True))
    steps.append(Step("ours", say("draw-race-swap", before=head, after=ours), "vector"))
    return [*steps, Step("catalog", say("draw-race-done", snapshot=ours), "good")]


def _draw(canvas: Canvas, say: Messages, steps: Sequence[Step]) -> None:
    """Draw a lane for each writer, the catalog between them; time goes down."""
    lanes = [lane for lane in ("other", "catalog", "ours") if any(step.lane == lane for step in steps)]
    marks: dict[str, Mark] = {"good": "chosen", "bad": "wrong"}
    labels = [
        label(*wrapped(step.words, 28), fill=step.look, mark=marks.get(step.look, ""), heading=False) for step in steps
    ]
    heads = {lane: label(say(f"draw-race-{lane}"), fill="paper") for lane in lanes}
    x, y, place, width = GAP, canvas.below, dict[str, float](), dict[str, float]()
    bottom = y + heads["ours"].size[1] + GAP + sum(what.size[1] + _DOWN for what in labels)
    for lane in lanes:
        own = [what for step, what in zip(steps, labels, strict=True) if step.lane == lane]
        width[lane], place[lane] = max(one.size[0] for one in (*own, heads[lane])), x
        head = canvas.box(x, y, heads[lane], width[lane])
        canvas.arrow(head.at(0.5, 1), (head.at(0.5, 1)[0], bottom))
        x += width[lane] + 4 * GAP
    y += heads["ours"].size[1] + GAP
    before = catalog = Box(0, 0, 0, 0)
    for i, (step, what) in enumerate(zip(steps, labels, strict=True)):
        box = canvas.box(place[step.lane], y, what, width[step.lane])
        if i and (step.told or step.lane == "catalog"):
            _across(canvas, catalog if step.told else before, box)
        before, y = box, box.at(0, 1)[1] + _DOWN
        catalog = box if step.lane == "catalog" else catalog


def _across(canvas: Canvas, start: Box, end: Box) -> None:
    """Draw an arrow from one lane to another."""
    if start.x < end.x:
        canvas.arrow(start.at(1, 0.5), end.at(0, 0.5))
    else:
        canvas.arrow(start.at(0, 0.5), end.at(1, 0.5))
