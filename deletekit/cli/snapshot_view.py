"""A snapshot for people: its summary, its manifest list, the entries of its manifests, and what its deletes hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from deletekit.cli.files_view import file_facts
from deletekit.cli.printer import Facts, Unbroken, grid, heading, pairs
from deletekit.cli.text import count, first, moment, plain, runs, short, size

__all__ = ["SnapshotView"]

Json = Mapping[str, Any]

_T = TypeVar("_T")

_STATUS = ("existing", "added", "deleted")
_STYLE = {"existing": "", "added": "green", "deleted": "red"}


class SnapshotView:
    """Sections of one snapshot, out of what `deletekit.inspect` returned.

    Parameters
    ----------
    columns: names of columns by field id.
    partition: a partition tuple of a spec, as text.
    key: a value of a column of an equality delete file, as text.
    metrics: lines for the metrics of one file, or None to leave them out.
    limit: at most so many manifests, entries, rows or runs of positions are shown each; 0 is all.
    """

    def __init__(
        self,
        shown: Json,
        *,
        columns: Mapping[int, str],
        partition: Callable[[int, Sequence[Any]], str],
        key: Callable[[Json, str, Any], str],
        metrics: Callable[[Json], RenderableType] | None,
        limit: int,
    ) -> None:
        self._shown = shown
        self._location = shown["metadata"]["location"]
        self._columns = columns
        self._partition = partition
        self._key = key
        self._metrics = metrics
        self._limit = limit

    def sections(self) -> Iterator[RenderableType]:
        """Everything, top to bottom."""
        snapshot = self._shown["snapshot"]
        if snapshot is None:
            return
        yield heading(f"Snapshot {snapshot['snapshot-id']}", f"{moment(snapshot['timestamp-ms'])} UTC")
        yield pairs(self._facts(snapshot))
        yield heading("Summary")
        yield pairs(dict(snapshot["summary"]))
        yield heading(
            "Manifest list", self._path(snapshot.get("manifest-list") or "inline, as the oldest v1 tables have")
        )
        yield from self._manifests()
        if "deletes" in self._shown:
            yield from self._deletes()

    def _facts(self, snapshot: Json) -> dict[str, Any]:
        names = ("sequence-number", "parent-snapshot-id", "schema-id", "first-row-id", "added-rows")
        return {n.replace("-", " "): snapshot[n] for n in names if snapshot.get(n) is not None}

    # --- manifests ----------------------------------------------------------------------------------------------------

    def _manifests(self) -> Iterator[RenderableType]:
        both = list(zip(self._shown["manifest-list"], self._shown["manifests"], strict=True))
        some, left = first(both, self._limit)
        for i, (listed, manifest) in enumerate(some):
            yield from [Text()] if i else []
            yield self._manifest(listed, manifest)
        if left:
            yield self._more(left, "manifests")

    def _manifest(self, listed: Json, manifest: Json) -> RenderableType:
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
            tree.add(unread(manifest["error"]))
        return self._grown(tree, manifest["entries"], self._entry, "entries")

    def _entry(self, entry: Json) -> RenderableType:
        file = entry["data_file"]
        status = _STATUS[entry["status"]]
        number, own = entry.get("sequence_number"), entry.get("file_sequence_number")
        facts = Facts(
            *file_facts(file, self._columns),
            f"sequence {number}" + (f" (file {own})" if own != number else ""),
            f"first row id {file['first_row_id']}" if "first_row_id" in file else "",
            self._partition(file["spec_id"], file["partition"]) if file["partition"] else "",
        )
        lines: list[RenderableType] = [Unbroken((status, _STYLE[status]), "  " + self._path(file["file_path"])), facts]
        if "referenced_data_file" in file:
            lines.append(self._of(file["referenced_data_file"]))
        if self._metrics and "value_counts" in file:
            lines.append(self._metrics(file))
        return Group(*lines)

    # --- deletes ------------------------------------------------------------------------------------------------------

    def _deletes(self) -> Iterator[RenderableType]:
        deletes: Sequence[Json] = self._shown["deletes"]
        yield heading(f"Live delete files ({len(deletes)})", "" if deletes else "no row of this snapshot is hidden")
        by_path: dict[str, list[Json]] = {}
        for delete in deletes:
            # A vector that cannot be read stands alone: its file's footer may be what is wrong.
            own = str(len(by_path)) if "error" in delete else ""
            by_path.setdefault(delete["data_file"]["file_path"] + own, []).append(delete)
        some, left = first(list(by_path.values()), self._limit)
        for i, inside in enumerate(some):
            yield from [Text()] if i else []
            yield self._puffin(inside) if "puffin" in inside[0] else self._delete(inside[0])
        if left:
            yield self._more(left, "files")

    def _puffin(self, vectors: Sequence[Json]) -> RenderableType:
        """A Puffin file: what its footer says of it, and under it the deletion vectors of this snapshot."""
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
        lines = [
            Facts(*file_facts(file, self._columns), f"sequence {vector['sequence_number']}"),
            self._of(file["referenced_data_file"]),
            self._positions(vector["positions"], file["record_count"], cut=vector["truncated"]),
            self._blob(blob, file) if blob else Text("the footer has no blob there", style="red"),
        ]
        return Group(*lines)

    def _blob(self, blob: Json, file: Json) -> RenderableType:
        """What the footer says of a vector."""
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
        """A position or equality delete file."""
        file = delete["data_file"]
        kind = delete["kind"].replace("-", " ").capitalize() + " file"
        facts = Facts(f"sequence {delete['sequence_number']}", *file_facts(file, self._columns), style="dim")
        tree = self._tree(Unbroken((kind, "bold yellow"), "  " + self._path(file["file_path"])), facts)
        if "error" in delete:
            tree.add(unread(delete["error"]))
            return tree
        if "rows" in delete:
            tree.add(self._keys(file, delete["rows"]))
            left = file["record_count"] - len(first(delete["rows"], self._limit)[0])
            if left > 0:
                tree.add(self._more(left, "keys"))
            return tree
        by_file = list(delete["positions_by_file"].items())
        # The length of a list that was cut is not how many there are.
        total = file["record_count"] if len(by_file) == 1 else None
        cut = delete["truncated"]
        return self._grown(tree, by_file, lambda item: self._in_file(item[0], item[1], total, cut=cut), "data files")

    def _in_file(self, path: str, positions: Sequence[int], total: int | None, *, cut: bool) -> RenderableType:
        return Group(self._of(path), self._positions(positions, total if cut else len(positions), cut=cut))

    def _positions(self, positions: Sequence[int], total: int | None, *, cut: bool) -> RenderableType:
        some, left = first(list(runs(positions)), self._limit)
        text = Text("positions " + ", ".join(some), overflow="fold")
        if left or cut:
            many = f"{count(total, 'position')} in all" if total is not None else "more"
            text.append(f", … ({many}; --limit 0 shows them)", style="dim")
        return text

    def _keys(self, file: Json, rows: Sequence[Json]) -> RenderableType:
        some = first(rows, self._limit)[0]
        names = list(dict.fromkeys(name for row in some for name in row))
        return grid(names, [[self._key(file, name, row.get(name)) for name in names] for row in some], indent=0)

    # --- small change -------------------------------------------------------------------------------------------------

    def _tree(self, *lines: RenderableType) -> Tree:
        return Tree(Group(*lines), guide_style="dim")

    def _grown(self, tree: Tree, items: Sequence[_T], view: Callable[[_T], RenderableType], what: str) -> Tree:
        """A tree with a branch for each item, up to the limit."""
        some, left = first(items, self._limit)
        for item in some:
            tree.add(view(item))
        if left:
            tree.add(self._more(left, what))
        return tree

    def _of(self, data_file: str) -> RenderableType:
        return Unbroken("of " + self._path(data_file))

    def _path(self, path: Any) -> str:
        return short(path, self._location)

    def _more(self, number: int, what: str) -> Text:
        return Text(f"… and {number:,} more {what}; --limit 0 shows all", style="dim")


def unread(error: Json) -> RenderableType:
    """What kept a file from being read."""
    named = [f"{name} {plain(error[name])}" for name in ("field", "found", "expected") if name in error]
    return Text("; ".join(["cannot be read: " + plain(error["message"]), *named]), style="red")


def _counts(listed: Json, what: str) -> str:
    """`files 1 added, 2 existing`; what is zero or unknown is left out."""
    found = [(listed.get(f"{how}_{what}_count"), how) for how in ("added", "existing", "deleted")]
    known = [f"{number:,} {how}" for number, how in found if number]
    return f"{what} {', '.join(known)}" if known else ""
