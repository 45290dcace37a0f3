"""Write a table as HTML that needs no style sheet: each text in it is escaped, and colours are those of the page."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

from deletekit.text import plain

# Words of Korean stay whole; long ones are broken rather than cut.
_PLACE = "overflow-x:auto;word-break:keep-all;overflow-wrap:break-word"
_NARROW = 40
"""Characters across that fit a telephone. What is wider scrolls, and the keyboard must reach it for that."""


def html_table(
    columns: Sequence[object],
    rows: Sequence[Sequence[object]],
    *,
    caption: str,
    numbers: Collection[int] = (),
    current: int | None = None,
    lang: str = "",
) -> str:
    """Return a table as HTML; the first cell of a row names it.

    Parameters
    ----------
    columns: their names; without any, the table has no head.
    numbers: columns that are aligned to the right.
    current: the number of the row that is selected.
    lang: the language of the caption and the columns.
    """
    place = f'class="wide" style="{_PLACE}"' + (f' lang="{safe_html(lang)}"' if lang else "")
    if max((sum(len(str(cell)) for cell in row) for row in (columns, *rows)), default=0) > _NARROW:
        place += reached_by_keyboard(caption)
    title = f'<caption style="{_style(caption)}">{safe_html(caption)}</caption>'
    names = "".join(_cell("th", name, i in numbers, ' scope="col"') for i, name in enumerate(columns))
    head = f"<thead><tr>{names}</tr></thead>" if names else ""
    body = "".join(_row(row, numbers, chosen=i == current) for i, row in enumerate(rows))
    return f"<div {place}>\n<table>{title}{head}<tbody>\n{body}</tbody></table></div>"


def reached_by_keyboard(name: object) -> str:
    """Return the attributes of a part that scrolls: without them only a mouse could scroll it."""
    return f' tabindex="0" role="group" aria-label="{safe_html(name)}"'


def number_columns(rows: Iterable[Sequence[object]]) -> list[int]:
    """Return the columns whose values are numbers; None may be among them."""
    columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [i for i, column in enumerate(columns) if column and all(map(_is_number, column))]


def safe_html(text: object) -> str:
    """Return a text as HTML shows it: none of it is markup, and nothing in it is invisible."""
    return escape(plain(text), quote=True)


def _row(cells: Sequence[object], numbers: Collection[int], *, chosen: bool) -> str:
    first, *rest = cells
    made = [_cell("th", first, 0 in numbers, ' scope="row"')]
    made += [_cell("td", cell, i in numbers) for i, cell in enumerate(rest, 1)]
    mark = ' aria-current="true"' if chosen else ""
    return f"<tr{mark}>{''.join(made)}</tr>\n"


def _cell(tag: str, text: object, is_number: bool, more: str = "") -> str:
    if not str(text):
        return "<td></td>"
    name = 'class="number" ' if is_number else ""
    return f'<{tag} {name}style="{_style(text if tag == "th" else None, is_number)}"{more}>{safe_html(text)}</{tag}>'


def _style(name: object, is_number: bool = False) -> str:
    """Return the style of a cell, or of a name: a short one stays on one line."""
    whole = ";white-space:nowrap" if name is not None and len(str(name)) <= _NARROW else ""
    return f"text-align:{'right' if is_number else 'left'}{whole}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
