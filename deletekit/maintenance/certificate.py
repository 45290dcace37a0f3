"""Search all files of tables for values, whatever leads to them, and sign what was found: `erase(certificate=...)`.

`files_with_values` counts the rows of a snapshot's files that a filter matches. This tells where the values of the
filter's equalities stand, outside of rows too. If values of several columns tell a row, one of them alone is a guess.
The certificate promises only what was searched. The values stand in it as HMACs, whose key, the salt, it does not have:
a plain hash of an address or a number is found by trying. `verify_certificate.py` verifies it without deletekit.
"""

import hashlib
import hmac
import json
import re
import secrets
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote
from uuid import UUID

import pyarrow as pa
from pyiceberg import expressions as ex
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from deletekit.deferred import pc
from deletekit.engines.local import Engine
from deletekit.errors import (
    UNREADABLE,
    DeletekitError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from deletekit.filters.filter import evaluate
from deletekit.formats.avro import read_container
from deletekit.formats.bloom_filter import may_hold
from deletekit.formats.compression import decompress, json_limit
from deletekit.formats.decimals import EXACT
from deletekit.formats.manifest_list import read_manifest_list
from deletekit.formats.manifests import read_manifest
from deletekit.formats.metrics import field_id_of, leaves, upper_prefix
from deletekit.formats.puffin import DELETION_VECTOR_V1, read_puffin
from deletekit.formats.reserved_fields import FILE_PATH_ID
from deletekit.formats.tabular import open_tabular
from deletekit.maintenance.reachable import Reachability, read_latest
from deletekit.rows.column_bounds import values_of, widened_bound
from deletekit.rows.projection import TEXT, Projection, is_a, with_field_ids
from deletekit.table.file_io import FileIO, PyIcebergIO
from deletekit.table.locations import SpellingRules
from deletekit.table.metadata import TableMetadata, parse_metadata
from deletekit.table.metadata_file import logged_files
from deletekit.table.own_places import own_folders
from deletekit.table.partition import plain_value, value_text
from deletekit.table.properties import COLUMN_PROPERTIES, NAME_MAPPING, PROPERTIES
from deletekit.table.summary_counters import COUNTERS, TOTALS
from deletekit.table.table import Table
from deletekit.table.types import arrow_type, single_value_of_stored, stored_value
from deletekit.version import __version__

SEARCHED_FORMS = (
    "rows of Parquet, ORC and Avro, by the type of the column: of data and delete files, hidden rows too",
    "dictionaries of Parquet's text columns outside of structs",
    "Bloom filters of Parquet, where pyarrow tells their place; they may err, so what they have is only possible",
    "manifests and manifest lists: bounds in Iceberg's single-value form, identity partitions, paths",
    "truncated bounds: only possible, if the rows of their file were searched and none has the value",
    "JSON, gzip, text, paths, properties, SQLite: as words, quoted for URLs or JSON, ISO 8601, hex and base64",
    "decompressed blobs of Puffin, SQLite, unknown files: the bytes of text and binary values, if six or more",
)
NEVER_SEARCHED = (
    "backups, caches, old versions of objects, links, and all that is not listed as searched",
    "other catalogs and tables, and a catalog that is no SQLite file",
    "values in another case, zone or notation, hashed, encrypted or computed: buckets, months, truncations, sketches",
    "names of tables, columns and their folders; defaults of columns; numbers of JSON; counters of the specification",
    "statistics and page indexes of Parquet and ORC, and bytes of their files that no row refers to",
    "columns of data files that the filter does not name, and checksum files (.crc)",
)
_MAGICS = {b"PAR1": "Parquet", b"ORC": "ORC", b"Obj\x01": "Avro", b"PFA1": "Puffin", b"SQLite format 3": "SQLite"}
_MAGICS |= {b"\x1f\x8b": "gzip", b"crc\0": "checksums"}
_CUT = "truncated bounds"
_FORMS = (str, quote, quote_plus, lambda t: json.dumps(t)[1:-1], lambda t: t.replace('"', '""'))
_PLAIN = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
# Keys whose numbers are no values of rows, and keys that tell of columns.
_IDS = [f"{what}-id" for what in ("schema", "snapshot", "parent-snapshot", "first-row", "partition-spec")]
_COUNTED = {*TOTALS, *COUNTERS, *PROPERTIES, *_IDS, "format-version", "sequence-number", "delete-field-ids", "ndv"}
_COUNTED_PREFIXES = ("deletekit.", "manifests-", "entries-", "changed-partition-count", *COLUMN_PROPERTIES)
_SCHEMAS = {"schema", "schemas", "partition-spec", "partition-specs", "sort-orders", "avro.schema", "iceberg.schema"}
_SCHEMAS |= {NAME_MAPPING, "ARROW:schema", "org.apache.spark.sql.parquet.row.metadata"}


@dataclass(frozen=True)
class _Value:
    """A value of a column."""

    table: str
    column: NestedField
    literal: Any

    @cached_property
    def stored(self) -> Any:
        """The value in a partition of a manifest."""
        return stored_value(self.literal, str(self.column.field_type))

    @cached_property
    def single(self) -> bytes:
        """The value in bounds: Iceberg's single-value form."""
        return single_value_of_stored(self.stored, str(self.column.field_type))

    @cached_property
    def texts(self) -> list[str]:
        plain = [value_text(IdentityTransform(), self.column.field_type, self.stored)]
        match self.literal:
            case bool():
                plain = []  # a word of every file
            case bytes() as data:
                plain += [data.hex(), *([str(UUID(bytes=data))] if len(data) == 16 else [])]
            case Decimal() as number:
                plain.append(f"{number.normalize(EXACT):f}")
            case int() if "T" in plain[0]:
                plain = _moments(plain[0])
        forms = {form(text) for text in plain for form in _FORMS}
        return sorted(filter(None, forms), key=len, reverse=True)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A regular expression of the texts as words: 3 is not in 13, -3, 3.5 or part-3-0."""
        ends = r"\W_" if isinstance(self.literal, str) else r"^\w.\-"
        forms = "|".join(map(re.escape, self.texts)) or "(?!)"
        return re.compile(rf"(^|[{ends}])(?:{forms})($|[{ends}]|\.(?:\s|$))")

    @cached_property
    def needles(self) -> list[bytes]:
        """What is searched in bytes of no known form: they do not have six bytes by chance."""
        forms = [*(t.encode() for t in self.texts), self.single] if isinstance(self.literal, str | bytes) else []
        return [form for form in forms if len(form) >= 6]

    def in_bound(self, bound: bytes | None, *, is_upper: int) -> str | None:
        """Tell whether a bound is the value, or a part of it."""
        if bound and isinstance(self.literal, str | bytes) and bound != self.single:
            part = bound.decode(errors="replace") if isinstance(self.literal, str) else bound
            cut = upper_prefix(self.literal, len(part)) if is_upper else self.literal[: len(part)]
            return _CUT if cut == part else None
        held = values_of(self.column.field_type, *[widened_bound(bound, self.column)] * 2) if bound else None
        return "bounds" if held and held[0] == self.literal else None

    def in_parquet(self, physical_type: str, length: int) -> bytes | None:
        """Return the value as Parquet stores it, None if the type cannot hold it."""
        is_decimal = isinstance(self.literal, Decimal)
        stored = int.from_bytes(self.stored, "big", signed=True) if is_decimal else self.stored
        with suppress(struct.error, OverflowError):
            if physical_type in _PLAIN:
                return struct.pack(_PLAIN[physical_type], stored)
            return stored.to_bytes(length, "big", signed=True) if is_decimal and length else self.single
        return None


_Hit = tuple[str, _Value, str | None]
"""A place, a value, and None if it is certain, "" if it is a guess, the path of a file for a part in its bounds."""


@dataclass(kw_only=True)
class SearchedFile:
    """A file or folder: as what it was searched, what was found, what is only possible, what kept it from a search."""

    path: str
    size: int = 0
    sha256: str = ""
    how: str = "folder"
    hits: Sequence[_Hit] = ()
    found: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()
    unsearched: str | None = None


@dataclass(frozen=True)
class _Search:
    """Searches a file of a table. `values` are those of all tables; `test` is what names some of this one, if any."""

    io: FileIO
    name: str
    metadata: TableMetadata
    test: Any
    values: Sequence[_Value]

    def __call__(self, path: str) -> SearchedFile | None:
        """Search a file; None if it is gone. What keeps it from being searched is told, never raised."""
        hits = list(self._words("its path", path))
        out, digest, head = SearchedFile(path=path, hits=hits), hashlib.sha256(), b""
        try:
            with self.io.open(path) as source:
                while part := source.read(1 << 20):
                    digest.update(part)
                    head, out.size = head or part[:16], out.size + len(part)
                source.seek(0)
                out.sha256 = digest.hexdigest()
                out.how = next((how for magic, how in _MAGICS.items() if head.startswith(magic)), "text")
                out.how = "text" if out.how == "checksums" and not path.endswith(".crc") else out.how
                hits.extend(self._hits(out.how, source))  # what was found before an error stays
        except NotFoundError:
            return None
        except Exception as e:  # noqa: BLE001  # a strange file fails in many ways
            out.unsearched = f"{type(e).__name__}: {e}"
        return out

    def _words(self, place: str, text: str, key: str = "") -> Iterator[_Hit]:
        """Find values as words. A number is none where the key says that it counts or sets something."""
        text = self._noise.sub("", text)
        text = " ".join(dict.fromkeys([text, unquote(text)]))  # Java and Hive quote other characters
        if key in _COUNTED or key.startswith(_COUNTED_PREFIXES):
            text = re.sub(r"^[-+\d., ]+$", "", text)
        return ((place, v, None) for v in self.values if v.pattern.search(text))

    @cached_property
    def _noise(self) -> re.Pattern[str]:
        """What is in texts and not made of values: the table's folders, partitions that are buckets or months."""
        fields = (f for spec in self.metadata.specs.values() for f in spec.fields)
        computed = [rf"\b{re.escape(f.name)}=[^/\s]*(?=/)" for f in fields if str(f.transform) != "identity"]
        return re.compile("|".join([*map(re.escape, own_folders(self.metadata)), *computed]))

    def _bytes(self, place: str, data: bytes) -> Iterator[_Hit]:
        return ((place, v, None) for v in self.values if any(needle in data for needle in v.needles))

    def _properties(self, properties: Mapping[str, str]) -> Iterator[_Hit]:
        told = ((key, text) for key, text in properties.items() if key not in _SCHEMAS)
        return chain.from_iterable(self._words(f"text of {key}", text, key) for key, text in told)

    def _of(self, *field_ids: int) -> list[_Value]:
        return [v for v in self.values if v.table == self.name and v.column.field_id in field_ids]

    @cached_property
    def _columns(self) -> dict[int, NestedField]:
        """The columns of the values by field id, and by the id of an identity partition: its statistics have that."""
        own = {v.column.field_id: v.column for v in self.values if v.table == self.name}
        parts = (f for s in self.metadata.specs.values() for f in s.fields if str(f.transform) == "identity")
        return {f.field_id: own[f.source_id] for f in parts if f.source_id in own} | own

    # --- metadata -----------------------------------------------------------------------------------------------------

    def _hits(self, how: str, source: Any) -> Iterator[_Hit]:
        if how in ("Parquet", "ORC"):
            return self._rows(source, how)
        stored = source.read()
        if how == "gzip" and b"\x1f\x8b\x08" in stored[3:]:
            raise UnsupportedError("a gzip file of several members, or one in another, is not searched")
        data = _plain("gzip", stored) if how == "gzip" else stored
        read = {"Avro": self._avro, "Puffin": self._puffin, "SQLite": self._sqlite}.get(how, self._text)
        return iter(()) if how == "checksums" else read(data)

    def _text(self, data: bytes) -> Iterator[_Hit]:
        document: Any = data
        try:
            document = data.decode()
            document = json.loads(document)
        except UnicodeDecodeError as e:
            yield from self._bytes("bytes", data)
            raise UnsupportedError("an unknown kind of file: only long values were searched in its bytes") from e
        except ValueError:  # text, but no JSON; a line of it may be
            for line in str(document).splitlines():
                with suppress(ValueError):
                    yield from chain.from_iterable(self._words("text", t, k) for k, t in _strings(json.loads(line)))
        if isinstance(document, dict) and "format-version" in document:
            document = {k: v for k, v in document.items() if k not in _SCHEMAS}
        for key, text in _strings(document):
            yield from self._words(f"text of {key}" if key else "text", text, key)
        if b"\0" in data:
            raise UnsupportedError("a text of another encoding: it was searched as UTF-8")

    def _sqlite(self, data: bytes) -> Iterator[_Hit]:
        yield from self._bytes("bytes", data)  # also those of removed rows
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(data[:18] + b"\1\1" + data[20:])  # as if it had no write-ahead log
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for text in chain.from_iterable(database.execute(f'SELECT * FROM "{name}"')):  # noqa: S608  # its name
                    yield from self._words(f"rows of {name}", text if isinstance(text, str) else "")

    def _puffin(self, data: bytes) -> Iterator[_Hit]:
        footer = read_puffin(data)
        yield from self._properties(footer.properties)
        for blob in footer.blobs:
            yield from self._properties(blob.properties)
            plain = _plain(blob.compression_codec or "none", data[blob.offset :][: blob.length])
            yield from self._bytes(f"blob {blob.type}", plain)
        unknown = {blob.type for blob in footer.blobs} - {DELETION_VECTOR_V1, "apache-datasketches-theta-v1"}
        if unknown and not all(v.needles for v in self.values):  # the known ones are of positions and hashes
            raise UnsupportedError("unknown blobs: only long values were searched in their bytes", found=unknown)

    def _avro(self, data: bytes) -> Iterator[_Hit]:
        container = read_container(data)
        yield from self._properties(container.metadata)
        read = {"manifest_entry": self._manifest, "manifest_file": self._list}.get(container.schema["name"])
        yield from read(data) if read else self._rows(pa.BufferReader(data), "Avro")

    def _list(self, data: bytes) -> Iterator[_Hit]:
        for listed in read_manifest_list(data):
            yield from self._words("path of a manifest", listed.manifest_path)
            for value, part in self._parts(listed.partition_spec_id, listed.partitions or ()):
                if "bounds" in (value.in_bound(bound, is_upper=0) for bound in (part.lower_bound, part.upper_bound)):
                    yield "partition", value, None

    def _manifest(self, data: bytes) -> Iterator[_Hit]:
        for file in (entry.data_file for entry in read_manifest(data).entries):
            yield from self._words("path of a file", f"{file.file_path} {getattr(file, 'referenced_data_file', '')}")
            for value, part in self._parts(file.spec_id, file.partition):
                if plain_value(part, value.column.field_type) == value.literal:
                    yield "partition", value, None
            for is_upper, bounds in enumerate((file.lower_bounds or {}, file.upper_bounds or {})):
                yield from self._words("path in bounds", bounds.get(FILE_PATH_ID, b"").decode(errors="replace"))
                for value in self._of(*self._columns):
                    found = value.in_bound(bounds.get(value.column.field_id), is_upper=is_upper)
                    if found is not None:
                        yield found, value, file.file_path if found == _CUT else None

    def _parts(self, spec_id: int, parts: Iterable[Any]) -> Iterator[tuple[_Value, Any]]:
        """Yield each value with what is of its column in a partition; a bucket or month tells no value."""
        for part_field, part in zip(self.metadata.specs[spec_id].fields, parts, strict=False):
            same = str(part_field.transform) == "identity"
            yield from ((value, part) for value in self._of(part_field.source_id) if same)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _rows(self, source: Any, file_format: str) -> Iterator[_Hit]:
        file = open_tabular(source, file_format)
        if file.footer is not None:  # as dictionaries, whose values need not be those of rows
            texts = [f.name for f in file.schema if is_a(f.type, *TEXT)]
            file = open_tabular(source, file_format, dictionary=texts, parsed=file.parsed)
        yield from self._properties(file.metadata)
        # A file without field ids has the columns of their names.
        named = [{"field-id": i, "names": [c.name]} for i, c in self._columns.items() if i == c.field_id]
        mapping = json.dumps([*named, {"field-id": FILE_PATH_ID, "names": ["file_path"]}])
        schema = with_field_ids(file.schema, self.metadata.properties.get(NAME_MAPPING) or mapping)
        wanted = {*self._columns, FILE_PATH_ID}
        names = [f.name for f in schema if self.test is None or wanted & _ids(f)]
        for group in file.row_groups if names else ():
            rows, columns = file.read(group, names), dict[int, pa.ChunkedArray]()
            for i, name, _, column in leaves(rows, pa.schema([schema.field(n) for n in names])):
                if i in self._columns:
                    own = self._columns[i]
                    columns[own.field_id] = _promoted(own, column.chunks)
                    for held in (c.dictionary for c in column.chunks if pa.types.is_dictionary(c.type)):
                        if self._matches({own.field_id: _promoted(own, [held])}, len(held)):
                            yield from (("dictionary", v, None) for v in self._of(own.field_id))
                    yield from self._bloom_filters(source, file.footer, group.indices, name, self._of(own.field_id))
                elif is_a(column.type, *TEXT, "dictionary"):
                    found = (text for text in column.unique().to_pylist() if isinstance(text, str))
                    yield from chain.from_iterable(self._words(f"text of {name}", text) for text in found)
            if self._matches(columns, len(rows)):
                yield from (("rows", v, None) for v in self.values)

    def _matches(self, columns: Mapping[int, pa.ChunkedArray], rows: int) -> bool:
        """Tell whether a row may match, as far as these columns tell."""
        test = self.test and equalities(self.test, columns.keys())
        return test is not None and bool(pc.any(evaluate(test, columns.__getitem__, rows)).as_py())

    def _bloom_filters(
        self, source: Any, footer: Any, groups: Iterable[int], name: str, values: Iterable[_Value]
    ) -> Iterator[_Hit]:
        at = [i for i in range(footer.num_columns) if footer.schema.column(i).path == name] if footer else ()
        for i, number, value in product(at, groups, values):
            chunk = footer.row_group(number).column(i)
            offset = getattr(chunk, "bloom_filter_offset", None)  # which an old pyarrow does not show
            plain = value.in_parquet(chunk.physical_type, footer.schema.column(i).length)
            if offset is not None and plain is not None:
                source.seek(offset)
                if may_hold(source.read(chunk.bloom_filter_length or 1 << 24), plain):
                    yield "Bloom filter", value, ""


def equalities(bound: Any, columns: Iterable[int] | None = None) -> Any:
    """Return a filter without tests that name no value, None if nothing is left or rows may match without a value.

    With `columns`, also without tests of other columns, and one side of an OR may stay alone.
    """
    if isinstance(bound, ex.And | ex.Or):
        sides = [equalities(side, columns) for side in (bound.left, bound.right)]
        if None not in sides:
            return type(bound)(*sides)
        return None if isinstance(bound, ex.Or) and columns is None else sides[0] or sides[1]
    is_kept = isinstance(bound, ex.BoundEqualTo | ex.BoundIn)
    return bound if is_kept and (columns is None or bound.term.ref().field.field_id in columns) else None


def _needed(table: str, test: Any) -> list[frozenset[_Value]]:
    """Return the values that a row has, one of these sets of them."""
    if isinstance(test, ex.Or):
        return _needed(table, test.left) + _needed(table, test.right)
    if isinstance(test, ex.And):
        return [a | b for a, b in product(_needed(table, test.left), _needed(table, test.right))]
    values = test.value_set if isinstance(test, ex.BoundIn) else [test.literal.value]
    return [frozenset([_Value(table, test.term.ref().field, v)]) for v in values]


def _plain(codec: str, data: bytes) -> bytes:
    return decompress(codec, data, limit=json_limit(len(data)), kind="codec", field="codec")


def _moments(text: str) -> list[str]:
    """Return the forms that ISO 8601 and SQL have for a point in time: with `Z`, with more or fewer zeros."""
    second, fraction, zone = re.fullmatch(r"(.*?)(?:\.(\d*?)0*)?(\+00:00)?", text).groups()  # type: ignore[union-attr]
    fraction = fraction or ""
    digits = {f".{fraction.ljust(n, '0')}".rstrip(".") for n in (0, 3, 6, 9)}
    forms = [f"{second}{part}{end}" for part in digits for end in ("", *(("Z", "+00:00") if zone else ()))]
    return forms + [form.replace("T", " ") for form in forms]


def _strings(document: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of a JSON document, each with its key, and the keys."""
    if isinstance(document, str):
        yield key, document
    elif isinstance(document, list):
        yield from chain.from_iterable(_strings(item, key) for item in document)
    elif isinstance(document, dict):
        yield from (("", name) for name in document)
        yield from chain.from_iterable(_strings(item, name) for name, item in document.items())


def _ids(column: pa.Field) -> set[int | None]:
    return {field_id_of(column)}.union(*(_ids(column.type.field(i)) for i in range(column.type.num_fields)))


def _promoted(own: NestedField, chunks: Iterable[Any]) -> pa.ChunkedArray:
    kind = arrow_type(own.field_type)
    return pa.chunked_array([Projection().primitive(chunk, kind) for chunk in chunks], kind)


# --- the certificate --------------------------------------------------------------------------------------------------


class Certificate:
    """Searches the places of tables, before and after an erasure, and signs what it found.

    Parameters
    ----------
    wanted: tables, each with the bound filter of its rows.
    folders: other folders of the tables.
    path: where to write it.
    key: an Ed25519 private key, or the path of its PEM file.

    Raises InvalidInputError for a filter that names no value, another key, and a file that exists or has no folder;
    ImportError without the packages of the extra `certificate`.
    """

    def __init__(
        self, wanted: Sequence[tuple[Table, Any]], folders: Sequence[str], engine: Engine, path: Path, key: object
    ) -> None:
        self._path, self._key, self._engine, self._folders = path, _private_key(key), engine, folders
        try:
            self._path.open("x").close()  # now, and not first when the rows are gone
            self._path.unlink()
        except (OSError, ValueError) as e:
            raise _refused("this file cannot be made", "certificate", str(path), "a free name in a folder") from e
        self._begun, self.salt = datetime.now(UTC).isoformat(), secrets.token_bytes(32)
        self._tables = [(table, equalities(bound), sorted(table.metadata.snapshots)) for table, bound in wanted]
        self._needed = [one for table, test, _ in self._tables if test for one in _needed(table.name, test)]
        self._values = sorted(set().union(*self._needed), key=lambda v: (v.table, v.column.field_id, v.single))
        if not self._values:
            expected = "a test by = or IN, on each side of an OR"
            raise _refused("the filter names no value to search for", "where", None, expected)
        names, self._others = {table.name for table, *_ in self._tables}, ["not known: the catalog does not tell"]
        with suppress(DeletekitError):
            self._others = [self._hidden(n) for n in wanted[0][0].require_catalog().tables() if n not in names]
        self.before = self.look()

    def look(self) -> dict[str, list[SearchedFile]]:
        """Search all files of the tables, by table, and under "" the file of the catalog."""
        table, test, _ = self._tables[0]
        database = table.require_catalog().database_file
        ends = ("", "-wal", "-journal") if database else ()
        search = _Search(PyIcebergIO({}), table.name, table.metadata, test, self._values)
        own = [found for end in ends if (found := search(f"{database}{end}")) is not None]
        return {"": self._judged(own)} | {t.name: self._look(t, test) for t, test, _ in self._tables}

    def _look(self, table: Table, test: Any) -> list[SearchedFile]:
        reachability, rules = Reachability(table.io, self._engine), SpellingRules()
        known = read_latest(table, lambda now: {*reachability.files(now), *logged_files(now), table.metadata_location})
        documents, folders = [table.metadata], dict[str, SearchedFile]()
        for path in logged_files(table.metadata):
            with suppress(*UNREADABLE):
                documents.append(parse_metadata(table.io.read(path), path))
        paths = {rules.key(path): path for path in known}
        for folder in {*self._folders, *chain.from_iterable(map(own_folders, documents))}:
            folders[folder] = SearchedFile(path=folder)
            try:
                paths |= {rules.key(file.path): file.path for file in table.io.list(folder)}
            except (UnsupportedError, StorageError) as e:
                folders[folder].unsearched = f"only files that snapshots lead to: {e}"
        search = _Search(table.io, table.name, table.metadata, test, self._values)
        files = self._engine.map(search, sorted(paths.values()))
        return self._judged([*folders.values(), *(file for file in files if file is not None)])

    def _judged(self, files: list[SearchedFile]) -> list[SearchedFile]:
        """Decide what is certain, and what is only possible."""
        key = SpellingRules().key
        clean = {key(f.path) for f in files if not f.unsearched and "rows" not in {place for place, *_ in f.hits}}
        for file in files:
            certain = {(place, v) for place, v, of in file.hits if of is None or (of and key(of) not in clean)}
            held = {value for _, value in certain}
            if any(one <= held for one in self._needed):
                file.found = tuple(sorted({place for place, _ in certain}))
            else:
                file.possible = tuple(sorted({place for place, *_ in file.hits}))
        return files

    def write(self, after: Mapping[str, list[SearchedFile]], *, is_erased: bool) -> None:
        """Sign what was found before and after, and write it."""
        document = {
            "format": "deletekit erasure certificate 1",
            "deletekit": __version__,
            "begun": self._begun,
            "ended": datetime.now(UTC).isoformat(),
            "erased": is_erased,
            "values": [self._described(value) for value in self._values],
            "searched-forms": SEARCHED_FORMS,
            "never-searched": NEVER_SEARCHED,
            "tables": [self._table(table, snapshots) for table, _, snapshots in self._tables],
            "tables-not-searched": self._others,
            "before": self._told(self.before),
            "after": self._told(after),
        }
        signature = self._key.sign(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hex()
        with self._path.open("x", encoding="utf-8") as file:
            json.dump({"certificate": document, "signature": signature}, file, indent=1, sort_keys=True)

    def _described(self, value: _Value) -> dict[str, str]:
        digest = hmac.new(self.salt, value.single, hashlib.sha256).hexdigest()
        column, kind = value.column.name, str(value.column.field_type)
        return {"table": self._hidden(value.table), "column": column, "type": kind, "hmac-sha256": digest}

    def _table(self, table: Table, snapshots: list[int]) -> dict[str, Any]:
        now, name = table.metadata, self._hidden(table.name)
        refs = {self._hidden(name): ref["snapshot-id"] for name, ref in now.refs.items()}
        ids = {"snapshots-before": snapshots, "snapshots-after": sorted(now.snapshots)}
        return {"name": name, "uuid": now.table_uuid, "refs": refs, **ids}

    def _told(self, looks: Mapping[str, list[SearchedFile]]) -> dict[str, Any]:
        files = [replace(f, path=self._hidden(f.path)) for look in looks.values() for f in look]
        return {
            "searched": [{"path": f.path, "size": f.size, "as": f.how} | _hash(f) for f in files],
            "found": {f.path: list(map(self._hidden, f.found)) for f in files if f.found},
            "possible": {f.path: list(map(self._hidden, f.possible)) for f in files if f.possible},
            "not-searched": {f.path: self._hidden(f.unsearched) for f in files if f.unsearched},
        }

    def _hidden(self, text: str) -> str:
        """Return a text without the values: a path may have them."""
        if any(v.pattern.search(unquote(text)) for v in self._values):
            text = unquote(text)
        for number, value in enumerate(self._values, 1):
            for form in value.texts if value.needles else ():
                text = text.replace(form, f"<value {number}>")
            for _ in range(2):  # two words may share what is between them
                text = value.pattern.sub(rf"\1<value {number}>\2", text)
        return text


def _hash(file: SearchedFile) -> dict[str, str]:
    """Return the hash of a file, none of one that has a value: trying values could find it."""
    return {} if file.hits else {"sha256": file.sha256}


def _private_key(key: Any) -> Any:
    import xxhash  # noqa: F401, PLC0415  # of the extra `certificate`, as what follows
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    if isinstance(key, str | Path):
        with suppress(ValueError, TypeError):
            key = load_pem_private_key(Path(key).read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        expected = "an Ed25519 private key, or its PEM file without a password"
        raise _refused("not a key that can sign", "key", type(key).__name__, expected)
    return key


def _refused(message: str, field: str, found: str | None, expected: str) -> InvalidInputError:
    return InvalidInputError(message, kind="certificate", field=field, found=found, expected=expected)
