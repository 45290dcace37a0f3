"""The command `delete`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.text import Text

import deletekit as dk
from deletekit.cli.changes import change
from deletekit.cli.commit_text import changed_files, commit_answer
from deletekit.cli.options import (
    TableAnswerCommand,
    branch_option,
    choice_option,
    dry_run_option,
    mode_option,
    repeated_option,
)
from deletekit.cli.printer import Unbroken, bold, some
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.safe_text import count, short

if TYPE_CHECKING:
    from deletekit.engines.local import Engine

_EQUALITY_FIELD = "Key column of equality deletes; repeatable.  [default: the columns in WHERE]"
_GRANULARITY = "Write one position delete file for each of these.  [default: the table's write.delete.granularity]"
_INTERRUPTED = "Whether the delete was committed is not known: look with `deletekit inspect`."


@click.command(cls=TableAnswerCommand)
@click.argument("where")
@mode_option("delete")
@branch_option("commit to")
@repeated_option("--equality-field", "equality_fields", "COLUMN", _EQUALITY_FIELD)
@choice_option("--granularity", ("file", "partition"), _GRANULARITY)
@click.option("--with-rows", is_flag=True, help="Store the deleted rows in position delete files too.")
@dry_run_option
def delete(argument: TableArgument, output: Output, where: str, *, ref: str, dry_run: bool, **options: Any) -> Answer:
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
    if dry_run:
        return _dry_run(argument.open(), where, ref, options, output)
    options |= {"where": where, "ref": ref}
    table, commit = change(dk.delete, argument, output, "Deleting", _INTERRUPTED, **options)
    return commit_answer(table, ref, commit, f"Deleted from {table.name}", f"No row of {table.name} matches")


def _dry_run(table: dk.Table, where: str, ref: str, options: Mapping[str, Any], output: Output) -> Answer:
    # They import the table layer, which the help of this command does not need.
    from deletekit.commit.planned_change import plan_change  # noqa: PLC0415
    from deletekit.commit.swap import would_commit  # noqa: PLC0415
    from deletekit.verbs.delete import DeletePlan  # noqa: PLC0415

    with output.engine("Trying the delete") as engine:
        plan = DeletePlan(where=where, engine=engine, **options)
        commit = would_commit(plan_change(table, plan, ref=ref, dry_run=True))
    with output.engine("Counting rows") as engine:
        rows = _matching_rows(table, where, ref, engine)
    document = {
        "table": table.name,
        "ref": ref,
        "dry_run": True,
        "rows": rows.total(),
        "data_files": len(rows),
        "rows_by_data_file": rows,
        # Not the ids, paths and times: this commit is not made.
        **{name: getattr(commit, name) for name in ("operation", "summary", "removed_data_files")},
        "read_only": table.catalog is None,
    }

    def text() -> Iterator[RenderableType]:
        yield bold(f"{count(rows.total(), 'row')} in {count(len(rows), 'data file')} of {table.name} would be deleted")
        yield from some([Unbroken(f"{count(n, 'row')} of {short(path, table.location)}") for path, n in rows.items()])
        yield from changed_files(table, commit, done=False)
        if table.catalog is None:
            yield Text("\nThe table was opened by its path: to delete, name it by --warehouse or --catalog.")
        yield Text("\nNothing was written.", style="bold")

    return Answer(document=document, text=text())


def _matching_rows(table: dk.Table, where: str, ref: str, engine: Engine) -> Counter[str]:
    """Count the live rows for which the filter is true, by data file."""
    counts: Counter[str] = Counter()
    for batch in dk.scan(table, where, columns=["_file"], ref=ref, engine=engine).to_batches():
        for found in batch["_file"].value_counts().to_pylist():
            counts[found["values"]] += found["counts"]
    return counts
