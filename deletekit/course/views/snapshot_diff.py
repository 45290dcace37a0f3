"""SnapshotDiff: files, deletes and rows in and out between two snapshots, and the summary's counters recomputed.

Law: rows are compared by value, as many times as they occur; what was only rewritten is no change.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from deletekit.course.views.build import code_line, paging, without_columns, words
from deletekit.course.views.messages import Messages
from deletekit.course.views.page import Block, Control, Grid, Line, Mark, Page
from deletekit.course.views.table_view import TableView, as_table_view
from deletekit.deletes.plan import ScanTask
from deletekit.deletes.read import ReadRequest, read_task
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.safe_text import brief, literal
from deletekit.table.metadata import Snapshot
from deletekit.table.summary_counters import count_entries, count_totals

__all__ = ["snapshot_diff"]

MOST_ROWS = 200_000
"""Rows of changed files that are compared; above that only files are."""

_MOST_COLUMNS = 12
_MOST_OPTIONS = 200

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
    """The page of two snapshots.

    Parameters
    ----------
    before: as `S1`; None is the parent of `after`, or nothing.
    after: as `S2`; None is the current snapshot.
    start, row_start: first file and first row shown.

    Raises NotFoundError for a snapshot that is not there, FormatError naming a damaged file.
    """
    view = as_table_view(table)
    messages = Messages(lang)
    new = view.snapshot(after)
    old = view.snapshot(before) if before else _parent(view, new)
    state = {"before": before, "after": after, "start": start, "row_start": row_start}
    blocks: list[Block] = []
    sentence = messages("diff-nothing", table=view.name)
    if new is not None:
        change = _Change(view, old, new)
        came, went, compared = change.rows()
        names = {"before": _name(view, old), "after": _name(view, new)}
        sentence = messages(
            "diff-sentence",
            **names,
            added=str(len(change.added)),
            removed=str(len(change.removed)),
            rows_in=f"{came.total():,}" if compared else "?",
            rows_out=f"{went.total():,}" if compared else "?",
        )
        blocks = [
            _files(messages, view, change, start),
            _rows(messages, view, came, went, row_start, compared=compared),
            _counters(messages, view, new),
        ]
    defaults = {"before": None, "after": None, "start": 0, "row_start": 0}
    return Page(
        view="SnapshotDiff",
        title=messages("title-SnapshotDiff"),
        sentence=sentence,
        lang=messages.lang,
        code=code_line("SnapshotDiff", "table", state, defaults),
        blocks=tuple(blocks),
        controls=tuple(
            Control(kind="select", trait=t, label=messages(t), value=v, options=_options(view))
            for t, v in (("before", before), ("after", after))
        ),
        words=words(messages),
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
        return {e.data_file.identity: e for part in parts for e in part.some(0, len(part))}

    def rows(self) -> tuple[Counter[Row], Counter[Row], bool]:
        """Rows that came and rows that went; False as the third where there are too many to compare."""
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
    entries = [("added", e) for e in change.added] + [("removed", e) for e in change.removed]
    first, stop, more = paging(messages, "start", start, len(entries))
    return Grid(
        name="files",
        caption=messages("diff-files"),
        columns=(messages("file"), messages("change"), messages("kind"), "record_count", "sequence_number"),
        lines=tuple(
            Line(
                key=view.aliases.file(e),
                cells=(
                    view.aliases.file(e),
                    messages(word),
                    messages("kind-" + (e.data_file.kind if isinstance(e.data_file, DeleteFile) else "data-file")),
                    f"{e.data_file.record_count:,}",
                    str(e.sequence_number or 0),
                ),
                mark="added" if word == "added" else "removed",
            )
            for word, e in entries[first:stop]
        ),
        numbers=(3, 4),
        **more,
    )


def _rows(
    messages: Messages, view: TableView, came: Counter[Row], went: Counter[Row], start: int, *, compared: bool
) -> Grid:
    changed: list[tuple[str, Row]] = [("removed", r) for r in sorted(went.elements())]
    changed += [("added", r) for r in sorted(came.elements())]
    first, stop, more = paging(messages, "row_start", start, len(changed))
    if not compared:
        more = {"shown": messages("diff-too-many", most=f"{MOST_ROWS:,}")}
    more = without_columns(messages, more, len(view.metadata.schema.fields) - _MOST_COLUMNS)
    marks: dict[str, Mark] = {"added": "added", "removed": "removed"}
    columns = [brief(f.name) for f in view.metadata.schema.fields[:_MOST_COLUMNS]]
    return Grid(
        name="rows",
        caption=messages("diff-rows"),
        columns=(messages("change"), *columns),
        lines=tuple(
            Line(key=i, cells=(messages(word), *(_cut(v) for v in row[:_MOST_COLUMNS])), mark=marks[word])
            for i, (word, row) in enumerate(changed[first:stop], first)
        ),
        **more,
    )


def _counters(messages: Messages, view: TableView, snapshot: Snapshot) -> Grid:
    """Counters of the summary, as written and as the manifests say."""
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
        cells = (name, *(("…", "…") if name.endswith("files-size") and same else (written, str(number))), verdict)
        lines.append(Line(key=name, cells=cells, mark="" if same or written == "-" else "wrong"))
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


def _options(view: TableView) -> tuple[tuple[Any, str], ...]:
    names = [view.aliases.snapshot(s.snapshot_id) for s in view.aliases.snapshots[-_MOST_OPTIONS:]]
    return ((None, "-"), *((n, n) for n in names))


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:120]}…"
