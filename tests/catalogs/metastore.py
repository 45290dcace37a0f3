"""A catalog made as pyiceberg's Hive, Glue and DynamoDB ones are: it keeps pointers, and pyiceberg does the rest.

pyiceberg's own code applies the updates and writes the metadata file, so this shows what those catalogs can hold
without a server of theirs. Pointers are files, swapped under a lock; several processes may share them.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER


class Metastore(MetastoreCatalog):
    """Pointers in `<warehouse>/pointers/<namespace>/<table>`."""

    def create_table(
        self,
        identifier: Any,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: Any = None,
    ) -> Table:
        staged = self._create_staged_table(
            identifier, schema, location, partition_spec, sort_order, dict(properties or {})
        )
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        with self._locked():
            pointer = self._pointer(identifier)
            if pointer.exists():
                raise TableAlreadyExistsError(str(identifier))
            pointer.write_text(staged.metadata_location)
        return self.load_table(identifier)

    def load_table(self, identifier: Any) -> Table:
        pointer = self._pointer(identifier)
        if not pointer.exists():
            raise NoSuchTableError(str(identifier))
        location = pointer.read_text()
        io = self._load_file_io({}, location)
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return Table(Catalog.identifier_to_tuple(identifier), metadata, location, io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        current = self.load_table(table.name())
        staged: StagedTable = self._update_and_stage_table(current, table.name(), requirements, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        with self._locked():
            pointer = self._pointer(table.name())
            if pointer.read_text() != current.metadata_location:
                raise CommitFailedException("someone else was first")
            pointer.write_text(staged.metadata_location)
        return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)

    def drop_table(self, identifier: Any) -> None:
        pointer = self._pointer(identifier)
        if not pointer.exists():
            raise NoSuchTableError(str(identifier))
        pointer.unlink()

    def create_namespace(self, namespace: Any, properties: Any = None) -> None:
        del properties
        try:
            self._folder(namespace).mkdir(parents=True)
        except FileExistsError as e:
            raise NamespaceAlreadyExistsError(str(namespace)) from e

    def list_tables(self, namespace: Any) -> list[tuple[str, ...]]:
        self.load_namespace_properties(namespace)
        name = Catalog.identifier_to_tuple(namespace)
        return [(*name, p.name) for p in sorted(self._folder(namespace).iterdir())]

    def list_namespaces(self, namespace: Any = ()) -> list[tuple[str, ...]]:
        del namespace
        return [(p.name,) for p in sorted(self._root.iterdir()) if p.is_dir()]

    def load_namespace_properties(self, namespace: Any) -> dict[str, str]:
        if not self._folder(namespace).is_dir():
            raise NoSuchNamespaceError(str(namespace))
        return {}

    @property
    def _root(self) -> Path:
        root = Path(self.properties["warehouse"]) / "pointers"
        root.mkdir(parents=True, exist_ok=True)
        return root

    def _folder(self, namespace: Any) -> Path:
        return self._root / self.identifier_to_database(namespace)  # one level, as in Hive and Glue

    def _pointer(self, identifier: Any) -> Path:
        *namespace, name = Catalog.identifier_to_tuple(identifier)
        return self._folder(tuple(namespace)) / name

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._root.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    # What no test here needs, and Catalog insists on.
    def _absent(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    register_table = rename_table = drop_namespace = update_namespace_properties = _absent
    list_views = load_view = register_view = drop_view = view_exists = _absent
