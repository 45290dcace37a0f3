"""The object store and the catalogs of a simulated world, as the library sees them, and what may go wrong with each."""

import io
from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError

import deletekit as dk
from deletekit.errors import storage_error
from deletekit.table.catalog import SqlStore
from deletekit.table.file_io import FileInfo, existing_file, missing_file, whole
from deletekit.table.identifier import Identifier
from deletekit.table.metadata_file import metadata_file_bytes, metadata_file_path, with_metadata_log
from deletekit.table.metadata_update import apply_updates, check_requirements
from deletekit.table.pyiceberg_store import PyIcebergStore
from tests.world.model import Model
from tests.world.world import World

NAME = ("world", "t")


class Store:
    """An object store: a file is written whole, once, and only if there is none. It is a FileIO for every process."""

    def __init__(self, world: World, model: Model) -> None:
        self.world, self.model, self.files = world, model, model.files
        self.modified: dict[str, float] = {}

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data: bytes = self._ask("read", "read", path, lambda: self._bytes(path))
        return whole(data[offset:] if length is None else data[offset : offset + length], path, length)

    def size(self, path: str) -> int:
        return int(self._ask("read", "size", path, lambda: len(self._bytes(path))))

    def exists(self, path: str) -> bool:
        return bool(self._ask("read", "exists", path, lambda: path in self.files))

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        content = data.to_pybytes() if isinstance(data, pa.Buffer) else bytes(data)
        op = self.model.op()
        torn = partial(self._put, path, content[: len(content) // 2], op)
        self._ask("write", "write", path, partial(self._put, path, content, op), torn=torn)

    def create(self, path: str) -> Any:
        if path in self.files:
            raise existing_file(path)
        return _Writer(self, path)

    def delete(self, path: str) -> None:
        self._ask("delete", "delete", path, partial(self._remove, path))

    def list(self, prefix: str) -> Iterator[FileInfo]:
        return iter(self._ask("read", "list", prefix, partial(self._listed, prefix.rstrip("/") + "/")))

    def _listed(self, prefix: str) -> Sequence[FileInfo]:
        seen = self.world.now - self.world.list_lag
        found = [(p, d) for p, d in sorted(self.files.items()) if p.startswith(prefix) and self.modified[p] <= seen]
        return [FileInfo(path=p, size=len(d), modified_ms=int(self.modified[p] * 1000)) for p, d in found]

    def _bytes(self, path: str) -> bytes:
        if path not in self.files:
            raise missing_file(path)
        return self.files[path]

    def _put(self, path: str, data: bytes, op: Any) -> None:
        if path in self.files:
            raise existing_file(path)
        self.files[path], self.modified[path] = data, self.world.now
        if op is not None:
            op.wrote.add(path)

    def _remove(self, path: str) -> None:
        self.model.removed(path)
        self.files.pop(path, None)

    def _ask(self, kind: str, name: str, path: str, effect: Any, **ways: Any) -> Any:
        def fail(fault: str) -> Exception:
            return existing_file(path) if fault == "resent" else storage_error(ConnectionResetError(fault), path)

        return self.world.request(kind, f"{name} {path.rpartition('/')[2]}", effect, fail, **ways)


class _Writer(io.BytesIO):
    """Bytes that become a file after the block, unless it failed."""

    def __init__(self, store: Store, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._store.write(self._path, self.getvalue())
        self.close()


class Places:
    """What the catalog's server knows: where the metadata of each table lay, and since when."""

    def __init__(self, world: World, model: Model) -> None:
        self.world, self.model = world, model
        self.history: dict[Identifier, list[tuple[float, str]]] = {}

    def find(self, identifier: Identifier) -> str | None:
        """Return the location, in some worlds an older one, but none that is older than what the process knows."""

        def look() -> str | None:
            past, me, chance = self.history.get(identifier), self.world.current, self.world._luck
            if not past:
                return None
            at = len(past) - 1
            if me is not None:
                if at and chance.random() < self.world.stale:
                    recent = [i for i in range(me.seen, at) if past[i + 1][0] > self.world.now - 5]
                    at = chance.choice(recent) if recent else at
                me.seen = max(me.seen, at)
            return past[at][1]

        def fail(_: str) -> Exception:
            return dk.DeletekitError("the catalog or its storage failed", kind="catalog-failed", found="503")

        found: str | None = self.world.request("read", "load", look, fail)
        return found

    def swap(self, identifier: Identifier, old: str | None, new: str, op: Any) -> bool:
        """Make a metadata file the table's, if the one before still is. Whoever asked knows of all that was then."""
        past = self.history.setdefault(identifier, [])
        if (past[-1][1] if past else None) != old:
            return False
        past.append((self.world.now, new))
        self.model.swapped(new, op)
        return True

    def seen(self, identifier: Identifier) -> None:
        """Note that the process has asked the server itself, and is shown nothing older from now on."""
        if self.world.current is not None:
            self.world.current.seen = len(self.history[identifier]) - 1


class WorldSql(SqlStore):
    """A SQL catalog whose rows are in the world. A process has one of its own."""

    def __init__(self, places: Places, store: Store) -> None:
        super().__init__(SimpleNamespace(name="world", properties={"warehouse": "mem://warehouse"}))  # type: ignore[arg-type]
        self.places, self.store = places, store

    def _find(self, identifier: Identifier) -> str | None:
        return self.places.find(identifier)

    def _ensure_namespace(self, identifier: Identifier) -> None:
        pass

    def _new_row(self, _: Identifier, location: str) -> Any:
        return SimpleNamespace(compile=lambda: SimpleNamespace(params={"metadata_location": location}))

    def _execute(self, _: str, *statements: Any) -> bool:
        (asked,), op = [s.compile().params for s in statements], self.places.model.op()

        def swap() -> bool:
            done = self.places.swap(NAME, asked.get("previous_metadata_location"), asked["metadata_location"], op)
            self.places.seen(NAME)
            return done

        def fail(fault: str) -> Exception:
            if fault == "busy":
                return dk.CommitConflictError("the catalog was busy with another writer")
            if fault == "error":
                return dk.DeletekitError("the catalog or its storage failed", kind="catalog-failed")
            return dk.CommitStateUnknownError("the catalog failed while committing", found=fault)

        return bool(self.places.world.request("swap", "swap", swap, fail))


class Server(RestCatalog):
    """A REST catalog as pyiceberg shows it: the server applies updates, and writes the metadata file itself."""

    def __init__(self, places: Places, store: Store) -> None:
        self.name, self.properties = "world", {}
        self.places, self.store = places, store

    def load_table(self, identifier: Any) -> Any:
        location = self.places.find(tuple(identifier))
        if location is None:
            raise NoSuchTableError(identifier)
        return self._table(location)

    def _table(self, location: str) -> Any:
        metadata = self.places.model.parsed(location)
        facts = {"properties": metadata.properties, "format_version": metadata.format_version}
        shown = SimpleNamespace(table_uuid=metadata.table_uuid, **facts)
        io = SimpleNamespace(properties={})
        return SimpleNamespace(metadata_location=location, metadata=shown, io=io, name=lambda: NAME)

    def commit_table(self, _: Any, requirements: Any, updates: Any) -> Any:
        asked = [[_json(one) for one in many] for many in (requirements, updates)]
        op = self.places.model.op()

        def swap() -> Any:
            old = self.places.history[NAME][-1][1]
            self.places.seen(NAME)
            before = self.places.model.parsed(old)
            try:
                check_requirements(before, asked[0])
                after = with_metadata_log(apply_updates(before, asked[1]), old, before.raw["last-updated-ms"])
            except dk.DeletekitError as e:
                raise CommitFailedException(str(e)) from e
            location = metadata_file_path(after, old)
            self.store._put(location, metadata_file_bytes(after, location), None)
            self.places.swap(NAME, old, location, op)
            self.places.seen(NAME)
            return SimpleNamespace(metadata_location=location)

        def fail(fault: str) -> Exception:
            is_refused = fault in ("busy", "resent")
            return CommitFailedException("409") if is_refused else CommitStateUnknownException(f"503, {fault}")

        return self.places.world.request("swap", "commit", swap, fail)


class WorldRest(PyIcebergStore):
    """A REST catalog whose server is in the world."""

    def __init__(self, places: Places, store: Store) -> None:
        super().__init__(Server(places, store))
        self.places = places

    def create(self, identifier: Identifier, metadata: Any) -> Any:
        return WorldSql(self.places, self.pyiceberg.store).create(identifier, metadata)  # type: ignore[attr-defined]


def _json(one: Any) -> Any:
    return one.model_dump(mode="json", by_alias=True, exclude_none=hasattr(one, "action"))


def opened(kind: str, places: Places, store: Store) -> Any:
    """Return a catalog of this kind, as one process opens it."""
    return (WorldSql if kind == "sql" else WorldRest)(places, store)
