"""CostMeter: the same rows deleted in each mode, side by side: files and bytes written, and to be read afterwards."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.page import Page

MOST_ROWS = 200_000
_MANY = 1_000
"""Bytes from which on two digits are shown, not one: the names of files are a small part of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCost:
    """What deleting costs in one mode.

    Attributes
    ----------
    files_written, bytes_written: data files and deletes of the commit; of a deletion vector its blob.
    files_read, bytes_read: data files and deletes that a full scan opens afterwards, and what it reads of them: the
        column chunks of the schema's columns, delete files, and vectors.
    """

    mode: str
    files_written: int
    bytes_written: int
    files_read: int
    bytes_read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of one delete on one table; `refused` are the modes that cannot do it, each with the reason."""

    modes: Sequence[ModeCost]
    table: str
    refused: Sequence[str] = ()


@page.view_page()
def cost_meter(
    costs: Costs | str,
    *,
    where: str | None = None,
    rows: int = 20_000,
    files: int = 4,
    percent: int = 10,
    format_version: int = 3,
    lang: str | None = None,
) -> Page:
    """Make the page of one delete.

    Parameters
    ----------
    costs: what it costs in each mode. A text is the name of a table whose rows are not chosen yet.
    where: which rows of the reader's own table; None for a table that is made for this.
    rows, files, percent, format_version: that table: see `measure_trial`.
    """
    say = Messages(lang)
    own = [page.text("where", say("where"), where)]
    if isinstance(costs, str):
        return Page(sentence=say("cost-where", table=costs), controls=own)
    columns = ["mode", *map(say, ("files-written", "bytes-written", "files-read", "bytes-read"))]
    texts = [[_about(c.bytes_written), _about(c.bytes_read)] for c in costs.modes]
    figure = {
        "bars": [[c.mode, c.bytes_written, c.bytes_read] for c in costs.modes],
        "names": [columns[2], columns[4]],
        "texts": texts,
    }
    lines = (
        page.line(c.mode, c.mode, c.files_written, written, c.files_read, read)
        for c, (written, read) in zip(costs.modes, texts, strict=True)
    )
    trial = [
        page.number("rows", say("rows"), rows, MOST_ROWS, 1),
        page.number("files", say("files"), files, 100, 1),
        page.number("percent", say("percent"), percent, 100, 1),
        page.select("format_version", "format-version", format_version, (2, 3)),
    ]
    what = say("cost-own", table=costs.table)
    if where is None:
        what = say("cost-trial", percent=percent, rows=f"{rows:,}", files=files)
    more = {"numbers": (1, 2, 3, 4), "figure": figure, "shown": "; ".join(costs.refused)}
    return Page(
        sentence=_sentence(say, what, costs.modes),
        source=() if where is None else ("table",),
        blocks=[page.grid("costs", say("cost-caption"), columns, lines, **more)],
        controls=trial if where is None else own,
    )


def _sentence(say: Messages, what: str, modes: Sequence[ModeCost]) -> str:
    if not modes:
        return what
    least, most = (chosen(modes, key=lambda c: c.bytes_written) for chosen in (min, max))
    reads = min(modes, key=lambda c: c.bytes_read)
    words = {"least": least.mode, "most": most.mode, "reads": reads.mode}
    counts = [_about(n) for n in (least.bytes_written, most.bytes_written, reads.bytes_read)]
    shown = ([c.live for c in counts], counts)
    names = ("least_bytes", "most_bytes", "read_bytes")
    return page.Varying(*(f"{what} {say('cost-sentence', **words, **dict(zip(names, s, strict=True)))}" for s in shown))


def _about(count: int) -> page.Varying:
    """Round a number of bytes to its first digits: file names are in them, so some bytes differ every time."""
    if count < 10:
        return page.Varying(str(count), str(count))
    step = 10 ** (int(math.log10(count)) - (count >= _MANY))
    return page.Varying(f"{count:,}", f"~{round(count / step) * step:,}")
