"""The pages that a widget's controls reach, made in advance: `without_kernel.js` shows them where no kernel is."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from heapq import heappop, heappush
from typing import Any

from deletekit.course.views.page import Cells, Grid, Page
from deletekit.course.widgets.base import PageWidget
from deletekit.errors import DeletekitError

MOST_PAGES = 200
_MOST_NUMBERS = 8
"""Values that a field for a number offers in advance."""


def explored(widget: PageWidget, languages: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return for each language what `without_kernel.js` reads. The widget must show a table.

    `steps` has, for each page, where each choice leads: the traits that it sets, as JSON, and the number of a page. The
    first page is the present one. What stands on several pages is once in `parts`; `pages` have its number. A control
    that leads nowhere is left out.

    Choices among few are combined first, as long as there are fewer than `MOST_PAGES` pages.
    """
    reached = _reached(widget)
    numbers = {state: i for i, state in enumerate(reached)}
    steps = [{choice: numbers[to] for choice, to in leads.items() if to in numbers} for leads in reached.values()]
    offered = {trait for leads in steps for choice in leads for trait in json.loads(choice)}
    found = {}
    for code in languages:
        parts: dict[str, int] = {}
        pages = [widget.view(**json.loads(state), lang=code).to_json() for state in reached]
        for page in pages:
            page["controls"] = [c for c in page["controls"] if c["trait"] in offered]
            for name in ("controls", "blocks"):
                page[name] = [parts.setdefault(_json(part), len(parts)) for part in page[name]]
        found[code] = {"pages": pages, "parts": list(map(json.loads, parts)), "steps": steps}
    return found


def _reached(widget: PageWidget) -> dict[str, dict[str, str]]:
    """Return the states that can be reached, the present one first, and by its choices the states that follow."""

    @cache
    def page_of(state: str) -> Page | None:
        with suppress(DeletekitError):  # such as a position behind the last row
            return widget.view(**json.loads(state), lang="en")
        return None

    reached: dict[str, dict[str, str]] = {}
    waiting = [(0, _json({name: value for name, value in widget.state().items() if name != "lang"}))]
    while waiting and len(reached) < MOST_PAGES:
        far, key = heappop(waiting)
        page, state = page_of(key), json.loads(key)
        if page is None or key in reached:
            continue
        choices, reached[key] = list(_choices(page)), {}
        among = Counter(map(tuple, choices))
        for choice in choices:
            changed = [name for name in choice if state[name] != choice[name]]
            resets = {name: value for other in changed for name, value in widget.resets.get(other, {}).items()}
            after = {**state, **choice, **resets}
            made = page_of(_json(after))
            if made is not None:
                after |= {name: value for name, value in made.state.items() if name in after}
                reached[key][_json(choice)] = _json(after)
                heappush(waiting, (far + among[tuple(choice)], _json(after)))
    return reached


def _choices(page: Page) -> Iterator[dict[str, Any]]:
    """Yield what the script of a widget sets on a page, in the order in which the script sets it."""
    for c in page.controls:
        numbers = [None, *range(c.minimum, min(c.maximum + 1, c.minimum + _MOST_NUMBERS))]
        values = {"select": [value for value, _ in c.options], "number": numbers, "check": [not c.value]}
        # `raw` shows what another machine has otherwise.
        yield from (
            {c.trait: value} for value in values.get(c.kind, [c.value]) if c.kind != "text" and c.trait != "raw"
        )
    for block in page.blocks:
        if isinstance(block, Grid) and block.select:
            yield from ({block.select: line.key} for line in block.lines)
        elif isinstance(block, Cells):
            for position in range(block.first, block.first + len(block.signs) * block.per_cell, block.per_cell):
                yield from ({block.select: position}, {block.select: position, "zoom": 0})


def _json(value: Any) -> str:
    """Return a value as JavaScript's `JSON.stringify` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
