"""Search any file of a table for values, whatever leads to the file, in each form that a value can have there.

`files_with_values` tells which rows of which snapshot a filter matches. This tells where the values of its equalities
stand, outside of rows too. If a test needs the values of several columns, one of them alone is only possible.
"""

import hashlib
import json
import re
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import product
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

import pyarrow as pa
from pyiceberg import expressions as ex
from pyiceberg import types as it
from pyiceberg.transforms import IdentityTransform

from deletekit.deferred import pc
from deletekit.errors import NotFoundError
from deletekit.filters.filter import evaluate
from deletekit.formats.avro import read_container
from deletekit.formats.bloom_filter import may_hold
from deletekit.formats.compression import decompress, json_limit
from deletekit.formats.manifest_list import read_manifest_list
from deletekit.formats.manifests import read_manifest
from deletekit.formats.metrics import field_id_of, leaves, upper_prefix
from deletekit.formats.puffin import DELETION_VECTOR_V1, read_puffin
from deletekit.formats.reserved_fields import FILE_PATH_ID
from deletekit.formats.tabular import RowGroup, open_tabular
from deletekit.rows.key_bounds import widened_bound
from deletekit.rows.projection import TEXT, Projection, is_a, with_field_ids
from deletekit.table.file_io import FileIO, is_remote
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import value_text
from deletekit.table.properties import COLUMN_PROPERTIES, NAME_MAPPING, PROPERTIES
from deletekit.table.summary_counters import COUNTERS, TOTALS
from deletekit.table.types import arrow_type, single_value_of_stored, stored_value

_LONG = 6  # bytes of a value that do not stand in a binary file by chance
_EQUAL = ex.BoundEqualTo | ex.BoundIn
_NUMBERS = ("format-version", "schema-id", "snapshot-id", "parent-snapshot-id", "sequence-number", "first-row-id", "partition-spec-id")
_COUNTED = (*TOTALS, *COUNTERS, *PROPERTIES, *_NUMBERS, "ndv", "changed-partition-count", "delete-field-ids", "content")
# They name columns, and no value of a row.
_SCHEMAS = (
    *("schema", "schemas", "partition-spec", "partition-specs", "sort-orders", "iceberg.schema", "ARROW:schema"),
    *("avro.schema", "avro.codec", NAME_MAPPING, "org.apache.spark.sql.parquet.row.metadata"),
)
_COUNTED_PREFIXES = ("deletekit.", "manifests-", "entries-", *COLUMN_PROPERTIES)
_NO_VALUES = (DELETION_VECTOR_V1, "apache-datasketches-theta-v1")  # positions, and hashes
_PLAIN = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}


@dataclass(frozen=True, kw_only=True)
class SearchedValue:
    """A value of a column. `single` is Iceberg's single-value binary form, `texts` are its forms in text."""

    table: str
    column: it.NestedField
    literal: Any

    @cached_property
    def stored(self) -> Any:
        """The value as a partition tuple in a manifest has it."""
        return stored_value(self.literal, str(self.column.field_type))

    @cached_property
    def single(self) -> bytes:
        return single_value_of_stored(self.stored, str(self.column.field_type))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        if isinstance(self.literal, bool):
            return ()  # words of every file
        plain = {value_text(IdentityTransform(), self.column.field_type, self.stored)}
        if isinstance(self.literal, bytes):
            plain |= {self.stored.hex(), *([str(UUID(bytes=self.stored))] if len(self.stored) == 16 else [])}
        if isinstance(self.literal, Decimal):
            plain.add(f"{self.literal.normalize():f}")
        plain |= {text.replace("T", " ") for text in plain if isinstance(self.stored, int)}  # a time
        forms = (form(text) for text in plain for form in (str, quote, quote_plus, lambda t: json.dumps(t)[1:-1]))
        return tuple(sorted(set(filter(None, forms)), key=len, reverse=True))

    @cached_property
    def pattern(self) -> str:
        """A regular expression of the texts as words: 3 is not in 13, -3, 3.5 or part-3-0."""
        letters = r"\W_" if isinstance(self.literal, str) else r"^\w.\-"
        return rf"(^|[{letters}])(?:{'|'.join(map(re.escape, self.texts)) or '$^'})($|[{letters}]|\.(?:\s|$))"

    @cached_property
    def needles(self) -> tuple[bytes, ...]:
        """The forms in which it is searched in bytes of no known format."""
        forms = (*(t.encode() for t in self.texts), self.single) if isinstance(self.literal, str | bytes) else ()
        return tuple(form for form in forms if len(form) >= _LONG)

    def in_bound(self, bound: bytes | None, *, is_upper: bool) -> str | None:
        """Tell whether a bound is the value, `bounds`, or may be a part of it, `truncated bounds`."""
        if not bound or not isinstance(self.literal, str | bytes):
            return "bounds" if bound and widened_bound(bound, self.column) == self.single else None
        if bound == self.single:
            return "bounds"
        of = bound.decode(errors="replace") if isinstance(self.literal, str) else bound
        cut = upper_prefix(self.literal, len(of)) if is_upper else self.literal[: len(of)]
        return "truncated bounds" if cut == of else None


def equalities(bound: ex.BooleanExpression, keeps: Callable[[Any], bool], *, of_or: bool) -> Any:
    """Return a filter without the tests that are not kept, None if nothing is left.

    `of_or` tells whether one side of an OR may stay without the other.
    """
    if isinstance(bound, ex.And | ex.Or):
        sides = [equalities(side, keeps, of_or=of_or) for side in (bound.left, bound.right)]
        if None not in sides:
            return type(bound)(*sides)
        return sides[sides[0] is None] if of_or or isinstance(bound, ex.And) else None
    return bound if isinstance(bound, _EQUAL) and keeps(bound) else None


def _values_of(test: Any) -> list[frozenset[tuple[it.NestedField, Any]]]:
    """Return the values that a row needs, one of these sets of them."""
    if isinstance(test, ex.Or):
        return _values_of(test.left) + _values_of(test.right)
    if isinstance(test, ex.And):
        return [a | b for a in _values_of(test.left) for b in _values_of(test.right)]
    values = test.value_set if isinstance(test, ex.BoundIn) else [test.literal.value]
    return [frozenset([(test.term.ref().field, v)]) for v in values]


@dataclass(frozen=True, kw_only=True)
class SearchedTable:
    """A table whose files are searched for the values of a filter, and for those of other tables as text.

    `test` is the filter without tests that name no value. If it is None, text is searched in every text column.
    """

    name: str
    metadata: TableMetadata
    test: ex.BooleanExpression | None

    @cached_property
    def needed(self) -> list[frozenset[SearchedValue]]:
        """The values that a row has, one of these sets of them."""
        found = [] if self.test is None else _values_of(self.test)
        return [frozenset(SearchedValue(table=self.name, column=c, literal=v) for c, v in one) for one in found]

    @cached_property
    def columns(self) -> dict[int, it.NestedField]:
        """The columns of the values by field id, and by the id of an identity partition: its statistics have it."""
        own = {v.column.field_id: v.column for one in self.needed for v in one}
        parts = (f for s in self.metadata.specs.values() for f in s.fields if str(f.transform) == "identity")
        return {f.field_id: own[f.source_id] for f in parts if f.source_id in own} | own


@dataclass(kw_only=True)
class SearchedFile:
    """A file that was searched.

    Attributes
    ----------
    how: as which kind of file; `reason`: why it could not be searched, or not for each value.
    places: where which values are; `maybe`: the same of what is a guess only.
    cuts: parts of values in bounds of the file of this path, which a row of that file without the value may explain.
    """

    path: str
    size: int = 0
    sha256: str = ""
    how: str = ""
    reason: str | None = None
    is_missing: bool = False
    places: dict[str, set[SearchedValue]] = field(default_factory=dict)
    maybe: dict[str, set[SearchedValue]] = field(default_factory=dict)
    cuts: list[tuple[SearchedValue, str]] = field(default_factory=list)

    def add(self, place: str, values: Iterable[SearchedValue]) -> None:
        found = set(values)
        if found:
            self.places.setdefault(place, set()).update(found)

    def bound(self, value: SearchedValue, what: str | None, file: str) -> None:
        """Add what `in_bound` says of a bound of a file."""
        if what == "truncated bounds":
            self.cuts.append((value, file))
        elif what:
            self.add(what, [value])

    def holds(self, needed: Iterable[frozenset[SearchedValue]]) -> bool:
        """Tell whether it has all values of a row."""
        found = set().union(*self.places.values())
        return any(one <= found for one in needed)


@dataclass(frozen=True)
class ValueSearch:
    """Searches files of one table. `values` are those of all tables of a call."""

    io: FileIO
    table: SearchedTable
    values: tuple[SearchedValue, ...]

    def __call__(self, path: str) -> SearchedFile:
        """Search a file. What keeps it from being searched is told in `reason`, never raised."""
        out = SearchedFile(path=path)
        try:
            out.add("its path", self.in_text(self._inside(path)))
            with self.io.open(path) as source:
                digest = hashlib.sha256()
                while part := source.read(1 << 20):
                    digest.update(part)
                    out.size += len(part)
                out.sha256 = digest.hexdigest()
                source.seek(0)
                head = source.read(16)
                source.seek(0)
                self._search(out, source, head)
        except NotFoundError:
            out.is_missing = True
        except Exception as e:  # noqa: BLE001  # a strange file fails in many ways, and each is reported
            out.reason = f"{type(e).__name__}: {e}"
        return out

    def in_text(self, text: str, key: str = "") -> set[SearchedValue]:
        """Return the values that a text has as words. A number is none if the key is that of a counter or setting."""
        if key in _COUNTED or key.startswith(_COUNTED_PREFIXES):
            text = re.sub(r"^[-+\d., ]+$", "", text)
        return {v for v in self.values if re.search(v.pattern, text)}

    def _inside(self, text: str) -> str:
        """Return a path without the table's folder, whose name is not made of a row's values."""
        return text.replace(self.table.metadata.location.rstrip("/"), "")

    def _in_bytes(self, data: bytes) -> set[SearchedValue]:
        return {v for v in self.values if any(needle in data for needle in v.needles)}

    def _search(self, out: SearchedFile, source: Any, head: bytes) -> None:
        if head.startswith((b"PAR1", b"ORC")):
            out.how = "PARQUET" if head[:1] == b"P" else "ORC"
            self._rows(out, source, out.how)
            return
        data = source.read()
        if head.startswith(b"\x1f\x8b"):
            data = _decompressed("gzip", data)
        if head.startswith(b"Obj\x01"):
            self._avro(out, data)
        elif head.startswith(b"PFA1"):
            self._puffin(out, data)
        elif head.startswith(b"SQLite format 3"):
            self._sqlite(out, data)
        elif not out.path.endswith("/version-hint.text") and not head.startswith(b"crc\0"):
            self._text(out, data)

    def _text(self, out: SearchedFile, data: bytes) -> None:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            out.how, out.reason = "bytes", "an unknown kind of file: only long values were searched in its bytes"
            out.add("bytes", self._in_bytes(data))
            return
        try:
            out.how, document = "JSON", json.loads(text)
        except ValueError:
            out.how, document = "text", text
        if isinstance(document, dict) and "format-version" in document:
            document = {k: v for k, v in document.items() if k not in _SCHEMAS}
        for key, value in _strings(document):
            out.add(f"text of {key}" if key else "text", self.in_text(self._inside(value), key))

    def _sqlite(self, out: SearchedFile, data: bytes) -> None:
        out.how = "SQLite"
        out.add("bytes", self._in_bytes(data))  # also those of removed rows
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(data)
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for row in database.execute(f'SELECT * FROM "{name}"'):  # noqa: S608  # a name that SQLite gave
                    for text in filter(lambda cell: isinstance(cell, str), row):
                        out.add(f"rows of {name}", self.in_text(self._inside(text)))

    def _properties(self, out: SearchedFile, properties: Mapping[str, str]) -> None:
        for key, text in properties.items():
            out.add(f"text of {key}", self.in_text(self._inside(text), key) if key not in _SCHEMAS else ())

    def _puffin(self, out: SearchedFile, data: bytes) -> None:
        out.how, footer = "Puffin", read_puffin(data)
        self._properties(out, footer.properties)
        for blob in footer.blobs:
            self._properties(out, blob.properties)
            stored = data[blob.offset : blob.offset + blob.length]
            plain = _decompressed(blob.compression_codec or "none", stored)
            out.add(f"blob {blob.type}", self._in_bytes(plain))
            if blob.type not in _NO_VALUES and not all(v.needles for v in self.values):
                out.reason = f"an unknown kind of blob: {blob.type}; only long values were searched in its bytes"

    # --- Avro -------------------------------------------------------------------------------------------------------

    def _avro(self, out: SearchedFile, data: bytes) -> None:
        container = read_container(data)
        out.how = {"manifest_entry": "manifest", "manifest_file": "manifest list"}.get(container.schema["name"], "AVRO")
        self._properties(out, container.metadata)
        if out.how == "AVRO":
            self._rows(out, pa.BufferReader(data), out.how)
        elif out.how == "manifest":
            for entry in read_manifest(data).entries:
                self._entry(out, entry.data_file)
        else:
            for listed in read_manifest_list(data):
                out.add("path of a manifest", self.in_text(self._inside(listed.manifest_path)))
                parts = self._parts(listed.partition_spec_id)
                for values, summary in zip(parts, listed.partitions or (), strict=False):
                    ends = summary.lower_bound, summary.upper_bound
                    found = (v for v, end in product(values, ends) if v.in_bound(end, is_upper=False) == "bounds")
                    out.add("partition bounds", found)

    def _entry(self, out: SearchedFile, file: Any) -> None:
        for path in (file.file_path, getattr(file, "referenced_data_file", None) or ""):
            out.add("path of a file", self.in_text(self._inside(path)))
        for values, part in zip(self._parts(file.spec_id), file.partition, strict=False):
            out.add("partition", (v for v in values if v.stored == part))
        for is_upper, bounds in enumerate((file.lower_bounds or {}, file.upper_bounds or {})):
            path = bounds.get(FILE_PATH_ID, b"").decode(errors="replace")
            out.add("path in bounds", self.in_text(self._inside(path)))
            for value in self._of(*self.table.columns):
                bound = bounds.get(value.column.field_id)
                out.bound(value, value.in_bound(bound, is_upper=bool(is_upper)), file.file_path)

    def _of(self, *field_ids: int) -> list[SearchedValue]:
        """Return the values of columns of this table."""
        return [v for v in self.values if v.table == self.table.name and v.column.field_id in field_ids]

    def _parts(self, spec_id: int) -> list[list[SearchedValue]]:
        """Return the values of each field of a partition spec; those of a bucket or a month are not known."""
        spec = self.table.metadata.specs[spec_id]
        return [self._of(f.source_id) if str(f.transform) == "identity" else [] for f in spec.fields]

    # --- rows -------------------------------------------------------------------------------------------------------

    def _rows(self, out: SearchedFile, source: Any, file_format: str) -> None:
        file = open_tabular(source, file_format, remote=is_remote(out.path))
        if file_format == "PARQUET":  # also values of a dictionary that no row has
            texts = [f.name for f in file.schema if is_a(f.type, *TEXT)]
            file = open_tabular(source, file_format, remote=file.remote, dictionary=texts, parsed=file.parsed)
        self._properties(out, file.metadata)
        schema, ids = self._with_ids(file.schema), {*self.table.columns, FILE_PATH_ID}
        names = [f.name for f in schema if self.table.test is None or ids & _ids(f)]
        for group in file.row_groups if names else ():
            rows = file.read(group, names)
            columns = {}
            for i, name, _, column in leaves(rows, pa.schema([schema.field(n) for n in names])):
                if i == FILE_PATH_ID or self.table.test is None:
                    self._words(out, name, column)
                elif i in self.table.columns:
                    wanted = self.table.columns[i]
                    columns[wanted.field_id] = self._column(out, column, wanted)
                    if file.footer is not None:
                        self._footer(out, source, file.footer, group, name, wanted)
            if self._match(columns, len(rows)):
                out.add("rows", self.values)

    def _with_ids(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of a file with field ids; a file without any has the columns of their names."""
        mapping = self.table.metadata.properties.get(NAME_MAPPING)
        named = [{"field-id": i, "names": [c.name]} for i, c in self.table.columns.items() if i == c.field_id]
        named.append({"field-id": FILE_PATH_ID, "names": ["file_path"]})
        return with_field_ids(schema, mapping or json.dumps(named))

    def _column(self, out: SearchedFile, column: pa.ChunkedArray, wanted: it.NestedField) -> pa.ChunkedArray:
        kind = arrow_type(wanted.field_type)
        for chunk in column.chunks:
            if pa.types.is_dictionary(chunk.type):
                held = Projection().primitive(chunk.dictionary, kind)
                if self._match({wanted.field_id: pa.chunked_array([held])}, len(held)):
                    out.add("dictionary", self._of(wanted.field_id))
        return pa.chunked_array([Projection().primitive(chunk, kind) for chunk in column.chunks], kind)

    def _match(self, columns: Mapping[int, pa.ChunkedArray], rows: int) -> bool:
        """Tell whether a row may match, as far as these columns tell."""
        test = self.table.test and equalities(
            self.table.test, lambda t: t.term.ref().field.field_id in columns, of_or=True
        )
        return test is not None and bool(pc.any(evaluate(test, columns.__getitem__, rows)).as_py())

    def _words(self, out: SearchedFile, name: str, column: pa.ChunkedArray) -> None:
        for text in column.unique().to_pylist() if is_a(column.type, *TEXT, "dictionary") else ():
            out.add(f"text of {name}", self.in_text(self._inside(text)) if isinstance(text, str) else ())

    def _footer(
        self, out: SearchedFile, source: Any, footer: Any, group: RowGroup, name: str, wanted: it.NestedField
    ) -> None:
        """Search the statistics and Bloom filters of a column."""
        (at,) = (i for i in range(footer.num_columns) if footer.schema.column(i).path == name)
        for chunk, value in product([footer.row_group(i).column(at) for i in group.indices], self._of(wanted.field_id)):
            plain = _plain(value, chunk.physical_type, footer.schema.column(at).length)
            found = chunk.statistics if chunk.is_stats_set else None
            for is_upper, raw in enumerate((found.min_raw, found.max_raw) if found and found.has_min_max else ()):
                form = _PLAIN.get(chunk.physical_type)
                bound = struct.pack(form, raw) if form else raw
                what = "bounds" if bound == plain else value.in_bound(bound, is_upper=bool(is_upper))
                out.bound(value, what, out.path)
            offset = getattr(chunk, "bloom_filter_offset", None)  # which an old pyarrow does not show
            if offset is not None and plain is not None:
                source.seek(offset)
                if may_hold(source.read(chunk.bloom_filter_length or 1 << 24), plain):
                    out.maybe.setdefault("Bloom filter", set()).add(value)


def _decompressed(codec: str, data: bytes) -> bytes:
    return decompress(codec, data, limit=json_limit(len(data)), kind="codec", field="codec")


def _strings(document: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of a JSON document, each with its key, and the keys."""
    if isinstance(document, str):
        yield key, document
    for item in document if isinstance(document, list) else ():
        yield from _strings(item, key)
    for name, item in document.items() if isinstance(document, dict) else ():
        yield "", name
        yield from _strings(item, name)


def _ids(column: pa.Field) -> set[int | None]:
    inner = (column.type.field(i) for i in range(column.type.num_fields))
    return {field_id_of(column)}.union(*map(_ids, inner))


def _plain(value: SearchedValue, physical_type: str, length: int) -> bytes | None:
    """Return a value as Parquet stores it, None if the type cannot hold it."""
    stored = value.stored
    if isinstance(value.literal, Decimal):
        stored = int.from_bytes(stored, "big", signed=True)
    try:
        if physical_type in _PLAIN:
            return struct.pack(_PLAIN[physical_type], stored)
        return stored.to_bytes(length, "big", signed=True) if length and isinstance(stored, int) else value.single
    except (struct.error, OverflowError):
        return None
