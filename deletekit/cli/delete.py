"""The command `delete`."""

from __future__ import annotations

from typing import Any

import click

import deletekit as dk
from deletekit.cli.options import (
    TableAnswerCommand,
    branch_option,
    choice_option,
    dry_run_option,
    mode_option,
    repeated_option,
)
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.cli.verb_command import change, commit_answer

_EQUALITY_FIELD = "Key column of equality deletes; repeatable.  [default: the columns in WHERE]"
_GRANULARITY = "Write one position delete file for each of these.  [default: the table's write.delete.granularity]"


@click.command(cls=TableAnswerCommand)
@click.argument("where")
@mode_option("delete")
@branch_option("commit to")
@repeated_option("--on", "on", "COLUMN", _EQUALITY_FIELD)
@choice_option("--granularity", ("file", "partition"), _GRANULARITY)
@click.option("--with-rows", is_flag=True, help="Store the deleted rows in position delete files too.")
@dry_run_option
def delete(argument: TableArgument, output: Output, **options: Any) -> Answer:
    """Delete the rows for which WHERE is true, in one commit, and show what was written.

    WHERE is as in SQL: "id in (1, 3)", "name is null and value > 10"; "true" means every row.

    TABLE is namespace.table of --warehouse or --catalog. A table opened by its path is read-only: it takes only
    --dry-run.

    \b
    Examples:
      deletekit delete --warehouse wh demo.users "id in (1, 3)"
      deletekit delete --warehouse wh demo.users "id = 2" --mode equality-delete
      deletekit delete --catalog prod demo.users "value > 10" --dry-run
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    table, commit = change(dk.delete, argument, output, "Deleting", **options)
    return commit_answer(table, options["ref"], commit)
