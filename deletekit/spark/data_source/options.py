"""Parse the options of the data source: which catalog, which table, which snapshot or changes.

An unknown option must be refused by name: with a misspelt `snapshot-id` another snapshot would be read. The names are
those of Iceberg's own Spark source, if it has one. Spark passes option names in lower case.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deletekit.errors import InvalidInputError
from deletekit.spark.session_catalogs import session_catalogs
from deletekit.table.metadata import MAIN
from deletekit.table.open_catalog import existing_catalog, load_catalog
from deletekit.table.table import Table, from_metadata, load_table

READ_OPTIONS = frozenset({"as-of-timestamp", "branch", "columns", "ref", "snapshot-id", "split-size", "tag", "where"})
CHANGES_OPTIONS = frozenset(
    {
        *("branch", "changes-from", "changes-inverse", "changes-on", "changes-mode", "changes-to"),
        *("columns", "ref", "tag", "where"),
    }
)
STREAM_READ_OPTIONS = frozenset(
    {"branch", "changes-on", "changes-mode", "columns", "max-snapshots-per-trigger", "starting", "where"}
)
WRITE_OPTIONS = frozenset({"branch"})
SUMMARY_PREFIX = "snapshot-property."
CATALOG_PREFIX = "catalog."
_CATALOG_OPTIONS = frozenset(
    {"audience", "credential", "oauth2-server-uri", "prefix", "resource", "scope", "token", "type", "uri", "warehouse"}
)
_CATALOG_PREFIXES = (
    "adls.", "client.", "dynamodb.", "gcs.", "glue.", "hdfs.", "header.", "hf.", "hive.", "io.", "oss.", "rest.", "s3.",
)  # fmt: skip
_DEFAULT_CATALOG = "local"


class SourceOptions:
    """The options of one read or write, as Spark passes them: text, with names in lower case."""

    def __init__(self, given: Mapping[str, str], known: frozenset[str]) -> None:
        self._given = {k: v for k, v in given.items() if k != "path"}
        self.path = given.get("path", "")
        self._catalog: dict[str, str] = {}
        for name, value in self._given.items():
            if name.startswith(CATALOG_PREFIX):
                self._catalog[name.removeprefix(CATALOG_PREFIX)] = value
            elif name in _CATALOG_OPTIONS or name.startswith(_CATALOG_PREFIXES):
                self._catalog[name] = value
            elif not (
                name in known or name == "catalog" or (name.startswith(SUMMARY_PREFIX) and known is WRITE_OPTIONS)
            ):
                expected = f"{', '.join(sorted(known))}, or a property of the catalog as {CATALOG_PREFIX}<name>"
                if known is WRITE_OPTIONS and name in ("delete-mode", "key"):
                    expected = "deletekit.upsert(table, frame, on=...): this data source appends"
                raise InvalidInputError("unknown option", kind="option", field=name, expected=expected)

    def get(self, name: str) -> str | None:
        """Return the value of an option, or None."""
        return self._given.get(name)

    @property
    def snapshot(self) -> dict[str, Any]:
        """Return which snapshot to read, as `resolve_snapshot` takes it. Raise InvalidInputError if two are named."""
        given = [n for n in ("snapshot-id", "as-of-timestamp", "ref", "branch", "tag") if n in self._given]
        if len(given) > 1:
            raise InvalidInputError("name one state to read", kind="time-travel", field=", ".join(given))
        as_of = self.get("as-of-timestamp")
        return {
            "snapshot_id": self.number("snapshot-id"),
            "ref": self.get("ref") or self.get("branch") or self.get("tag") or MAIN,
            "as_of": int(as_of) if as_of is not None and as_of.isdecimal() else as_of,
        }

    @property
    def columns(self) -> list[str] | None:
        """Return the names in the option `columns`, or None. Raise InvalidInputError for no name or one name twice."""
        chosen = self.get("columns")
        names = None if chosen is None else names_of(chosen)
        if names is not None and (not names or len(set(names)) < len(names)):
            message = "bad list of columns"
            raise InvalidInputError(message, kind="option", field="columns", found=chosen, expected="names")
        return names

    def number(self, name: str) -> int | None:
        """Return an option as a positive whole number, or None. Raise InvalidInputError for another value."""
        text = self.get(name)
        if text is None:
            return None
        if not text.isdecimal() or int(text) == 0:
            raise InvalidInputError("bad option", kind="option", field=name, found=text, expected="a positive number")
        return int(text)

    @property
    def summary(self) -> dict[str, str]:
        """Entries for the snapshot's summary, from `snapshot-property.<name>`."""
        return {k.removeprefix(SUMMARY_PREFIX): v for k, v in self._given.items() if k.startswith(SUMMARY_PREFIX)}

    def open_table(self) -> Table:
        """Open the table that `load(...)` or `save(...)` names: `namespace.table`, a metadata file, or a directory.

        Raises InvalidInputError if no catalog is named and the session has none; NotFoundError if there is no table.
        """
        if not self.path:
            raise InvalidInputError("no table named", "identifier", "path", expected='load("namespace.table")')
        if "/" in self.path or os.sep in self.path or self.path.endswith((".metadata.json", ".metadata.json.gz")):
            return from_metadata(self.path.removeprefix("file://"), **self._catalog)
        return load_table(self._open_catalog(), self.path)

    def _open_catalog(self) -> Any:
        name, properties = self.get("catalog"), self._catalog
        if not properties:
            known = session_catalogs()
            name = name or next(iter(known), None)  # the one that the session was started with
            properties = known.get(name or "", {})
            if not properties and name is None:
                expected = "the options of a catalog (warehouse, or type and uri), or the name of one as catalog"
                raise InvalidInputError("no catalog named", "catalog", "warehouse", expected=expected)
        if set(properties) == {"warehouse"}:
            warehouse = Path(properties["warehouse"].removeprefix("file://"))
            return existing_catalog(warehouse, name or _DEFAULT_CATALOG)
        return load_catalog(name or _DEFAULT_CATALOG, **properties)


def read_options(given: Mapping[str, str]) -> frozenset[str]:
    """Return the options of what is read: rows, changes, or a stream of changes, which only its options tell."""
    if "starting" in given:
        return STREAM_READ_OPTIONS
    return CHANGES_OPTIONS if any(name.startswith("changes-") for name in given) else READ_OPTIONS


def names_of(text: str) -> list[str]:
    """Return the column names of an option: separated by commas, or as a JSON list if a name has a comma.

    Raises InvalidInputError for a list of something else.
    """
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",") if name.strip()]
    names: Any = None
    with suppress(ValueError):
        names = json.loads(text)
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise InvalidInputError("bad list of columns", kind="option", found=text, expected="a JSON list of names")
    return names
