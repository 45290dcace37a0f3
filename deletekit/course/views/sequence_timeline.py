"""SequenceTimeline: data files and deletes on the axis of sequence numbers, and which delete applies to which file.

`DeleteFileIndex` decides what applies, also for a delete that was moved to another sequence number to see what changes.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from deletekit.course.aliases import alias_number
from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.page import Grid, Page
from deletekit.course.views.table_view import LiveEntries, TableView, as_table_view, delete_of
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.manifests import columns_of
from deletekit.table.metadata import Snapshot

PAGE_FILES = 40
MOST_DELETES = 2_000


@page.view_page()
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
    """Make the page of a snapshot's sequence numbers.

    Parameters
    ----------
    snapshot: as `S2`; None is the current one.
    data_file: the selected data file, as `D1`.
    start: first data file shown.
    moved, moved_to: a delete, as `E1`, and the sequence number that it is moved to.

    Raises NotFoundError for a name that does not exist, InvalidInputError for a negative sequence number.
    """
    view = as_table_view(table)
    messages = Messages(lang)
    at = view.snapshot(snapshot)
    if moved_to is not None and moved_to < 0:
        raise InvalidInputError("negative sequence number", kind="sequence", field="moved_to", found=moved_to)
    if at is None:
        return Page(sentence=messages("no-rows", table=view.name))
    if data_file is not None:
        view.data_file(at, data_file)
    timeline = _Timeline(view, at, messages, moved, moved_to)
    grids, applying = timeline.grids(data_file, start)
    return Page(
        sentence=timeline.sentence(data_file, applying),
        blocks=grids,
        controls=[
            page.select("moved", messages("timeline-move"), moved, [None, *timeline.names()]),
            page.number("moved_to", messages("timeline-to"), moved_to, view.metadata.last_sequence_number + 1),
        ],
    )


class _Timeline:
    """The files of one snapshot, one delete perhaps moved."""

    def __init__(
        self, view: TableView, snapshot: Snapshot, messages: Messages, moved: str | None, moved_to: int | None
    ) -> None:
        self._say, self._aliases = messages, view.aliases
        self._data = view.live(snapshot, ManifestContent.DATA)
        self._moved = moved if moved_to is not None else None
        if moved is not None:
            view.delete_file(snapshot, moved)
        deletes: LiveEntries | list[ManifestEntry] = view.live(snapshot, ManifestContent.DELETES)
        if self._moved is None:
            self._index = view.index(snapshot)
        else:
            deletes = [replace(e, sequence_number=moved_to) if view.aliases.of(e) == moved else e for e in deletes]
            self._index = _index_of(view, deletes)
        self._deletes = deletes[:MOST_DELETES]
        self._left_out = len(deletes) - len(self._deletes)

    def grids(self, selected: str | None, start: int) -> tuple[list[Grid], dict[str, str]]:
        """Return the grids of data files and of deletes, and what applies to each data file shown."""
        if selected is not None and not start:
            start = max(alias_number(selected) - 1, 0)
        first, stop, more = page.paging(self._say, "start", start, len(self._data), PAGE_FILES)
        name, say = self._aliases.of, self._say
        if len(self._data) <= MOST_DELETES:
            entries = sorted(self._data, key=self._aliases.order)[first:stop]
        else:
            entries = sorted(self._data[first:stop], key=self._aliases.order)
        applying = {name(e): self._applying(e) for e in entries}
        arrows = [[delete, data] for data, text in applying.items() for delete in text.split(" ")]
        used = {delete for delete, _ in arrows}
        deletes = [e for e in self._sorted(self._deletes) if name(e) in used or len(self._deletes) <= PAGE_FILES]
        deletes = deletes[:PAGE_FILES]
        rows = [(e, "data") for e in entries] + [(e, delete_of(e).kind) for e in deletes]
        shown = {name(e) for e in deletes}
        figure = {
            "points": [{"name": name(e), "at": e.sequence_number or 0, "row": row} for e, row in rows],
            "arrows": [arrow for arrow in arrows if arrow[0] in shown],
            "lanes": {row: say("kind-data-file" if row == "data" else f"kind-{row}") for _, row in rows},
            "axis": say("draw-axis"),
            "arrow": say("timeline-arrow"),
        }
        columns = (say("file"), "sequence_number", say("timeline-applying"))
        lines = (page.line(name(e), name(e), e.sequence_number or 0, applying[name(e)] or None) for e in entries)
        more |= {"select": "data_file", "selected": selected, "numbers": (1,), "figure": figure}
        files = page.grid("files", say("timeline-files"), columns, lines, **more)
        columns = (say("delete"), say("kind"), "sequence_number")
        lines = (page.line(name(e), name(e), say("kind-" + delete_of(e).kind), self._number(e)) for e in deletes)
        left = len(self._deletes) + self._left_out - len(deletes)
        left_out = say("timeline-more", count=f"{left:,}") if left else ""
        moved = page.grid("deletes", say("timeline-deletes"), columns, lines, numbers=(2,), shown=left_out)
        return [files, moved], applying

    def names(self) -> list[str]:
        """Return the names of the deletes that can be moved."""
        return [self._aliases.of(e) for e in sorted(self._deletes, key=self._aliases.order)][: page.MOST_OPTIONS]

    def sentence(self, selected: str | None, applying: dict[str, str]) -> str:
        say = self._say
        if selected in applying:
            key = "timeline-one" if applying[selected] else "timeline-none"
            text = say(key, file=selected, deletes=applying[selected])
        else:
            count = f"{len(self._deletes) + self._left_out:,}"
            text = say("timeline-summary", files=f"{len(self._data):,}", deletes=count)
        return text if self._moved is None else f"{say('timeline-moved', delete=self._moved)} {text}"

    def _applying(self, entry: ManifestEntry) -> str:
        try:
            return " ".join(map(self._aliases.of, self._sorted(self._index.for_data_file(entry))))
        except FormatError as e:  # a vector was moved to before its data file
            return e.message

    def _sorted(self, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
        return sorted(entries, key=lambda e: (e.sequence_number or 0, self._aliases.order(e)))

    def _number(self, entry: ManifestEntry) -> str:
        mark = " *" if self._aliases.of(entry) == self._moved else ""
        return f"{entry.sequence_number or 0}{mark}"


def _index_of(view: TableView, entries: Iterable[ManifestEntry]) -> DeleteFileIndex:
    metadata = view.metadata
    by_spec: dict[int, list[ManifestEntry]] = {}
    for entry in entries:
        by_spec.setdefault(entry.data_file.spec_id, []).append(entry)
    manifests = [columns_of(es, i, tuple(f.field_id for f in metadata.specs[i].fields)) for i, es in by_spec.items()]
    return DeleteFileIndex(manifests, metadata.specs, metadata.all_fields, metadata.untrusted_bounds)
