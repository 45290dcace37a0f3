"""Print values in lessons: as lines that are the same on every machine, without addresses, times or paths.

Columns have the width that a terminal gives them, for Korean and Japanese too.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa
from rich.cells import cell_len

_MOST_ROWS = 40


def show(value: Any) -> None:
    """Print rows (a pyarrow Table, or a list of dicts with the same keys) in columns, anything else line by line."""
    if isinstance(value, pa.Table):
        names, rows = value.column_names, value.slice(0, _MOST_ROWS).to_pylist()
        _print_rows(names, rows, len(value))
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        names = list(dict.fromkeys(name for row in value for name in row))
        _print_rows(names, value[:_MOST_ROWS], len(value))
    else:
        print("\n".join(lines(value)))  # noqa: T201


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
            first, *rest = list(lines(item, depth + 1))
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
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    numbers = [all(column[1:]) and len(column) > 1 for column in zip(*right, strict=True)]
    return [
        "  ".join(_padded(c, w, right=n) for c, w, n in zip(row, widths, numbers, strict=True)).rstrip()
        for row in cells
    ]


def cell(value: Any) -> str:
    """Return one value on one line."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(cell, value)) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(map(cell, sorted(value))) + "}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {cell(inner)}" for name, inner in value.items()) + "}"
    return " ".join(str(value).split())


def _print_rows(names: Sequence[str], rows: Sequence[Mapping[str, Any]], total: int) -> None:
    print("\n".join(aligned([names, *([row.get(name) for name in names] for row in rows)])))  # noqa: T201
    if total > len(rows):
        print(f"... {total - len(rows):,} more")  # noqa: T201


def _padded(shown: str, width: int, *, right: bool) -> str:
    fill = " " * (width - cell_len(shown))
    return fill + shown if right else shown + fill


def _short(value: Any) -> bool:
    """Return whether a value has no lists or dicts in it, and so reads well on one line."""
    inner = value.values() if isinstance(value, Mapping) else value
    return not isinstance(value, Mapping) and all(not isinstance(v, Mapping | list | tuple) for v in inner)
