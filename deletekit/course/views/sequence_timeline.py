"""SequenceTimeline: data files and deletes on the axis of sequence numbers, and which delete applies to which file.

Law: what applies is what `DeleteFileIndex` says, also of a delete that was moved in time to see what would change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deletekit.course.views.aliases import alias_number
from deletekit.course.views.build import code_line, paging, words
from deletekit.course.views.messages import Messages
from deletekit.course.views.page import Block, Control, Grid, Line, Page
from deletekit.course.views.table_view import TableView, as_table_view, delete_of
from deletekit.deletes.which_apply import DeleteFileIndex
from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_columns import columns_of
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot

__all__ = ["sequence_timeline"]

PAGE_FILES = 40
MOST_DELETES = 2_000


def sequence_timeline(
    table: Any,
    *,
    snapshot: str | None = None,
    data_file: str | None = None,
    start: int = 0,
    moved: str | None = None,
    moved_to: int | None = None,
    lang: str | None = None,
) -> Page:
    """The page of a snapshot's sequence numbers.

    Parameters
    ----------
    snapshot: as `S2`; None is the current one.
    data_file: the selected data file, as `D1`.
    start: first data file shown.
    moved, moved_to: a delete, as `E1`, and the sequence number it is to be thought of as having.

    Raises NotFoundError for what is not there, InvalidInputError for a negative sequence number.
    """
    view = as_table_view(table)
    messages = Messages(lang)
    at = view.snapshot(snapshot)
    if moved_to is not None and moved_to < 0:
        raise InvalidInputError("negative sequence number", kind="sequence", field="moved_to", found=moved_to)
    state = {"snapshot": snapshot, "data_file": data_file, "start": start, "moved": moved, "moved_to": moved_to}
    blocks: tuple[Block, ...] = ()
    controls: tuple[Control, ...] = ()
    sentence = messages("no-rows", table=view.name)
    if at is not None:
        if data_file is not None:
            view.data_file(at, data_file)
        line = _Line(view, at, moved, moved_to)
        blocks, applying = line.blocks(messages, data_file, start)
        controls = line.controls(messages, moved, moved_to)
        sentence = line.sentence(messages, data_file, applying)
    defaults = {"snapshot": None, "data_file": None, "start": 0, "moved": None, "moved_to": None}
    return Page(
        view="SequenceTimeline",
        title=messages("title-SequenceTimeline"),
        sentence=sentence,
        lang=messages.lang,
        code=code_line("SequenceTimeline", "table", state, defaults),
        blocks=blocks,
        controls=controls,
        words=words(messages),
    )


class _Line:
    """The files of one snapshot, one delete perhaps moved."""

    def __init__(self, view: TableView, snapshot: Snapshot, moved: str | None, moved_to: int | None) -> None:
        self._view = view
        self._data = view.live(snapshot, ManifestContent.DATA)
        deletes = view.live(snapshot, ManifestContent.DELETES)
        self._left_out = max(len(deletes) - MOST_DELETES, 0)
        self._moved = moved if moved_to is not None else None
        if moved is not None:
            view.delete_file(snapshot, moved)
        if self._moved is None:
            self._deletes = deletes.some(0, MOST_DELETES)
            self._index = view.index(snapshot)
        else:
            every = [self._at(e, moved_to) for e in deletes.some(0, len(deletes))]
            self._deletes = every[:MOST_DELETES]
            self._index = _index_of(view, every)

    def _at(self, entry: ManifestEntry, moved_to: int | None) -> ManifestEntry:
        return replace(entry, sequence_number=moved_to) if self._view.aliases.file(entry) == self._moved else entry

    def blocks(self, messages: Messages, selected: str | None, start: int) -> tuple[tuple[Block, ...], dict[str, str]]:
        """The grids of data files and of deletes, and what applies to each data file shown."""
        if selected is not None and not start:
            start = max(alias_number(selected) - 1, 0)
        first, stop, more = paging(messages, "start", start, len(self._data), PAGE_FILES)
        names = self._view.aliases
        whole = len(self._data) <= MOST_DELETES
        entries = self._data.some(0, len(self._data)) if whole else self._data.some(first, stop)
        entries.sort(key=names.order)
        entries = entries[first:stop] if whole else entries
        applying = {names.file(e): self._applying(e) for e in entries}
        points = [{"name": names.file(e), "at": e.sequence_number or 0, "row": "data"} for e in entries]
        used = {n for text in applying.values() for n in text.split(" ")}
        shown = sorted(self._deletes, key=lambda e: (e.sequence_number or 0, names.order(e)))
        shown = [e for e in shown if names.file(e) in used or len(self._deletes) <= PAGE_FILES][:PAGE_FILES]
        points += [{"name": names.file(e), "at": e.sequence_number or 0, "row": delete_of(e).kind} for e in shown]
        arrows = [
            [n, d] for d, text in applying.items() for n in text.split(" ") if n in {names.file(e) for e in shown}
        ]
        data = Grid(
            name="files",
            caption=messages("timeline-files"),
            columns=(messages("file"), "sequence_number", messages("timeline-applying")),
            lines=tuple(
                Line(
                    key=names.file(e),
                    cells=(names.file(e), str(e.sequence_number or 0), applying[names.file(e)] or "-"),
                )
                for e in entries
            ),
            select="data_file",
            selected=selected,
            numbers=(1,),
            figure={"points": points, "arrows": arrows},
            **more,
        )
        left = len(self._deletes) + self._left_out - len(shown)
        deletes = Grid(
            name="deletes",
            caption=messages("timeline-deletes"),
            columns=(messages("delete"), messages("kind"), "sequence_number"),
            lines=tuple(
                Line(key=names.file(e), cells=(names.file(e), messages("kind-" + delete_of(e).kind), self._number(e)))
                for e in shown
            ),
            numbers=(2,),
            shown=messages("timeline-more", count=f"{left:,}") if left else "",
        )
        return (data, deletes), applying

    def controls(self, messages: Messages, moved: str | None, moved_to: int | None) -> tuple[Control, ...]:
        named = self._view.aliases
        names = [named.file(e) for e in sorted(self._deletes, key=named.order)][:200]
        options: tuple[tuple[Any, str], ...] = ((None, "-"), *((n, n) for n in names))
        highest = self._view.metadata.last_sequence_number + 1
        return (
            Control(kind="select", trait="moved", label=messages("timeline-move"), value=moved, options=options),
            Control(kind="number", trait="moved_to", label=messages("timeline-to"), value=moved_to, maximum=highest),
        )

    def sentence(self, messages: Messages, selected: str | None, applying: dict[str, str]) -> str:
        if selected in applying:
            key = "timeline-one" if applying[selected] else "timeline-none"
            text = messages(key, file=selected, deletes=applying[selected])
        else:
            count = f"{len(self._deletes) + self._left_out:,}"
            text = messages("timeline-summary", files=f"{len(self._data):,}", deletes=count)
        return text if self._moved is None else f"{messages('timeline-moved', delete=self._moved)} {text}"

    def _applying(self, entry: ManifestEntry) -> str:
        names = self._view.aliases
        try:
            found = sorted(self._index.for_data_file(entry), key=lambda e: (e.sequence_number or 0, names.order(e)))
            return " ".join(map(names.file, found))
        except FormatError as e:  # a vector moved to before its data file
            return e.message

    def _number(self, entry: ManifestEntry) -> str:
        mark = " *" if self._view.aliases.file(entry) == self._moved else ""
        return f"{entry.sequence_number or 0}{mark}"


def _index_of(view: TableView, entries: list[ManifestEntry]) -> DeleteFileIndex:
    metadata = view.metadata
    by_spec: dict[int, list[ManifestEntry]] = {}
    for entry in entries:
        by_spec.setdefault(entry.data_file.spec_id, []).append(entry)
    manifests = [columns_of(es, i, tuple(f.field_id for f in metadata.specs[i].fields)) for i, es in by_spec.items()]
    return DeleteFileIndex(manifests, metadata.specs, metadata.all_fields, metadata.untrusted_bounds)
