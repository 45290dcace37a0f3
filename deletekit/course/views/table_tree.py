"""TableTree: metadata, refs and snapshots, each down to manifests, entries and files, by their names in the files.

Ids, paths, times and sizes that differ from one run or engine to the next are shown by alias or as `…`, and in full
with `raw`. Selecting such a line shows its value in full too. A live widget shows sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import numpy as np

from deletekit.course.translations import Messages
from deletekit.course.views import page
from deletekit.course.views.page import Mark, Node, Page, Tree
from deletekit.course.views.table_view import TableView, as_table_view, kind_of
from deletekit.errors import DeletekitError
from deletekit.formats.content_file import EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.table.metadata import Snapshot
from deletekit.text import brief, literal, plain
from deletekit.tools.inspect import to_json

AT_ONCE = 100
MOST_NODES = 1_000
"""Nodes of one page; the next ones are reached by folding others up."""
LONGEST_SHOWN = 1_000
_NAMES = 5

_SNAPSHOT_IDS = re.compile("((parent|current|source)-)?snapshot-id|(added_)?snapshot_id")
_PATHS = frozenset(("file_path", "referenced_data_file"))
_VARYING = frozenset(["timestamp-ms", "last-updated-ms", "table-uuid", "location", "metadata-file", "manifest_path"])
_SIZES = re.compile("manifest_length|file_size_in_bytes|.*files-size")
_MASK = "…"
_STATUS_MARKS: dict[EntryStatus, Mark] = {EntryStatus.ADDED: "added", EntryStatus.DELETED: "removed"}


@page.view_page()
def table_tree(
    table: Any,
    *,
    node: str = "",
    expanded: Sequence[str] | None = None,
    snapshot: str | None = None,
    deletes_only: bool = False,
    raw: bool | None = None,
    lang: str | None = None,
) -> Page:
    """Make the page of a table's metadata.

    Parameters
    ----------
    node: key of the selected line, as `snapshots/S2/manifest-list/1`; its parents are unfolded.
    expanded: keys of the unfolded lines; None unfolds the snapshot down to its manifests.
    snapshot: the snapshot unfolded by default, as `S2`; None is the current one.
    deletes_only: list delete manifests only.
    raw: show ids, paths, times and sizes in full; None does so outside of lessons.

    Raises NotFoundError if the snapshot does not exist, FormatError naming a file that cannot be read.
    """
    view, messages = as_table_view(table), Messages(lang)
    raw, at = not view.in_lesson if raw is None else raw, view.snapshot(snapshot)
    ways = list(accumulate(node.split("/"), "{}/{}".format))  # the node with its parents, the outermost first
    made = _Roots(view, messages, raw=raw, deletes_only=deletes_only)
    opened = frozenset((*(made.default(at) if expanded is None else expanded), *ways[:-1]))
    roots = made.items()
    found = list(islice(_visible(roots, opened), MOST_NODES))
    items = {n.key: item for n, item in found}
    # The nearest visible parent, if the node is folded, or gone with another snapshot.
    node = next((way for way in reversed(ways) if way in items), "")
    if node:
        value = brief(items[node].secret or items[node].value or "-", 2_000)
        sentence = messages("tree-line", label=brief(items[node].label), value=value)
    else:
        sentence = messages("tree-of", table=view.name, snapshots=len(view.aliases.snapshots))
        sentence = " ".join([sentence, *_gone(view, messages, at)])
    tree = Tree(
        name="tree",
        caption=messages("tree-caption", table=view.name),
        nodes=tuple(n for n, _ in found),
        select="node",
        selected=node,
        expand="expanded",
    )
    return Page(
        sentence=sentence,
        state={"node": node},
        blocks=[tree],
        controls=[
            page.check("deletes_only", messages("deletes-only"), deletes_only),
            page.check("raw", messages("raw"), raw),
        ],
    )


def _gone(view: TableView, messages: Messages, snapshot: Snapshot | None) -> Iterator[str]:
    """Say how many rows are gone from a snapshot, and by which deletes, as the manifests count them."""
    kinds: dict[str, list[ManifestEntry]] = {}
    try:
        for entry in () if snapshot is None else view.live(snapshot, ManifestContent.DELETES):
            kinds.setdefault(kind_of(entry), []).append(entry)
    except DeletekitError as e:  # the files that are there still have their lines
        yield brief(str(e), 300)
        return
    for kind, found in sorted(kinds.items()):
        names = [view.aliases.of(e) for e in sorted(found, key=view.aliases.order)[:_NAMES]]
        rows = sum(e.data_file.record_count for e in found)
        more = ", …" if len(found) > _NAMES else ""
        yield messages(f"gone-{kind}", count=f"{len(found):,}", names=", ".join(names) + more, rows=f"{rows:,}")
    if snapshot is not None and not kinds:
        yield messages("gone-none")


# --- items: children are made when they are shown, a hundred at a time ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Items:
    """Children, each made of its source; `first` is the number of the first one, and `step` counts up or down."""

    sources: Sequence[Any]
    make: Callable[[Any], Item] = lambda item: item
    first: int = 1
    step: int = 1

    def shown(self) -> Sequence[Item]:
        """Return the children; more than a hundred as groups of a hundred, of ten thousand, ..."""
        total, size = len(self.sources), AT_ONCE
        if total <= AT_ONCE:
            return [self.make(source) for source in self.sources]
        while -(-total // size) > AT_ONCE:
            size *= AT_ONCE
        return [self._group(low, min(low + size, total)) for low in range(0, total, size)]

    def _group(self, low: int, stop: int) -> Item:
        first, last = self.first + self.step * low, self.first + self.step * (stop - 1)
        inside = Items(self.sources[low:stop], self.make, first, self.step)
        return Item(name=f"{first}-{last}", label=f"{first:,}-{last:,}", children=lambda: inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing in a tree; `name` is unique among its siblings and has no slash."""

    name: str
    label: str
    value: str = ""
    mark: Mark = ""
    children: Callable[[], Items] | None = None
    secret: str = ""
    """The value in full, if `value` is short or masked."""


def _visible(items: Items, expanded: frozenset[str], prefix: str = "", level: int = 1) -> Iterator[tuple[Node, Item]]:
    """Return the visible nodes in order."""
    siblings = items.shown()
    for place, item in enumerate(siblings, 1):
        key = prefix + item.name
        opened = item.children is not None and key in expanded
        node = Node(
            key=key,
            level=level,
            label=brief(item.label),
            value=item.value if isinstance(item.value, page.Varying) else brief(item.value, LONGEST_SHOWN),
            mark=item.mark,
            expandable=item.children is not None,
            expanded=opened,
            position=place,
            size=len(siblings),
        )
        yield node, item
        if opened and item.children is not None:
            yield from _visible(item.children(), expanded, f"{key}/", level + 1)


class _Roots:
    """Makes the items of one table's tree."""

    def __init__(self, view: TableView, messages: Messages, *, raw: bool, deletes_only: bool) -> None:
        self._view = view
        self._say = messages
        self._raw = raw
        self._deletes_only = deletes_only

    def items(self) -> Items:
        metadata, snapshots = self._view.metadata, self._view.aliases.snapshots
        raw = {k: v for k, v in metadata.raw.items() if k not in ("snapshots", "refs")}
        listed = Item(
            name="snapshots",
            label="snapshots",
            value=str(len(snapshots)),
            children=self._snapshots,
        )
        return Items([self._json("metadata", raw), self._json("refs", dict(metadata.refs)), listed])

    def _snapshots(self) -> Items:
        """Return the snapshots, the newest first."""
        snapshots = self._view.aliases.snapshots
        return Items(snapshots[::-1], self._snapshot, len(snapshots), -1)

    def default(self, snapshot: Snapshot | None) -> Iterator[str]:
        """Return what is unfolded at first: the way to a snapshot's manifests."""
        if snapshot is None:
            yield "metadata"
            return
        items, way = self._snapshots(), "snapshots"
        yield way
        while len(items.sources) > AT_ONCE:
            groups = ((g, g.children()) for g in items.shown() if g.children is not None)
            group, items = next((g, inside) for g, inside in groups if snapshot in inside.sources)
            yield (way := f"{way}/{group.name}")
        yield (way := f"{way}/{self._view.aliases.snapshot_name(snapshot.snapshot_id)}")
        yield f"{way}/manifest-list"

    def _snapshot(self, snapshot: Snapshot) -> Item:
        name = self._view.aliases.snapshot_name(snapshot.snapshot_id)
        refs = [plain(r) for r, ref in self._view.metadata.refs.items() if ref["snapshot-id"] == snapshot.snapshot_id]
        value = plain(", ".join([snapshot.operation, *refs]))
        raw = snapshot.to_json(self._view.metadata.format_version)
        where = self._view.shown_path(raw.pop("manifest-list", None))
        manifests = Item(
            name="manifest-list",
            label="manifest-list",
            value=where if self._raw else "",
            secret=where,
            children=lambda: self._manifests(snapshot),
        )
        fields = {k: v for k, v in raw.items() if v is not None}
        secret = f"{value}, {snapshot.snapshot_id}"
        return Item(
            name=name,
            label=name,
            value=value,
            secret=secret,
            children=lambda: Items([*self._fields(fields), manifests]),
        )

    def _manifests(self, snapshot: Snapshot) -> Items:
        listed = enumerate(self._view.reader.manifests(snapshot), 1)
        wanted = [m for m in listed if m[1].content == ManifestContent.DELETES or not self._deletes_only]
        return Items(wanted, lambda numbered: self._manifest(*numbered))

    def _manifest(self, number: int, listed: ManifestFile) -> Item:
        counts = {name: getattr(listed, f"{name}_files_count") for name in ("added", "existing", "deleted")}
        kind = self._say("manifest-deletes" if listed.content == ManifestContent.DELETES else "manifest-data")
        value = ", ".join([kind, *(f"{k} {n:,}" for k, n in counts.items() if n)])
        entries = Item(name="entries", label="manifest_entry", children=lambda: self._entries(listed))
        return Item(
            name=str(number),
            label=f"manifest_file {number}",
            value=value,
            children=lambda: Items([entries, *self._fields(to_json(listed))]),
        )

    def _entries(self, listed: ManifestFile) -> Items:
        columns = self._view.reader.columns(listed)
        return Items(range(len(columns)), lambda row: self._entry(*columns.entries(np.array([row]))))

    def _entry(self, entry: ManifestEntry) -> Item:
        name = self._view.aliases.of(entry)
        file = entry.data_file
        value = f"{entry.status.name}, {self._say('kind-' + kind_of(entry))}, record_count {file.record_count:,}"
        inside = self._without_sizes(to_json(file), bounds=file.content == FileContent.POSITION_DELETES)
        return Item(
            name=name,
            label=name,
            value=value,
            secret=f"{value}, {self._view.shown_path(file.file_path)}",
            mark=_STATUS_MARKS.get(entry.status, ""),
            children=lambda: Items(self._fields({**to_json(entry), "data_file": inside})),
        )

    def _without_sizes(self, file: dict[str, Any], *, bounds: bool) -> dict[str, Any]:
        """Hide the sizes, which the Parquet writer decides, and a position delete's bounds, which are paths."""
        varying = {"column_sizes", "split_offsets"}
        varying |= {"lower_bounds", "upper_bounds"} if bounds else set()
        return file if self._raw else {k: _MASK if k in varying else v for k, v in file.items()}

    def _fields(self, values: Mapping[str, Any]) -> list[Item]:
        return [self._json(name, value) for name, value in values.items()]

    def _json(self, name: str, value: Any, field: str | None = None) -> Item:
        """Make the item of a JSON value; in a list, `field` is the list's name."""
        safe, label, field = brief(name).replace("/", "%2F"), plain(name), field or name  # a slash separates keys
        if isinstance(value, Mapping) and value:
            inside = [(str(k), v, str(k)) for k, v in value.items()]
            size = f"{{{len(inside) if self._raw else _MASK}}}"  # the number of properties depends on the writer
        elif isinstance(value, list | tuple) and value:
            inside = [(str(i), v, field) for i, v in enumerate(value)]
            size = f"[{len(value)}]"
        else:
            full = plain(value) if isinstance(value, str) else literal(value)
            return Item(
                name=safe, label=label, value=full if self._raw else self._masked(field, value, full), secret=full
            )
        return Item(name=safe, label=label, value=size, children=lambda: Items(inside, lambda one: self._json(*one)))

    def _masked(self, field: str, value: Any, full: str) -> str:
        if value is None:
            return full
        if _SNAPSHOT_IDS.fullmatch(field):
            return self._view.aliases.snapshot_name(value if isinstance(value, int) else None)
        if field in _PATHS:
            return self._view.aliases.data_file(str(value)) or _MASK
        if _SIZES.fullmatch(field):
            return page.Varying(full)
        return _MASK if field in _VARYING else full
