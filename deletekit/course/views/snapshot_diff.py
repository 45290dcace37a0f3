"""SnapshotDiff: files, deletes and rows in and out between two snapshots, and the summary's counters recomputed.

The rows are the net changes that `deletekit.changes` gives. A row that was only rewritten has not changed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.page import Facts, Grid, Line, Mark, Page
from deletekit.course.views.table_view import TableView, as_table_view, kind_of
from deletekit.deletes.changed_files import FileChange, changed_files
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.formats.content_file import FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot
from deletekit.table.python_values import python_values
from deletekit.table.summary_counters import count_entries, count_totals
from deletekit.text import brief, literal
from deletekit.tools.changes import changes

MOST_ROWS = 200_000
"""Rows that may have changed and are read. If there are more, only files are compared."""

_MOST_COLUMNS = 12
_LONGEST_VALUE = 120
_MARKS: dict[str, Mark] = {"delete": "removed", "update_before": "removed", "update_after": "added", "insert": "added"}

Files = dict[tuple[Any, ...], ManifestEntry]


@page.view_page()
def snapshot_diff(
    table: Any,
    *,
    before: str | None = None,
    after: str | None = None,
    start: int = 0,
    row_start: int = 0,
    lang: str | None = None,
) -> Page:
    """Make the page of two snapshots.

    Parameters
    ----------
    before: as `S1`; None is the parent of `after`, or nothing.
    after: as `S2`; None is the current snapshot.
    start, row_start: first file and first row shown.

    Raises NotFoundError if a snapshot does not exist, FormatError naming a damaged file.
    """
    view = as_table_view(table)
    messages = Messages(lang)
    new = view.snapshot(after)
    old = view.snapshot(before) if before else _parent(view, new)
    names = [view.aliases.snapshot_name(s.snapshot_id) for s in view.aliases.snapshots[-page.MOST_OPTIONS :]]
    usual = {"before": messages("diff-parent", snapshot=_name(view, _parent(view, new)))}
    usual["after"] = messages("diff-current", snapshot=_name(view, view.snapshot(None)))
    controls = [
        page.select(trait, messages(trait), chosen, [None, *names], [usual[trait], *names])
        for trait, chosen in (("before", before), ("after", after))
    ]
    if new is None:
        return Page(sentence=messages("diff-nothing", table=view.name), controls=controls)
    added, removed = _changed_entries(view, old, new)
    rows = _Rows.between(messages, view, old, new)
    sentence = messages(
        "diff-sentence",
        before=_name(view, old),
        after=_name(view, new),
        added=len(added),
        removed=len(removed),
        rows_in=rows.number("added"),
        rows_out=rows.number("removed"),
    )
    blocks = [_files(messages, view, added, removed, start), _rows(messages, rows, row_start)]
    return Page(sentence=sentence, blocks=[*blocks, _counters(messages, view, new)], controls=controls)


def _changed_entries(
    view: TableView, old: Snapshot | None, new: Snapshot
) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """Return the data files and deletes that only the new snapshot has, and those that only the old one has."""

    def live(snapshot: Snapshot | None) -> Files:
        parts = [view.live(snapshot, content) for content in ManifestContent] if snapshot is not None else []
        return {e.data_file.identity: e for part in parts for e in part}

    before, after = live(old), live(new)
    order = view.aliases.order
    added = sorted((e for i, e in after.items() if i not in before), key=order)
    return added, sorted((e for i, e in before.items() if i not in after), key=order)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The changed rows between two snapshots, the two images of an update one after the other.

    Attributes
    ----------
    columns: the names of the table's columns.
    values: the type of each change, and the row's values as text.
    left_out: why the rows are not compared; empty if they are.
    """

    columns: list[str]
    values: list[tuple[str, ...]]
    left_out: str = ""

    @classmethod
    def between(cls, messages: Messages, view: TableView, old: Snapshot | None, new: Snapshot) -> "_Rows":
        if sum(map(_most_rows, changed_files(view.metadata, view.reader, old, new))) > MOST_ROWS:
            left_out = messages("diff-too-many", most=f"{MOST_ROWS:,}")
            return cls([f.name for f in view.metadata.schema.fields], [], left_out)
        try:
            changed = _net_changes(view, old, new)
        except UnsupportedError as e:  # a table whose columns leave no room for those of a change
            return cls([], [], brief(e.message))
        columns = changed.column_names[: changed.column_names.index("_change_type")]
        texts = [[literal(v, None) for v in python_values(changed.column(name), name)] for name in columns]
        by_type: dict[str, list[tuple[str, ...]]] = {kind: [] for kind in _MARKS}
        for row in zip(changed.column("_change_type").to_pylist(), *texts, strict=True):
            by_type[row[0]].append(row)
        pairs = sorted(zip(by_type["update_before"], by_type["update_after"], strict=True))
        updates = [image for pair in pairs for image in pair]
        return cls(columns, [*sorted(by_type["delete"]), *updates, *sorted(by_type["insert"])])

    def number(self, mark: Mark) -> str:
        """Return how many rows came or went, `?` if it is not known."""
        return "?" if self.left_out else f"{sum(_MARKS[kind] == mark for kind, *_ in self.values):,}"


def _net_changes(view: TableView, old: Snapshot | None, new: Snapshot) -> pa.Table:
    between = (None if old is None else old.snapshot_id, new.snapshot_id)
    try:
        return changes(view.table, *between, mode="net", inverse=True).to_arrow()
    except InvalidInputError as e:
        if e.kind != "key-not-unique":
            raise
        # Writers need not check that identifier fields are unique. Without a key an update is a delete and an insert.
        return changes(view.table, *between, mode="net", inverse=True, on=[]).to_arrow()


def _most_rows(change: FileChange) -> int:
    """Return how many rows of a file must be read at most to know which of them changed."""
    tasks = [task for task in (change.before, change.after) if task is not None]
    deletes = [d.data_file for task in tasks for d in task.deletes]
    if len(tasks) == 1 or any(d.content == FileContent.EQUALITY_DELETES for d in deletes):
        return max(task.data_file.record_count for task in tasks)
    return sum(d.record_count for d in deletes)


def _files(
    messages: Messages, view: TableView, added: list[ManifestEntry], removed: list[ManifestEntry], start: int
) -> Grid:
    entries: list[tuple[Mark, ManifestEntry]] = [("added", e) for e in added]
    entries += [("removed", e) for e in removed]
    first, stop, more = page.paging(messages, "start", start, len(entries))
    lines = []
    for mark, entry in entries[first:stop]:
        name, kind = view.aliases.of(entry), messages("kind-" + kind_of(entry))
        cells = (f"{entry.data_file.record_count:,}", entry.sequence_number or 0)
        lines.append(page.line(name, name, messages(mark), kind, *cells, mark=mark))
    columns = (*map(messages, ("file", "change", "kind")), "record_count", "sequence_number")
    return page.grid("files", messages("diff-files"), columns, lines, numbers=(3, 4), **more)


def _rows(messages: Messages, rows: _Rows, start: int) -> Grid:
    first, stop, more = page.paging(messages, "row_start", start, len(rows.values))
    if rows.left_out:
        more = {"shown": rows.left_out}
    more = page.without_columns(messages, more, len(rows.columns) - _MOST_COLUMNS)
    lines: list[Line] = []
    for i, (kind, *row) in enumerate(rows.values[first:stop], first):
        values = (brief(v, _LONGEST_VALUE) for v in row[:_MOST_COLUMNS])
        lines.append(page.line(i, kind, *values, mark=_MARKS[kind]))
    columns = ["_change_type", *map(brief, rows.columns[:_MOST_COLUMNS])]
    return page.grid("rows", messages("diff-rows"), columns, lines, **more)


def _counters(messages: Messages, view: TableView, snapshot: Snapshot) -> Grid | Facts:
    """Compare the counters of the summary with those that the manifests give; equal ones are one line."""
    manifests = (view.reader.columns(m) for m in view.reader.manifests(snapshot))
    entries = [e for columns in manifests for e in columns.entries(np.arange(len(columns)))]
    found = {k: n for k, n in count_entries(snapshot.snapshot_id, entries).items() if n}
    found |= count_totals(e.data_file for e in entries if e.is_live)
    del found["total-files-size"]  # Java leaves out the files of appended manifests, so it may differ rightly
    lines, same = [], list[str]()
    for name, number in sorted(found.items()):
        written = brief(snapshot.summary.get(name, "-"))
        if written == str(number):
            same.append(name)
            continue
        verdict, mark = ("missing", "") if written == "-" else ("different", "wrong")
        lines.append(page.line(name, name, written, number, messages(verdict), mark=mark))  # type: ignore[arg-type]
    caption = messages("diff-counters", snapshot=_name(view, snapshot))
    equal = (messages("counters-same", count=len(same)), ", ".join(same))
    if not lines:
        return Facts(name="counters", caption=caption, items=(equal,), mark="live")
    columns = map(messages, ("counter", "written", "recomputed", "verdict"))
    return page.grid("counters", caption, columns, lines, numbers=(1, 2), shown=": ".join(equal))


def _parent(view: TableView, snapshot: Snapshot | None) -> Snapshot | None:
    return view.metadata.snapshots.get(snapshot.parent_snapshot_id or 0) if snapshot is not None else None


def _name(view: TableView, snapshot: Snapshot | None) -> str:
    return view.aliases.snapshot_name(snapshot.snapshot_id) if snapshot is not None else "-"
