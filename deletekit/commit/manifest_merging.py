"""Write the manifests of a commit: new ones for added files, and old ones again without what was removed.

An entry's status, ids and sequence numbers follow the specification's table. An old manifest is written again only if
something in it is removed, or to merge many small ones.
Spec: "Manifest Entry Fields", https://iceberg.apache.org/spec/#manifest-entry-fields; Java ManifestFilterManager,
ManifestMergeManager.
"""

import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any, TypeVar

from deletekit.commit.change import RowDelta
from deletekit.commit.head import Head
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import FieldSummary, ManifestContent, ManifestFile
from deletekit.formats.manifest_writer import write_manifest
from deletekit.rows.write_context import WriteContext
from deletekit.table.metadata import spec_to_json
from deletekit.table.partition import schema_of_spec
from deletekit.table.properties import value_of
from deletekit.table.types import partition_types, schema_to_json, single_value_of_stored

_CODECS = {"gzip": "deflate", "deflate": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}
_MAX_GROWTH_OF_A_MERGE = 4
_ENTRIES_SAMPLED_FOR_SIZE = 500
_T = TypeVar("_T")


class ManifestWriter:
    """Writes the manifests of one snapshot: makes them, and writes those that are still wanted at the end.

    `for_delta` and `for_rewrite` return the rows of the new manifest list.
    """

    def __init__(self, write: WriteContext, snapshot_id: int, sequence_number: int) -> None:
        self._write = write
        self._snapshot_id = snapshot_id
        self._sequence_number = sequence_number
        self._made: dict[str, tuple[Sequence[ManifestEntry], bytes]] = {}
        self._with_row_ids: set[str] = set()

    def for_delta(self, head: Head, delta: RowDelta) -> list[ManifestFile]:
        """Make the manifests in Java's order: data before deletes, and of each the new before the kept and filtered."""
        out: list[ManifestFile] = []
        for content, added, removed in (
            (ManifestContent.DATA, delta.added_data_files, delta.removed_data_files),
            (ManifestContent.DELETES, delta.added_delete_files, delta.removed_delete_files),
        ):
            old = [m for m in head.manifests if m.content == content]
            new = self._added(added, delta.sequence_numbers, delta.with_row_ids)
            out += self._merged([*new, *self._without(head, old, removed)], head, at_once=delta.merges_manifests)
        return self._written(head, out)

    def for_rewrite(self, head: Head, delta: RowDelta) -> list[ManifestFile]:
        """Make the new manifests; each live entry keeps its numbers, ids, first row id and partition values."""
        paths = {m.manifest_path for m in delta.replaced_manifests}
        kept = [m for m in head.manifests if m.manifest_path not in paths and m.has_live_files]
        new = [self._make([e.existing() for e in group]) for group in delta.manifests]
        return self._written(head, sorted([*new, *kept], key=lambda m: m.content == ManifestContent.DELETES))

    def _added(
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
            new: DataFile | DeleteFile = file
            if isinstance(file, DataFile) and file.file_path not in self._with_row_ids:
                new = replace(file, first_row_id=None)  # the commit gives it
            entry = ManifestEntry(
                status=EntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=sequence_numbers.get(file.file_path),
                file_sequence_number=None,
                data_file=new,
            )
            by_spec.setdefault(file.spec_id, []).append(entry)
        return [listed for _, entries in sorted(by_spec.items()) for listed in self._rolled(entries)]

    def _rolled(self, entries: Sequence[ManifestEntry]) -> list[ManifestFile]:
        """Make manifests of `commit.manifest.target-size-bytes` or less; the first entries tell how many fit."""
        if len(entries) <= _ENTRIES_SAMPLED_FOR_SIZE:
            return [self._make(entries)]
        target = value_of(self._write.metadata.properties, "commit.manifest.target-size-bytes")
        each = max(
            1, target * _ENTRIES_SAMPLED_FOR_SIZE // self._make(entries[:_ENTRIES_SAMPLED_FOR_SIZE]).manifest_length
        )
        count = -(-len(entries) // each)
        edges = [len(entries) * number // count for number in range(count + 1)]
        return [self._make(entries[a:b]) for a, b in pairwise(edges)]

    def _without(
        self, head: Head, manifests: Sequence[ManifestFile], removed: Sequence[ManifestEntry]
    ) -> list[ManifestFile]:
        """Make manifests of the head again without the removed entries; those that hold none of them stay as they are.

        Manifests without a live file are dropped, as Java drops them.
        """
        gone: dict[str, set[Hashable]] = {}
        for entry in removed:
            gone.setdefault(head.places[entry.data_file.identity], set()).add(entry.data_file.identity)
        out: list[ManifestFile] = []
        for listed in manifests:
            if listed.manifest_path in gone:
                hits = gone[listed.manifest_path]
                entries = head.live_entries(listed)
                out.append(
                    self._make(
                        [
                            e.deleted(self._snapshot_id) if e.data_file.identity in hits else e.existing()
                            for e in entries
                        ]
                    )
                )
            elif listed.has_live_files:
                out.append(listed)
        return out

    def _merged(self, manifests: Sequence[ManifestFile], head: Head, *, at_once: bool = False) -> list[ManifestFile]:
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
                if entries := [e for m in reversed(chosen) for e in self._carried(m, head)]:
                    out.append(self._make(entries))
        return out[::-1]

    def _carried(self, listed: ManifestFile, head: Head) -> Iterable[ManifestEntry]:
        """Return the entries of a manifest as another one of this snapshot lists them."""
        if listed.manifest_path in self._made:
            return self._made[listed.manifest_path][0]
        return [e.existing() for e in head.live_entries(listed)]

    def _written(self, head: Head, wanted: Iterable[ManifestFile]) -> list[ManifestFile]:
        """Write those of the manifests made so far that are still wanted; add counts to the others that lack them."""
        out = []
        for listed in wanted:
            if listed.manifest_path in self._made:
                self._write.write(listed.manifest_path, self._made[listed.manifest_path][1])
            out.append(head.counted.get(listed.manifest_path, listed))
        return out

    def _make(self, entries: Sequence[ManifestEntry]) -> ManifestFile:
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
