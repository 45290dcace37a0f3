"""The oracle: read a table by brute force, rule by rule from the spec's sentences; each rule can be broken by its id.

It knows nothing of deletekit: json, fastavro and pyarrow give the bytes, and loops over all rows and all deletes the
answer. `Oracle(files, metadata, broken="strictly-older")` is a reader that breaks this one rule. `RULES` says what such
a reader does.
"""

import datetime as dt
import io
import json
import math
import struct
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

import fastavro

from tests.conformance import files as files_of
from tests.conformance import roaring
from tests.conformance.rules import RULES

Json = dict[str, Any]
DATA, POSITIONS, EQUALITY, DELETED = 0, 1, 2, 2
ROW_ID, LAST_UPDATED = 2147483540, 2147483539
LINEAGE = {"_row_id": ROW_ID, "_last_updated_sequence_number": LAST_UPDATED}
FILE_PATH, POS = 2147483546, 2147483545


class Oracle:
    """Reads a table whose `files` are given by path. `broken` is the rule that it breaks; None for a right reader."""

    def __init__(self, files: Mapping[str, bytes], metadata: str, broken: str | None = None) -> None:
        assert broken is None or broken in RULES, broken
        self.files, self.raw, self.broken = files, json.loads(files[metadata]), broken
        self.specs = {s["spec-id"]: s["fields"] for s in self.raw["partition-specs"]}
        self.schemas = {s["schema-id"]: s["fields"] for s in self.raw["schemas"]}
        self.fields: dict[int, tuple[tuple[int, ...], Json]] = {}
        for _, fields in sorted(self.schemas.items()):
            self._learn(fields, ())
        mapping = json.loads(self.raw.get("properties", {}).get("schema.name-mapping.default", "[]"))
        self.refs = self.raw.get("refs") or {"main": {"snapshot-id": self.raw["current-snapshot-id"], "type": "branch"}}
        self.mapping = {name: m["field-id"] for m in mapping for name in m["names"]}

    def read(self, ref: str = "main", columns: Sequence[str] | None = None) -> Json:
        """Return the columns and the rows of a branch or tag, in the form of the suite's files."""
        snapshot, of = self._snapshot(ref), self.refs[ref]["type"]
        own = of == "tag" and self.broken != "snapshot-schema"
        schema = self.schemas[snapshot["schema-id"] if own else self.raw["current-schema-id"]]
        names = list(columns or (f["name"] for f in schema))
        typed = {f["name"]: f for f in schema}
        typed |= {name: {"id": i, "name": name, "type": "long"} for name, i in LINEAGE.items()}
        data, deletes = self._live(snapshot)
        if self.broken == "ref-own-deletes":
            everywhere = [d for s in self.raw["snapshots"] for d in self._live(s)[1]]
            deletes = list({(d["file_path"], d.get("content_offset")): d for d in everywhere}.values())
        rows = []
        self.order = [file["file_path"] for file in data]
        for file in data:
            live = self._live_rows(file, deletes, schema, columns)
            rows += [[_json(self._value(r, typed[n]["id"], file), typed[n]["type"]) for n in names] for r in live]
        shown = [{"name": n, "type": _type(typed[n]["type"])} for n in names]
        order = [json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows]
        return {"columns": shown, "rows": [row for _, row in sorted(zip(order, rows, strict=True), key=lambda x: x[0])]}

    # --- which files ---------------------------------------------------------------------------------------------

    def _snapshot(self, ref: str) -> Json:
        if self.broken == "current-snapshot" and ref == "main":
            return max(self.raw["snapshots"], key=lambda s: (s.get("sequence-number", 0), s["timestamp-ms"]))
        wanted = self.refs[ref]["snapshot-id"]
        return next(s for s in self.raw["snapshots"] if s["snapshot-id"] == wanted)

    def _live(self, snapshot: Json) -> tuple[list[Json], list[Json]]:
        """The data files and the delete files of a snapshot, each with its sequence number, spec and first row id."""
        found: tuple[list[Json], list[Json]] = ([], [])
        for manifest in self._manifests(snapshot):
            if self.broken == "absent-counts" and not any(n for k, n in manifest.items() if k.endswith("files_count")):
                continue
            next_row_id = manifest.get("first_row_id")
            for entry in _records(self.files[manifest["manifest_path"]]):
                file = entry["data_file"]
                deletes = file.get("content", DATA) != DATA
                if entry["status"] == DELETED and self.broken != (
                    "removed-deletes-do-not-apply" if deletes else "removed-files-not-read"
                ):
                    continue
                if entry["status"] == 0 and self.broken == "existing-entries-count":
                    continue
                own, inherited = entry.get("sequence_number"), manifest.get("sequence_number", 0)
                inherited = 0 if self.broken == "inherited-sequence" else inherited
                if (
                    own is not None
                    and not 0 <= own <= manifest["sequence_number"]
                    and self.broken != "sequence-in-range"
                ):
                    own = None
                sequence = inherited if own is None or self.broken == "explicit-sequence" else own
                first = file.get("first_row_id")
                if first is None and next_row_id is not None and not deletes:
                    first, next_row_id = next_row_id, next_row_id + file["record_count"]
                partition = tuple(file["partition"].values())
                place = {"spec": manifest["partition_spec_id"], "values": partition}
                found[deletes].append({**file, "sequence": sequence, "first_row_id": first, **place})
        return found

    def _manifests(self, snapshot: Json) -> list[Json]:
        if "manifest-list" in snapshot:
            return _records(self.files[snapshot["manifest-list"]])
        paths = [] if self.broken == "inline-manifests" else snapshot["manifests"]
        found = []
        for path in paths:
            opened = fastavro.reader(io.BytesIO(self.files[path]))
            found.append({"manifest_path": path, "partition_spec_id": int(opened.metadata["partition-spec-id"])})
        return [{**manifest, "added_files_count": 1} for manifest in found]

    def _applies(self, delete: Json, file: Json) -> bool:
        """Scan planning: which delete applies to which data file, by sequence number, spec and partition."""
        equality = delete["content"] == EQUALITY
        strict = equality != (self.broken == ("strictly-older" if equality else "same-or-older"))
        older = file["sequence"] < delete["sequence"] + (not strict)
        if not older and self.broken != "older-data-only":
            return False
        ignored = {"avro-deletes": "AVRO", "orc-deletes": "ORC"}.get(self.broken or "")
        if delete["file_format"].upper() == ignored:
            return False
        if equality:
            fields = self.specs[delete["spec"]]
            unpartitioned = not fields or all(f["transform"] == "void" for f in fields)
            if self.broken == "void-spec-scope":
                unpartitioned = not fields
            if (unpartitioned and self.broken != "global-scope") or self.broken == "partition-scope":
                return True
        elif delete.get("referenced_data_file") not in (None, file["file_path"]):
            return self.broken == "path-exact"
        elif delete.get("referenced_data_file") is not None and self.broken == "delete-of-another-partition":
            return True
        bounds = _bounds(delete, FILE_PATH)
        if (
            self.broken == "path-bounds-that-lie"
            and bounds
            and not bounds[0] <= file["file_path"].encode() <= bounds[1]
        ):
            return False
        same_spec = delete["spec"] == file["spec"] or (equality and self.broken == "spec-scope")
        return bool(same_spec and delete["values"] == file["values"])

    # --- which rows ----------------------------------------------------------------------------------------------

    def _live_rows(self, file: Json, deletes: list[Json], schema: list[Json], columns: Any) -> list[Json]:
        rows, groups, stored = files_of.read(self.files[file["file_path"]], file["file_format"])
        if not any(isinstance(i, int) for i in stored):
            known = list(self.mapping.values())
            new = {n: known[k] if self.broken == "name-mapping" else self.mapping.get(n) for k, n in enumerate(stored)}
            rows = [{new[n]: v for n, v in row.items()} for row in rows]
            stored = {new[n]: v for n, v in stored.items()}
        applying = sorted((d for d in deletes if self._applies(d, file)), key=lambda d: d["sequence"])
        by_position = self._positions(file, [d for d in applying if d["content"] == POSITIONS], deletes, len(rows))
        vector = any(d["file_format"].upper() == "PUFFIN" for d in applying)
        equality = [d for d in applying if d["content"] == EQUALITY]
        if self.broken == "equality-deletes-apply" or (self.broken == "equality-beside-vector" and vector):
            equality = []
        if self.broken == "several-delete-files-union":
            equality = equality[-1:]
        tests = [self._test(d, file, stored, deletes, schema, columns) for d in equality]
        dead = [any(test(row) for test in tests) for row in rows]
        starts = [at for n in groups for at in range(n)] if self.broken == "row-groups-positions" else range(len(rows))
        alive, counted = [], 0
        for at, row in enumerate(rows):
            place = counted if self.broken == "position-before-filter" else starts[at]
            counted += not dead[at]
            if not dead[at] and place not in by_position:
                row_at = len(alive) if self.broken == "row-lineage" else at
                first = file["first_row_id"]
                row_id = None if first is None else first + row_at
                updated = None if first is None else file["sequence"]
                lineage = {ROW_ID: row_id, LAST_UPDATED: updated}
                alive.append({**row, **{i: v if row.get(i) is None else row[i] for i, v in lineage.items()}})
        return alive

    def _positions(self, file: Json, applying: list[Json], deletes: list[Json], rows: int) -> set[int]:
        vectors = [d for d in applying if d["file_format"].upper() == "PUFFIN"]
        others = [d for d in applying if d not in vectors and self.broken != "position-deletes-apply"]
        if self.broken == "vectors-apply":
            vectors = []
        if self.broken == "several-blobs-one-puffin":
            paths = {v["file_path"] for v in vectors}
            beside = [d for d in deletes if d["file_path"] in paths]
            vectors = sorted(beside, key=lambda d: d["content_offset"])[:1]
        if (vectors and self.broken != "vector-wins") or (
            self.broken == "upgrade-keeps-deletes" and self.raw["format-version"] == 3
        ):
            others = []
        if self.broken == "vector-by-its-reference" and vectors:
            beside = [d for d in deletes if d["file_path"] == vectors[0]["file_path"]]
            in_order = sorted(beside, key=lambda d: d["content_offset"])
            named = sorted(beside, key=lambda d: self.order.index(d["referenced_data_file"]))
            vectors = [in_order[named.index(vectors[0])]]
        found: list[int] = []
        for delete in others[-1:] if self.broken == "several-delete-files-union" else others:
            stored, _, _ = files_of.read(self.files[delete["file_path"]], delete["file_format"])
            own = [(r[FILE_PATH], r[POS]) for r in stored]
            listed = [at for path, at in own if path == file["file_path"] or self.broken == "path-exact"]
            rising = [at for i, at in enumerate(listed) if at >= max(listed[: i + 1])]
            found += rising if self.broken == "unsorted-positions" else listed
        for vector in vectors:
            at, end = vector["content_offset"], vector["content_offset"] + vector["content_size_in_bytes"]
            data = self.files[vector["file_path"]]
            if self.broken == "vector-at-its-offset":
                beside = [d for d in deletes if d["file_path"] == vector["file_path"]]
                at, end = _first_of_the_read(beside, len(data))[at], len(data)
            found += roaring.positions(data[at:end], self.broken)
        if self.broken == "duplicate-positions":
            found = [at for at, times in Counter(found).items() if times % 2]
        if self.broken == "position-behind-end":
            found = [min(at, rows - 1) for at in found]
        return {at - 1 for at in found} if self.broken == "positions-from-zero" else set(found)

    # --- equality of keys ----------------------------------------------------------------------------------------

    def _test(
        self, delete: Json, file: Json, stored: Json, deletes: list[Json], schema: list[Json], columns: Any
    ) -> Any:
        """Return what tells whether an equality delete file deletes a row of a data file."""
        rows, _, held = files_of.read(self.files[delete["file_path"]], delete["file_format"])
        ids = list(delete["equality_ids"])
        if self.broken == "own-equality-ids":
            first = min((d for d in deletes if d["content"] == EQUALITY), key=lambda d: d["sequence"])
            ids = first["equality_ids"]
        if self.broken == "extra-columns-ignored":
            ids = list(held)
        if self._skips(delete, file, ids, schema, columns):
            return lambda _: False
        own = {i: self.fields[i][0] for i in ids}
        if self.broken == "key-by-id" and len(held) >= len(ids):
            own = {i: (place,) for i, place in zip(ids, held, strict=False)}
        keys = [[self._key(_below(row, own[i]), i) for i in ids] for row in rows]
        asked = {f["id"] for f in schema if columns is None or f["name"] in columns}
        unasked = [len(p) > 1 and p[0] not in asked for p in (self.fields[i][0] for i in ids)]
        if self.broken == "nested-key-not-projected" and any(unasked):
            return lambda _: all(unasked)
        if self.broken == "bounds-truncated" and len(rows) == 1:
            low = {p["key"]: p["value"] for p in delete.get("lower_bounds") or ()}
            keys = [
                [low[i].decode() if isinstance(k, str) and i in low else k for i, k in zip(ids, keys[0], strict=True)]
            ]
        by_name = {f["name"]: f["id"] for f in schema}
        into = {i: by_name.get(held[i][0], i) if self.broken == "renamed-key" and i in held else i for i in ids}
        other = [i for i in ids if i in stored and i in held and stored[i][1] != held[i][1]]
        if self.broken == "promoted-key" and other and file["file_format"] == delete["file_format"]:
            return lambda _: False
        mixed = any if self.broken == "all-columns-match" else all

        unknown = self.broken == "null-is-no-other-value"  # as SQL, where NULL = 1 is neither true nor false

        def matches(row: Json) -> bool:
            key = [self._key(self._value(row, into[i], file, key=True), i) for i in ids]
            pairs = (zip(key, listed, strict=True) for listed in keys)
            return any(mixed(a == b or (unknown and a is None and b is not None) for a, b in pair) for pair in pairs)

        return matches

    def _skips(self, delete: Json, file: Json, ids: list[int], schema: list[Json], columns: Any) -> bool:
        """Whether a reader that breaks a rule skips an equality delete for a data file. A right one never does."""
        live = {f["id"] for f in schema}
        tops = {self.fields[i][0][0] for i in ids}
        asked = {f["id"] for f in schema if columns is None or f["name"] in columns}
        bounds = [(_bounds(delete, i), _bounds(file, i), self.fields[i][1]["type"]) for i in ids]
        if self.broken == "nan-outside-bounds":
            return any(_disjoint(a, b, kind) for a, b, kind in bounds if a and b)
        return (
            (self.broken == "dropped-key" and not tops <= live)
            or (self.broken == "key-not-projected" and not tops <= asked)
            or (self.broken == "missing-metrics" and any(not a or not b for a, b, _ in bounds))
        )

    def _value(self, row: Json, field_id: int, file: Json, *, key: bool = False) -> Any:
        """The value of a field in a row of a data file; that of a field which the file does not have, too."""
        if field_id in LINEAGE.values():
            return row[field_id]
        path, _field = self.fields[field_id]
        broken = self.broken if key else None
        if len(path) > 1 and broken == "nested-key":
            return None
        if path[0] not in row:
            for number, part in enumerate(self.specs[file["spec"]]):
                if part["source-id"] == field_id and part["transform"] == "identity":
                    return None if broken == "identity-partition-value" else file["values"][number]
            default = self.fields[path[0]][1].get("initial-default")
            return object() if broken == "added-key" else None if broken == "default-key" else default
        if broken == "null-struct-leaf" and row[path[0]] is None and len(path) > 1:
            return object()
        value = _below(row, path)
        counts = {p["key"] for p in file.get("null_value_counts") or ()}
        return object() if value is None and broken == "no-prune-by-null-count" and field_id not in counts else value

    def _key(self, value: Any, field_id: int) -> Any:
        """A value as it is compared in keys: NULL equals NULL, NaN equals NaN, and -0.0 is not 0.0."""
        kind, broken = self.fields[field_id][1]["type"], self.broken
        if value is None:
            return object() if broken == "null-equals-null" else None
        if isinstance(value, float):
            if math.isnan(value):
                return object() if broken == "nan-equals-nan" else "NaN"
            return value if broken == "negative-zero" or value != 0 else (value, math.copysign(1, value))
        if isinstance(value, str) and broken == "exact-strings":
            return unicodedata.normalize("NFC", value).casefold()
        if isinstance(value, int) and str(kind).startswith("timestamp") and broken == "exact-times":
            return value // 1000
        return float(value) if isinstance(value, int | Decimal) and broken == "exact-numbers" else value

    def _learn(self, fields: list[Json], above: tuple[int, ...]) -> None:
        for field in fields:
            self.fields[field["id"]] = ((*above, field["id"]), field)
            if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
                self._learn(field["type"]["fields"], (*above, field["id"]))


def _first_of_the_read(vectors: list[Json], size: int) -> dict[int, int]:
    """By the offset of each vector of a Puffin file, where the read begins that a reader with a cache takes it from.

    It has read the last 12 bytes of the file. A read goes on to the next one that it has, if the way there is not
    longer than what was asked for.
    """
    reads, found = {size - 12: size}, {}
    for vector in vectors:
        at = vector["content_offset"]
        end = at + vector["content_size_in_bytes"]
        found[at] = max((begin for begin, until in reads.items() if begin <= at and end <= until), default=at)
        if found[at] == at:
            following = min(begin for begin in reads if begin >= end)
            reads[at] = following if following - end <= end - at else end
    return found


@cache
def _records(data: bytes) -> list[Json]:
    return list(fastavro.reader(io.BytesIO(data)))


def _below(row: Any, path: tuple[int, ...]) -> Any:
    for step in path:
        row = None if row is None else row.get(step)
    return row


def _bounds(file: Json, field_id: int) -> list[bytes]:
    return [p["value"] for n in ("lower_bounds", "upper_bounds") for p in file.get(n) or () if p["key"] == field_id]


def _disjoint(a: list[bytes], b: list[bytes], kind: Any) -> bool:
    form = {"double": "<d", "float": "<f"}.get(str(kind))
    if form is None or {len(v) for v in a + b} != {struct.calcsize(form)}:
        return False
    (a_low, a_high), (b_low, b_high) = ([struct.unpack(form, v)[0] for v in bounds] for bounds in (a, b))
    return bool(a_high < b_low or b_high < a_low)


def _type(kind: Any) -> str:
    if not isinstance(kind, dict):
        return str(kind)
    if kind["type"] == "struct":
        return "struct<" + ", ".join(f"{f['name']}: {_type(f['type'])}" for f in kind["fields"]) + ">"
    if kind["type"] == "list":
        return f"list<{_type(kind['element'])}>"
    return f"map<{_type(kind['key'])}, {_type(kind['value'])}>"


def _json(value: Any, kind: Any) -> Any:
    """A value as the suite's files have it."""
    if value is None:
        return None
    if isinstance(kind, dict):
        if kind["type"] == "struct":
            by_id = {f["name"]: value.get(f["id"], value.get(f["name"])) for f in kind["fields"]}
            return {f["name"]: _json(by_id[f["name"]], f["type"]) for f in kind["fields"]}
        if kind["type"] == "list":
            return [_json(v, kind["element"]) for v in value]
        return sorted(([_json(k, kind["key"]), _json(v, kind["value"])] for k, v in value), key=json.dumps)
    if kind in ("float", "double"):
        value = float(value)
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return value if math.isfinite(value) else text
    if kind.startswith("timestamp") and isinstance(value, int):
        per, digits = (10**9, 9) if "ns" in kind else (10**6, 6)
        seconds, rest = divmod(value, per)
        whole = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
        return f"{whole.isoformat()[:19]}.{rest:0{digits}d}{'+00:00' if 'tz' in kind else ''}"
    if isinstance(value, dt.time):
        return value.isoformat("microseconds")
    if kind == "uuid":
        return str(value if isinstance(value, UUID) else UUID(bytes=value))
    if isinstance(value, bytes):
        return value.hex().upper()
    return format(value, "f") if isinstance(value, Decimal) else value.isoformat() if kind == "date" else value
