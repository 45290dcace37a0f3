"""The handle that verbs take: a table of a catalog, at the state it was last read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from deletekit.deferred import Deferred
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.notebook_html import facts_html, records_html
from deletekit.public import public_methods
from deletekit.table.catalog import Catalog, TableState
from deletekit.table.file_io import FileIO, PyIcebergIO
from deletekit.table.identifier import Identifier, to_identifier
from deletekit.table.metadata import Snapshot, TableMetadata, parse_metadata
from deletekit.table.metadata_file import METADATA_SUFFIXES, metadata_number
from deletekit.table.open_catalog import wrap_catalog

if TYPE_CHECKING:
    from pyiceberg import table as theirs
else:
    theirs = Deferred("pyiceberg.table")


@public_methods
class Table:
    """A table handle. Reads see the state last loaded; a verb that writes refreshes it first and leaves it current.

    Attributes
    ----------
    identifier: namespace and name, as a tuple.
    catalog: the catalog, or None for a table opened by its metadata file, which is read-only.
    """

    def __init__(self, identifier: Identifier, state: TableState, catalog: Catalog | None = None) -> None:
        self.identifier = identifier
        self.catalog = catalog
        self._state = state

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return ".".join(self.identifier)

    @property
    def metadata(self) -> TableMetadata:
        return self._state.metadata

    @property
    def metadata_location(self) -> str:
        return self._state.metadata_location

    @property
    def io(self) -> FileIO:
        return self._state.io

    @property
    def state(self) -> TableState:
        return self._state

    @property
    def schema(self) -> Schema:
        """The current schema (pyiceberg's class)."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec (pyiceberg's class)."""
        return self.metadata.spec

    @property
    def format_version(self) -> int:
        return self.metadata.format_version

    @property
    def properties(self) -> dict[str, str]:
        return self.metadata.properties

    @property
    def location(self) -> str:
        return self.metadata.location

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The head of `main`, or None before the first commit."""
        return self.metadata.current_snapshot

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots that the table has, in the order of their commits; `refresh` reads newer ones."""
        return list(self.metadata.snapshots.values())

    def refresh(self) -> Table:
        """Read the current state from the catalog, and return the handle. A read-only table does not change."""
        if self.catalog is not None:
            self._state = self.catalog.load(self.identifier)
        return self

    def adopt(self, state: TableState) -> None:
        """Make `state`, the result of a commit, the handle's state."""
        self._state = state

    def require_catalog(self) -> Catalog:
        """Return the catalog to commit to. Raises InvalidInputError for a table opened by its metadata file."""
        if self.catalog is None:
            message = "table is read-only: it was opened without a catalog"
            raise InvalidInputError(message, kind="read-only", file=self.metadata_location)
        return self.catalog

    def __repr__(self) -> str:
        snapshot = self.current_snapshot
        head = f"snapshot {snapshot.snapshot_id}" if snapshot else "no snapshot"
        return f"Table({self.name!r}, v{self.format_version}, {head})"

    def _repr_html_(self) -> str:
        snapshot = self.current_snapshot
        facts: dict[str, Any] = {"format version": self.format_version, "location": self.location}
        if snapshot is not None:
            facts |= {"snapshot": snapshot.snapshot_id, "timestamp_ms": snapshot.timestamp_ms}
            facts |= {n: v for n, v in snapshot.summary.items() if n == "operation" or n.startswith("total-")}
        own = [{"field id": f.field_id, "column": f.name, "type": f.field_type} for f in self.schema.fields]
        return f"{facts_html(self.name, facts)}\n{records_html('schema', own)}"


def load_table(catalog: Catalog, identifier: str | Sequence[str]) -> Table:
    """Load a table. Raises NotFoundError, and UnsupportedError for format version 4 and later.

    Examples
    --------
    >>> dk.load_table(catalog, "demo.users")
    Table('demo.users', v3, snapshot ...)
    """
    key = to_identifier(identifier)
    return Table(key, catalog.load(key), catalog)


def from_pyiceberg(table: theirs.Table) -> Table:
    """Return the deletekit handle of a pyiceberg `Table`, on the same catalog and storage."""
    catalog = wrap_catalog(table.catalog)
    key = tuple(table.name())
    return Table(key, catalog.load(key), catalog)


def from_metadata(location: str | Path, **properties: Any) -> Table:
    """Open anyone's table read-only, by its metadata file or (on a local disk) by its directory.

    Parameters
    ----------
    location: a `*.metadata.json` file, or a directory whose `metadata/` holds some. Then the newest is opened.
    properties: storage properties, as pyiceberg's FileIO takes them (`s3.endpoint`, ...).

    Raises NotFoundError if there is no metadata file.
    """
    path = str(location)
    has_scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) is not None
    if not path.endswith(METADATA_SUFFIXES):
        if has_scheme and not path.startswith("file:"):
            message = "a directory can be opened on a local disk only"
            expected = "the *.metadata.json file of the table"
            raise InvalidInputError(message, kind="table-location", field="location", found=path, expected=expected)
        path = _newest_metadata(Path(path))
    elif not has_scheme:
        path = str(Path(path).absolute())
    io = PyIcebergIO(properties, path)
    metadata = parse_metadata(io.read(path), path)
    name = metadata.location.rsplit("/", 2)[-2:]
    return Table(tuple(name), TableState(metadata, path, io))


def _newest_metadata(directory: Path) -> str:
    folder = directory / "metadata" if (directory / "metadata").is_dir() else directory
    found = [p for suffix in METADATA_SUFFIXES for p in folder.glob(f"[!.]*{suffix}")]
    if not found:
        message, expected = "no table metadata here", "*.metadata.json"
        raise NotFoundError(message, kind="table-not-found", file=str(directory), expected=expected)
    return str(max(found, key=lambda p: (metadata_number(p.name), p.stat().st_mtime_ns)).absolute())
