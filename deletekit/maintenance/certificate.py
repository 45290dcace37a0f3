"""Make the certificate of an erasure: which files were searched for which values, and what was found.

It promises only what was searched. The values stand in it as HMACs with a salt that it does not have, because a hash of
an address or a number is found by trying. What verifies it is `verify_certificate.py`, which needs no deletekit.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyiceberg.expressions import BooleanExpression

from deletekit.engines.local import Engine
from deletekit.errors import UNREADABLE, DeletekitError, InvalidInputError, StorageError, UnsupportedError
from deletekit.maintenance.reachable import Reachability, read_latest
from deletekit.maintenance.value_search import SearchedFile, SearchedTable, SearchedValue, ValueSearch, equalities
from deletekit.table.any_catalog import Catalog
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.locations import SpellingRules
from deletekit.table.metadata import parse_metadata
from deletekit.table.metadata_file import logged_files
from deletekit.table.own_places import own_folders
from deletekit.table.table import Table
from deletekit.version import __version__

_CLAIM = (
    "erased says whether the rows were removed and the values were found in no file that was searched after it. "
    "Nothing is said of any other place or form."
)
_FORMS = (
    "rows of Parquet, ORC and Avro: by the type of the column, hidden rows and keys and rows of delete files too",
    "dictionaries of text, statistics and Bloom filters of Parquet; a Bloom filter may err, so it is only possible",
    "manifests and lists: bounds in Iceberg's single-value form, partitions, paths",
    "truncated bounds in manifests; of a file whose rows were searched without a find, they are only possible",
    "JSON (gzip too), text, paths, properties and the rows of SQLite: as a word of text, also quoted for URLs or JSON",
    "text of a date or time is ISO 8601, of binary hex and base64",
    "blobs of Puffin, decompressed, SQLite and unknown files: the bytes of values of text or binary, from six bytes on",
)
_NEVER = (
    "backups, caches, old versions of objects, links, and what is outside of the folders and files listed here",
    "other catalogs and tables; a catalog that is not a SQLite file",
    "values in another case or form, hashed, encrypted, split or computed: buckets, months, sketches, key indexes",
    "names of tables, folders of tables and columns; defaults of columns; JSON numbers; counters of the specification",
    "page indexes of Parquet and statistics of ORC, which are those of the rows",
)


@dataclass
class Look:
    """What one search of a table's files found: path -> places, places that are only possible, reason."""

    files: list[SearchedFile]
    folders: Sequence[str] = ()
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)
    possible: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unsearched: dict[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of an `Erasure`."""
        return {"found": self.found, "possible": self.possible, "unsearched": self.unsearched}


class Certificate:
    """Searches the places of tables, before and after an erasure, and signs what it found.

    Parameters
    ----------
    wanted: tables, each with the bound filter of its rows.
    path: where to write; None for a dry run, which only searches.
    key: an Ed25519 private key, or the path of its PEM file.

    Raises InvalidInputError for a filter that names no value, another key, and a file that exists or has no folder;
    ImportError without the package `cryptography`.
    """

    def __init__(
        self, wanted: Sequence[tuple[Table, BooleanExpression]], engine: Engine, path: str | Path, key: object
    ) -> None:
        self.path, self._key, self._engine = Path(path), _private_key(key), engine
        if self.path.exists() or not self.path.parent.is_dir():
            message, expected = "a certificate needs a new file", "a name that is free, in a folder that exists"
            raise InvalidInputError(
                message, kind="certificate", field="certificate", found=str(path), expected=expected
            )
        self._begun, self.salt = datetime.now(UTC), secrets.token_bytes(32)
        self._tables = {
            table.name: (
                table,
                SearchedTable(
                    name=table.name,
                    metadata=table.metadata,
                    test=equalities(bound, lambda _: True, of_or=False),
                ),
            )
            for table, bound in wanted
        }
        self._needed = [one for _, searched in self._tables.values() for one in searched.needed]
        self._values = tuple(sorted(set().union(*self._needed), key=lambda v: (v.table, v.column.field_id, v.single)))
        if not self._values:
            message, expected = "a certificate needs values to search for", "`column = value` or `column IN (...)`"
            raise InvalidInputError(message, kind="certificate", field="where", expected=expected)
        self._catalog: Catalog | None = wanted[0][0].require_catalog()
        self.before = self.look()

    def look(self) -> dict[str, Look]:
        """Search all files of the tables, by name, and under "" the catalog's."""
        database = self._catalog.database_file if self._catalog else None
        _, first = next(iter(self._tables.values()))
        paths = [f"{database}{end}" for end in ("", "-wal", "-journal")] if database else []
        return {"": self._judged(list(map(ValueSearch(PyIcebergIO({}), first, self._values), paths)))} | {
            name: self._look(*pair) for name, pair in self._tables.items()
        }

    def _look(self, table: Table, searched: SearchedTable) -> Look:
        reachability = Reachability(table.io, self._engine)
        known = read_latest(table, lambda now: {*reachability.files(now), *logged_files(now), table.metadata_location})
        documents = [table.metadata]
        for path in logged_files(table.metadata):
            with suppress(*UNREADABLE):
                documents.append(parse_metadata(table.io.read(path), path))
        folders = list(dict.fromkeys(folder for document in documents for folder in own_folders(document)))
        rules, failed = SpellingRules(), dict[str, str]()
        paths = {rules.key(path): path for path in known}
        for folder in folders:
            try:
                paths |= {rules.key(file.path): file.path for file in table.io.list(folder)}
            except (UnsupportedError, StorageError) as e:
                failed[folder] = f"only files that snapshots lead to: {e}"
        search = ValueSearch(table.io, replace(searched, metadata=table.metadata), self._values)
        look = self._judged(list(self._engine.map(search, sorted(paths.values()))))
        look.folders, look.unsearched = folders, look.unsearched | failed
        return look

    def _judged(self, files: list[SearchedFile]) -> Look:
        rules, look = SpellingRules(), Look(files)
        clean = {rules.key(f.path) for f in files if f.sha256 and f.reason is None and "rows" not in f.places}
        for file in files:
            for value, path in file.cuts:
                places = file.maybe if rules.key(path) in clean else file.places
                places.setdefault("truncated bounds", set()).add(value)
            holds = file.holds(self._needed)
            if holds:
                look.found[file.path] = tuple(sorted(file.places))
            elif file.places or file.maybe:
                look.possible[file.path] = tuple(sorted({*file.places, *file.maybe}))
            if file.reason is not None:
                look.unsearched[file.path] = file.reason
        return look

    def write(self, after: Mapping[str, Look], *, is_erased: bool) -> None:
        """Sign what was found before and after, and write it. Raise StorageError."""
        document = {
            "format": "deletekit erasure certificate 1",
            "deletekit": __version__,
            "begun": self._begun.isoformat(),
            "ended": datetime.now(UTC).isoformat(),
            "erased": is_erased,
            "claim": _CLAIM,
            "values": [self._value(v) for v in self._values],
            "forms": _FORMS,
            "never-searched": _NEVER,
            "tables": [self._table(table) for table, _ in self._tables.values()],
            "tables-not-searched": self._others(),
            "before": self._shown(self.before),
            "after": self._shown(after),
        }
        signed = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        whole = {"certificate": document, "signature": self._key.sign(signed).hex()}
        with self.path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(whole, indent=1, sort_keys=True) + "\n")

    def _value(self, value: SearchedValue) -> dict[str, str]:
        digest = hmac.new(self.salt, value.single, hashlib.sha256).hexdigest()
        kind = str(value.column.field_type)
        return {"table": self._hidden(value.table), "column": value.column.name, "type": kind, "hmac-sha256": digest}

    def _table(self, table: Table) -> dict[str, Any]:
        metadata, (_, old) = table.metadata, self._tables[table.name]
        return {
            "name": self._hidden(table.name),
            "uuid": metadata.table_uuid,
            "location": self._hidden(metadata.location),
            "snapshots-before": sorted(old.metadata.snapshots),
            "snapshots-after": sorted(metadata.snapshots),
            "refs": {self._hidden(name): ref["snapshot-id"] for name, ref in metadata.refs.items()},
        }

    def _others(self) -> list[str] | str:
        try:
            return [self._hidden(n) for n in (self._catalog.tables() if self._catalog else ()) if n not in self._tables]
        except DeletekitError as e:
            return self._hidden(f"not known: {e}")

    def _shown(self, looks: Mapping[str, Look]) -> dict[str, Any]:
        def places(name: str) -> dict[str, list[str]]:
            return {
                self._hidden(p): [self._hidden(w) for w in at]
                for k in looks.values()
                for p, at in getattr(k, name).items()
            }

        files = [f for look in looks.values() for f in look.files if f.sha256]
        return {
            "folders": [self._hidden(folder) for look in looks.values() for folder in look.folders],
            "searched": [
                {"path": self._hidden(f.path), "size": f.size, "sha256": f.sha256, "as": f.how} for f in files
            ],
            "found": places("found"),
            "possible": places("possible"),
            "not-searched": {
                self._hidden(p): self._hidden(why) for k in looks.values() for p, why in k.unsearched.items()
            },
        }

    def _hidden(self, text: str) -> str:
        """Return a text without the values: a path may have them."""
        for number, value in enumerate(self._values, 1):
            for form in value.texts if value.needles else ():
                text = text.replace(form, f"<value {number}>")
            text = re.sub(
                value.pattern, rf"\1<value {number}>\2", re.sub(value.pattern, rf"\1<value {number}>\2", text)
            )
        return text


def _private_key(key: Any) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  # only a certificate needs the package
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    found = key
    if isinstance(key, str | Path):
        with suppress(ValueError, TypeError, UnsupportedAlgorithm):
            found = load_pem_private_key(Path(key).read_bytes(), None)
    if not isinstance(found, Ed25519PrivateKey):
        message, expected = (
            "not a key that signs a certificate",
            "an Ed25519 private key, or its PEM file without password",
        )
        raise InvalidInputError(message, kind="certificate", field="key", found=type(found).__name__, expected=expected)
    return found
