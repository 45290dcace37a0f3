"""The command `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

import deletekit as dk
from deletekit.cli.options import TableAnswerCommand, limit_option, snapshot_options
from deletekit.cli.printer import line, prose
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.notebook_html import result_fields
from deletekit.text import count, first, literal, plain, short

if TYPE_CHECKING:
    from deletekit.tools.explain import HidingDelete, RowVersion, UnreadFile


@click.command(cls=TableAnswerCommand)
@click.argument("where")
@snapshot_options
@click.option("--columns", metavar="A,B", help="Columns to read and show.  [default: all]")
@limit_option("Versions")
def explain(
    argument: TableArgument, output: Output, where: str, *, limit: int, columns: str | None = None, **snapshot: Any
) -> Answer:
    """Show every version of rows, live or hidden, which delete hides each, and by which rule.

    WHERE is a filter as in SQL, and finds deleted rows too: "id = 1", "name is null and id in (1, 3)". If a file cannot
    be read, it is named, and the exit code is 1.

    TABLE is a *.metadata.json file or a table's directory; with --warehouse or --catalog it is namespace.table.

    \b
    Examples:
      deletekit explain wh/demo/users "id = 1"
      deletekit explain --warehouse wh demo.users "id = 1" --columns id,value
      deletekit explain --warehouse wh demo.users true --as-of 2026-01-31 --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = argument.open()
    chosen = [name.strip() for name in columns.split(",")] if columns is not None else None
    with output.bar("Reading data files"):
        found = dk.explain(table, where, columns=chosen, **snapshot)
    text = _text(found, table.location, limit)
    return Answer(document=_document(found), text=text, exit_code=1 if found.unread else 0)


def _document(found: dk.results.Explanation) -> dict[str, Any]:
    versions = [
        {**result_fields(v), "live": None if v.unknown else v.live, "verdict": v.verdict, "unread": _unread(v.unread)}
        for v in found
    ]
    return {**result_fields(found), "versions": versions, "unread": _unread(found.unread)}


def _unread(files: Sequence[UnreadFile]) -> list[dict[str, str]]:
    return [{"file_path": file.file_path, "kind": file.error.kind, "error": str(file.error)} for file in files]


def _text(found: dk.results.Explanation, location: str, limit: int) -> Iterator[RenderableType]:
    what = f"{len(found.live):,} live, {len(found.hidden):,} hidden" if len(found) else "no version of such a row"
    snapshot = f"snapshot {found.snapshot_id}" if found.snapshot_id is not None else "no snapshot yet"
    yield Text.assemble((plain(found.table), "bold"), "  ", snapshot, "  ", (what, "bold"), overflow="fold")
    shown, left = first(found.versions, limit)
    for version in shown:
        yield from (Text(), _version(version, location))
    if left:
        yield Text(f"\n… and {count(left, 'more version')}; --limit 0 shows all")
    for file in found.unread:
        yield Text()
        yield line(("cannot be read", "red"), "  " + short(file.file_path, location))
        yield prose(str(file.error))


def _version(version: RowVersion, location: str) -> RenderableType:
    """Return a row, where it is, and each delete that has its key or position."""
    word, style = ("live", "bold green") if version.live else ("HIDDEN", "bold red")
    if version.unknown:
        word, style = "UNKNOWN", "bold yellow"
    head = Text.assemble((word, style), overflow="fold")
    for name, value in version.row.items():
        head.append("  ").append(plain(name), "cyan").append("=" + literal(value))
    tree = Tree(head, guide_style="dim")
    tree.add(line(f"row {version.position:,} of {short(version.data_file, location)}"))
    for delete in version.hidden_by:
        tree.add(_delete("hidden by", "red", delete, version))
    for delete in version.spared_by:
        tree.add(_delete("not hidden by", "green", delete, version))
    for file in version.unread:
        tree.add(line(("may be hidden by", "yellow"), f" {short(file.file_path, location)}, which cannot be read"))
    if version.live and not version.spared_by:
        tree.add(Text(f"no delete applies to it; it is of sequence {version.sequence_number}"))
    return tree


def _delete(verdict: str, style: str, delete: HidingDelete, version: RowVersion) -> RenderableType:
    article = "an" if delete.kind.startswith("e") else "a"
    kind = delete.kind.replace("-", " ")
    sequences = f"of sequence {delete.sequence_number}; the row is of sequence {version.sequence_number}"
    head = Text.assemble((verdict, style), f" {article} {kind} {sequences}", overflow="fold")
    return Group(head, prose(delete.rule, style="dim"))
