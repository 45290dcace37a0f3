"""TableTree: metadata, refs and snapshots, each down to manifests, entries and files, by their names in the files.

Ids, paths, times and sizes that differ from one run or engine to the next are shown by alias or as `…`, and in full
with `raw`. Selecting such a line shows its value in full too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deletekit.course.translations import Messages
from deletekit.course.views.build import check, make_page
from deletekit.course.views.page import Mark, Node, Page, Tree
from deletekit.course.views.table_view import TableView, as_table_view, kind_of
from deletekit.course.views.tree_items import Item, Items, visible
from deletekit.formats.content_file import EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.safe_text import brief, literal, plain
from deletekit.table.metadata import Snapshot
from deletekit.verbs.inspect import to_json

_SNAPSHOT_IDS = re.compile("((parent|current|source)-)?snapshot-id|(added_)?snapshot_id")
_PATHS = frozenset(("file_path", "referenced_data_file"))
_VARYING = frozenset(
    ["timestamp-ms", "last-updated-ms", "table-uuid", "manifest_length", "location", "metadata-file", "manifest_path"]
)
_MASK = "…"
_STATUS_MARKS: dict[EntryStatus, Mark] = {EntryStatus.ADDED: "added", EntryStatus.DELETED: "removed"}


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
    shown = view.snapshot(snapshot)
    opened = set(expanded if expanded is not None else _default(view, shown))
    parts = node.split("/")
    opened.update("/".join(parts[:i]) for i in range(1, len(parts)))
    found = list(visible(_Roots(view, messages, raw=raw, deletes_only=deletes_only).items(), frozenset(opened)))
    node, selected = _selected(found, parts)
    state: dict[str, Any] = {"node": node, "snapshot": snapshot, "deletes_only": deletes_only, "raw": raw}
    state |= {} if expanded is None else {"expanded": tuple(expanded)}
    if selected is None:
        sentence = messages("tree-of", table=view.name, snapshots=len(view.aliases.snapshots))
    else:
        value = brief(selected.secret or selected.value or "-", 2_000)
        sentence = messages("tree-line", label=brief(selected.label), value=value)
    tree = Tree(
        name="tree",
        caption=messages("tree-caption", table=view.name),
        nodes=tuple(n for n, _ in found),
        select="node",
        selected=node,
        expand="expanded",
    )
    return make_page(
        messages,
        table_tree,
        sentence,
        state=state,
        chosen={"node": node},
        blocks=[tree],
        controls=[
            check("deletes_only", messages("deletes-only"), deletes_only),
            check("raw", messages("raw"), raw),
        ],
    )


def _selected(found: Sequence[tuple[Node, Item]], parts: Sequence[str]) -> tuple[str, Item | None]:
    """Return the selected node or its nearest visible parent: it may be folded, or gone with another snapshot."""
    items = {n.key: item for n, item in found}
    ways = ("/".join(parts[:i]) for i in range(len(parts), 0, -1))
    node = next((way for way in ways if way in items), "")
    return node, items.get(node)


def _default(view: TableView, snapshot: Snapshot | None) -> tuple[str, ...]:
    if snapshot is None:
        return ("metadata",)
    name = view.aliases.snapshot(snapshot.snapshot_id)
    return ("snapshots", f"snapshots/{name}", f"snapshots/{name}/manifest-list")


class _Roots:
    """Makes the items of one table's tree."""

    def __init__(self, view: TableView, messages: Messages, *, raw: bool, deletes_only: bool) -> None:
        self._view = view
        self._say = messages
        self._raw = raw
        self._deletes_only = deletes_only

    def items(self) -> Items:
        raw = {k: v for k, v in self._view.metadata.raw.items() if k not in ("snapshots", "refs")}
        refs = dict(self._view.metadata.refs)
        snapshots = self._view.aliases.snapshots
        return Items.of(
            [
                self._json("metadata", raw, "metadata"),
                self._json("refs", refs, "refs"),
                Item(
                    name="snapshots",
                    label="snapshots",
                    value=str(len(snapshots)),
                    children=lambda: Items(len(snapshots), lambda a, b: [self._snapshot(s) for s in snapshots[a:b]]),
                ),
            ]
        )

    def _snapshot(self, snapshot: Snapshot) -> Item:
        name = self._view.aliases.snapshot(snapshot.snapshot_id)
        refs = [plain(r) for r, ref in self._view.metadata.refs.items() if ref["snapshot-id"] == snapshot.snapshot_id]
        value = ", ".join([snapshot.operation, *refs])
        raw = snapshot.to_json(self._view.metadata.format_version)
        where = raw.pop("manifest-list", None)

        def children() -> Items:
            fields = [self._json(k, v, k) for k, v in raw.items() if v is not None]
            lists = Item(
                name="manifest-list",
                label="manifest-list",
                value=self._view.shown_path(where) if self._raw else "",
                secret=self._view.shown_path(where),
                children=lambda: self._manifests(snapshot),
            )
            return Items.of([*fields, lists])

        return Item(
            name=name,
            label=name,
            value=plain(value),
            secret=f"{plain(value)}, {snapshot.snapshot_id}",
            children=children,
        )

    def _manifests(self, snapshot: Snapshot) -> Items:
        listed = [
            (i, m)
            for i, m in enumerate(self._view.reader.manifests(snapshot), 1)
            if m.content == ManifestContent.DELETES or not self._deletes_only
        ]
        return Items(len(listed), lambda a, b: [self._manifest(i, m) for i, m in listed[a:b]])

    def _manifest(self, number: int, listed: ManifestFile) -> Item:
        names = ("added", "existing", "deleted")
        counts = {name: getattr(listed, f"{name}_files_count") for name in names}
        kind = self._say("manifest-deletes" if listed.content == ManifestContent.DELETES else "manifest-data")
        value = ", ".join([kind, *(f"{k} {n:,}" for k, n in counts.items() if n)])

        def children() -> Items:
            fields = [self._json(k, v, k) for k, v in to_json(listed).items()]
            entries = Item(name="entries", label="manifest_entry", children=lambda: self._entries(listed))
            return Items.of([entries, *fields])

        return Item(name=str(number), label=f"manifest_file {number}", value=value, children=children)

    def _entries(self, listed: ManifestFile) -> Items:
        columns = self._view.reader.columns(listed)
        return Items(len(columns), lambda a, b: [self._entry(e) for e in columns.entries(np.arange(a, b))])

    def _entry(self, entry: ManifestEntry) -> Item:
        name = self._view.aliases.file(entry)
        file = entry.data_file
        value = f"{entry.status.name}, {self._say('kind-' + kind_of(entry))}, record_count {file.record_count:,}"

        def children() -> Items:
            fields = {k: v for k, v in to_json(entry).items() if k != "data_file"}
            inside = self._without_sizes(to_json(file), bounds=file.content == FileContent.POSITION_DELETES)
            return Items.of([self._json(k, v, k) for k, v in (fields | {"data_file": inside}).items()])

        return Item(
            name=name,
            label=name,
            value=value,
            secret=f"{value}, {self._view.shown_path(file.file_path)}",
            mark=_STATUS_MARKS.get(entry.status, ""),
            children=children,
        )

    def _without_sizes(self, file: dict[str, Any], *, bounds: bool) -> dict[str, Any]:
        """Hide the sizes, which the Parquet writer decides, and a position delete's bounds, which are paths."""
        varying = {"file_size_in_bytes", "column_sizes", "split_offsets"}
        varying |= {"lower_bounds", "upper_bounds"} if bounds else set()
        return file if self._raw else {k: _MASK if k in varying else v for k, v in file.items()}

    def _json(self, name: str, value: Any, field: str) -> Item:
        """Make the item of a JSON value."""
        safe = brief(name).replace("/", "%2F")  # the slash separates keys
        if isinstance(value, Mapping) and value:
            pairs = list(value.items())
            return Item(
                name=safe,
                label=plain(name),
                value=f"{{{len(pairs) if self._raw else _MASK}}}",  # the number of properties depends on the writer
                children=lambda: Items(len(pairs), lambda a, b: [self._json(str(k), v, str(k)) for k, v in pairs[a:b]]),
            )
        if isinstance(value, list | tuple) and value:
            return Item(
                name=safe,
                label=plain(name),
                value=f"[{len(value)}]",
                children=lambda: Items(
                    len(value), lambda a, b: [self._json(str(i), v, field) for i, v in enumerate(value[a:b], a)]
                ),
            )
        full = literal(value) if not isinstance(value, str) else plain(value)
        return Item(
            name=safe, label=plain(name), value=full if self._raw else self._masked(field, value, full), secret=full
        )

    def _masked(self, field: str, value: Any, full: str) -> str:
        if value is None:
            return full
        if _SNAPSHOT_IDS.fullmatch(field):
            return self._view.aliases.snapshot(value if isinstance(value, int) else None)
        if field in _PATHS:
            return self._view.aliases.path(str(value)) or _MASK
        return _MASK if field in _VARYING or field.endswith("files-size") else full
