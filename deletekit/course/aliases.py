"""Short names for what has long ones: S1 snapshots, L1 manifest lists, M1 manifests, D1 data files, E1 equality delete
files, P1 position delete files, V1 deletion vectors.

The order is that in which the table got them, so the same history gives the same names on every machine and engine,
whatever the ids and the paths. Snapshots are ordered by sequence number, files by the first snapshot that still lists
them. Files of one commit are ordered by their content, never by their random names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from deletekit.course.explanations import translated
from deletekit.course.printing import publish, show_records
from deletekit.deletes.which_apply import referenced_path
from deletekit.errors import DeletekitError, NotFoundError
from deletekit.formats.content_file import ContentFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.formats.manifest_list import ManifestFile
from deletekit.table.metadata import Snapshot
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.tools.explain import Explanation
from deletekit.tools.inspect import inspect, to_json

MOST_ORDERED = 1_000
"""Files of one commit that are ordered by content. If there are more, the manifest's order counts."""

Identity = tuple[Any, ...]


class Aliases:
    """The names of one table, as it is whenever they are asked for: `names.path("D1")`, `names.show(value)`.

    The first question about a file reads each manifest.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen: str | None = None
        self._look()

    def __iter__(self) -> Iterator[str]:
        self._look_inside()
        return iter((*self._snapshot_names.values(), *self._paths))

    def path(self, alias: str) -> str:
        """Return the path of the file with this name. Raises NotFoundError with the names that exist."""
        self._look_inside()
        return str(_found(self._paths, alias))

    def file(self, alias: str) -> ContentFile:
        """Return what the manifests say about a data file or a delete."""
        self._look_inside()
        found: ContentFile = _found(self._files, alias)
        return found

    def snapshot_id(self, alias: str) -> int:
        """Return the id of the snapshot with this name."""
        return self.snapshot(alias).snapshot_id

    def of(self, thing: Any) -> str:
        """Return the name of a path, a snapshot id or a listed file; its own text if it has no name."""
        if isinstance(thing, ManifestEntry):
            return self._numbered().get(thing.data_file.identity, f"{_letter(thing.data_file)}?")
        if isinstance(thing, ContentFile):
            return self._numbered().get(thing.identity, thing.file_path)
        self._look_inside()
        return self._texts.get(str(thing), str(thing))

    def deletes(self) -> list[dict[str, Any]]:
        """Return the content of the live deletes in order, as `inspect` gives it, each with its `name`."""
        found = []
        for delete in inspect(self._table, deletes=True)["deletes"]:
            stored = delete["data_file"]
            place = (stored["file_path"], stored.get("content_offset"), stored.get("content_size_in_bytes"))
            found.append({"name": self._numbered()[place], **delete})
        return sorted(found, key=lambda delete: (len(delete["name"]), delete["name"]))

    def show(self, value: Any, *fields: str) -> None:
        """Show a value with every path and id in it by its name; `fields` chooses what is shown of records.

        A field of a field is `data_file.content`.
        """
        self._look_inside()
        if isinstance(value, Explanation):
            said = translated(value, self._in_text)
            publish(said["text/plain"], said["text/html"])
            return
        if is_dataclass(value):
            value = to_json(value)
        show_records(self._named(_choose(value, fields)))

    # --- what the views ask ---

    def snapshot_name(self, snapshot_id: int | None) -> str:
        """Return the name of a snapshot; `S?` if it is unknown or has expired."""
        return self._snapshot_names.get(snapshot_id or 0, "S?")

    def snapshot(self, name: str) -> Snapshot:
        """Return the snapshot of a name. Raises NotFoundError."""
        self._look()
        if 1 <= (number := alias_number(name)) <= len(self.snapshots) and name == f"S{number}":
            return self.snapshots[number - 1]
        raise NotFoundError("no such snapshot", "snapshot-not-found", "snapshot", name, f"S1 .. S{len(self.snapshots)}")

    def identity(self, name: str) -> Identity:
        """Return the identity of the file of a name. Raises NotFoundError."""
        self._numbered()
        if name not in self._by_name:
            raise NotFoundError("no such file", kind="file-not-found", field="file", found=name, expected="D1, E1, ...")
        return self._by_name[name]

    def data_file(self, path: str) -> str | None:
        """Return the name of a data file by its path; None if no manifest has it."""
        return self._numbered().get((path,))

    def order(self, entry: ManifestEntry) -> tuple[str, int]:
        """Return the letter and number of a file's name, to sort by."""
        name = self.of(entry)
        return name[0], alias_number(name)

    # --- reading the history ---

    def _look(self) -> None:
        """Forget what was read if the table has changed."""
        if self._seen == self._table.metadata_location:
            return
        self._seen = self._table.metadata_location
        metadata = self._table.metadata
        self.reader = SnapshotReader(self._table.io, metadata)
        self.snapshots: Sequence[Snapshot] = sorted(
            metadata.snapshots.values(), key=lambda s: (s.sequence_number, s.timestamp_ms)
        )
        self._snapshot_names = {s.snapshot_id: f"S{i}" for i, s in enumerate(self.snapshots, 1)}
        self._names: dict[Identity, str] = {}
        self._by_name: dict[str, Identity] = {}
        self._files: dict[str, ContentFile] = {}
        self._paths: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def _numbered(self) -> Mapping[Identity, str]:
        """Return the names of all files and deletion vectors."""
        self._look()
        if self._names:
            return self._names
        counts: dict[str, int] = {}
        seen: set[str] = set()
        for snapshot in self.snapshots:
            new = list(self._new(snapshot, seen))
            named = self._in_order(new) if sum(map(len, new)) <= MOST_ORDERED else _as_listed(new)
            for letter, identity in named:
                if identity not in self._names:
                    counts[letter] = counts.get(letter, 0) + 1
                    self._names[identity] = name = f"{letter}{counts[letter]}"
                    self._by_name[name] = identity
        return self._names

    def _in_order(self, new: list[ManifestColumns]) -> Iterator[tuple[str, Identity]]:
        """Return letter and identity of each file, data files first: the order of deletes follows their data files."""
        entries = [e for columns in new for e in columns.entries(np.arange(len(columns)))]
        for of_data in (True, False):
            some = [e for e in entries if isinstance(e.data_file, DeleteFile) != of_data]
            for entry in sorted(some, key=self._content):
                yield _letter(entry.data_file), entry.data_file.identity

    def _content(self, entry: ManifestEntry) -> tuple[Any, ...]:
        file = entry.data_file
        place, bounds = 0, tuple[tuple[int, bytes], ...]()
        with suppress(DeletekitError):  # the view that shows the file reports what is wrong with it
            place = alias_number(self._names.get((referenced_path(file),), ""))
            if file.content != FileContent.POSITION_DELETES:  # their bounds are paths
                bounds = tuple(sorted((file.lower_bounds or {}).items()))
        return (entry.sequence_number or 0, place, repr(file.partition), bounds, file.record_count, file.identity)

    def _new(self, snapshot: Snapshot, seen: set[str]) -> Iterator[ManifestColumns]:
        """Return the manifests that no earlier snapshot lists. A damaged one is left out."""
        with suppress(DeletekitError):
            for listed in self.reader.manifests(snapshot):
                if listed.manifest_path not in seen:
                    seen.add(listed.manifest_path)
                    with suppress(DeletekitError):
                        yield self.reader.columns(listed)

    # --- printing ---

    def _look_inside(self) -> None:
        """Read every file that the history lists, by name and path, unless that is done."""
        names = self._numbered()
        if self._texts:
            return
        manifests = {m.manifest_path: m for s in self.snapshots for m in self.reader.manifests(s)}
        files = {e.data_file.identity: e.data_file for m in manifests.values() for e in self.reader.entries(m)}
        in_order = sorted(names.items(), key=lambda named: named[1][0] != "D")  # data files first
        self._files = {alias: files[identity] for identity, alias in in_order}
        ordered = sorted(manifests.values(), key=_manifest_order)
        self._paths = {
            **{f"L{n}": s.manifest_list for n, s in enumerate(self.snapshots, 1) if s.manifest_list},
            **{f"M{n}": m.manifest_path for n, m in enumerate(ordered, 1)},
            **{alias: f.file_path for alias, f in self._files.items()},
        }
        self._texts = {str(i): alias for i, alias in self._snapshot_names.items()}
        for alias, path in self._paths.items():
            # Deletion vectors share files: the file has the names of all.
            both = f"{self._texts[path]}+{alias}" if path in self._texts else alias
            self._texts |= {path: both, re.split(r"[/\\]", path)[-1]: both}

    def _named(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self._named(k): self._named(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._named(v) for v in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return self._texts.get(str(value), value) if value > _SMALL else value
        if isinstance(value, str):
            return self._in_text(value)
        return value

    def _in_text(self, value: str) -> str:
        """Longest first: a path has its own last part in it."""
        for long in sorted(self._texts, key=len, reverse=True):
            value = re.sub(rf"(?<![\w-]){re.escape(long)}(?![\w-])", self._texts[long], value)
        return value.replace(self._table.location, self._table.identifier[-1])


_SMALL = 1 << 31
"""Snapshot ids are random 63-bit numbers; a count is not mistaken for one."""


def _manifest_order(listed: ManifestFile) -> tuple[Any, ...]:
    counts = (listed.added_files_count or 0, listed.existing_files_count or 0, listed.deleted_files_count or 0)
    return (listed.sequence_number, int(listed.content), counts, listed.manifest_path)


def _choose(value: Any, fields: tuple[str, ...]) -> Any:
    if isinstance(value, list | tuple):
        return [_choose(item, fields) for item in value]
    if not fields or not isinstance(value, Mapping):
        return value
    wanted: dict[str, list[str]] = {}
    for field in fields:
        head, _, rest = field.partition(".")
        wanted.setdefault(head, []).extend([rest] if rest else [])
    return {head: _choose(value[head], tuple(rest)) for head, rest in wanted.items() if head in value}


def _found(names: Mapping[str, Any], alias: str) -> Any:
    if alias not in names:
        raise NotFoundError(
            "nothing of this table has this name", kind="alias", found=alias, expected=", ".join(names) or "none yet"
        )
    return names[alias]


def alias_number(name: str) -> int:
    """Return the number in a short name, to sort by; 0 without one."""
    return int(name[1:]) if name[1:].isdecimal() and len(name) < 20 else 0


def _as_listed(new: list[ManifestColumns]) -> list[tuple[str, Identity]]:
    """Return letter and identity of each file by sequence number, then in the order of the manifests."""
    found = [item for columns in new for item in _files(columns)]
    return [(letter, identity) for _, letter, identity in sorted(found, key=lambda item: item[0])]


def _files(columns: ManifestColumns) -> Iterator[tuple[int, str, Identity]]:
    """Return sequence number, letter and identity of each file of a manifest."""
    numbers, paths = columns.sequence_number.tolist(), columns.all_paths.to_pylist()
    if (columns.content == FileContent.DATA).all():
        yield from ((number, "D", (path,)) for number, path in zip(numbers, paths, strict=True))
        return
    for entry in columns.entries(np.arange(len(columns))):
        yield entry.sequence_number or 0, _letter(entry.data_file), entry.data_file.identity


def _letter(file: ContentFile) -> str:
    if not isinstance(file, DeleteFile):
        return "D"
    return {"deletion-vector": "V", "position-delete": "P", "equality-delete": "E"}[file.kind]
