"""CostMeter: the same rows deleted in each mode, side by side: files and bytes written, and to be read afterwards."""

from __future__ import annotations

import math
from functools import lru_cache

from deletekit.course.recordings.costs import ModeCost, measure_costs
from deletekit.course.views.build import code_line, words
from deletekit.course.views.messages import Messages
from deletekit.course.views.page import Control, Grid, Line, Page

__all__ = ["cost_meter"]

MOST_ROWS = 200_000
_MANY = 10_000
"""Bytes of which two digits are shown, not one: what names of files add to them is little."""


def cost_meter(
    *, rows: int = 20_000, files: int = 4, percent: int = 1, times: bool = False, lang: str | None = None
) -> Page:
    """The page of one workload, measured now on tables of its own.

    Parameters
    ----------
    rows, files, percent: see `measure_costs`.
    times: show seconds too; they differ from run to run.

    Raises InvalidInputError for numbers out of range.
    """
    messages = Messages(lang)
    costs = _measured(rows, files, percent)
    least = min(costs, key=lambda c: c.bytes_written)
    most = max(costs, key=lambda c: c.bytes_written)
    state = {"rows": rows, "files": files, "percent": percent, "times": times}
    columns = ["mode", "v", messages("files-written"), messages("bytes-written"), messages("files-read")]
    columns += [messages("bytes-read"), *((messages("seconds-delete"), messages("seconds-read")) if times else ())]
    return Page(
        view="CostMeter",
        title=messages("title-CostMeter"),
        sentence=messages(
            "cost-sentence",
            percent=str(percent),
            rows=f"{rows:,}",
            files=str(files),
            least=least.mode,
            least_bytes=_about(least.bytes_written),
            most=most.mode,
            most_bytes=_about(most.bytes_written),
        ),
        lang=messages.lang,
        code=code_line("CostMeter", "", state, {"rows": 20_000, "files": 4, "percent": 1, "times": False}),
        blocks=(
            Grid(
                name="costs",
                caption=messages("cost-caption"),
                columns=tuple(columns),
                lines=tuple(Line(key=c.mode, cells=_cells(c, times=times)) for c in costs),
                numbers=tuple(range(1, len(columns))),
                figure={
                    "bars": [[c.mode, c.bytes_written, c.bytes_read] for c in costs],
                    "names": [messages("bytes-written"), messages("bytes-read")],
                    "texts": [[_about(c.bytes_written), _about(c.bytes_read)] for c in costs],
                },
            ),
        ),
        controls=(
            Control(kind="number", trait="rows", label=messages("rows"), value=rows, minimum=1, maximum=MOST_ROWS),
            Control(kind="number", trait="files", label=messages("files"), value=files, minimum=1, maximum=100),
            Control(kind="number", trait="percent", label=messages("percent"), value=percent, minimum=1, maximum=100),
            Control(kind="check", trait="times", label=messages("times"), value=times),
        ),
        words=words(messages),
    )


@lru_cache(maxsize=16)
def _measured(rows: int, files: int, percent: int) -> tuple[ModeCost, ...]:
    return measure_costs(rows, files, percent)


def _cells(cost: ModeCost, *, times: bool) -> tuple[str, ...]:
    seconds = (f"{cost.delete_seconds:.3f}", f"{cost.read_seconds:.3f}") if times else ()
    return (
        cost.mode,
        str(cost.format_version),
        str(cost.files_written),
        _about(cost.bytes_written),
        str(cost.files_read),
        _about(cost.bytes_read),
        *seconds,
    )


def _about(number: int) -> str:
    """The first digits of a number of bytes: the names of files are in them, and so some bytes differ every time."""
    if number < 10:
        return str(number)
    step = 10 ** (int(math.log10(number)) - (number >= _MANY))
    return f"~{round(number / step) * step:,}"
