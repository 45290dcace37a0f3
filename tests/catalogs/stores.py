"""The kinds of catalog under one contract, each opened as its users open it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog import load_catalog

import deletekit as dk
from tests.invariants import sink_files
from tests.stored import avro
from tests.tables import items

KINDS = {
    "local": (1, 2, 3),
    "sqlite": (1, 2, 3),
    "memory": (1, 2, 3),
    "postgres": (1, 2, 3),
    "rest": (1, 2, 3),
    "metastore": (1, 2),
}
"""The format versions each kind takes."""
SQL = ("local", "sqlite", "memory", "postgres")

SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), ("category", pa.string()), ("value", pa.float64())])
ROWS = items((1, "a", 10.0), (2, "b", 20.0), (3, "c", 30.0))
MORE = items((4, "a", 40.0), (5, "b", 50.0))
QUICK = {"commit.status-check.num-retries": "2", "commit.status-check.min-wait-ms": "20"}

_numbers = count()


@dataclass
class Store:
    """One catalog, and a namespace in it that no other test uses."""

    kind: str
    folder: Path
    properties: dict[str, str]
    name: str = "local"
    namespace: str = field(default_factory=lambda: f"ns{next(_numbers)}")
    _opened: list[Any] = field(default_factory=list)

    def open(self) -> dk.Catalog:
        """Open it anew, as another process would; an in-memory catalog is the same one each time."""
        if self.kind == "memory" and self._opened:
            return self._opened[0]
        make: Callable[..., dk.Catalog] = dk.local_catalog if self.kind == "local" else dk.load_catalog
        catalog = make(self.folder, self.name) if self.kind == "local" else make(self.name, **self.properties)
        self._opened.append(catalog)
        return catalog

    def peer(self) -> PyIcebergCatalog:
        """Open it with pyiceberg alone."""
        if self.kind == "memory":
            return self.open().pyiceberg
        catalog = load_catalog(self.name, **self.properties)
        self._opened.append(catalog)
        return catalog

    def close(self) -> None:
        """Let connections go, which Python would warn about."""
        for catalog in self._opened:
            inner = getattr(catalog, "pyiceberg", catalog)
            inner.engine.dispose() if hasattr(inner, "engine") else inner.close()

    def full(self, name: str) -> str:
        return f"{self.namespace}.{name}"

    def create(self, name: str, schema: pa.Schema, **options: Any) -> dk.Table:
        """Create a table in this store's own folder."""
        location = options.pop("location", str(self.folder / self.namespace / name))
        return dk.create_table(self.open(), self.full(name), schema, location=location, **options)

    def load(self, name: str) -> dk.Table:
        """Open a table through a catalog of its own."""
        return dk.load_table(self.open(), self.full(name))


def on_disk(location: str) -> set[str]:
    """Every file below a table's location, but for the checksums that Hadoop, in the REST server, puts beside."""
    return {str(path) for path in Path(location).rglob("*") if path.is_file() and path.suffix != ".crc"}


def leftovers(table: dk.Table) -> set[str]:
    """Files below the table's location that nothing in its metadata leads to, found with json and fastavro."""
    metadata = json.loads(Path(table.metadata_location).read_bytes())
    reached = {table.metadata_location, *(entry["metadata-file"] for entry in metadata.get("metadata-log", ()))}
    for snapshot in metadata["snapshots"]:
        reached |= {snapshot["manifest-list"], *sink_files(metadata, snapshot)}
        for listed in avro(snapshot["manifest-list"]):
            if listed["manifest_path"] not in reached:
                reached.add(listed["manifest_path"])
                reached |= {entry["data_file"]["file_path"] for entry in avro(listed["manifest_path"])}
    return on_disk(table.location) - reached
