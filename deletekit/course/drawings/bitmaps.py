"""One container of a deletion vector in the three forms that it could have."""

from collections.abc import Iterable

import numpy as np

from deletekit.course.svg import GAP, PAD, Canvas, Svg, label, wrapped
from deletekit.course.translations import Messages
from deletekit.course.views.byte_layout import blob_layout
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.text import runs

_SHOWN_NUMBERS = 8
_CONTAINERS = ("array container", "bitmap container", "run container")


def roaring_container(positions: Iterable[int], *, lang: str | None = None) -> Svg:
    """Draw the first container of a set of positions as array, as bitmap and as runs, and mark the form that is stored.

    Parameters
    ----------
    positions: one or more, below 65,536.
    """
    say = Messages(lang)
    held = PositionBitmap(positions).to_numpy()
    stored = next(p.field for p in blob_layout(encode_blob(PositionBitmap(held))) if p.field in _CONTAINERS)
    starts = held[np.flatnonzero(np.diff(held, prepend=-2) != 1)]
    ends = held[np.flatnonzero(np.diff(held, append=1 << 17) != 1)]
    bits = np.zeros(1 << 16, dtype=np.bool_)
    bits[held] = True
    pairs = [f"{a}+{b - a}" for a, b in zip(starts[:4].tolist(), ends[:4].tolist(), strict=True)]
    shown = np.packbits(bits[:32], bitorder="little").tolist()
    forms = (
        ("array", 2 * len(held), ", ".join(map(str, held[:_SHOWN_NUMBERS].tolist())), len(held) > _SHOWN_NUMBERS),
        ("bitmap", 8192, " ".join(f"{byte:08b}" for byte in shown), True),
        ("run", 2 + 4 * len(starts), ", ".join(pairs), len(starts) > 4),
    )
    canvas = Canvas(say("draw-container-title", number=0), say.lang)
    y, facts = canvas.below, list[str]()
    canvas.lines(GAP, y + PAD, [say("draw-container-counts", count=f"{len(held):,}", runs=f"{len(starts):,}")])
    facts.append(say("draw-container-counts", count=f"{len(held):,}", runs=f"{len(starts):,}"))
    boxes, y = [], canvas.below
    for kind, size, text, cut in forms:
        chosen = stored == f"{kind} container"
        lines = [say(f"byte-{kind}-container"), text + (" …" if cut else ""), *wrapped(say(f"draw-form-{kind}"), 60)]
        lines.append(say("draw-byte-count", count=f"{size:,}") + (f": {say('draw-stored')}" if chosen else ""))
        boxes.append(label(*lines, fill="good" if chosen else "plain", mark="chosen" if chosen else "", mono=1))
        facts.append(f"{lines[0]}: {lines[1]}; {lines[-1]}")
    width = max(one.size[0] for one in boxes)
    for one in boxes:
        y = canvas.box(GAP, y, one, width).at(0, 1)[1] + PAD
    first_runs = ", ".join([text for text, _ in zip(runs(held.tolist()), range(4), strict=False)])
    return canvas.finish([*facts, say("draw-container-first", runs=first_runs + (" …" if len(starts) > 4 else ""))])
