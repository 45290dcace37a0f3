"""Results as text: any of them by its fields, and the parts that sentences by hand are made of.

Every string is made safe to print here. Nothing is cut off: text that does not fit is folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, JustifyMethod, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from deletekit.text import field_name, field_text, first, json_ready, plain, short

_PROSE_WIDTH = 88
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_FILE_COLUMNS = ("file_path", "file_format", "record_count", "file_size_in_bytes", "referenced_data_file")
"""The fields of a file that a list of files shows; JSON has all."""


def result_text(result: Any, location: str = "") -> Iterator[RenderableType]:
    """Yield any result as text: its plain fields in one block, then each list and mapping under its name.

    A field that is None is left out. What is inside a list's items is counted, not listed: JSON has all.

    Parameters
    ----------
    result: a dataclass, or a mapping by name.
    location: of the table; paths below it are shortened.
    """
    shown = {name: value for name, value in json_ready(result).items() if value not in (None, "", {})}
    is_dry_run = shown.pop("dry_run", False)
    whole = {name: value for name, value in shown.items() if value and isinstance(value, list | dict)}
    yield pairs(
        {field_name(n): field_text(n, value, location) for n, value in shown.items() if n not in whole}, indent=0
    )
    for name, value in whole.items():
        yield from _section(field_name(name), name, value, location)
    if is_dry_run:
        yield Text("\nNothing was changed.", style="bold")


def one_line(result: Any, location: str = "") -> str:
    """Return any result as text of one line: its fields that are not None or empty."""
    shown = {name: value for name, value in json_ready(result).items() if value not in _EMPTY}
    return " · ".join(f"{field_name(name)} {field_text(name, value, location)}" for name, value in shown.items())


def fact_pairs(fields: Mapping[str, Any]) -> RenderableType:
    """Return the fields that are neither empty nor lists nor mappings, one a line."""
    plain_ones = {n: value for n, value in fields.items() if value not in _EMPTY and not isinstance(value, list | dict)}
    return pairs({field_name(name): field_text(name, value, "") for name, value in plain_ones.items()})


def _section(title: str, name: str, value: Any, location: str) -> Iterator[RenderableType]:
    if isinstance(value, dict) and value and all(isinstance(inner, list) for inner in value.values()):
        for key, inner in value.items():
            yield from _section(f"{title} {key}", name, inner, location)
        return
    yield heading(title, "" if name == "summary" else f"{len(value):,}" if isinstance(value, list) else "")
    if isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values()):
        value = [{"name": key, **inner} for key, inner in value.items()]
    if isinstance(value, dict):
        flat = {n: inner for n, inner in value.items() if inner not in _EMPTY and not isinstance(inner, dict)}
        yield pairs(
            {short(n, location) if "/" in n else field_name(n): field_text(n, v, location) for n, v in flat.items()}
        )
    elif all(isinstance(item, dict) for item in value):
        yield from records(value, location)
    else:
        yield from some([line(field_text(name, item, location)) for item in value])


def records(items: Sequence[Mapping[str, Any]], location: str = "", most: int = 20) -> Iterator[RenderableType]:
    """Yield a table of records, at most so many; a column for each field that holds something."""
    held = (n for item in items for n, value in item.items() if value not in _EMPTY and not isinstance(value, dict))
    names = list(dict.fromkeys(held))
    if "file_path" in names:
        names = [n for n in _FILE_COLUMNS if n in names]
    shown, left = first(items, most)
    numbers = {n for n in names if all(isinstance(item.get(n, 0), int) and item.get(n) is not True for item in items)}
    heads = [f"#{field_name(n)}" if n in numbers else field_name(n) for n in names]
    yield grid(heads, [[field_text(n, item.get(n), location) for n in names] for item in shown])
    if left:
        yield more(left, how="--json lists all", indent=2)


def heading(text: str, note: str = "") -> RenderableType:
    """Return a line that begins a section, with an empty line above it."""
    return Group(Text(), line((text, "bold"), ("  " + note if note else "", "dim")))


def indented(part: RenderableType, by: int = 2) -> RenderableType:
    """Return the part with so many spaces before each line."""
    return Padding(part, (0, 0, 0, by), expand=False)


def more(number: int, what: str = "more", how: str = "--limit 0 shows all", *, indent: int = 0) -> Text:
    """Return the line that says how many items are not shown, and how to see them."""
    return Text(f"{' ' * indent}… and {number:,} {what}; {how}", style="dim")


def some(lines: Sequence[RenderableType], most: int = 20) -> Iterator[RenderableType]:
    """Yield at most so many lines, indented, and then how many are left out; JSON has all."""
    shown, left = first(lines, most)
    yield from map(indented, shown)
    if left:
        yield more(left, how="--json lists all", indent=2)


def pairs(rows: Mapping[str, Any], indent: int = 2) -> RenderableType:
    """Return names and values, one pair a line."""
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="cyan", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(plain(name)), value if isinstance(value, Text) else Text(plain(value)))
    return indented(table, indent)


def grid(columns: Iterable[str], rows: Iterable[Iterable[Any]], indent: int = 2) -> RenderableType:
    """Return a table without rules; a column whose name begins with `#` holds numbers."""
    names = list(columns)
    cells = [[_cell(value) for value in row] for row in rows]
    # rich takes room from other columns for an empty one.
    used = [i for i, name in enumerate(names) if name or any(row[i] for row in cells)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(names))
    for i in used:
        justify: JustifyMethod = "right" if names[i].startswith("#") else "left"
        table.add_column(Text(plain(names[i].removeprefix("#"))), justify=justify, overflow="fold")
    for row in cells:
        table.add_row(*(row[i] for i in used))
    return indented(table, indent)


def _cell(value: Any) -> Text | Constrain:
    return value if isinstance(value, Text | Constrain) else Text(plain(value))


def line(*parts: str | tuple[str, str], style: str = "") -> Text:
    """Return texts, each with a style of its own if it is a pair, as one line; it is folded where the terminal ends."""
    safe = (plain(part) if isinstance(part, str) else (plain(part[0]), part[1]) for part in parts)
    return Text.assemble(*safe, style=style, overflow="fold")


def facts(*shown: str, style: str = "") -> Text:
    """Return short facts in one line, without the empty ones."""
    return line(" · ".join(fact for fact in shown if fact), style=style)


def unfolded(text: str, style: str = "", indent: int = 0) -> Text:
    """Return a line that only the terminal folds, so that it can be copied, such as a command."""
    return Text(" " * indent + plain(text), style=style, no_wrap=True, overflow="ignore")


def prose(text: str, style: str = "") -> Constrain:
    """Return sentences in lines of a readable length, even in a pipe, where nothing else is folded."""
    return Constrain(line(text, style=style), _PROSE_WIDTH)
