"""Show what a commit of rows did: the answer of `append`, `delete`, `update` and `merge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

import deletekit as dk
from deletekit.cli.printer import Facts, Unbroken, bold, heading, pairs, some
from deletekit.cli.terminal import Answer
from deletekit.safe_text import json_ready, short

if TYPE_CHECKING:
    from deletekit.cli.stored_values import StoredValues

_NAMES = ("snapshot_id", "sequence_number", "operation", "summary", "attempts")
_FILES = ("added_data_files", "removed_data_files", "added_delete_files", "removed_delete_files")


def commit_answer(table: dk.Table, ref: str, commit: dk.Commit, headline: str, nothing: str) -> Answer:
    """Return a commit as JSON and as text.

    Parameters
    ----------
    headline: what was done.
    nothing: why nothing was, if nothing was committed.
    """

    def text() -> Iterator[RenderableType]:
        if commit.snapshot_id is None:
            yield bold(f"{nothing}: nothing was committed.")
            return
        yield bold(headline)
        rows = {"snapshot": f"{commit.snapshot_id} on {ref}", "sequence": commit.sequence_number}
        rows["operation"] = commit.operation
        if commit.attempts > 1:
            rows["attempts"] = f"{commit.attempts}: other commits came first"
        yield pairs(rows)
        yield from changed_files(table, commit, done=True)

    told = {name: getattr(commit, name) for name in (*_NAMES, *_FILES)}
    return Answer(document={"table": table.name, "ref": ref, **told}, text=text())


def changed_files(table: dk.Table, commit: dk.Commit, *, done: bool) -> Iterator[RenderableType]:
    """Yield the files of a commit. Files of a dry run have no path that anybody could find."""
    from deletekit.cli.stored_values import StoredValues  # noqa: PLC0415  # imports pyiceberg, which help does not need

    mood = "" if done else "would be "
    stored = StoredValues(table.metadata)
    for title, files, named in (
        (f"Delete files {mood}added", commit.added_delete_files, done),
        (f"Delete files {mood}removed", commit.removed_delete_files, True),
        (f"Data files {mood}added", commit.added_data_files, done),
        (f"Data files {mood}removed", commit.removed_data_files, True),
    ):
        if files:
            yield heading(f"{title} ({len(files)})")
            yield from some([_file(json_ready(f), table.location, stored, named=named) for f in files])
    if commit.summary:
        yield heading("Summary")
        yield pairs({k: v for k, v in commit.summary.items() if k != "operation"})


def _file(file: Mapping[str, Any], location: str, stored: StoredValues, *, named: bool) -> RenderableType:
    lines: list[RenderableType] = [Facts(*stored.file_facts(file), style="dim" if named else "")]
    if named:
        lines.insert(0, Unbroken(short(file["file_path"], location)))
    if "referenced_data_file" in file:
        lines.append(Unbroken("of " + short(file["referenced_data_file"], location)))
    return Group(*lines)
