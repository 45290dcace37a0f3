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
from deletekit.formats.content_file import EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.table.metadata import Snapshot
from deletekit.text import brief, literal, plain
from deletekit.tools.inspect import to_json

AT_ONCE = 100
MOST_NODES = 1_000
"""Nodes of one page; the next ones are reached by folding others up."""
LONGEST_SHOWN = 1_000

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
    raw: bool = False,
    lang: str | None = None,
) -> Page:
    """Make the page of a table's metadata.

    Parameters
    ----------
    node: key of the selected line, as `snapshots/S2/manifest-list/1`; its parents are unfolded.
    expanded: keys of the unfolded lines; None unfolds the snapshot down to its manifests.
    snapshot: the snapshot unfolded by default, as `S2`; None is the current one.
    deletes_only: list delete manifests only.
    raw: show ids, paths, times and sizes in full.

    Raises NotFoundError if the snapshot does not exist, FormatError naming a file that cannot be read.
    """
    view = as_table_view(table)
    messages = Messages(lang)
    ways = list(accumulate(node.split("/"), "{}/{}".format))  # the node with its parents, the outermost first
    default = _default(view, view.snapshot(snapshot))
    opened = frozenset((*(default if expanded is None else expanded), *ways[:-1]))
    roots = _Roots(view, messages, raw=raw, deletes_only=deletes_only).items()
    found = list(islice(_visible(roots, opened), MOST_NODES))
    items = {n.key: item for n, item in found}
    # The nearest visible parent, if the node is folded, or gone with another snapshot.
    node = next((way for way in reversed(ways) if way in items), "")
    if node:
        value = brief(items[node].secret or items[node].value or "-", 2_000)
        sentence = messages("tree-line", label=brief(items[node].label), value=value)
    else:
        sentence = messages("tree-of", table=view.name, snapshots=len(view.aliases.snapshots))
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


def _default(view: TableView, snapshot: Snapshot | None) -> tuple[str, ...]:
    if snapshot is None:
        return ("metadata",)
    name = view.aliases.snapshot_name(snapshot.snapshot_id)
    return ("snapshots", f"snapshots/{name}", f"snapshots/{name}/manifest-list")


# --- items: children are made when they are shown, a hundred at a time ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Items:
    """Children, each made of its source; `first` is the number of the first one among all its siblings."""

    sources: Sequence[Any]
    make: Callable[[Any], Item] = lambda item: item
    first: int = 1

    def shown(self) -> Sequence[Item]:
        """Return the children; more than a hundred as groups of a hundred, of ten thousand, ..."""
        total, step = len(self.sources), AT_ONCE
        if total <= AT_ONCE:
            return [self.make(source) for source in self.sources]
        while -(-total // step) > AT_ONCE:
            step *= AT_ONCE
        return [self._group(low, min(low + step, total)) for low in range(0, total, step)]

    def _group(self, low: int, stop: int) -> Item:
        first, last = self.first + low, self.first + stop - 1
        inside = Items(self.sources[low:stop], self.make, first)
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
            children=lambda: Items(snapshots, self._snapshot),
        )
        return Items([self._json("metadata", raw), self._json("refs", dict(metadata.refs)), listed])

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
