"""The files of a table before and after a commit: what the new snapshot shares with the old one, adds and removes."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from deletekit.course.aliases import alias_number
from deletekit.course.svg import GAP, KINDS, LONGEST, Box, Canvas, Label, Mark, Svg, label, text_width
from deletekit.course.translations import Messages
from deletekit.course.views.table_view import TableView, as_table_view, delete_of, kind_of
from deletekit.deletes.verdict import reason_of
from deletekit.errors import FormatError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot
from deletekit.text import brief

MOST_FILES = 6
"""Files of a manifest that are drawn; the others are counted."""
MOST_MANIFESTS = 8


def file_tree(table: Any, *, before: str | None = None, after: str | None = None, lang: str | None = None) -> Svg:
    """Draw the files of two snapshots, from the table metadata down to data files and deletes.

    Parameters
    ----------
    table: a table, or the path of a metadata file.
    before, after: as `S1` and `S2`; None is the current snapshot, and the one that it was made from.

    Raises NotFoundError for a snapshot that does not exist.
    """
    view, say = as_table_view(table), Messages(lang)
    new = view.snapshot(after)
    if new is None:
        return Canvas(say("draw-tree-empty", table=brief(view.name, LONGEST)), say.lang).finish([])
    old = view.snapshot(before) if before else view.metadata.snapshots.get(new.parent_snapshot_id or 0)
    return _Tree(view, say, [s for s in (old, new) if s is not None]).draw()


class _Tree:
    """One or two snapshots, and all that they list, by name."""

    def __init__(self, view: TableView, say: Messages, snapshots: Sequence[Snapshot]) -> None:
        self._view, self._say, self._snapshots = view, say, snapshots
        of = view.aliases.of
        self._names = [view.aliases.snapshot_name(s.snapshot_id) for s in snapshots]
        self._lists = [{brief(of(m.manifest_path), LONGEST): m for m in view.reader.manifests(s)} for s in snapshots]
        every = {name: m for listed in self._lists for name, m in listed.items()}
        changed = sorted(every, key=lambda name: all(name in listed for listed in self._lists))  # those of both last
        shown = sorted(changed[:MOST_MANIFESTS], key=lambda name: (every[name].content, alias_number(name)))
        self._left_out = len(every) - len(shown)
        self._kinds = {n: say("manifest-deletes" if every[n].content else "manifest-data") for n in shown}
        self._entries: dict[str, list[ManifestEntry]] = {}
        self._more: dict[str, str] = {}
        for name in shown:
            columns = view.reader.columns(every[name])
            self._entries[name] = list(columns.entries(np.arange(min(len(columns), MOST_FILES))))
            left = len(columns) - MOST_FILES
            self._more[name] = say("draw-more", count=f"{left:,}") if left > 0 else ""
        files = {of(e): e for entries in self._entries.values() for e in entries}
        order = sorted(files, key=lambda name: (name[0] != "D", alias_number(name)))  # as their manifests are
        self._files = {name: files[name] for name in order}

    def draw(self) -> Svg:
        say, names, two = self._say, self._names, len(self._names) > 1
        title = "draw-tree-title" if two else "draw-tree-one"
        canvas = Canvas(say(title, table=brief(self._view.name, LONGEST), before=names[0], after=names[-1]), say.lang)
        marks: tuple[Mark, ...] = ("", "added")  # an old snapshot stays
        snapshots = list(zip(names, self._snapshots, marks, strict=False))
        levels: list[list[Label]] = [
            [label(say("draw-metadata"), say("draw-current", snapshot=names[-1]))],
            [label(name, say("snapshot"), s.operation, mark=mark) for name, s, mark in snapshots],
            [label(f"L{name[1:]}", say("draw-list"), mark=mark) for name, _, mark in snapshots],
            [label(n, kind, self._more[n], mark=self._mark(n)) for n, kind in self._kinds.items()],
            [self._file(name, entry) for name, entry in self._files.items()],
        ]
        widths = (sum(one.size[0] + GAP for one in level) for level in levels)
        width, y, rows = max(text_width(canvas.title), *widths), canvas.below, list[list[Box]]()
        for level in levels:
            rows.append(canvas.row(y, level, width))
            y = canvas.below + 2 * GAP
        place = dict(zip([*self._kinds, *self._files], [*rows[3], *rows[4]], strict=True))
        self._arrows(canvas, rows, place)
        applying = self._applying(canvas, place)
        more = [say("draw-manifests-more", count=f"{self._left_out:,}")] if self._left_out else []
        legends = (["draw-tree-legend"] if two else []) + (["draw-applies-legend"] if applying else [])
        canvas.lines(GAP, canvas.below + GAP, [*more, *map(say, legends)])
        return canvas.finish([*self._facts(), *applying, *more])

    def _arrows(self, canvas: Canvas, rows: Sequence[Sequence[Box]], place: dict[str, Box]) -> None:
        (metadata,), snapshots, lists = rows[:3]
        for snapshot, at, listed in zip(snapshots, lists, self._lists, strict=True):
            canvas.arrow(metadata.at(0.5, 1), snapshot.at(0.5, 0))
            canvas.arrow(snapshot.at(0.5, 1), at.at(0.5, 0))
            for name in (name for name in self._kinds if name in listed):  # in order: the bytes are compared
                canvas.arrow(at.at(0.5, 1), place[name].at(0.5, 0))
        for name, entries in self._entries.items():
            for entry in entries:
                to = place[self._view.aliases.of(entry)].at(0.5, 0)
                canvas.arrow(place[name].at(0.5, 1), to, "" if entry.is_live else "removed")

    def _applying(self, canvas: Canvas, place: dict[str, Box]) -> list[str]:
        """Draw what each delete of the new snapshot applies to by the rules, and say it."""
        view, after, applies = self._view, self._snapshots[-1], dict[str, list[str]]()
        data, deletes = (view.live(after, content)[: MOST_FILES * MOST_MANIFESTS] for content in ManifestContent)
        for entry in data:
            with suppress(FormatError):  # the views and verify say what is wrong with the deletes of this file
                has_vector = any(delete_of(e).is_deletion_vector for e in view.index(after).for_data_file(entry))
                for found in deletes:
                    if reason_of(found, entry, view.metadata.specs, has_vector=has_vector) == "applies":
                        applies.setdefault(view.aliases.of(found), []).append(view.aliases.of(entry))
        said = []
        for delete in sorted(applies, key=lambda name: (name[0], alias_number(name))):
            names = sorted(applies[delete], key=alias_number)
            said.append(self._say("draw-applies", delete=delete, files=", ".join(names)))
            for name in names:
                if delete in place and name in place:
                    start, end = place[delete].at(0.5, 1), place[name].at(0.5, 1)
                    canvas.arrow(start, end, "applies", bend=14 + abs(start[0] - end[0]) / 30)
        return said

    def _facts(self) -> Iterator[str]:
        say, of = self._say, self._view.aliases.of
        for name, listed in zip(self._names, self._lists, strict=True):
            manifests = ", ".join(sorted(listed, key=alias_number)) or "-"
            yield say("draw-tree-snapshot", snapshot=name, list=f"L{name[1:]}", manifests=manifests)
        for name, entries in self._entries.items():
            listed_files = ", ".join(of(e) if e.is_live else f"{of(e)} ({say('removed')})" for e in entries)
            value = f"{listed_files} {self._more[name]}".strip() or "-"
            yield say("tree-line", label=f"{name}, {self._kinds[name]}", value=value)
        for name, entry in self._files.items():
            mark = self._mark(name)
            kind = say("kind-" + kind_of(entry)) + (f", {say(mark)}" if mark else "")
            yield say("tree-line", label=f"{name}, {kind}", value=f"record_count {entry.data_file.record_count:,}")

    def _file(self, name: str, entry: ManifestEntry) -> Label:
        kind = kind_of(entry)
        lines = (name, self._say("kind-" + kind), f"record_count {entry.data_file.record_count:,}")
        return label(*lines, fill=KINDS[kind], mark=self._mark(name))

    def _mark(self, name: str) -> Mark:
        """Return whether a manifest or a file came or went."""
        of = self._view.aliases.of
        there = [
            name in listed or any(of(e) == name and e.is_live for m in listed for e in self._entries.get(m, ()))
            for listed in self._lists
        ]
        return "" if all(there) or len(there) == 1 else "added" if there[1] else "removed"
