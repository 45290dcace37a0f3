"""Short names for what has long ones: S1 snapshots, L1 manifest lists, M1 manifests, D1 data files, E1 equality delete
files, P1 position delete files, V1 deletion vectors.

The same history gives the same names on every machine and engine. The widgets show the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from deletekit.course.printing import lines
from deletekit.course.views.short_names import ShortNames
from deletekit.errors import NotFoundError
from deletekit.formats.content_file import ContentFile
from deletekit.formats.manifest_list import ManifestFile
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.verbs.inspect import inspect, to_json


class Aliases:
    """The names of one table, as it is whenever they are asked for: `names.path("D1")`, `names.show(value)`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen: str | None = None
        self._files: dict[str, ContentFile] = {}
        self._snapshots: dict[str, int] = {}
        self._paths: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        self._look()
        return iter((*self._snapshots, *self._paths))

    def path(self, alias: str) -> str:
        """Return the path of the file with this name. Raises NotFoundError with the names that exist."""
        self._look()
        return str(_found(self._paths, alias))

    def file(self, alias: str) -> ContentFile:
        """Return what the manifests say about a data file or a delete."""
        self._look()
        found: ContentFile = _found(self._files, alias)
        return found

    def snapshot_id(self, alias: str) -> int:
        """Return the id of the snapshot with this name."""
        self._look()
        return int(_found(self._snapshots, alias))

    def of(self, thing: Any) -> str:
        """Return the name of a path, a snapshot id or a listed file; its own text if it has no name."""
        self._look()
        if isinstance(thing, ContentFile):
            return next((a for a, f in self._files.items() if f.identity == thing.identity), thing.file_path)
        return self._texts.get(str(thing), str(thing))

    def deletes(self) -> list[dict[str, Any]]:
        """Return the content of the live deletes in order, as `inspect` gives it, each with its `name`."""
        found = [(self._alias(d["data_file"]), d) for d in inspect(self._table, deletes=True)["deletes"]]
        return [{"name": name, **delete} for name, delete in sorted(found, key=lambda pair: (len(pair[0]), pair[0]))]

    def show(self, value: Any, *fields: str) -> None:
        """Print a value with every path and id in it by its name; `fields` chooses what is shown of records.

        A field of a field is `data_file.content`.
        """
        self._look()
        if hasattr(value, "to_text"):
            value = value.to_text()
        elif is_dataclass(value):
            value = to_json(value)
        print("\n".join(lines(self._named(_choose(value, fields)))))  # noqa: T201  # printing is what it is for

    def _alias(self, stored: Mapping[str, Any]) -> str:
        """Return the name of a delete, given as in the JSON of a manifest."""
        self._look()
        wanted = (stored["file_path"], stored.get("content_offset"), stored.get("content_size_in_bytes"))
        return next(alias for alias, file in self._files.items() if file.identity == wanted)

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

    def _look(self) -> None:
        """Read the table's history, if it is not the one read last."""
        if self._seen == self._table.metadata_location:
            return
        self._seen = self._table.metadata_location
        metadata = self._table.metadata
        reader = SnapshotReader(self._table.io, metadata)
        names = ShortNames(metadata, reader)
        self._snapshots = {names.snapshot(s.snapshot_id): s.snapshot_id for s in names.snapshots}
        manifests = {m.manifest_path: m for s in names.snapshots for m in reader.manifests(s)}
        files = {e.data_file.identity: e.data_file for m in manifests.values() for e in reader.entries(m)}
        self._files = {alias: files[names.identity(alias)] for alias in names.files()}
        lists = {f"L{n}": s.manifest_list for n, s in enumerate(names.snapshots, 1) if s.manifest_list}
        ordered = sorted(manifests.values(), key=_manifest_order)
        self._paths = {
            **lists,
            **{f"M{n}": m.manifest_path for n, m in enumerate(ordered, 1)},
            **{alias: f.file_path for alias, f in self._files.items()},
        }
        self._texts = {str(i): alias for alias, i in self._snapshots.items()}
        for alias, path in self._paths.items():
            # Deletion vectors share files: the file has the names of all.
            both = f"{self._texts[path]}+{alias}" if path in self._texts else alias
            self._texts |= {path: both, re.split(r"[/\\]", path)[-1]: both}


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
