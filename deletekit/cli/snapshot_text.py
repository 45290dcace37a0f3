"""Print a snapshot as text: its summary, its manifest list, the manifests' entries, and what its deletes hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from deletekit.cli.printer import Facts, Unbroken, grid, heading, more, pairs
from deletekit.cli.stored_values import StoredValues
from deletekit.safe_text import count, first, moment, plain, runs, short, size

Json = Mapping[str, Any]

_T = TypeVar("_T")

_STATUS = ("existing", "added", "deleted")
_STYLE = {"existing": "", "added": "green", "deleted": "red"}


class SnapshotText:
    """The sections of one snapshot, from what `deletekit.inspect` returned.

    Parameters
    ----------
    metrics: whether to show each file's metrics.
    limit: show at most so many manifests, entries, rows or runs of positions each; 0 shows all.
    """

    def __init__(self, shown: Json, stored: StoredValues, *, metrics: bool, limit: int) -> None:
        self._shown = shown
        self._location = shown["metadata"]["location"]
        self._stored = stored
        self._metrics = metrics
        self._limit = limit

    def sections(self) -> Iterator[RenderableType]:
        """Yield all sections from top to bottom."""
        snapshot = self._shown["snapshot"]
        if snapshot is None:
            return
        yield heading(f"Snapshot {snapshot['snapshot-id']}", f"{moment(snapshot['timestamp-ms'])} UTC")
        names = ("sequence-number", "parent-snapshot-id", "schema-id", "first-row-id", "added-rows")
        yield pairs({n.replace("-", " "): snapshot[n] for n in names if snapshot.get(n) is not None})
        yield heading("Summary")
        yield pairs(dict(snapshot["summary"]))
        yield heading(
            "Manifest list", self._path(snapshot.get("manifest-list") or "inline, as the oldest v1 tables have")
        )
        yield from self._manifests()
        if "deletes" in self._shown:
            yield from self._deletes()

    # --- manifests ----------------------------------------------------------------------------------------------------

    def _manifests(self) -> Iterator[RenderableType]:
        both = list(zip(self._shown["manifest-list"], self._shown["manifests"], strict=True))
        yield from self._spaced(both, self._manifest, "manifests")

    def _manifest(self, both: tuple[Json, Json]) -> RenderableType:
        listed, manifest = both
        kind = "deletes" if listed["content"] == 1 else "data"
        sequence, oldest = listed["sequence_number"], listed["min_sequence_number"]
        facts = Facts(
            f"sequence {sequence}" + (f" (oldest file {oldest})" if oldest != sequence else ""),
            f"spec {listed['partition_spec_id']}",
            _counts(listed, "files"),
            _counts(listed, "rows"),
            size(listed["manifest_length"]),
            f"first row id {listed['first_row_id']}" if "first_row_id" in listed else "",
            style="dim",
        )
        tree = self._tree(Unbroken((kind, "bold"), "  " + self._path(listed["manifest_path"])), facts)
        if "error" in manifest:
            tree.add(_unread(manifest["error"]))
        return self._grown(tree, manifest["entries"], self._entry, "entries")

    def _entry(self, entry: Json) -> RenderableType:
        file = entry["data_file"]
        status = _STATUS[entry["status"]]
        number, own = entry.get("sequence_number"), entry.get("file_sequence_number")
        facts = Facts(
            *self._stored.file_facts(file),
            f"sequence {number}" + (f" (file {own})" if own != number else ""),
            f"first row id {file['first_row_id']}" if "first_row_id" in file else "",
            self._stored.partition(file["spec_id"], file["partition"]) if file["partition"] else "",
        )
        lines: list[RenderableType] = [Unbroken((status, _STYLE[status]), "  " + self._path(file["file_path"])), facts]
        if "referenced_data_file" in file:
            lines.append(self._of(file["referenced_data_file"]))
        if self._metrics and "value_counts" in file:
            lines.append(self._stored.metrics(file))
        return Group(*lines)

    # --- deletes ------------------------------------------------------------------------------------------------------

    def _deletes(self) -> Iterator[RenderableType]:
        deletes: Sequence[Json] = self._shown["deletes"]
        yield heading(f"Live delete files ({len(deletes)})", "" if deletes else "no row of this snapshot is hidden")
        by_path: dict[str, list[Json]] = {}
        for delete in deletes:
            # A vector that cannot be read is shown alone: perhaps its file's footer is damaged.
            own = str(len(by_path)) if "error" in delete else ""
            by_path.setdefault(delete["data_file"]["file_path"] + own, []).append(delete)
        yield from self._spaced(
            list(by_path.values()),
            lambda inside: self._puffin(inside) if "puffin" in inside[0] else self._delete(inside[0]),
            "files",
        )

    def _puffin(self, vectors: Sequence[Json]) -> RenderableType:
        """Return a Puffin file: what its footer says, and below it the deletion vectors of this snapshot."""
        file, footer = vectors[0]["data_file"], vectors[0]["puffin"]
        properties = (f"{p['key']} {p['value']}" for p in footer["properties"])
        blobs = {(blob["offset"], blob["length"]): blob for blob in footer["blobs"]}
        idle = len(blobs) - len(vectors)
        others = f"{count(idle, 'more blob')} not live here" if idle > 0 else ""
        facts = Facts(size(file["file_size_in_bytes"]), *properties, others, style="dim")
        tree = self._tree(Unbroken(("Puffin file", "bold yellow"), "  " + self._path(file["file_path"])), facts)
        return self._grown(tree, vectors, lambda vector: self._vector(vector, blobs), "deletion vectors")

    def _vector(self, vector: Json, blobs: Mapping[tuple[int, int], Json]) -> RenderableType:
        file = vector["data_file"]
        blob = blobs.get((file["content_offset"], file["content_size_in_bytes"]))
        return Group(
            Facts(*self._stored.file_facts(file), f"sequence {vector['sequence_number']}"),
            self._of(file["referenced_data_file"]),
            self._positions(vector["positions"], file["record_count"], cut=vector["truncated"]),
            self._blob(blob, file) if blob else Text("the footer has no blob there", style="red"),
        )

    def _blob(self, blob: Json, file: Json) -> RenderableType:
        """Return what the footer says of a vector."""
        own = {p["key"]: p["value"] for p in blob["properties"]}
        if own.get("referenced-data-file") == file["referenced_data_file"]:
            own["referenced-data-file"] = "the same"
        return Facts(
            f"footer: {blob['type']}",
            f"fields {', '.join(map(str, blob['fields']))}",
            f"snapshot {blob['snapshot_id']}",
            f"sequence {blob['sequence_number']}",
            f"compressed with {blob['compression_codec']}" if "compression_codec" in blob else "",
            *(f"{name} {short(value, self._location)}" for name, value in own.items()),
            style="dim",
        )

    def _delete(self, delete: Json) -> RenderableType:
        """Return a position or equality delete file."""
        file = delete["data_file"]
        kind = delete["kind"].replace("-", " ").capitalize() + " file"
        facts = Facts(f"sequence {delete['sequence_number']}", *self._stored.file_facts(file), style="dim")
        tree = self._tree(Unbroken((kind, "bold yellow"), "  " + self._path(file["file_path"])), facts)
        if "error" in delete:
            tree.add(_unread(delete["error"]))
            return tree
        if "rows" in delete:
            rows = first(delete["rows"], self._limit)[0]
            names = list(dict.fromkeys(name for row in rows for name in row))
            cells = [[self._stored.key(file, name, row.get(name)) for name in names] for row in rows]
            tree.add(grid(names, cells, indent=0))
            if file["record_count"] > len(rows):
                tree.add(_more(file["record_count"] - len(rows), "keys"))
            return tree
        by_file, cut = list(delete["positions_by_file"].items()), delete["truncated"]
        # A list that was cut does not say how many positions there are.
        total = file["record_count"] if len(by_file) == 1 else None

        def in_file(item: tuple[str, Sequence[int]]) -> RenderableType:
            path, positions = item
            return Group(self._of(path), self._positions(positions, total if cut else len(positions), cut=cut))

        return self._grown(tree, by_file, in_file, "data files")

    def _positions(self, positions: Sequence[int], total: int | None, *, cut: bool) -> RenderableType:
        some, left = first(list(runs(positions)), self._limit)
        text = Text("positions " + ", ".join(some), overflow="fold")
        if left or cut:
            many = f"{count(total, 'position')} in all" if total is not None else "more"
            text.append(f", … ({many}; --limit 0 shows them)", style="dim")
        return text

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _tree(self, *lines: RenderableType) -> Tree:
        return Tree(Group(*lines), guide_style="dim")

    def _spaced(self, items: Sequence[_T], view: Callable[[_T], RenderableType], what: str) -> Iterator[RenderableType]:
        """Yield each item, up to the limit, with empty lines between them."""
        some, left = first(items, self._limit)
        for i, item in enumerate(some):
            yield from [Text()] if i else []
            yield view(item)
        if left:
            yield _more(left, what)

    def _grown(self, tree: Tree, items: Sequence[_T], view: Callable[[_T], RenderableType], what: str) -> Tree:
        """Add a branch to the tree for each item, up to the limit."""
        some, left = first(items, self._limit)
        for item in some:
            tree.add(view(item))
        if left:
            tree.add(_more(left, what))
        return tree

    def _of(self, data_file: str) -> RenderableType:
        return Unbroken("of " + self._path(data_file))

    def _path(self, path: Any) -> str:
        return short(path, self._location)


def _more(number: int, what: str) -> Text:
    return more(number, f"more {what}")


def _unread(error: Json) -> RenderableType:
    """Return the reason why a file cannot be read."""
    named = [f"{name} {plain(error[name])}" for name in ("field", "found", "expected") if name in error]
    return Text("; ".join(["cannot be read: " + plain(error["message"]), *named]), style="red")


def _counts(listed: Json, what: str) -> str:
    """Return text such as `files 1 added, 2 existing`; counts that are zero or unknown are left out."""
    found = [(listed.get(f"{how}_{what}_count"), how) for how in ("added", "existing", "deleted")]
    known = [f"{number:,} {how}" for number, how in found if number]
    return f"{what} {', '.join(known)}" if known else ""
