"""Print a table's metadata as text: format version, schema, specs, properties, snapshots and refs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from deletekit.cli.printer import bold, grid, heading, more, pairs
from deletekit.safe_text import first, literal, moment, short

Json = Mapping[str, Any]


def metadata_text(name: str, shown: Json, names: Mapping[int, str], limit: int) -> Iterator[RenderableType]:
    """Yield the sections of the metadata file in what `deletekit.inspect` returned.

    Parameters
    ----------
    names: of columns, by field id.
    limit: show at most so many snapshots; 0 shows all.
    """
    metadata = shown["metadata"]
    yield bold(name)
    yield _table(metadata, shown["metadata-location"])
    yield from _schema(metadata)
    yield from _specs(metadata, names)
    yield from _sort_order(metadata, names)
    if metadata.get("properties"):
        yield heading("Properties")
        yield pairs(dict(sorted(metadata["properties"].items())))
    yield from snapshots_text(metadata, (shown["snapshot"] or {}).get("snapshot-id"), limit)
    yield from refs_text(metadata)


def _table(metadata: Json, metadata_location: str) -> RenderableType:
    rows = {
        "format version": metadata["format-version"],
        "uuid": metadata.get("table-uuid", "none"),
        "location": metadata["location"],
        "metadata file": short(metadata_location, metadata["location"]),
        "last updated": f"{moment(metadata.get('last-updated-ms'))} UTC",
        "last sequence": metadata.get("last-sequence-number", 0),
    }
    if "next-row-id" in metadata:
        rows["next row id"] = metadata["next-row-id"]
    for kind in ("statistics", "partition-statistics", "encryption-keys"):
        if metadata.get(kind):
            rows[kind] = len(metadata[kind])
    return pairs(rows)


def _schema(metadata: Json) -> Iterator[RenderableType]:
    current = metadata["current-schema-id"]
    others = [str(s.get("schema-id", 0)) for s in metadata["schemas"] if s.get("schema-id", 0) != current]
    schema = next(s for s in metadata["schemas"] if s.get("schema-id", 0) == current)
    yield heading(f"Schema {current}", f"current; also {', '.join(others)}" if others else "")
    identifiers = set(schema.get("identifier-field-ids") or ())
    rows = [row for field in schema["fields"] for row in _field(field, identifiers, 0)]
    yield grid(["#id", "column", "type", ""], rows)


def _field(field: Json, identifiers: set[int], depth: int) -> Iterator[tuple[Any, ...]]:
    """Yield a row for a column, then for the fields nested in it, each with its field id."""
    kind = field["type"]
    notes = ["required" if field.get("required") else "", "identifier" if field["id"] in identifiers else ""]
    notes += [f"{n} {literal(field[n])}" for n in ("initial-default", "write-default") if field.get(n) is not None]
    notes.append(field.get("doc") or "")
    name = kind if isinstance(kind, str) else kind["type"]
    yield field["id"], "  " * depth + str(field["name"]), name, ", ".join(n for n in notes if n)
    for child in [] if isinstance(kind, str) else _nested(kind):
        yield from _field(child, identifiers, depth + 1)


def _nested(kind: Json) -> list[Json]:
    """Return the fields inside a struct, list or map; the parts of lists and maps have the spec's names."""
    if kind["type"] == "struct":
        return list(kind["fields"])
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    return [
        {"id": kind[f"{p}-id"], "name": p, "type": kind[p], "required": kind.get(f"{p}-required", p == "key")}
        for p in parts
    ]


def _specs(metadata: Json, names: Mapping[int, str]) -> Iterator[RenderableType]:
    for spec in metadata["partition-specs"]:
        default = "default" if spec["spec-id"] == metadata["default-spec-id"] else ""
        yield heading(f"Partition spec {spec['spec-id']}", default)
        if not spec["fields"]:
            yield Text("  unpartitioned")
            continue
        rows = [(f["field-id"], f["name"], f["transform"], _source(f, names)) for f in spec["fields"]]
        yield grid(["#id", "field", "transform", "of"], rows)


def _sort_order(metadata: Json, names: Mapping[int, str]) -> Iterator[RenderableType]:
    orders = metadata.get("sort-orders") or ()
    order = next((o for o in orders if o["order-id"] == metadata.get("default-sort-order-id")), None)
    if order is None or not order["fields"]:
        return
    yield heading(f"Sort order {order['order-id']}", "default")
    rows = [(_source(f, names), f["transform"], f["direction"], f["null-order"]) for f in order["fields"]]
    yield grid(["of", "transform", "direction", "nulls"], rows)


def _source(field: Json, names: Mapping[int, str]) -> str:
    ids = field.get("source-ids") or [field.get("source-id")]
    return ", ".join(f"{names.get(i, 'a dropped column')} ({i})" for i in ids)


def snapshots_text(metadata: Json, shown: int | None, limit: int) -> Iterator[RenderableType]:
    """Yield the newest snapshots as a table; `shown` has a star before it."""
    snapshots: Sequence[Json] = metadata.get("snapshots") or ()
    if not snapshots:
        yield heading("No snapshots", "nothing was ever committed")
        return
    recent, left = first(list(reversed(snapshots)), limit)
    yield heading(f"Snapshots ({len(snapshots)})", "newest first; * is shown below")
    refs: dict[int, list[str]] = {}
    for name, ref in (metadata.get("refs") or {}).items():
        refs.setdefault(ref["snapshot-id"], []).append(name)
    rows = [
        (
            "*" if s["snapshot-id"] == shown else "",
            s.get("sequence-number", 0),
            s["snapshot-id"],
            (s.get("summary") or {}).get("operation", ""),
            moment(s["timestamp-ms"]),
            ", ".join(refs.get(s["snapshot-id"], ())),
        )
        for s in recent
    ]
    yield grid(["", "#seq", "#snapshot", "operation", "committed (UTC)", "refs"], rows, indent=1)
    if left:
        yield more(left, "older", indent=2)


def refs_text(metadata: Json) -> Iterator[RenderableType]:
    """Yield the branches and tags as a table."""
    refs = metadata.get("refs") or {}
    if not refs:
        return
    yield heading("Branches and tags")
    rows = [
        (name, ref.get("type", ""), ref["snapshot-id"], ", ".join(_retention(ref)))
        for name, ref in sorted(refs.items())
    ]
    yield grid(["ref", "type", "#snapshot", ""], rows)


def _retention(ref: Json) -> Iterator[str]:
    for key, value in ref.items():
        if key not in ("type", "snapshot-id"):
            yield f"{key} {value}"


def column_names(metadata: Json) -> dict[int, str]:
    """Return dotted names, by field id, of every column that any schema has; the current schema's names win.

    pyiceberg's own index refuses a schema in which a dotted name means two columns.
    """
    current = metadata["current-schema-id"]
    names: dict[int, str] = {}
    for schema in sorted(metadata["schemas"], key=lambda s: s.get("schema-id", 0) == current):
        _add_names(schema["fields"], "", names)
    return names


def _add_names(fields: Sequence[Json], prefix: str, names: dict[int, str]) -> None:
    for field in fields:
        names[field["id"]] = prefix + str(field["name"])
        if not isinstance(field["type"], str):
            _add_names(_nested(field["type"]), f"{names[field['id']]}.", names)
