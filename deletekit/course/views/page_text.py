"""A page as text for a terminal, and its first lines for a notebook's output."""

from collections.abc import Iterator

from deletekit.course.printing import in_columns
from deletekit.course.views.page import Block, Cells, Facts, Grid, Mark, Page, Tree

LONGEST = 30
"""Lines of a notebook's `text/plain`."""

_SIGNS: dict[Mark, str] = {"live": ".", "hidden": "x", "added": "+", "removed": "-", "wrong": "!"}


def page_text(page: Page) -> str:
    """Return the whole page as text."""
    return "\n".join(_lines(page))


def short_page_text(page: Page) -> str:
    """Return the page in at most `LONGEST` lines; the last line says how many are left out."""
    lines = list(_lines(page))
    if len(lines) <= LONGEST:
        return "\n".join(lines)
    more = page.words.get("more-lines", "").replace("{count}", str(len(lines) - LONGEST + 1))
    return "\n".join([*lines[: LONGEST - 1], more])


def _lines(page: Page) -> Iterator[str]:
    yield page.title
    yield page.sentence
    used = {line.mark for block in page.blocks if isinstance(block, Grid) for line in block.lines}
    if signs := [f"{_SIGNS[mark]} {page.words.get(f'sign-{mark}', mark)}" for mark in _SIGNS if mark in used]:
        yield page.words.get("signs", "{signs}").replace("{signs}", "; ".join(signs))
    for block in page.blocks:
        yield from _block(block)
    if page.code:
        yield ""
        yield f">>> {page.code}"
    if page.note:
        yield page.note


def _block(block: Block) -> Iterator[str]:
    yield ""
    yield block.caption
    if isinstance(block, Grid):
        yield from _grid(block)
    elif isinstance(block, Tree):
        for n in block.nodes:
            sign = ("v " if n.expanded else "> ") if n.expandable else "  "
            chosen = "*" if n.key == block.selected else " "
            yield f"{chosen}{'  ' * (n.level - 1)}{sign}{n.label}{': ' if n.value else ''}{n.value}".rstrip()
    elif isinstance(block, Facts):
        yield from (f"  {line}" for line in in_columns(block.items))
    else:
        yield from _cells(block)


def _grid(grid: Grid) -> Iterator[str]:
    rows = in_columns([grid.columns, *(line.cells for line in grid.lines)], grid.numbers)
    signed = any(line.mark in _SIGNS for line in grid.lines)
    for line, row in zip((None, *grid.lines), rows, strict=True):
        chosen = "*" if line is not None and grid.select and line.key == grid.selected else " "
        sign = f"{_SIGNS.get(line.mark, ' ') if line else ' '} " if signed else ""
        yield f"{chosen} {sign}{row}".rstrip()
    if grid.shown:
        yield f"  {grid.shown}"


def _cells(block: Cells) -> Iterator[str]:
    lines = block.lines()
    width = max((len(f"{first:,}") for first, _ in lines), default=0)
    for first, signs in lines:
        yield f"  {first:>{width},}  {signs}"
    yield f"  {block.legend}"
    for sign, meaning in block.meanings:
        yield f"  {sign}  {meaning}"
