"""SequenceTimeline: data files and deletes by sequence number, and which delete must be opened for which file.

`DeleteFileIndex` decides this by the rules and the bounds, also for a delete that was moved to another sequence number.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from deletekit.course.aliases import alias_number
from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.page import Grid, Page
from deletekit.course.views.table_view import LiveEntries, TableView, as_table_view, kind_of
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.manifests import columns_of
from deletekit.table.metadata import Snapshot

PAGE_FILES = 40
MOST_DELETES = 2_000
FOLDED_FROM = 12
"""More deletes of one kind fold if no data file is between them; more data files with the same folds of deletes do."""
BESIDE = 8

_LANES = ("data-file", "equality-delete", "position-delete", "deletion-vector")

Fold = list[ManifestEntry]
"""Files that are shown as one, in order."""


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
    grids, opened = timeline.grids(data_file, start)
    return Page(
        sentence=timeline.sentence(data_file, opened),
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
        apart = self._data if len(self._deletes) > FOLDED_FROM and len(self._data) <= MOST_DELETES else None
        of = self._aliases.of
        self._folds = _folded(self._sorted(self._deletes), lambda e: (kind_of(e), of(e) == self._moved), apart)

    def grids(self, selected: str | None, start: int) -> tuple[list[Grid], dict[str, str]]:
        """Return the grids of data files and of deletes, and what must be opened for each data file shown."""
        say, of = self._say, self._aliases.of
        lines, opened, more = self._lines(selected, start)
        rank = {of(e): i for i, e in enumerate(self._sorted(self._deletes))}
        named = {}
        for line in lines:
            every = {d for e in line for d in opened[of(e)].split(" ") if d in rank}
            named[self._name(line)] = " ".join(sorted(every, key=rank.__getitem__)) or opened[of(line[0])]
        into = {of(d[0]): {of(e) for e in d} for d in self._folds}
        arrows = [
            [self._name(d), name] for d in self._folds for name in named if into[of(d[0])] & {*named[name].split(" ")}
        ]
        used = {delete for delete, _ in arrows}
        deletes = [d for d in self._folds if self._name(d) in used or len(self._folds) <= PAGE_FILES][:PAGE_FILES]
        points = list(map(self._point, [*lines, *deletes]))
        figure = _figure(points)
        note = " ".join([say("timeline-arrow"), *([say("timeline-folded")] if any(len(e) > 1 for e in lines) else [])])
        shown = {p["name"] for p in points}
        figure |= {"arrows": [a for a in arrows if a[0] in shown], "note": note}
        columns = (say("file"), "sequence_number", say("timeline-opened"))
        cells = (page.line(of(e[0]), n, _numbers(e), _ranges(named[n]) or None) for e in lines if (n := self._name(e)))
        more |= {"select": "data_file", "selected": selected, "numbers": (1,), "figure": figure}
        files = page.grid("files", say("timeline-files"), columns, cells, **more)
        columns = (say("delete"), say("kind"), "sequence_number")
        cells = (page.line(n, n, say("kind-" + kind_of(d[0])), self._at(d)) for d in deletes if (n := self._name(d)))
        left = len(self._deletes) + self._left_out - sum(map(len, deletes))
        left_out = say("timeline-more", count=f"{left:,}") if left else ""
        moved = page.grid("deletes", say("timeline-deletes"), columns, cells, numbers=(2,), shown=left_out)
        return [files, moved], opened

    def _lines(self, selected: str | None, start: int) -> tuple[list[Fold], dict[str, str], dict[str, Any]]:
        """Return the data files shown, folded, what must be opened for each, and a grid's arguments for the others."""
        say, of = self._say, self._aliases.of
        if len(self._data) > MOST_DELETES:
            start = start or max(alias_number(selected or "") - 1, 0)
            first, stop, more = page.paging(say, "start", start, len(self._data), PAGE_FILES)
            lines = [[e] for e in sorted(self._data[first:stop], key=self._aliases.order)]
            return lines, {of(e): self._opened(e) for (e,) in lines}, more
        fold_of = {of(e): i for i, fold in enumerate(self._folds) for e in fold}
        opened = {of(e): self._opened(e) for e in self._sorted(self._data)}
        folds = {name: {fold_of.get(d, d) for d in text.split(" ")} for name, text in opened.items()}
        apart = self._deletes if len(opened) > FOLDED_FROM else None
        lines = _folded(self._sorted(self._data), lambda e: (folds[of(e)], of(e) == selected), apart)
        at = next((i for i, line in enumerate(lines) if opened[of(line[0])]), 0)  # begin where the deletes are
        wanted = next((i for i, line in enumerate(lines) if selected in [of(e) for e in line]), at)
        first, stop, more = page.paging(say, "start", start or wanted, len(lines), PAGE_FILES)
        return lines[first:stop], opened, more

    def names(self) -> list[str]:
        """Return the names of the deletes that can be moved."""
        return [self._aliases.of(e) for e in sorted(self._deletes, key=self._aliases.order)][: page.MOST_OPTIONS]

    def sentence(self, selected: str | None, opened: dict[str, str]) -> str:
        say = self._say
        if selected in opened:
            key = "timeline-one" if opened[selected] else "timeline-none"
            text = say(key, file=selected, deletes=_ranges(opened[selected]))
        else:
            count = f"{len(self._deletes) + self._left_out:,}"
            text = say("timeline-summary", files=f"{len(self._data):,}", deletes=count)
        return text if self._moved is None else f"{say('timeline-moved', delete=self._moved)} {text}"

    def _opened(self, entry: ManifestEntry) -> str:
        try:
            return " ".join(map(self._aliases.of, self._sorted(self._index.for_data_file(entry))))
        except FormatError as e:  # a vector was moved to before its data file
            return e.message

    def _sorted(self, entries: Iterable[ManifestEntry]) -> Fold:
        return sorted(entries, key=lambda e: (e.sequence_number or 0, self._aliases.order(e)))

    def _name(self, fold: Fold) -> str:
        first, last = self._aliases.of(fold[0]), self._aliases.of(fold[-1])
        return first if len(fold) == 1 else f"{first}-{last} ({len(fold):,})"

    def _at(self, fold: Fold) -> str:
        return _numbers(fold) + (" *" if self._aliases.of(fold[0]) == self._moved else "")

    def _point(self, fold: Fold) -> dict[str, Any]:
        key = {"key": self._aliases.of(fold[0]), "first": fold[0].sequence_number or 0}
        return {"name": self._name(fold), "row": kind_of(fold[0]), "at": _numbers(fold), **key}


def _ranges(names: str) -> str:
    """Write four names or more in a row as the first and the last: `P1 E1-E20`."""
    runs: list[list[str]] = []
    for name in names.split(" "):
        last = runs[-1][-1] if runs else ""
        if last[:1] == name[:1] and alias_number(name) == alias_number(last) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 3 else " ".join(run) for run in runs)


def _numbers(fold: Fold) -> str:
    first, last = fold[0].sequence_number or 0, fold[-1].sequence_number or 0
    return str(first) if first == last else f"{first}-{last}"


def _folded(entries: Fold, key: Callable[[ManifestEntry], Any], apart: Iterable[ManifestEntry] | None) -> list[Fold]:
    """Join entries beside each other that have one key, with no number of `apart` between them; None joins nothing."""
    folds: list[Fold] = []
    keys, numbers = list(map(key, entries)), {e.sequence_number or 0 for e in apart or ()}
    for i, entry in enumerate(entries):
        low, high = entries[max(i - 1, 0)].sequence_number or 0, entry.sequence_number or 0
        between = low != high and not numbers.isdisjoint(range(low, high + 1))
        if i and apart is not None and keys[i - 1] == keys[i] and not between:
            folds[-1].append(entry)
        else:
            folds.append([entry])
    return folds


def _figure(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Lay points out: a column for each number, lanes for the kinds, points of both side by side, in lines `y`."""
    numbers = sorted({(p["first"], p["at"]) for p in points})
    y, lanes = 0, []
    for row in (row for row in _LANES if any(p["row"] == row for p in points)):
        lanes.append([row, y])
        below = y
        for column, number in enumerate(numbers):
            here = [p for p in points if (p["row"], p["first"], p["at"]) == (row, *number)]
            for i, point in enumerate(here):
                point |= {"column": column, "place": i % BESIDE, "y": y + i // BESIDE}
                below = max(below, point["y"])
        y = below + (2 if row == "data-file" else 1)  # arrows arrive below the data files
    return {"points": points, "lanes": lanes, "numbers": [at for _, at in numbers], "lines": y}


def _index_of(view: TableView, entries: Iterable[ManifestEntry]) -> DeleteFileIndex:
    metadata = view.metadata
    by_spec: dict[int, list[ManifestEntry]] = {}
    for entry in entries:
        by_spec.setdefault(entry.data_file.spec_id, []).append(entry)
    manifests = [columns_of(es, i, tuple(f.field_id for f in metadata.specs[i].fields)) for i, es in by_spec.items()]
    return DeleteFileIndex(manifests, metadata.specs, metadata.all_fields, metadata.untrusted_bounds)
