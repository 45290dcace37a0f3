"""Write the manifests of a commit: new ones for added files, and old ones again without what was removed.

An entry's status, ids and sequence numbers follow the specification's table. An old manifest is written again only if
something in it is removed, or to merge many small ones.
Spec: "Manifest Entry Fields", https://iceberg.apache.org/spec/#manifest-entry-fields; Java ManifestFilterManager,
ManifestMergeManager.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, TypeVar

from deletekit.errors import FormatError
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import text_array
from deletekit.formats.manifest_list import FieldSummary, ManifestContent, ManifestFile
from deletekit.formats.manifest_writer import write_manifest
from deletekit.rows.write_context import WriteContext
from deletekit.table.metadata import spec_to_json
from deletekit.table.partition import schema_of_spec
from deletekit.table.properties import value_of
from deletekit.table.snapshot import SnapshotReader, rows_with_paths, without_first_row_id
from deletekit.table.types import partition_types, schema_to_json, single_value_of_stored

_CODECS = {"gzip": "deflate", "deflate": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}
_MAX_GROWTH_OF_A_MERGE = 4
_ENTRIES_SAMPLED_FOR_SIZE = 500
_T = TypeVar("_T")


class ManifestWriter:
    """Writes the manifests of one snapshot: makes them, and writes those that are still wanted at the end."""

    def __init__(self, write: WriteContext, snapshot_id: int, sequence_number: int) -> None:
        self._write = write
        self._snapshot_id = snapshot_id
        self._sequence_number = sequence_number
        self._made: dict[str, tuple[Sequence[ManifestEntry], bytes]] = {}
        self._with_row_ids: set[str] = set()

    def added(
        self, files: Sequence[DataFile | DeleteFile], sequence_numbers: Mapping[str, int], with_row_ids: Collection[str]
    ) -> list[ManifestFile]:
        """Make manifests of ADDED entries, each of one partition spec and of about the target size.

        Parameters
        ----------
        sequence_numbers: data sequence numbers by path; other files inherit the snapshot's.
        with_row_ids: paths of data files that keep their first row id; other files are given one.
        """
        self._with_row_ids |= set(with_row_ids)
        by_spec: dict[int, list[ManifestEntry]] = {}
        for file in files:
            entry = ManifestEntry(
                status=EntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=sequence_numbers.get(file.file_path),
                file_sequence_number=None,
                data_file=file,
            )
            if file.file_path not in self._with_row_ids:
                entry = without_first_row_id(entry)
            by_spec.setdefault(file.spec_id, []).append(entry)
        return [listed for _, entries in sorted(by_spec.items()) for listed in self._rolled(entries)]

    def _rolled(self, entries: Sequence[ManifestEntry]) -> list[ManifestFile]:
        """Make manifests of `commit.manifest.target-size-bytes` or less; the first entries tell how many fit."""
        if len(entries) <= _ENTRIES_SAMPLED_FOR_SIZE:
            return [self.make(entries)]
        target = value_of(self._write.metadata.properties, "commit.manifest.target-size-bytes")
        each = max(
            1, target * _ENTRIES_SAMPLED_FOR_SIZE // self.make(entries[:_ENTRIES_SAMPLED_FOR_SIZE]).manifest_length
        )
        count = -(-len(entries) // each)
        edges = [len(entries) * number // count for number in range(count + 1)]
        return [self.make(entries[a:b]) for a, b in pairwise(edges)]

    def without(
        self, reader: SnapshotReader, manifests: Sequence[ManifestFile], removed: Sequence[ManifestEntry]
    ) -> list[ManifestFile]:
        """Make the manifests again without the removed entries; those that hold none of them are returned unchanged.

        Manifests without a live file are dropped, as Java drops them.
        Raises FormatError if a removed entry is in no manifest.
        """
        pending = {e.data_file.identity for e in removed}
        paths = text_array(e.data_file.file_path for e in removed)
        out: list[ManifestFile] = []
        for listed in manifests:
            if not listed.has_live_files:
                continue
            hits: set[Any] = set()
            if pending and reader.may_hold(listed):
                columns = reader.columns(listed)
                hits = {e.data_file.identity for e in columns.entries(rows_with_paths(columns, paths))} & pending
            if not hits:
                out.append(listed)
                continue
            pending -= hits
            entries = [
                e.deleted(self._snapshot_id) if e.data_file.identity in hits else e.existing()
                for e in reader.entries(listed)
                if e.is_live
            ]
            out.append(self.make(entries))
        if pending:
            raise FormatError("file to remove is in no manifest", kind="missing-file", file=str(next(iter(pending))[0]))
        return out

    def merged(
        self, manifests: Sequence[ManifestFile], reader: SnapshotReader, *, at_once: bool = False
    ) -> list[ManifestFile]:
        """Merge small manifests of one kind of content, each spec for itself, as `commit.manifest*` properties say.

        Neighbours are merged up to the target size. The first manifest is merged only when there are
        `commit.manifest.min-count-to-merge` to merge it with, so that most commits write none again. With `at_once`
        it is merged with those that are small beside each other. Every entry keeps its snapshot id and its sequence
        numbers.
        """
        properties = self._write.metadata.properties
        if not value_of(properties, "commit.manifest-merge.enabled"):
            return list(manifests)
        target = value_of(properties, "commit.manifest.target-size-bytes")
        least = value_of(properties, "commit.manifest.min-count-to-merge")
        by_spec: dict[int, list[ManifestFile]] = {}
        for listed in reversed(manifests):  # the oldest first, so that what is not full is merged next time
            by_spec.setdefault(listed.partition_spec_id, []).append(listed)
        out: list[ManifestFile] = []
        for _, mine in sorted(by_spec.items()):
            for group in packed(mine, target, lambda m: m.manifest_length):
                chosen = group
                if manifests[0] in group:
                    chosen = _small(group) if at_once else group if len(group) >= least else []
                if len(chosen) < 2:
                    out += group
                    continue
                out += [m for m in group if m not in chosen]
                if entries := [e for m in reversed(chosen) for e in self._carried(m, reader)]:
                    out.append(self.make(entries))
        return out[::-1]

    def _carried(self, listed: ManifestFile, reader: SnapshotReader) -> Iterable[ManifestEntry]:
        """Return the entries of a manifest as another one of this snapshot lists them."""
        if listed.manifest_path in self._made:
            return self._made[listed.manifest_path][0]
        return [e.existing() for e in reader.entries(listed) if e.is_live]

    def flush(self, wanted: Iterable[ManifestFile]) -> None:
        """Write those of the manifests made so far that are still wanted."""
        for listed in wanted:
            if listed.manifest_path in self._made:
                self._write.write(listed.manifest_path, self._made[listed.manifest_path][1])

    def make(self, entries: Sequence[ManifestEntry]) -> ManifestFile:
        """Make a manifest of at least one entry, all of one partition spec and one kind of content.

        Its schema is one that knows the spec's source columns; the current schema may have lost them.
        """
        metadata = self._write.metadata
        spec = metadata.specs[entries[0].data_file.spec_id]
        schema = schema_of_spec(metadata, spec)
        types = partition_types(spec, schema)
        content = entries[0].data_file.content
        data = write_manifest(
            entries,
            format_version=metadata.format_version,
            content=content,
            schema_json=schema_to_json(schema),
            spec_json=spec_to_json(spec),
            partition_types=types,
            codec=_CODECS[value_of(metadata.properties, "write.manifest.compression-codec")],
            with_row_ids=self._with_row_ids,
        )
        path = self._write.metadata_path(f"{self._write.operation_id}-{uuid.uuid4().hex[:8]}-m0.avro")
        self._made[path] = entries, data
        files = [e.data_file for e in entries]
        known = [e.sequence_number for e in entries if e.is_live and e.sequence_number is not None]
        return ManifestFile(
            manifest_path=path,
            manifest_length=len(data),
            partition_spec_id=spec.spec_id,
            content=ManifestContent.DATA if content == FileContent.DATA else ManifestContent.DELETES,
            sequence_number=self._sequence_number,
            min_sequence_number=min(known, default=self._sequence_number),
            added_snapshot_id=self._snapshot_id,
            partitions=tuple(_summary([f.partition[i] for f in files], kind) for i, (_, _, kind) in enumerate(types)),
            **_counts(entries),
        )


def packed(items: Iterable[_T], most: int, size: Callable[[_T], int]) -> list[list[_T]]:
    """Group neighbours up to a total size; a larger item is a group of its own."""
    out: list[list[_T]] = []
    total = 0
    for item in items:
        if not out or total + size(item) > most:
            out.append([])
            total = 0
        out[-1].append(item)
        total += size(item)
    return out


def _small(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Return the manifests that are small beside each other.

    One with more than a few times the entries of all smaller ones together stays. So an entry is written again only a
    few times, however many there are. One without counts stays too.
    """
    small: list[ManifestFile] = []
    entries = 0.0
    for listed in sorted(manifests, key=_entry_count):
        count = _entry_count(listed)
        if (small and count > _MAX_GROWTH_OF_A_MERGE * entries) or count == inf:
            break
        entries += count
        small.append(listed)
    return [m for m in manifests if m in small]


def _entry_count(listed: ManifestFile) -> float:
    counts = (listed.added_files_count, listed.existing_files_count, listed.deleted_files_count)
    return inf if None in counts else float(sum(c or 0 for c in counts))


def _counts(entries: Sequence[ManifestEntry]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for status in EntryStatus:
        mine = [e.data_file.record_count for e in entries if e.status == status]
        out[f"{status.name.lower()}_files_count"], out[f"{status.name.lower()}_rows_count"] = len(mine), sum(mine)
    return out


def _summary(values: Sequence[Any], kind: str) -> FieldSummary:
    def order(value: Any) -> Any:
        return int.from_bytes(value, "big", signed=True) if kind.startswith("decimal") else value

    ordered = sorted((v for v in values if v is not None and v == v), key=order)
    bounded = bool(ordered) and kind != "uuid"  # Java orders uuids signed (apache/iceberg#14216)
    return FieldSummary(
        contains_null=any(v is None for v in values),
        contains_nan=any(v != v for v in values),
        lower_bound=single_value_of_stored(ordered[0], kind) if bounded else None,
        upper_bound=single_value_of_stored(ordered[-1], kind) if bounded else None,
    )
