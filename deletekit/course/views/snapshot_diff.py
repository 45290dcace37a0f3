"""SnapshotDiff: files, deletes and rows in and out between two snapshots, and the summary's counters recomputed.

Rows are compared by value, as many times as they occur. A row that was only rewritten has not changed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from deletekit.course.translations import Messages
from deletekit.course.views.build import MOST_OPTIONS, line, make_page, paging, select, without_columns
from deletekit.course.views.page import Grid, Mark, Page
from deletekit.course.views.table_view import TableView, as_table_view, kind_of
from deletekit.deletes.read import ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.safe_text import brief, literal
from deletekit.table.metadata import Snapshot
from deletekit.table.summary_counters import count_entries, count_totals

MOST_ROWS = 200_000
"""Rows of changed files that are compared. If there are more, only files are compared."""

_MOST_COLUMNS = 12
_LONGEST_VALUE = 120

Files = dict[tuple[Any, ...], ManifestEntry]
Row = tuple[str, ...]


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
    names = [view.aliases.snapshot(s.snapshot_id) for s in view.aliases.snapshots[-MOST_OPTIONS:]]
    state = {"before": before, "after": after, "start": start, "row_start": row_start}
    blocks: list[Grid] = []
    sentence = messages("diff-nothing", table=view.name)
    if new is not None:
        change = _Change(view, old, new)
        came, went, compared = change.rows()
        sentence = messages(
            "diff-sentence",
            before=_name(view, old),
            after=_name(view, new),
            added=len(change.added),
            removed=len(change.removed),
            rows_in=f"{came.total():,}" if compared else "?",
            rows_out=f"{went.total():,}" if compared else "?",
        )
        blocks = [
            _files(messages, view, change, start),
            _rows(messages, view, came, went, row_start, compared=compared),
            _counters(messages, view, new),
        ]
    return make_page(
        messages,
        snapshot_diff,
        sentence,
        state=state,
        blocks=blocks,
        controls=[select(t, messages(t), state[t], [None, *names]) for t in ("before", "after")],
    )


class _Change:
    """Two snapshots' live files, and the data files whose rows may differ between them."""

    def __init__(self, view: TableView, old: Snapshot | None, new: Snapshot) -> None:
        self._view = view
        self._old, self._new = old, new
        before, after = self._live(old), self._live(new)
        order = view.aliases.order
        self.added = sorted((e for i, e in after.items() if i not in before), key=order)
        self.removed = sorted((e for i, e in before.items() if i not in after), key=order)
        self._kept = [
            (before[i], e) for i, e in after.items() if i in before and not isinstance(e.data_file, DeleteFile)
        ]

    def _live(self, snapshot: Snapshot | None) -> Files:
        if snapshot is None:
            return {}
        parts = [self._view.live(snapshot, content) for content in ManifestContent]
        return {e.data_file.identity: e for part in parts for e in part}

    def rows(self) -> tuple[Counter[Row], Counter[Row], bool]:
        """Return the rows that came and the rows that went; the third is False if there are too many to compare."""
        data = [e.data_file for e in (*self.added, *self.removed) if not isinstance(e.data_file, DeleteFile)]
        if sum(f.record_count for f in data) > MOST_ROWS:
            return Counter(), Counter(), False
        ins = [self._task(self._new, e) for e in self.added if not isinstance(e.data_file, DeleteFile)]
        outs = [self._task(self._old, e) for e in self.removed if not isinstance(e.data_file, DeleteFile)]
        if any(isinstance(e.data_file, DeleteFile) for e in (*self.added, *self.removed)):
            for was, now in self._kept:
                old, new = self._task(self._old, was), self._task(self._new, now)
                if [d.identity for d in old.delete_files] != [d.identity for d in new.delete_files]:
                    outs.append(old)
                    ins.append(new)
        if sum(t.data_file.record_count for t in (*ins, *outs)) > MOST_ROWS:
            return Counter(), Counter(), False
        came, went = self._values(ins), self._values(outs)
        return came - went, went - came, True

    def _task(self, snapshot: Snapshot | None, entry: ManifestEntry) -> ScanTask:
        assert snapshot is not None
        return ScanTask(entry, self._view.index(snapshot).for_data_file(entry))

    def _values(self, tasks: list[ScanTask]) -> Counter[Row]:
        request = ReadRequest(self._view.metadata.schema.fields, only_live=True)
        found: Counter[Row] = Counter()
        for task in tasks:
            for batch in read_task(self._view.context, task, request):
                live = batch.live_mask
                rows = batch.table if live is None else batch.table.filter(live)
                columns = [[literal(v, None) for v in column.to_pylist()] for column in rows.columns]
                found.update(zip(*columns, strict=True))
        return found


def _files(messages: Messages, view: TableView, change: _Change, start: int) -> Grid:
    entries: list[tuple[Mark, ManifestEntry]] = [("added", e) for e in change.added]
    entries += [("removed", e) for e in change.removed]
    first, stop, more = paging(messages, "start", start, len(entries))
    lines = []
    for mark, entry in entries[first:stop]:
        name, kind = view.aliases.file(entry), messages("kind-" + kind_of(entry))
        cells = (f"{entry.data_file.record_count:,}", entry.sequence_number or 0)
        lines.append(line(name, name, messages(mark), kind, *cells, mark=mark))
    return Grid(
        name="files",
        caption=messages("diff-files"),
        columns=(messages("file"), messages("change"), messages("kind"), "record_count", "sequence_number"),
        lines=tuple(lines),
        numbers=(3, 4),
        **more,
    )


def _rows(
    messages: Messages, view: TableView, came: Counter[Row], went: Counter[Row], start: int, *, compared: bool
) -> Grid:
    changed: list[tuple[Mark, Row]] = [("removed", r) for r in sorted(went.elements())]
    changed += [("added", r) for r in sorted(came.elements())]
    first, stop, more = paging(messages, "row_start", start, len(changed))
    if not compared:
        more = {"shown": messages("diff-too-many", most=f"{MOST_ROWS:,}")}
    more = without_columns(messages, more, len(view.metadata.schema.fields) - _MOST_COLUMNS)
    columns = [brief(f.name) for f in view.metadata.schema.fields[:_MOST_COLUMNS]]
    lines = []
    for i, (mark, row) in enumerate(changed[first:stop], first):
        values = (brief(v, _LONGEST_VALUE) for v in row[:_MOST_COLUMNS])
        lines.append(line(i, messages(mark), *values, mark=mark))
    columns = [messages("change"), *columns]
    return Grid(name="rows", caption=messages("diff-rows"), columns=tuple(columns), lines=tuple(lines), **more)


def _counters(messages: Messages, view: TableView, snapshot: Snapshot) -> Grid:
    """Compare the counters of the summary with those that the manifests give."""
    manifests = (view.reader.columns(m) for m in view.reader.manifests(snapshot))
    entries = [e for columns in manifests for e in columns.entries(np.arange(len(columns)))]
    found = {k: n for k, n in count_entries(snapshot.snapshot_id, entries).items() if n}
    found |= count_totals(e.data_file for e in entries if e.is_live)
    del found["total-files-size"]  # Java leaves out the files of appended manifests, so it may differ rightly
    lines = []
    for name, number in sorted(found.items()):
        written = brief(snapshot.summary.get(name, "-"))
        same = written == str(number)
        verdict = messages("same") if same else messages("missing" if written == "-" else "different")
        shown = ("…", "…") if name.endswith("files-size") and same else (written, number)
        lines.append(line(name, name, *shown, verdict, mark="" if same or written == "-" else "wrong"))
    return Grid(
        name="counters",
        caption=messages("diff-counters", snapshot=_name(view, snapshot)),
        columns=(messages("counter"), messages("written"), messages("recomputed"), messages("verdict")),
        lines=tuple(lines),
        numbers=(1, 2),
    )


def _parent(view: TableView, snapshot: Snapshot | None) -> Snapshot | None:
    return view.metadata.snapshots.get(snapshot.parent_snapshot_id or 0) if snapshot is not None else None


def _name(view: TableView, snapshot: Snapshot | None) -> str:
    return view.aliases.snapshot(snapshot.snapshot_id) if snapshot is not None else "-"
