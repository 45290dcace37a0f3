"""What `deletekit.inspect` returned, as text: metadata, snapshot, manifests with their entries, and deletes."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from pyiceberg.conversions import from_bytes
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, DecimalType, FixedType, IcebergType, PrimitiveType, StringType, UUIDType
from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from deletekit.cli.printer import fact_pairs, facts, grid, heading, line, more, one_line, pairs, records
from deletekit.formats.decimals import decimal_of_bytes
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import value_text
from deletekit.table.types import POSITION_DELETE_FIELDS
from deletekit.text import count, first, literal, moment, plain, runs, short, size

Json = Mapping[str, Any]

_T = TypeVar("_T")
_STATUS = (("existing", ""), ("added", "green"), ("deleted", "red"))
_COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_TIME_PARTS = ("year", "month", "day", "hour")
_LONGEST_BOUND = 40


class InspectText:
    """The sections of one table and snapshot; values are shown by the types of their columns.

    Parameters
    ----------
    metrics: whether to show each file's metrics.
    limit: show at most so many snapshots, manifests, entries, rows or runs of positions each; 0 shows all.
    """

    def __init__(self, metadata: TableMetadata, shown: Json, *, metrics: bool, limit: int) -> None:
        self._metadata, self._shown = metadata, shown
        self._location: str = shown["metadata"]["location"]
        self._metrics, self._limit = metrics, limit
        self._names: dict[int, str] = {}
        current = metadata.raw["current-schema-id"]  # its names win
        for schema in sorted(metadata.raw["schemas"], key=lambda s: s.get("schema-id", 0) == current):
            self._add_names(schema["fields"], "")

    def sections(self, name: str) -> Iterator[RenderableType]:
        """Yield all sections from top to bottom."""
        raw: Json = self._shown["metadata"]
        yield line((name, "bold"))
        yield fact_pairs(raw)
        yield heading("Metadata file", self._path(self._shown["metadata-location"]))
        yield from self._layout(raw)
        if raw.get("properties"):
            yield heading("Properties")
            yield pairs(dict(sorted(raw["properties"].items())))
        snapshot = self._shown["snapshot"]
        yield from snapshots_text(raw, (snapshot or {}).get("snapshot-id"), self._limit)
        if snapshot is None:
            return
        yield heading(f"Snapshot {snapshot['snapshot-id']}", f"{moment(snapshot['timestamp-ms'])} UTC")
        listed = snapshot.get("manifest-list")
        yield fact_pairs({name: value for name, value in snapshot.items() if name != "manifest-list"})
        yield heading("Summary")
        yield pairs(dict(snapshot["summary"]))
        yield heading("Manifest list", self._path(listed or "inline, as the oldest v1 tables have"))
        both = list(zip(self._shown["manifest-list"], self._shown["manifests"], strict=True))
        yield from self._some(both, self._manifest, "manifests")
        if "deletes" in self._shown:
            yield from self._deletes()

    # --- metadata -----------------------------------------------------------------------------------------------------

    def _layout(self, raw: Json) -> Iterator[RenderableType]:
        current = raw["current-schema-id"]
        others = [str(s["schema-id"]) for s in raw["schemas"] if s.get("schema-id", current) != current]
        schema = next(s for s in raw["schemas"] if s.get("schema-id", 0) == current)
        yield heading(f"Schema {current}", f"current; also {', '.join(others)}" if others else "")
        identifiers = set(schema.get("identifier-field-ids") or ())
        rows = [row for field in schema["fields"] for row in _field_rows(field, identifiers, 0)]
        yield grid(["#id", "column", "type", ""], rows)
        for spec in raw["partition-specs"]:
            yield heading(
                f"Partition spec {spec['spec-id']}", "default" if spec["spec-id"] == raw["default-spec-id"] else ""
            )
            yield from (
                records([self._with_source(f) for f in spec["fields"]]) if spec["fields"] else [Text("  unpartitioned")]
            )
        for order in raw.get("sort-orders") or ():
            if order["order-id"] == raw.get("default-sort-order-id") and order["fields"]:
                yield heading(f"Sort order {order['order-id']}", "default")
                yield from records([self._with_source(f) for f in order["fields"]])

    def _with_source(self, field: Json) -> Json:
        ids = field.get("source-ids") or [field.get("source-id")]
        source = ", ".join(f"{self._names.get(i, 'a dropped column')} ({i})" for i in ids)
        return {**{n: v for n, v in field.items() if not n.startswith("source-id")}, "of": source}

    def _add_names(self, fields: Sequence[Json], prefix: str) -> None:
        """Add dotted names by field id. pyiceberg's own index refuses a schema in which one means two columns."""
        for field in fields:
            self._names[field["id"]] = prefix + str(field["name"])
            self._add_names(_nested(field["type"]), f"{self._names[field['id']]}.")

    # --- manifests ----------------------------------------------------------------------------------------------------

    def _manifest(self, both: tuple[Json, Json]) -> RenderableType:
        listed, manifest = both
        sequence, oldest = listed["sequence_number"], listed["min_sequence_number"]
        known = facts(
            f"sequence {sequence}" + (f" (oldest file {oldest})" if oldest != sequence else ""),
            f"spec {listed['partition_spec_id']}",
            *(_counts(listed, what) for what in ("files", "rows")),
            size(listed["manifest_length"]),
            f"first row id {listed['first_row_id']}" if "first_row_id" in listed else "",
            style="dim",
        )
        kind = "deletes" if listed["content"] == 1 else "data"
        tree = _tree(line((kind, "bold"), "  " + self._path(listed["manifest_path"])), known)
        return self._grown(tree, manifest, manifest["entries"], self._entry, "entries")

    def _entry(self, entry: Json) -> RenderableType:
        file, number, own = entry["data_file"], entry.get("sequence_number"), entry.get("file_sequence_number")
        known = facts(
            *self._facts(file),
            f"sequence {number}" + (f" (file {own})" if own != number else ""),
            f"first row id {file['first_row_id']}" if "first_row_id" in file else "",
            self.partition(file["spec_id"], file["partition"]) if file["partition"] else "",
        )
        lines: list[RenderableType] = [line(_STATUS[entry["status"]], "  " + self._path(file["file_path"])), known]
        if "referenced_data_file" in file:
            lines.append(self._of(file["referenced_data_file"]))
        if self._metrics and "value_counts" in file:
            lines.append(self._column_metrics(file))
        return Group(*lines)

    def _facts(self, file: Json) -> Iterator[str]:
        """Yield what a data or delete file holds, and its size."""
        number = file["record_count"]
        if file["content"] == 1 and file["file_format"] == "PUFFIN":
            yield f"deletion vector: {count(number, 'position')}"
            yield f"{size(file.get('content_size_in_bytes'))} at offset {file.get('content_offset')}"
            return
        if file["content"] == 2:
            names = (f"{self._names.get(i, 'unknown column')} ({i})" for i in file.get("equality_ids") or ())
            yield f"equality delete: {count(number, 'key')} of {', '.join(names)}"
        else:
            yield f"position delete: {count(number, 'position')}" if file["content"] == 1 else count(number, "row")
        yield f"{file['file_format'].lower()}, {size(file['file_size_in_bytes'])}"

    # --- deletes ------------------------------------------------------------------------------------------------------

    def _deletes(self) -> Iterator[RenderableType]:
        deletes: Sequence[Json] = self._shown["deletes"]
        yield heading(f"Live delete files ({len(deletes)})", "" if deletes else "no row of this snapshot is hidden")
        by_path: dict[str, list[Json]] = {}
        for delete in deletes:
            # A vector that cannot be read is shown alone: perhaps its file's footer is damaged.
            own = str(len(by_path)) if "error" in delete else ""
            by_path.setdefault(delete["data_file"]["file_path"] + own, []).append(delete)
        yield from self._some(list(by_path.values()), self._delete_file, "files")

    def _delete_file(self, inside: Sequence[Json]) -> RenderableType:
        delete, file = inside[0], inside[0]["data_file"]
        if "puffin" in delete:
            return self._puffin(inside, delete["puffin"])
        kind = delete["kind"].replace("-", " ").capitalize() + " file"
        known = facts(f"sequence {delete['sequence_number']}", *self._facts(file), style="dim")
        tree = _tree(line((kind, "bold yellow"), "  " + self._path(file["file_path"])), known)
        if "rows" in delete:
            rows = first(delete["rows"], self._limit)[0]
            names = list(dict.fromkeys(name for row in rows for name in row))
            tree.add(grid(names, [[self._key(file, n, row.get(n)) for n in names] for row in rows], indent=0))
            if file["record_count"] > len(rows):
                tree.add(more(file["record_count"] - len(rows), "more keys"))
            return tree
        by_file, cut = list(delete.get("positions_by_file", {}).items()), delete.get("truncated")
        # A list that was cut does not tell how many positions there are.
        total = file["record_count"] if len(by_file) == 1 else None

        def in_file(item: tuple[str, Sequence[int]]) -> RenderableType:
            path, positions = item
            return Group(self._of(path), self._positions(positions, total if cut else len(positions), cut=cut))

        return self._grown(tree, delete, by_file, in_file, "data files")

    def _puffin(self, vectors: Sequence[Json], footer: Json) -> RenderableType:
        """Return a Puffin file: what its footer holds, and below it the deletion vectors of this snapshot."""
        file = vectors[0]["data_file"]
        blobs = {(blob["offset"], blob["length"]): blob for blob in footer["blobs"]}
        idle = len(blobs) - len(vectors)
        known = facts(
            size(file["file_size_in_bytes"]),
            *(f"{p['key']} {p['value']}" for p in footer["properties"]),
            f"{count(idle, 'more blob')} not live here" if idle > 0 else "",
            style="dim",
        )
        tree = _tree(line(("Puffin file", "bold yellow"), "  " + self._path(file["file_path"])), known)

        def vector(item: Json) -> RenderableType:
            of = item["data_file"]
            blob = blobs.get((of["content_offset"], of["content_size_in_bytes"]))
            return Group(
                facts(*self._facts(of), f"sequence {item['sequence_number']}"),
                self._of(of["referenced_data_file"]),
                self._positions(item["positions"], of["record_count"], cut=item["truncated"]),
                self._blob(blob) if blob else Text("the footer has no blob there", style="red"),
            )

        return self._grown(tree, {}, vectors, vector, "deletion vectors")

    def _blob(self, blob: Json) -> RenderableType:
        """Return what the footer has about a vector."""
        own = {p["key"]: p["value"] for p in blob["properties"]}
        return line("footer: " + one_line({**blob, "properties": None, **own}, self._location), style="dim")

    def _positions(self, positions: Sequence[int], total: int | None, *, cut: Any) -> RenderableType:
        some, left = first(list(runs(positions)), self._limit)
        text = Text("positions " + ", ".join(some), overflow="fold")
        if left or cut:
            many = f"{count(total, 'position')} in all" if total is not None else "more"
            text.append(f", … ({many}; --limit 0 shows them)", style="dim")
        return text

    # --- values -------------------------------------------------------------------------------------------------------

    def partition(self, spec_id: int, values: Sequence[Any]) -> str:
        """Return a partition tuple as text, such as `partition month=2013-01, carrier='UA'`."""
        fields = zip(self._metadata.specs[spec_id].fields, values, strict=False)
        return "partition " + ", ".join(f"{plain(f.name)}={self._partition_value(f, v)}" for f, v in fields)

    def _partition_value(self, field: Any, value: Any) -> str:
        source, name = self._metadata.all_fields.get(field.source_id), str(field.transform)
        if value is None or source is None or name.startswith("bucket"):
            return literal(value)
        if name in _TIME_PARTS:
            return plain(value_text(field.transform, source.field_type, value))
        return _typed(source.field_type, _decoded(source.field_type, value), None)

    def _key(self, file: Json, column: str, value: Any) -> str:
        """Return a value of a column of an equality delete file; JSON holds bytes as base64."""
        fields = [self._metadata.all_fields.get(i) for i in file.get("equality_ids") or ()]
        kind = next((f.field_type for f in fields if f is not None and f.name == column), None)
        if isinstance(value, str) and isinstance(kind, PrimitiveType) and not isinstance(kind, StringType):
            return literal(_decoded(kind, value)) if isinstance(kind, FixedType | BinaryType) else plain(value)
        return literal(value)

    def _column_metrics(self, file: Json) -> RenderableType:
        """Return a table with one line for each column that has metrics."""
        maps = {name: {pair["key"]: pair["value"] for pair in file.get(name) or ()} for name in (*_COUNTS, *_BOUNDS)}
        rows = []
        for i in sorted(set().union(*maps.values())):
            field = self._metadata.all_fields.get(i) or POSITION_DELETE_FIELDS.get(i)
            of_position = POSITION_DELETE_FIELDS[i].name if i in POSITION_DELETE_FIELDS else None
            known = self._metadata.schema.find_column_name(i) or of_position
            name = known or (f"{field.name} (dropped)" if field else "")
            bounds = (_bound(field.field_type if field else None, maps[n].get(i)) for n in _BOUNDS)
            rows.append((i, name, *(maps[n].get(i, "") for n in _COUNTS), *bounds))
        return grid(["#id", "column", "#values", "#nulls", "#NaNs", "lower bound", "upper bound"], rows, indent=0)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _some(self, items: Sequence[_T], view: Callable[[_T], RenderableType], what: str) -> Iterator[RenderableType]:
        """Yield each item, up to the limit, with empty lines between them."""
        shown, left = first(items, self._limit)
        for i, item in enumerate(shown):
            yield from [Text()] if i else []
            yield view(item)
        if left:
            yield more(left, f"more {what}")

    def _grown(
        self, tree: Tree, of: Json, items: Sequence[_T], view: Callable[[_T], RenderableType], what: str
    ) -> RenderableType:
        """Add to the tree why its file cannot be read, if so, and a branch for each item, up to the limit."""
        if "error" in of:
            named = [f"{n} {plain(of['error'][n])}" for n in ("field", "found", "expected") if n in of["error"]]
            tree.add(Text("; ".join(["cannot be read: " + plain(of["error"]["message"]), *named]), style="red"))
        shown, left = first(items, self._limit)
        for item in shown:
            tree.add(view(item))
        if left:
            tree.add(more(left, f"more {what}"))
        return tree

    def _of(self, data_file: str) -> RenderableType:
        return line("of " + self._path(data_file))

    def _path(self, path: Any) -> str:
        return short(path, self._location)


def snapshots_text(metadata: Json, shown: int | None, limit: int) -> Iterator[RenderableType]:
    """Yield the newest snapshots as a table, in which `shown` has a star, and the branches and tags."""
    snapshots: Sequence[Json] = metadata.get("snapshots") or ()
    refs: Mapping[str, Json] = metadata.get("refs") or {}
    if not snapshots:
        yield heading("No snapshots", "nothing was ever committed")
    else:
        recent, left = first(list(reversed(snapshots)), limit)
        yield heading(f"Snapshots ({len(snapshots)})", "newest first; * is shown below")
        rows = [
            (
                "*" if s["snapshot-id"] == shown else "",
                s.get("sequence-number", 0),
                s["snapshot-id"],
                (s.get("summary") or {}).get("operation", ""),
                moment(s["timestamp-ms"]),
                ", ".join(name for name, ref in refs.items() if ref["snapshot-id"] == s["snapshot-id"]),
            )
            for s in recent
        ]
        yield grid(["", "#seq", "#snapshot", "operation", "committed (UTC)", "refs"], rows, indent=1)
        if left:
            yield more(left, "older", indent=2)
    if refs:
        yield heading("Branches and tags")
        yield from records([{"ref": name, **refs[name]} for name in sorted(refs)], most=0)


def _field_rows(field: Json, identifiers: set[int], depth: int) -> Iterator[tuple[Any, ...]]:
    """Yield a row for a column, then for the fields nested in it, each with its field id."""
    kind = field["type"]
    notes = ["required" if field.get("required") else "", "identifier" if field["id"] in identifiers else ""]
    notes += [f"{n} {literal(field[n])}" for n in ("initial-default", "write-default") if field.get(n) is not None]
    notes.append(field.get("doc") or "")
    name = kind if isinstance(kind, str) else kind["type"]
    yield field["id"], "  " * depth + str(field["name"]), name, ", ".join(n for n in notes if n)
    for child in _nested(kind):
        yield from _field_rows(child, identifiers, depth + 1)


def _nested(kind: Any) -> list[Json]:
    """Return the fields inside a struct, list or map; the parts of lists and maps have the spec's names."""
    if isinstance(kind, str):
        return []
    if kind["type"] == "struct":
        return list(kind["fields"])
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    return [
        {"id": kind[f"{p}-id"], "name": p, "type": kind[p], "required": kind.get(f"{p}-required", p == "key")}
        for p in parts
    ]


def _tree(*lines: RenderableType) -> Tree:
    return Tree(Group(*lines), guide_style="dim")


def _counts(listed: Json, what: str) -> str:
    """Return text such as `files 1 added, 2 existing`; counts that are zero or unknown are left out."""
    found = [(listed.get(f"{how}_{what}_count"), how) for how in ("added", "existing", "deleted")]
    known = [f"{number:,} {how}" for number, how in found if number]
    return f"{what} {', '.join(known)}" if known else ""


def _bound(kind: Any, stored: str | None) -> str:
    if stored is None:
        return ""
    data = base64.b64decode(stored)
    if isinstance(kind, PrimitiveType):
        try:
            return _typed(kind, from_bytes(kind, data), _LONGEST_BOUND)
        except (ValueError, TypeError, struct.error, OverflowError):
            pass  # written when the column had another type, or damaged
    return literal(data, _LONGEST_BOUND)


def _decoded(kind: IcebergType, value: Any) -> Any:
    """Return a value from JSON, which holds bytes as base64."""
    if not isinstance(value, str) or not isinstance(kind, DecimalType | UUIDType | FixedType | BinaryType):
        return value
    data = base64.b64decode(value)
    return decimal_of_bytes(data, kind.scale) if isinstance(kind, DecimalType) else data


def _typed(kind: IcebergType, value: Any, longest: int | None) -> str:
    if isinstance(kind, UUIDType) and isinstance(value, bytes):
        value = UUID(bytes=value)
    if isinstance(value, int) and not isinstance(value, bool):
        return plain(value_text(IdentityTransform(), kind, value))
    return literal(value, longest)
