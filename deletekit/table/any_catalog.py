"""What deletekit needs of a catalog, and does the same way with all of them.

Each request goes through pyiceberg, unless a kind of catalog needs a way of its own (`catalog.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deletekit.deferred import Deferred
from deletekit.errors import CommitConflictError, InvalidInputError, UnsupportedError
from deletekit.public import public_methods
from deletekit.table.catalog_errors import asking
from deletekit.table.file_io import FileIO
from deletekit.table.identifier import Identifier, check_new, dotted, to_identifier
from deletekit.table.locations import normalised
from deletekit.table.metadata import TableMetadata

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pyiceberg.catalog import Catalog as PyIcebergCatalog
else:
    sa = Deferred("sqlalchemy")

Json = Mapping[str, Any]
TableChange = tuple[Identifier, Sequence[Json], Sequence[Json]]
"""A table, the requirements that must hold for it, and the updates that are applied to it: what `commit` takes."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one metadata file, and the storage its files are on."""

    metadata: TableMetadata
    metadata_location: str
    io: FileIO


@public_methods
class Catalog(ABC):
    """What deletekit needs of a catalog. `pyiceberg` is the wrapped catalog, for everything else.

    Whatever the wrapped catalog raises becomes a DeletekitError with that as its cause.
    """

    pyiceberg: "PyIcebergCatalog"

    @property
    def name(self) -> str:
        """The catalog's name. On a shared SQL catalog Spark must use the same name: rows are keyed by it."""
        return self.pyiceberg.name

    @abstractmethod
    def load(self, identifier: Identifier) -> TableState:
        """Return the current state. Raises NotFoundError."""

    @abstractmethod
    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        """Register a new table, which may already have a snapshot.

        Raises InvalidInputError if it exists, UnsupportedError for an unwritable version, CommitStateUnknownError if
        the catalog's answer was lost.
        """

    @abstractmethod
    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        """Apply updates if the requirements hold.

        Raises CommitConflictError if they do not hold or another writer wins, CommitStateUnknownError if the catalog's
        answer was lost. After any other DeletekitError the table certainly did not change.
        """

    def check_transactions(self) -> None:
        """Raise UnsupportedError if this catalog cannot commit several tables in one transaction."""
        found = type(self.pyiceberg).__name__
        message, expected = "this catalog cannot commit several tables in one transaction", "a REST or SQL catalog"
        raise UnsupportedError(message, kind="catalog-transaction", field=self.name, found=found, expected=expected)

    def commit_together(self, changes: Sequence[TableChange]) -> list[TableState]:
        """Apply changes of several tables, all in one transaction of the catalog or none. Raises as `commit` does.

        Raises UnsupportedError if the catalog has no such transactions.
        """
        del changes
        self.check_transactions()
        return []

    def check_writable(self, format_version: int) -> None:  # noqa: B027  # most catalogs take every version
        """Raise UnsupportedError, before anything is written, if this catalog does not support the format version."""

    @property
    def database_file(self) -> str | None:
        """The path of the SQLite file that the catalog is; None for any other catalog."""
        return None

    def default_location(self, identifier: Identifier) -> str:
        """Return the location of a table that names none; "" if the catalog itself chooses."""
        del identifier
        return ""

    def list_tables(self, namespace: str | Sequence[str]) -> list[Identifier]:
        """List the identifiers of the tables of a namespace. Raises NotFoundError."""
        levels = namespace if isinstance(namespace, str) else tuple(namespace)
        with asking(levels if isinstance(levels, str) else dotted(levels)):
            return [tuple(i) for i in self.pyiceberg.list_tables(levels)]

    def list_namespaces(self) -> list[Identifier]:
        """List all top-level namespaces."""
        with asking(self.name):
            return [tuple(n) for n in self.pyiceberg.list_namespaces()]

    def tables(self) -> list[str]:
        """List the names of all tables, in namespaces of all levels, sorted."""
        names, todo = list[str](), self.list_namespaces()
        while todo:
            namespace = todo.pop()
            names += [".".join(table) for table in self.list_tables(namespace)]
            with suppress(Exception):  # a catalog whose namespaces have one level may refuse the question
                todo += [tuple(n) for n in self.pyiceberg.list_namespaces(namespace) if len(n) > len(namespace)]
        return sorted(names)

    def create_namespace(self, namespace: str | Sequence[str], properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace. Raises InvalidInputError if there is one, or if the catalog does not take such a name."""
        levels = _levels(namespace)
        check_new(levels, "namespace")
        with asking(".".join(levels)):
            self.pyiceberg.create_namespace(levels, dict(properties or {}))

    def table_exists(self, identifier: str | Sequence[str]) -> bool:
        """Tell whether there is a table of this name, without reading it."""
        key = to_identifier(identifier)
        with asking(dotted(key)):
            return bool(self.pyiceberg.table_exists(key))

    def rename_table(self, identifier: str | Sequence[str], to: str | Sequence[str]) -> None:
        """Give a table another name, in a namespace that exists. Its files stay where they are.

        Raises NotFoundError without the table or the namespace, InvalidInputError if the new name is taken,
        UnsupportedError for a catalog that cannot rename.
        """
        old, new = to_identifier(identifier), to_identifier(to)
        check_new(new, "to")
        with asking(dotted(old)):
            self.pyiceberg.rename_table(old, new)

    def register_table(self, identifier: str | Sequence[str], metadata_location: str) -> None:
        """Make a table of a metadata file that is there, such as one of a dropped table. No file is written.

        Two tables on one metadata file would remove each other's files: register it only where no catalog has it.

        Raises InvalidInputError if the name is taken, NotFoundError without the file, FormatError for one that is no
        table metadata, UnsupportedError for a catalog that cannot register.
        """
        key = to_identifier(identifier)
        self._ensure_namespace(key)
        with asking(dotted(key)):
            self.pyiceberg.register_table(key, normalised(metadata_location, "metadata_location"))

    def drop_table(self, identifier: str | Sequence[str]) -> None:
        """Remove a table from the catalog. Its files stay. Raises NotFoundError."""
        key = to_identifier(identifier)
        with asking(dotted(key)):
            self.pyiceberg.drop_table(key)

    def drop_unchanged(self, identifier: Identifier, metadata_location: str) -> None:
        """Remove a table from the catalog if this is its metadata file. Its files stay.

        Only a SQL catalog drops and compares in one step. Others are asked just before.

        Raises CommitConflictError if the table changed or another one has its name now, NotFoundError without a table,
        CommitStateUnknownError if the catalog's answer was lost.
        """
        found = self.load(identifier).metadata_location
        if found != metadata_location:
            raise table_changed(found, metadata_location)
        self.drop_table(identifier)

    def _ensure_namespace(self, identifier: Identifier) -> None:
        check_new(identifier)
        # pyiceberg looks first and then inserts a row; two processes may do so at once.
        with asking(dotted(identifier[:-1])), suppress(sa.exc.IntegrityError):
            self.pyiceberg.create_namespace_if_not_exists(identifier[:-1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def table_changed(found: str, expected: str) -> CommitConflictError:
    """Return the error for a table that is not dropped, because it is another one by now, or has other files."""
    message = "the table was changed, or another one has its name now"
    return CommitConflictError(message, field="metadata_location", found=found, expected=expected)


def _levels(namespace: str | Sequence[str]) -> Identifier:
    levels = tuple(namespace.split(".")) if isinstance(namespace, str) else tuple(namespace)
    if not levels or not all(levels):
        raise InvalidInputError("bad namespace", "identifier", "namespace", namespace, "a name")
    return levels
