"""Upsert a DataFrame through the data source: tasks write new rows and find old ones, and one process commits.

That process has no Spark session. It gets files, positions of old rows and sorted files of hashes, but no row and no
key. Only what winning attempts report is committed; `remove_orphan_files` finds what killed ones leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyspark.sql.datasource import WriterCommitMessage

from deletekit.commit.change import Base
from deletekit.commit.planned_change import PlannedChange, plan_change, plan_on_earlier, read_base
from deletekit.commit.swap import commit
from deletekit.deletes.data_file_writer import write_data_files
from deletekit.deletes.filter import parse_filter
from deletekit.deletes.read import ReadContext
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DeleteFile
from deletekit.spark.data_source.options import SourceOptions, names_of
from deletekit.spark.data_source.writer import Messages, TableWriter, WrittenFiles, data_files
from deletekit.stream.key_hashes import KeyHashes
from deletekit.stream.key_index import is_null
from deletekit.stream.source_lookup import LookUp, look_up
from deletekit.stream.staged_keys import KeyCollector, StagedKeys, check_unique, stage
from deletekit.stream.upsert_plan import UpsertPlan
from deletekit.table.metadata import TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import ensure_unpartitioned_spec, specs_in_use, write_key_deletes
from deletekit.verbs.shared.key_fields import range_of_keys
from deletekit.verbs.shared.row_changes import choose_mode
from deletekit.verbs.upsert import UpsertRequest, check_upsert, needs_unpartitioned_spec


@dataclass(frozen=True, kw_only=True)
class WrittenRows(WrittenFiles):
    """What a successful task wrote and found.

    Attributes
    ----------
    keys: the file of its keys.
    found: positions of old rows, as bytes by data file; None if it did not look for them.
    deletes: equality deletes of its keys.
    """

    keys: StagedKeys
    found: Mapping[str, bytes] | None
    deletes: tuple[DeleteFile, ...]


class UpsertWriter(TableWriter):
    """One upsert to one table. Raises as TableWriter, and before any task runs as `upsert` for a key or a mode."""

    def _prepare(self, table: Table) -> None:
        metadata = table.metadata
        self._request = _upsert_request(self._options)
        self._fields = check_upsert(metadata, self._request)
        self._by_value = choose_mode(metadata, "merge", self._request.mode) == "equality-delete"
        self._snapshot = metadata.snapshot_of_ref(self._ref)
        self._specs: Sequence[PartitionSpec] | None = None
        self._look_up: LookUp | None = None
        base = read_base(table, self._ref)
        if not self._by_value:
            self._look_up = look_up(base, self._fields, keep=self._options.get("key-index") is not None)
        elif self._has_specs(metadata):
            self._specs = specs_in_use(base)

    def _write(self, context: WriteContext, tables: Iterator[pa.Table]) -> WrittenFiles:
        schema = self._metadata.schema
        collected = KeyCollector(self._fields, schema, holds=self._specs is not None)
        files = write_data_files(context, collected.of(tables))
        if not files:
            return WrittenFiles(())
        run, bounds = collected.run(), collected.bounds
        staged, found, deletes = stage(context, run, bounds), None, list[DeleteFile]()
        if self._specs is not None:
            deletes = write_key_deletes(context, self._specs, collected.keys, self._fields, None)
        if self._look_up is not None:
            hashes = KeyHashes(run.low, run.high, is_null(run.places))
            where = parse_filter(range_of_keys(bounds.columns, schema, self._fields), schema)
            found = self._look_up.find(ReadContext(self._io, self._metadata), hashes, where)
        return WrittenRows(tuple(files), keys=staged, found=found, deletes=tuple(deletes))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit all files in one snapshot; a write of no rows makes none."""
        try:
            super().commit(messages)
        finally:
            self._remove_files(m.keys.path for m in messages if isinstance(m, WrittenRows))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        super().abort(messages)
        self._remove_files(m.keys.path for m in messages if isinstance(m, WrittenRows))

    def _commit(self, table: Table, messages: Messages) -> None:
        rows = [m for m in messages if isinstance(m, WrittenRows)]
        if not rows:
            self._remove(messages)
            return
        index, staged = self._look_up, tuple(m.keys for m in rows)
        plan = UpsertPlan(
            io=self._io,
            fields=self._fields,
            request=self._request,
            files=data_files(messages),
            staged=staged,
            entry={} if index is None else index.entry,
            paths=() if index is None else index.paths,
        )
        commit(self._planned(table, rows, plan))

    def _planned(self, table: Table, rows: Sequence[WrittenRows], plan: UpsertPlan) -> PlannedChange:
        check_unique(self._io, plan.staged, self._fields)
        if needs_unpartitioned_spec(table.metadata, self._request, self._fields):
            ensure_unpartitioned_spec(table)  # others may have changed the partition specs since the job began
        again, first = plan.by_value_again if self._by_value else plan.by_hash, None
        found = [m.found for m in rows if m.found is not None]
        if self._specs is not None:
            first = partial(plan.by_value, deletes=[d for m in rows for d in m.deletes])
        elif self._look_up is not None and len(found) == len(rows):
            first = partial(plan.by_position, found=found)
        if first is not None:
            return plan_on_earlier(self._earlier(table), first, again, properties=self._options.summary)
        return plan_change(table, again, ref=self._ref, properties=self._options.summary)

    def _remove(self, messages: Messages) -> None:
        super()._remove(messages)
        rows = [m for m in messages if isinstance(m, WrittenRows)]
        self._remove_files(d.file_path for m in rows for d in m.deletes)
        self._remove_files(self._look_up.written if self._look_up is not None else ())

    def _has_specs(self, metadata: TableMetadata) -> bool:
        """Return whether tasks can write equality deletes before the table has got another spec."""
        is_plain = any(not spec.fields for spec in metadata.specs.values())
        return is_plain or not needs_unpartitioned_spec(metadata, self._request, self._fields)

    def _earlier(self, table: Table) -> Base:
        """Return the head that the tasks know."""
        metadata = table.metadata
        return Base(
            table=table,
            metadata=self._metadata,
            ref=self._ref,
            snapshot=self._snapshot,
            reader=SnapshotReader(table.io, metadata),
            write=WriteContext(table.io, metadata),
        )


def _upsert_request(options: SourceOptions) -> UpsertRequest:
    mode, key, index = (options.get(name) for name in ("delete-mode", "key", "key-index"))
    if mode is None:
        name, found = ("key", key) if key is not None else ("key-index", index)
        message, expected = f"a {name} is for upserts", "the option delete-mode too"
        raise InvalidInputError(message, kind="option", field=name, found=found, expected=expected)
    if index not in (None, "keep"):
        raise InvalidInputError("bad option", kind="option", field="key-index", found=index, expected="keep")
    if index is not None and mode == "equality-delete":
        message, expected = "equality deletes look no key up", "another delete-mode, or no key-index"
        raise InvalidInputError(message, kind="option", field="key-index", found=index, expected=expected)
    return UpsertRequest(key=None if key is None else tuple(names_of(key)), mode=mode)
