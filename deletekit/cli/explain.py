"""`deletekit explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

import deletekit as dk
from deletekit.cli.options import SnapshotChoice, TableSource, output_options, snapshot_options, table_options
from deletekit.cli.printer import Prose, Unbroken
from deletekit.cli.table_argument import open_table
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import count, first, literal, plain, short

if TYPE_CHECKING:
    from deletekit.verbs.explain import HidingDelete, RowVersion, UnreadFile

__all__ = ["explain"]


@click.command(short_help="Show row versions, and what hides each.")
@table_options
@click.argument("where")
@snapshot_options
@click.option("--columns", metavar="A,B", help="Columns to show; the others are not read.  [default: all]")
@click.option(
    "--limit", type=click.IntRange(min=0), default=50, show_default=True, metavar="N", help="Versions shown; 0 is all."
)
@output_options
def explain(
    source: TableSource, where: str, at: SnapshotChoice, *, columns: str | None, limit: int, output: Output
) -> None:
    """Show every version of rows, live or hidden, which delete hides each, and by which rule.

    WHERE says which rows, deleted ones too, as SQL would: "id = 1", "name is null and id in (1, 3)". A file that cannot
    be read is named, and the exit code is 1.

    TABLE is a *.metadata.json file or a table's directory; with --warehouse or --catalog it is namespace.table.

    \b
    Examples:
      deletekit explain wh/demo/users "id = 1"
      deletekit explain --warehouse wh demo.users "id = 1" --columns id,value
      deletekit explain --warehouse wh demo.users true --as-of 2026-01-31 --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    chosen = [name.strip() for name in columns.split(",")] if columns is not None else None
    with output.engine("Reading data files") as engine:
        found = dk.explain(table, where, columns=chosen, engine=engine, **at.arguments())
    if output.as_json:
        show_json(_document(found))
        click.get_current_context().exit(1 if found.unread else 0)
    some, left = first(found.versions, limit)
    more = [Text(f"\n… and {count(left, 'more version', 'more versions')}; --limit 0 shows all")] if left else []
    show(_head(found), *(part for v in some for part in (Text(), _version(v, table.location))), *more)
    for file in found.unread:
        path = short(file.file_path, table.location)
        show(Text(), Unbroken(("cannot be read", "red"), "  " + path), Prose(str(file.error)))
    click.get_current_context().exit(1 if found.unread else 0)


def _document(found: dk.Explanation) -> dict[str, Any]:
    versions = [
        {
            "live": None if v.unknown else v.live,
            "row": v.row,
            "data_file": v.data_file,
            "position": v.position,
            "sequence_number": v.sequence_number,
            "verdict": v.verdict,
            "hidden_by": v.hidden_by,
            "spared_by": v.spared_by,
            "unread": _unread(v.unread),
        }
        for v in found
    ]
    return {
        "table": found.table,
        "snapshot_id": found.snapshot_id,
        "versions": versions,
        "unread": _unread(found.unread),
    }


def _unread(files: Sequence[UnreadFile]) -> list[dict[str, str]]:
    return [{"file_path": file.file_path, "kind": file.error.kind, "error": str(file.error)} for file in files]


def _head(found: dk.Explanation) -> Text:
    what = f"{len(found.live):,} live, {len(found.hidden):,} hidden" if len(found) else "no version of such a row"
    snapshot = f"snapshot {found.snapshot_id}" if found.snapshot_id is not None else "no snapshot yet"
    return Text.assemble((plain(found.table), "bold"), "  ", snapshot, "  ", (what, "bold"), overflow="fold")


def _version(version: RowVersion, location: str) -> RenderableType:
    """A row, where it is, and each delete that has its key or position."""
    word, style = ("live", "bold green") if version.live else ("HIDDEN", "bold red")
    if version.unknown:
        word, style = "UNKNOWN", "bold yellow"
    head = Text.assemble((word, style), overflow="fold")
    for name, value in version.row.items():
        head.append("  ").append(plain(name), "cyan").append("=" + literal(value))
    tree = Tree(head, guide_style="dim")
    tree.add(Unbroken(f"row {version.position:,} of {short(version.data_file, location)}"))
    for delete in version.hidden_by:
        tree.add(_delete("hidden by", "red", delete, version))
    for delete in version.spared_by:
        tree.add(_delete("not hidden by", "green", delete, version))
    for file in version.unread:
        tree.add(Unbroken(("may be hidden by", "yellow"), f" {short(file.file_path, location)}, which cannot be read"))
    if version.live and not version.spared_by:
        tree.add(Text(f"no delete applies to it; it is of sequence {version.sequence_number}"))
    return tree


def _delete(verdict: str, style: str, delete: HidingDelete, version: RowVersion) -> RenderableType:
    article = "an" if delete.kind.startswith("e") else "a"
    kind = delete.kind.replace("-", " ")
    sequences = f"of sequence {delete.sequence_number}; the row is of sequence {version.sequence_number}"
    head = Text.assemble((verdict, style), f" {article} {kind} {sequences}", overflow="fold")
    return Group(head, Prose(delete.rule, style="dim"))
