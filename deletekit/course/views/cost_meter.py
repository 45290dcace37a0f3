"""CostMeter: the same rows deleted in each mode, side by side: files and bytes written, and to be read afterwards."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.page import Page

MOST_ROWS = 200_000
_MANY = 10_000
"""Bytes from which on two digits are shown, not one: the names of files are a small part of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCost:
    """What deleting cost in one mode.

    Attributes
    ----------
    files_written, bytes_written: data files and deletes of the commit; of a deletion vector its blob.
    files_read, bytes_read: data files and deletes that a full scan opens afterwards.
    delete_seconds, read_seconds: wall time of the verb and of a full scan.
    rows_left: rows of the table afterwards, the same for every mode.
    """

    mode: str
    format_version: int
    files_written: int
    bytes_written: int
    files_read: int
    bytes_read: int
    delete_seconds: float
    read_seconds: float
    rows_left: int


@page.view_page()
def cost_meter(
    costs: Sequence[ModeCost],
    *,
    rows: int = 20_000,
    files: int = 4,
    percent: int = 1,
    times: bool = False,
    lang: str | None = None,
) -> Page:
    """Make the page of one workload.

    Parameters
    ----------
    costs: what the workload cost in each mode, as `measure_costs` returns it.
    rows, files, percent: the workload: see `measure_costs`.
    times: show seconds too; they differ from run to run.
    """
    messages = Messages(lang)
    least = min(costs, key=lambda c: c.bytes_written)
    most = max(costs, key=lambda c: c.bytes_written)
    say = partial(
        messages,
        "cost-sentence",
        percent=percent,
        rows=f"{rows:,}",
        files=files,
        least=least.mode,
        most=most.mode,
    )
    a, b = _about(least.bytes_written), _about(most.bytes_written)
    columns = ["mode", "format-version", *map(messages, ("files-written", "bytes-written", "files-read", "bytes-read"))]
    columns += map(messages, ("seconds-delete", "seconds-read") if times else ())
    lines = (page.line(c.mode, *_cells(c, times=times)) for c in costs)
    figure = {
        "bars": [[c.mode, c.bytes_written, c.bytes_read] for c in costs],
        "names": [messages("bytes-written"), messages("bytes-read")],
        "texts": [[_about(c.bytes_written), _about(c.bytes_read)] for c in costs],
    }
    numbers = tuple(range(1, len(columns)))
    return Page(
        sentence=page.Varying(*(say(least_bytes=a, most_bytes=b) for a, b in ((a.live, b.live), (a, b)))),
        source=(),
        blocks=[page.grid("costs", messages("cost-caption"), columns, lines, numbers=numbers, figure=figure)],
        controls=[
            page.number("rows", messages("rows"), rows, MOST_ROWS, 1),
            page.number("files", messages("files"), files, 100, 1),
            page.number("percent", messages("percent"), percent, 100, 1),
            page.check("times", messages("times"), times),
        ],
    )


def _cells(cost: ModeCost, *, times: bool) -> tuple[object, ...]:
    seconds = (f"{cost.delete_seconds:.3f}", f"{cost.read_seconds:.3f}") if times else ()
    written, read = _about(cost.bytes_written), _about(cost.bytes_read)
    return (cost.mode, cost.format_version, cost.files_written, written, cost.files_read, read, *seconds)


def _about(count: int) -> page.Varying:
    """Round a number of bytes to its first digits: file names are in them, so some bytes differ every time."""
    if count < 10:
        return page.Varying(str(count), str(count))
    step = 10 ** (int(math.log10(count)) - (count >= _MANY))
    return page.Varying(f"{count:,}", f"~{round(count / step) * step:,}")
