"""The values of a commit: the base that a change is planned on, the change itself, and what it has read.

A change is planned by a verb and commits nothing. `planned_change.py` puts it on a base, `snapshot.py` makes a snapshot
of it, and `swap.py` commits the snapshot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.expressions import AlwaysFalse, BooleanExpression

from deletekit.deletes.which_apply import Scope, referenced_path
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestFile
from deletekit.rows.write_context import WriteContext
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a change is planned on: the head of a branch of a table.

    Attributes
    ----------
    metadata, snapshot: the table's metadata, and the head of the branch `ref`; None for a branch without a snapshot.
    reader: reads the manifests of the head.
    write: writes the files of the change, and knows which ones to delete if the change is given up.
    is_rebased: the files were written for an earlier head, and a catalog may have been asked to commit them.
    """

    table: Table
    metadata: TableMetadata
    ref: str = MAIN
    snapshot: Snapshot | None
    reader: SnapshotReader = field(repr=False)
    write: WriteContext = field(repr=False)
    is_rebased: bool = False

    @property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """The manifest list of the head; empty without a snapshot."""
        return self.reader.manifests(self.snapshot) if self.snapshot else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefUpdate:
    """Another branch or tag that a commit moves together with its own branch, or not at all.

    Attributes
    ----------
    found: the snapshot that it must point to until then; None: it must not exist.
    snapshot_id: where it points to then; None: the snapshot of the commit.
    retention: entries of the reference, such as `max-ref-age-ms`.
    """

    name: str
    type: str
    found: int | None
    snapshot_id: int | None = None
    retention: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """What a change has read. Concurrent commits that touch it are conflicts.

    Attributes
    ----------
    data_files: paths of the data files whose rows were changed or counted on. The files that the change removes, or
        covers with positions, belong to it without being named.
    where: unbound filter. A concurrent data file that may hold such rows is a conflict. `AlwaysFalse` is right for a
        change that no new row can affect: an append, keys deleted without reading, everything under snapshot isolation.
    partitions: scopes (see `which_apply.scope_of`) that were read as a whole. A concurrent data file in one is a
        conflict.
    """

    data_files: frozenset[str] = frozenset()
    where: BooleanExpression = field(default_factory=AlwaysFalse)
    partitions: frozenset[Scope] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """A change: the files that one commit adds and removes.

    Attributes
    ----------
    removed_data_files, removed_delete_files: live entries of the base's snapshot.
    operation: overrides the operation that the files imply (`replace` for maintenance).
    parent_totals: the totals of the parent snapshot, counted again because those of its summary are wrong. A change
        that only corrects them is not empty.
    metadata_updates: changes of schema, specs and properties that are committed with the files. The files were planned
        and written with their result.
    sequence_numbers: data sequence numbers by path, for files of a rewrite. Other added files inherit the number of the
        new snapshot.
    with_row_ids: paths of added data files whose rows have ids: another branch has the files too, or Delta gave them.
        They keep their first row id. Rows of other added files are given new ids.
    least_sequence_number: the snapshot's sequence number is at least this one.
    summary: entries of the snapshot's summary that were planned with the change.
    refs: other refs that it moves. A change that only moves refs is not empty: its snapshot has its parent's files.
    other_files: paths of written files that only the summary leads to.
    matched_rows: rows of the table that the change found, to delete or replace them; None where it counted none.
    read_set: what the change has read, which allows rebasing it after a lost race. None: it is always replanned.
    merges_manifests: small manifests are merged, whatever `commit.manifest.min-count-to-merge` says.
    granularity: granularity of its delete files; vectors that are merged after a lost race keep to it.
    replaced_manifests, manifests: a change that writes the same live files into other manifests, and nothing else: rows
        of the base's manifest list, and the live entries of all of them, one group for each new manifest. Each group is
        of one partition spec and one kind of content.
    """

    added_data_files: tuple[DataFile, ...] = ()
    removed_data_files: tuple[ManifestEntry, ...] = ()
    added_delete_files: tuple[DeleteFile, ...] = ()
    removed_delete_files: tuple[ManifestEntry, ...] = ()
    operation: str | None = None
    parent_totals: Mapping[str, int] | None = None
    metadata_updates: tuple[Mapping[str, Any], ...] = ()
    sequence_numbers: Mapping[str, int] = field(default_factory=dict)
    with_row_ids: frozenset[str] = frozenset()
    least_sequence_number: int = 0
    summary: Mapping[str, str] = field(default_factory=dict)
    refs: tuple[RefUpdate, ...] = ()
    other_files: tuple[str, ...] = ()
    matched_rows: int | None = None
    read_set: ReadSet | None = None
    merges_manifests: bool = False
    granularity: str | None = None
    replaced_manifests: tuple[ManifestFile, ...] = ()
    manifests: tuple[tuple[ManifestEntry, ...], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        files = self.added_data_files or self.removed_data_files or self.added_delete_files or self.removed_delete_files
        return not (files or self.refs or self.replaced_manifests) and self.parent_totals is None

    @property
    def removed_data_paths(self) -> set[str]:
        """The paths of the removed data files."""
        return {e.data_file.file_path for e in self.removed_data_files}

    @property
    def covered_data_files(self) -> list[tuple[DeleteFile, str]]:
        """The added deletes by position that name one data file, each with that file's path."""
        positional = (d for d in self.added_delete_files if d.content == FileContent.POSITION_DELETES)
        return [(d, path) for d in positional if (path := referenced_path(d)) is not None]

    @property
    def implied_operation(self) -> str:
        """The snapshot's operation, as Java's BaseRowDelta and BaseOverwriteFiles name it."""
        if self.operation is not None:
            return self.operation
        if self.added_data_files and not (
            self.removed_data_files or self.added_delete_files or self.removed_delete_files
        ):
            return "append"
        if not self.added_data_files and (self.added_delete_files or self.removed_data_files):
            return "delete"
        return "overwrite"
