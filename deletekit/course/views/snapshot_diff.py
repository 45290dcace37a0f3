"""SnapshotDiff: files, deletes and rows in and out between two snapshots, and the summary's counters recomputed.

Rows are compared by value, as many times as they occur. A row that was only rewritten has not changed.
"""

from collections import Counter
from typing import Any

import numpy as np

from deletekit.course.translations import Messages
from deletekit.course.views import page
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
    return Page(sentence=sentence, blocks=blocks, controls=controls)


class _Change:
    """Two snapshots' live files, and the data files whose rows may differ between them."""

    def __init__(self, view: TableView, old: Snapshot | None, new: Snapshot) -> None:
        self._view = view
        self._old, self._new = old, new
        before, after = self._live(old), self._live(new)
        order = view.aliases.order
        self.added = sorted((e for i, e in after.items() if i not in before), key=order)
        self.removed = sorted((e for i, e in before.items() if i not in after), key=order)
        self._kept = [(before[i], e) for i, e in after.items() if i in before]

    def _live(self, snapshot: Snapshot | None) -> Files:
        if snapshot is None:
            return {}
        parts = [self._view.live(snapshot, content) for content in ManifestContent]
        return {e.data_file.identity: e for part in parts for e in part}

    def rows(self) -> tuple[Counter[Row], Counter[Row], bool]:
        """Return the rows that came and the rows that went; the third is False if there are too many to compare."""
        ins, outs = self._tasks(self._new, self.added), self._tasks(self._old, self.removed)
        has_deletes = len(ins) + len(outs) < len(self.added) + len(self.removed)
        if has_deletes and not _too_many(ins + outs):
            was = self._tasks(self._old, [e for e, _ in self._kept])
            now = self._tasks(self._new, [e for _, e in self._kept])
            for old, new in zip(was, now, strict=True):
                if [d.identity for d in old.delete_files] != [d.identity for d in new.delete_files]:
                    outs.append(old)
                    ins.append(new)
        if _too_many(ins + outs):
            return Counter(), Counter(), False
        came, went = self._values(ins), self._values(outs)
        return came - went, went - came, True

    def _tasks(self, snapshot: Snapshot | None, entries: list[ManifestEntry]) -> list[ScanTask]:
        """Return a task for each data file. Without a snapshot there is none."""
        if snapshot is None:
            return []
        index = self._view.index(snapshot)
        return [ScanTask(e, index.for_data_file(e)) for e in entries if not isinstance(e.data_file, DeleteFile)]

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


def _too_many(tasks: list[ScanTask]) -> bool:
    return sum(task.data_file.record_count for task in tasks) > MOST_ROWS


def _files(messages: Messages, view: TableView, change: _Change, start: int) -> Grid:
    entries: list[tuple[Mark, ManifestEntry]] = [("added", e) for e in change.added]
    entries += [("removed", e) for e in change.removed]
    first, stop, more = page.paging(messages, "start", start, len(entries))
    lines = []
    for mark, entry in entries[first:stop]:
        name, kind = view.aliases.of(entry), messages("kind-" + kind_of(entry))
        cells = (f"{entry.data_file.record_count:,}", entry.sequence_number or 0)
        lines.append(page.line(name, name, messages(mark), kind, *cells, mark=mark))
    columns = (*map(messages, ("file", "change", "kind")), "record_count", "sequence_number")
    return page.grid("files", messages("diff-files"), columns, lines, numbers=(3, 4), **more)


def _rows(
    messages: Messages, view: TableView, came: Counter[Row], went: Counter[Row], start: int, *, compared: bool
) -> Grid:
    changed: list[tuple[Mark, Row]] = [("removed", r) for r in sorted(went.elements())]
    changed += [("added", r) for r in sorted(came.elements())]
    first, stop, more = page.paging(messages, "row_start", start, len(changed))
    if not compared:
        more = {"shown": messages("diff-too-many", most=f"{MOST_ROWS:,}")}
    more = page.without_columns(messages, more, len(view.metadata.schema.fields) - _MOST_COLUMNS)
    lines = []
    for i, (mark, row) in enumerate(changed[first:stop], first):
        values = (brief(v, _LONGEST_VALUE) for v in row[:_MOST_COLUMNS])
        lines.append(page.line(i, messages(mark), *values, mark=mark))
    columns = [messages("change"), *(brief(f.name) for f in view.metadata.schema.fields[:_MOST_COLUMNS])]
    return page.grid("rows", messages("diff-rows"), columns, lines, **more)


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
        shown: tuple[object, ...] = (written, number)
        if name.endswith("files-size") and same:
            shown = (page.Varying(written), page.Varying(written))
        lines.append(page.line(name, name, *shown, verdict, mark="" if same or written == "-" else "wrong"))
    caption = messages("diff-counters", snapshot=_name(view, snapshot))
    columns = map(messages, ("counter", "written", "recomputed", "verdict"))
    return page.grid("counters", caption, columns, lines, numbers=(1, 2))


def _parent(view: TableView, snapshot: Snapshot | None) -> Snapshot | None:
    return view.metadata.snapshots.get(snapshot.parent_snapshot_id or 0) if snapshot is not None else None


def _name(view: TableView, snapshot: Snapshot | None) -> str:
    return view.aliases.snapshot_name(snapshot.snapshot_id) if snapshot is not None else "-"
