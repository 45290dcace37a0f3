"""The commands: the module of each, and what it does, so that the list of them imports none."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from deletekit.deferred import imported

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 80, "show_default": True}

LISTED: Mapping[str, tuple[str, str]] = {
    "add-files": ("rows", "Make Parquet files part of the table."),
    "append": ("rows", "Insert the rows of a file."),
    "branch": ("tables", "List, create or drop branches and tags."),
    "changes": ("changes", "Show or write the rows that changed, or follow them."),
    "cherry-pick": ("maintenance", "Repeat on a branch what one snapshot did."),
    "clean-up-delta": ("delta", "Remove what syncs left behind."),
    "compact": ("maintenance", "Rewrite small data files and half-empty ones."),
    "convert-equality-deletes": ("maintenance", "Turn equality deletes into deletes by position."),
    "create": ("tables", "Make a table of the rows of a file."),
    "delete": ("delete", "Delete rows in one commit, in any mode."),
    "doctor": ("doctor", "Say what works on this machine, and what fixes it."),
    "erase": ("maintenance", "Remove rows from storage, and prove it."),
    "expire-snapshots": ("maintenance", "Remove old snapshots, and what only they need."),
    "explain": ("explain", "Show row versions, and what hides each."),
    "explore": ("explore", "Write what a table consists of as one HTML page."),
    "fast-forward": ("maintenance", "Move a branch up to another."),
    "inspect": ("inspect", "Show what a table is made of, down to its deletes."),
    "lab": ("course", "Take the course in JupyterLab."),
    "make-readable": ("readers", "Change deletes so that engines read the table right."),
    "merge": ("rows", "Update, delete and insert rows by a file."),
    "promote": ("stream", "Bring a staging branch to main."),
    "readers": ("readers", "Tell which engines read this table right."),
    "remove-dangling-deletes": ("maintenance", "Remove deletes that apply to no data file."),
    "remove-orphan-files": ("maintenance", "Remove files that nothing in the table needs."),
    "repack": ("delta", "Copy vectors into true Puffin files."),
    "repair": ("repair", "Repair damage without changing a row."),
    "revert": ("maintenance", "Undo one commit, and keep the later ones."),
    "rewrite-manifests": ("maintenance", "Combine manifests, so that planning reads less."),
    "rewrite-position-deletes": ("maintenance", "Combine position delete files."),
    "rollback": ("maintenance", "Make an earlier snapshot current again."),
    "scan": ("rows", "Show live rows, or write them to a file."),
    "set-current-snapshot": ("maintenance", "Make any snapshot current."),
    "sinks": ("stream", "List a table's sinks, reset or drop one."),
    "snapshots": ("tables", "List the snapshots of a table."),
    "stream": ("stream", "Apply change rows, each batch exactly once."),
    "sync-delta": ("delta", "Follow a Delta table, deletes included."),
    "tables": ("tables", "List the tables of a catalog."),
    "tour": ("course", "See every kind of delete on real rows."),
    "update": ("rows", "Change columns of rows, in one commit."),
    "upgrade": ("tables", "Raise the format version of a table."),
    "verify": ("verify", "Check every rule of the specification."),
    "workshop-bundle": ("course", "Pack the course for a room without a network."),
}

ELSEWHERE: Mapping[str, str] = {
    "create-table": "Make a table of a file with `deletekit create`.",
    **dict.fromkeys(("drop", "drop-table"), "Python drops a table: dk.drop_table(catalog, name)."),
    **dict.fromkeys(("select", "query", "read", "show", "head"), "Read rows with `deletekit scan`."),
    **dict.fromkeys(("insert", "load", "write"), "Insert rows with `deletekit append`."),
    **dict.fromkeys(("history", "log"), "List them with `deletekit snapshots`."),
    **dict.fromkeys(("list", "ls"), "List them with `deletekit tables`."),
    **dict.fromkeys(("optimize", "rewrite"), "Rewrite data files with `deletekit compact`."),
    "vacuum": "Remove files with `deletekit expire-snapshots` and `deletekit remove-orphan-files`.",
    "restore": "Go back with `deletekit rollback`.",
    "upsert": "Change rows with `deletekit merge`.",
    "help": "`deletekit -h` lists them.",
}
"""What does the work of a command that other programs have."""


class Commands(Mapping[str, click.Command]):
    """The commands by name; one is imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        module, does = LISTED[name]
        command: click.Command = getattr(imported(f"deletekit.cli.{module}"), name.replace("-", "_"))
        # click keeps a command's help option from its first context, which may be one without `main`.
        command.context_settings, command.short_help = SETTINGS, does
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)
