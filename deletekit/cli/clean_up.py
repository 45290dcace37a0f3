"""`deletekit expire-snapshots`, `remove-orphan-files` and `rewrite-manifests`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

import deletekit as dk
from deletekit.cli.options import (
    TableSource,
    dry_run_option,
    other_locations_option,
    output_options,
    table_options,
    time_of,
    when_interrupted,
)
from deletekit.cli.printer import Unbroken, heading, nothing_changed
from deletekit.cli.table_argument import open_table
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import count, first, plain, short

__all__ = ["document", "expire_snapshots", "failures", "kept", "lists", "remove_orphan_files", "rewrite_manifests"]

_MOST_FILES = 20

_older_than = click.option(
    "--older-than", metavar="TIME", help="ISO 8601 (UTC unless it says otherwise), or milliseconds since 1970."
)
_KINDS = {
    "deleted_data_files": "Data files",
    "deleted_position_delete_files": "Position delete files",
    "deleted_deletion_vector_files": "Puffin files",
    "deleted_equality_delete_files": "Equality delete files",
    "deleted_manifest_files": "Manifests",
    "deleted_manifest_lists": "Manifest lists",
    "deleted_statistics_files": "Statistics files",
}


@click.command("expire-snapshots", short_help="Remove old snapshots, and what only they need.")
@table_options
@_older_than
@click.option(
    "--retain-last",
    type=click.IntRange(min=1),
    metavar="N",
    help="Newest snapshots that a branch keeps whatever their age.  [default: the table's]",
)
@click.option("--snapshot", "snapshot_ids", type=int, multiple=True, metavar="ID", help="This one too; repeatable.")
@other_locations_option
@dry_run_option
@output_options
def expire_snapshots(
    source: TableSource, *, older_than: str | None, dry_run: bool, output: Output, **which: Any
) -> None:
    """Remove snapshots that are too old and refs that are, then the files that no other snapshot needs.

    Without --older-than, the table's history.expire.* properties say what is old: 5 days.
    Files outside of the table's own folders stay, and are listed.

    \b
    Examples:
      deletekit expire-snapshots --warehouse wh demo.users --dry-run
      deletekit expire-snapshots --warehouse wh demo.users --older-than 2026-01-31
      deletekit expire-snapshots --catalog prod demo.users --retain-last 10
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    if not dry_run:
        when_interrupted("Files may be left that nothing needs: `deletekit remove-orphan-files` finds them.")
    with output.engine("Expiring snapshots") as engine:
        done = dk.expire_snapshots(table, older_than=time_of(older_than), dry_run=dry_run, engine=engine, **which)
    if output.as_json:
        show_json({"table": table.name, **document(done)})
        return
    verb = "would expire" if dry_run else "expired"
    refs = f" and {count(len(done.refs), 'ref')} ({', '.join(done.refs)})" if done.refs else ""
    show(
        Text(plain(f"{count(len(done.snapshot_ids), 'snapshot')}{refs} of {table.name} {verb}"), style="bold"),
        *lists({title: getattr(done, name) for name, title in _KINDS.items()}, table.location, dry_run),
        *kept(done.kept_files, table.location, dry_run),
        *failures(done.failed_files, table.location),
        *nothing_changed(dry_run),
    )


@click.command("remove-orphan-files", short_help="Remove files that nothing in the table needs.")
@table_options
@_older_than
@click.option("--location", metavar="DIR", help="Look only here.  [default: the table's location]")
@click.option(
    "--prefix-mismatch-mode",
    type=click.Choice(("error", "ignore", "delete")),
    default="error",
    show_default=True,
    help="What to do with a file that metadata names by another scheme or host.",
)
@click.option("--equal-scheme", "schemes", multiple=True, metavar="A,B=C", help="Schemes A and B are C; repeatable.")
@click.option("--equal-authority", "hosts", multiple=True, metavar="A,B=C", help="Hosts A and B are C; repeatable.")
@click.option("--force", is_flag=True, help="Allow files of less than 24 hours; only when nobody writes.")
@dry_run_option
@output_options
def remove_orphan_files(
    source: TableSource,
    *,
    older_than: str | None,
    schemes: tuple[str, ...],
    hosts: tuple[str, ...],
    dry_run: bool,
    output: Output,
    **how: Any,
) -> None:
    """Remove files below the table's location that no snapshot needs, if they are older than 3 days.

    \b
    Examples:
      deletekit remove-orphan-files --warehouse wh demo.users --dry-run
      deletekit remove-orphan-files --catalog c demo.users --older-than 2026-01-31
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    how |= {"equal_schemes": _equal(schemes), "equal_authorities": _equal(hosts)}
    table = open_table(source)
    with output.engine("Looking for orphans") as engine:
        done = dk.remove_orphan_files(table, older_than=time_of(older_than), dry_run=dry_run, engine=engine, **how)
    if output.as_json:
        show_json({"table": table.name, **document(done)})
        return
    verb = "would be removed" if dry_run else "removed"
    found = count(len(done.orphan_files), "orphan")
    show(
        Text(plain(f"{found} of {count(done.listed_files, 'file')} of {table.name} {verb}"), style="bold"),
        *_some(done.orphan_files, done.location),
        *failures(done.failed_files, done.location),
        *nothing_changed(dry_run),
    )


@click.command("rewrite-manifests", short_help="Combine manifests, so that planning reads less.")
@table_options
@click.option("--spec-id", type=int, metavar="ID", help="Only manifests of this partition spec.  [default: of each]")
@click.option("--ref", default="main", show_default=True, metavar="BRANCH", help="Branch to commit to.")
@dry_run_option
@output_options
def rewrite_manifests(source: TableSource, *, dry_run: bool, output: Output, **how: Any) -> None:
    """Combine and cluster manifests by partition, into some of commit.manifest.target-size-bytes.

    \b
    Examples:
      deletekit rewrite-manifests --warehouse wh demo.users
      deletekit rewrite-manifests --catalog prod demo.users --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table = open_table(source)
    if not dry_run:
        when_interrupted("Whether the rewrite was committed is not known: look with `deletekit inspect`.")
    with output.waiting("Rewriting manifests"):
        done = dk.rewrite_manifests(table, dry_run=dry_run, **how)
    if output.as_json:
        show_json({"table": table.name, **document(done)})
        return
    old, new = count(len(done.rewritten_manifests), "manifest"), done.added_manifests_count
    verb = "would become" if dry_run else "became"
    head = f"{old} of {table.name} {verb} {new:,}" if done.rewritten_manifests else f"No manifest of {table.name} to do"
    show(
        Text(plain(head), style="bold"),
        *lists({"Manifests": done.rewritten_manifests}, table.location, dry_run, verb="replaced"),
        *lists({"Manifests": done.added_manifests}, table.location, dry_run, verb="added"),
        *nothing_changed(dry_run),
    )


def document(done: Any) -> dict[str, Any]:
    """A report's fields, as JSON has them."""
    return {name: getattr(done, name) for name in done.__dataclass_fields__}


def _equal(names: tuple[str, ...]) -> dict[str, str]:
    out = {}
    for text in names:
        many, equals, one = text.partition("=")
        if not equals or not many or not one:
            raise click.BadParameter(f"each is A,B=C, and this is {text!r}")
        out[many] = one
    return out


def lists(
    files: Mapping[str, Sequence[str]], location: str, dry_run: bool, verb: str = "removed"
) -> Iterator[RenderableType]:
    """Files under headings; nothing of those that there are none of."""
    for title, paths in files.items():
        if paths:
            yield heading(f"{title} {'to be ' if dry_run else ''}{verb} ({len(paths):,})")
            yield from _some(paths, location)


def _some(paths: Sequence[str], location: str) -> Iterator[RenderableType]:
    shown, left = first(paths, _MOST_FILES)
    yield from (Padding(Unbroken(short(path, location)), (0, 0, 0, 2), expand=False) for path in shown)
    if left:
        yield Text(f"  … and {left:,} more; --json lists all", style="dim")


def kept(files: Sequence[str], location: str, dry_run: bool) -> Iterator[RenderableType]:
    """Files that nothing leads to, and that stay for where they lie."""
    where = "Files outside of the table's folders (--other-location says that a folder is the table's too)"
    yield from lists({where: files}, location, dry_run, verb="kept")


def failures(failed: Mapping[str, str], location: str) -> Iterator[RenderableType]:
    """Files that are still there, and why."""
    if failed:
        yield heading(f"Could not be removed ({len(failed):,})")
        yield from _some([f"{short(path, location)}: {why}" for path, why in failed.items()], location)
