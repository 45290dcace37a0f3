"""Show values in lessons: as lines that are the same on every machine, without addresses, times or paths.

Columns have the width that a terminal gives them, for Korean and Japanese too. A notebook shows rows and records as an
HTML table, with the same lines beside it; elsewhere the lines are printed.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.cells import cell_len

from deletekit.course.translations import Messages
from deletekit.html_table import html_table, number_columns
from deletekit.text import cell

_MOST_ROWS = 40
_MOST_COLUMNS = 8
"""Columns from which records stand side by side: a table that is high is read more easily than one that is wide."""
_LONGEST_CELL = 200
"""Characters of a value in a table; records with longer ones stay lines."""


def show(value: Any) -> None:
    """Show rows (a pyarrow Table, or a list of dicts with the same keys) in columns, anything else line by line."""
    if isinstance(value, pa.Table):
        show_rows(value.column_names, value.slice(0, _MOST_ROWS).to_pylist(), len(value))
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        show_rows(list(dict.fromkeys(name for row in value for name in row)), value[:_MOST_ROWS], len(value))
    else:
        show_records(value)


def show_rows(names: Sequence[str], rows: Sequence[Mapping[str, Any]], total: int) -> None:
    """Show rows in columns; `total` counts those that are left out too."""
    said = aligned([names, *([row.get(name) for name in names] for row in rows)])
    if total > len(rows):
        said.append(f"... {total - len(rows):,} more")
    publish("\n".join(said), _rows_html(names, rows, total) if names else "")


def show_records(value: Any) -> None:
    """Show a value line by line; a notebook shows a record, or a list of records, as a table if it is small enough."""
    records = [value] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    flat = [dict(_fields(record)) for record in records if isinstance(record, Mapping)]
    names = list(dict.fromkeys(name for record in flat for name in record))
    html = ""
    if names and len(flat) == len(records) <= _MOST_ROWS and _longest(flat) <= _LONGEST_CELL:
        beside = isinstance(value, Mapping) or len(names) > max(_MOST_COLUMNS, len(flat))
        html = _fields_html(names, flat) if beside else _rows_html(names, flat, len(flat))
    publish("\n".join(lines(value)), html)


def publish(said: str, html: str = "") -> None:
    """Show a text, in a notebook as HTML if there is some, and print it elsewhere."""
    shell = notebook_shell()
    if shell is None or not html:
        print(said)  # noqa: T201
    else:
        shell.display_pub.publish({"text/plain": said, "text/html": html})


def notebook_shell() -> Any:
    """Return the shell that runs the cells of a notebook; None outside of IPython."""
    notebooks = sys.modules.get("IPython")  # a notebook has imported it
    return notebooks.get_ipython() if notebooks else None


def lines(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield a value as lines: dicts as `name: value`, lists with dashes, bytes in base64."""
    pad = "  " * depth
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, Mapping | list | tuple) and inner and not _short(inner):
                yield f"{pad}{name}:"
                yield from lines(inner, depth + 1)
            else:
                yield f"{pad}{name}: {cell(inner)}"
    elif isinstance(value, list | tuple) and not _short(value):
        for item in value:
            first, *rest = list(lines(item, depth + 1)) or ["{}"]
            yield f"{pad}- {first.lstrip()}"
            yield from rest
    elif isinstance(value, str):
        yield from (f"{pad}{line}" for line in value.splitlines() or [""])
    else:
        yield f"{pad}{cell(value)}"


def aligned(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return rows as lines with aligned columns; numbers are aligned to the right."""
    cells = [[cell(value) for value in row] for row in rows]
    right = [[isinstance(v, int | float) and not isinstance(v, bool) for v in row] for row in rows]
    numbers = [all(column[1:]) and len(column) > 1 for column in zip(*right, strict=True)]
    return in_columns(cells, [i for i, is_number in enumerate(numbers) if is_number])


def in_columns(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Return texts as lines with aligned columns, those of `numbers` to the right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(_padded(c, w, right=i in numbers) for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def _rows_html(names: Sequence[str], rows: Sequence[Mapping[str, Any]], total: int) -> str:
    say = Messages()
    caption = say("table-size", rows=f"{total:,}", columns=f"{len(names):,}")
    if total > len(rows):
        caption = say("page-shown", first="1", last=f"{len(rows):,}", total=f"{total:,}")
    numbers = number_columns([row.get(name) for name in names] for row in rows)
    shown = [[cell(row[name]) if name in row else "" for name in names] for row in rows]
    return html_table(names, shown, caption=caption, numbers=numbers, lang=say.lang)


def _fields_html(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> str:
    """Show each record in a column, each of its fields in a row."""
    say = Messages()
    caption = say("table-fields", fields=f"{len(names):,}")
    numbered = [str(i) for i, _ in enumerate(records, 1)] if len(records) > 1 else [say("meaning")]
    shown = [[name, *(cell(record[name]) if name in record else "" for record in records)] for name in names]
    return html_table([say("field"), *numbered], shown, caption=caption, lang=say.lang)


def _longest(records: Iterable[Mapping[str, Any]]) -> int:
    return max(len(cell(value)) for record in records for value in record.values())


def _fields(record: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each field of a record, and of the records in it by its path, as `data_file.content`."""
    for name, value in record.items():
        if isinstance(value, Mapping) and value:
            yield from _fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _padded(shown: str, width: int, *, right: bool) -> str:
    fill = " " * (width - cell_len(shown))
    return fill + shown if right else shown + fill


def _short(value: Any) -> bool:
    """Return whether a value has no lists or dicts in it, and so reads well on one line."""
    inner = value.values() if isinstance(value, Mapping) else value
    return not isinstance(value, Mapping) and all(not isinstance(v, Mapping | list | tuple) for v in inner)
