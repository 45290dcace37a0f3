"""EXPLAIN a row: every version of it in a snapshot's data files, live or hidden, and which delete hides it and why.

It only reads. Each verdict comes from applying each delete file on its own, not from what metadata says.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np

from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.plan import delete_index, plan_scan
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.verdict import named_positions, reason_of
from deletekit.deletes.which_apply import is_global, referenced_path
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import UNREADABLE, DeletekitError
from deletekit.filters.filter import Filter, bound_filter, unbound_filter
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.html_table import html_table, number_columns, safe_html
from deletekit.public import public_methods
from deletekit.table.column_names import as_names
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.python_values import python_rows
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.text import literal, without_secrets
from deletekit.verbs.shared.read_options import resolve_snapshot, select_field

Say = Callable[..., str]
"""Put values into a sentence, perhaps in another language: `say("{file} cannot be read", file="D1")`."""

SENTENCES = {
    "live": "live",
    "hidden": "HIDDEN",
    "unknown": "UNKNOWN",
    "verdict": "verdict",
    "why": "why",
    "none": "{table}: no version of such a row in snapshot {snapshot}",
    "counts": "{table}, snapshot {snapshot}: {live} live, {hidden} hidden",
    "counts-unknown": "{table}, snapshot {snapshot}: {live} live, {hidden} hidden, {unknown} unknown",
    "unread": "cannot be read: {file}: {error}",
    "unread-delete": "{file} cannot be read",
    "row-hidden": "row {position} of {file} (written at sequence {sequence}) is hidden: {why}",
    "row-unknown": "row {position} of {file} (written at sequence {sequence}) may be live or hidden: {why}",
    "row-spared": (
        "row {position} of {file} (written at sequence {sequence}) is live, although its key is deleted: {why}"
    ),
    "row-live": "row {position} of {file} (written at sequence {sequence}) is live: no delete applies to it",
    "deletion-vector": "the deletion vector of its data file, in {file}, has its position, and {data} <= {delete}",
    "position-delete-file": "position delete {file} names its data file and position, and {data} <= {delete}",
    "position-delete-partition": (
        "position delete {file} of its partition names its data file and position, and {data} <= {delete}"
    ),
    "equality-delete-table": "equality delete {file} holds its {key} and covers the whole table, and {data} < {delete}",
    "equality-delete-partition": (
        "equality delete {file} holds its {key} and covers its partition, and {data} < {delete}"
    ),
    "too-old": "equality delete {file} holds its {key}, but does not apply: {data} < {delete} is false",
    "dropped": "{column} (dropped)",
}
"""By what they are about. The course's catalogs have them in other languages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HidingDelete:
    """One delete file that has the position or key of a row, and the rule by which it hides the row or does not.

    Attributes
    ----------
    scope: what it covers: one `file`, a `partition` or the whole `table`.
    key, dropped: the columns of an equality delete, and those of them that the schema has no more.
    """

    kind: str
    file_path: str
    sequence_number: int
    data_sequence_number: int
    applies: bool
    scope: Literal["file", "partition", "table"]
    rule: str = ""
    key: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    equality_ids: tuple[int, ...] | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    def rule_in(self, say: Say) -> str:
        """Return the rule as `say` says it."""
        sentence = self.kind if self.kind == "deletion-vector" else f"{self.kind}-{self.scope}"
        key = (say(SENTENCES["dropped"], column=c) if c in self.dropped else c for c in self.key)
        return say(
            SENTENCES[sentence if self.applies else "too-old"],
            file=_name(self.file_path),
            key=", ".join(key),
            data=self.data_sequence_number,
            delete=self.sequence_number,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadFile:
    """A data or delete file that could not be read, and why."""

    file_path: str
    error: DeletekitError


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersion:
    """One row of one data file; `hidden_by` and `unread` are empty for a live row.

    `unread` are deletes that are about its data file and could not be read: they may hide the row, or not.
    """

    row: dict[str, Any]
    data_file: str
    position: int
    sequence_number: int
    hidden_by: tuple[HidingDelete, ...] = ()
    spared_by: tuple[HidingDelete, ...] = ()
    unread: tuple[UnreadFile, ...] = ()

    @property
    def live(self) -> bool:
        return not self.hidden_by and not self.unread

    @property
    def unknown(self) -> bool:
        """Whether only a delete that could not be read can say if the row is live."""
        return bool(self.unread) and not self.hidden_by

    @property
    def state(self) -> Literal["live", "hidden", "unknown"]:
        return "unknown" if self.unknown else "live" if self.live else "hidden"

    @property
    def verdict(self) -> str:
        """One sentence: live or hidden, by what, and the sequence numbers that decide."""
        return self.verdict_in(str.format)

    def verdict_in(self, say: Say) -> str:
        """Return the verdict as `say` says it."""
        why = [delete.rule_in(say) for delete in self.hidden_by or self.spared_by]
        sentence = "row-hidden" if self.hidden_by else "row-spared" if why else "row-live"
        if self.unknown:
            why = [say(SENTENCES["unread-delete"], file=_name(u.file_path)) for u in self.unread]
            sentence = "row-unknown"
        where = {"position": self.position, "file": _name(self.data_file), "sequence": self.sequence_number}
        return say(SENTENCES[sentence], **where, why="; ".join(why))


@public_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What `explain` returns: iterate over the versions, or print it.

    `unread` are the files that could not be read; rows of such a data file are not among the versions.
    """

    table: str
    snapshot_id: int | None
    versions: tuple[RowVersion, ...]
    unread: tuple[UnreadFile, ...] = ()

    def __iter__(self) -> Iterator[RowVersion]:
        return iter(self.versions)

    def __len__(self) -> int:
        return len(self.versions)

    @property
    def live(self) -> tuple[RowVersion, ...]:
        return tuple(v for v in self.versions if v.live)

    @property
    def hidden(self) -> tuple[RowVersion, ...]:
        return tuple(v for v in self.versions if v.hidden_by)

    def to_text(self, say: Say = str.format) -> str:
        """Each version in two lines: its values, and its verdict. `say` may say it in another language."""
        lines = [self._headline(say)]
        for version in self.versions:
            lines.append(f"{say(SENTENCES[version.state]):6} {version.row}")
            lines.append(f"       {version.verdict_in(say)}")
        return "\n".join([*lines, *self._unread_in(say)])

    def to_html(self, say: Say = str.format, lang: str = "en") -> str:
        """Return the same as a table. `say` may say it in another language, whose code is `lang`."""
        caption = self._headline(say)
        unread = "".join(f"<p>{safe_html(line)}</p>" for line in self._unread_in(say))
        if not self.versions:
            return f'<p lang="{safe_html(lang)}">{safe_html(caption)}</p>{unread}'
        columns = [say(SENTENCES["verdict"]), *self.versions[0].row, say(SENTENCES["why"])]
        rows = [[say(SENTENCES[v.state]), *map(literal, v.row.values()), v.verdict_in(say)] for v in self.versions]
        numbers = [i + 1 for i in number_columns(list(v.row.values()) for v in self.versions)]
        return html_table(columns, rows, caption=caption, numbers=numbers, lang=lang) + unread

    def _headline(self, say: Say) -> str:
        counts = {"live": len(self.live), "hidden": len(self.hidden)}
        unknown = len(self) - len(self.live) - len(self.hidden)
        sentence = "counts-unknown" if unknown else "counts" if self.versions else "none"
        return say(SENTENCES[sentence], table=self.table, snapshot=self.snapshot_id, unknown=unknown, **counts)

    def _unread_in(self, say: Say) -> list[str]:
        return [say(SENTENCES["unread"], file=u.file_path, error=u.error) for u in self.unread]

    def __str__(self) -> str:
        return self.to_text()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


def explain(
    table: Table,
    where: Filter,
    *,
    columns: str | Sequence[str] | None = None,
    snapshot_id: int | None = None,
    ref: str = MAIN,
    as_of: int | str | datetime | None = None,
    engine: Engine | None = None,
) -> Explanation:
    """Find every version of the chosen rows in a snapshot's data files and say why each is live or hidden.

    Parameters
    ----------
    where: which rows, as in `scan`; deleted rows are found too.
    columns: columns to show; None is all of the schema.
    snapshot_id, ref, as_of: which snapshot, as in `scan`.

    Versions come oldest first (by sequence number, file, position). Equality deletes that hold the row's key but are
    too old to hide it are reported as `spared_by`. A file that cannot be read is named in `unread`, and the others
    are explained.

    Raises as `scan`, except for such files. Spec: "Scan Planning", "Row-level Deletes".
    """
    snapshot, schema = resolve_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref, as_of=as_of)
    chosen = unbound_filter(where, schema)
    bound = bound_filter(chosen, schema)
    fields = tuple(select_field(schema, name) for name in as_names(columns)) if columns else schema.fields
    if snapshot is None:
        return Explanation(table=table.name, snapshot_id=None, versions=())
    reader = SnapshotReader(table.io, table.metadata)

    def planned() -> tuple[Sequence[ScanTask], DeleteFileIndex]:
        tasks = plan_scan(table.metadata, snapshot, reader, chosen, schema)
        return tasks, delete_index(table.metadata, snapshot, reader)

    unread: dict[str, UnreadFile] = {}
    lost: tuple[UnreadFile, ...] = ()
    try:
        tasks, index = planned()
    except UNREADABLE:
        damaged = {m: _unread(e, m.manifest_path) for m, e in reader.leave_out_unreadable(snapshot).items()}
        if not damaged:
            raise
        unread = {u.file_path: u for u in damaged.values()}
        lost = tuple(u for m, u in damaged.items() if m.content == ManifestContent.DELETES)
        tasks, index = planned()
    job = _Job(ReadContext(table.io, table.metadata), ReadRequest(fields, bound), index, lost)
    found: list[RowVersion] = []
    for versions, files in engine_or_default(engine).map(job.explain, tasks):
        found += versions
        unread |= {u.file_path: u for u in files}
    found.sort(key=lambda v: (v.sequence_number, v.data_file, v.position))
    return Explanation(
        table=table.name, snapshot_id=snapshot.snapshot_id, versions=tuple(found), unread=tuple(unread.values())
    )


@dataclass(frozen=True)
class _Job:
    """Explains data files; `lost` are delete manifests that cannot be read: any row may be hidden by what they hold."""

    context: ReadContext
    request: ReadRequest
    index: DeleteFileIndex
    lost: tuple[UnreadFile, ...]

    def explain(self, task: ScanTask) -> tuple[list[RowVersion], list[UnreadFile]]:
        """Return the versions of a data file's rows, and what could not be read of it and its deletes."""
        unread: list[UnreadFile] = []
        try:
            naming = self._naming(task, task.deletes, unread)
            # A delete that is too old to apply decides nothing, so it does not matter that it cannot be read.
            naming += self._naming(task, self.index.too_old_equality_deletes(task.data), [])
            versions = []
            for batch in read_task(self.context, replace(task, deletes=()), self.request):
                versions += [self._version(task, batch, int(row), naming) for row in np.flatnonzero(batch.selected)]
        except UNREADABLE as e:
            return [], [_unread(e, task.data_file.file_path)]
        return [replace(v, unread=(*self.lost, *unread)) for v in versions], unread

    def _naming(
        self, task: ScanTask, deletes: Sequence[ManifestEntry], unread: list[UnreadFile]
    ) -> list[tuple[bool, HidingDelete, PositionBitmap]]:
        """Return whether each delete hides rows, and which it names. Raise what is wrong with the data file alone."""
        found = []
        for delete in deletes:
            try:
                hides = reason_of(delete, task.data, self.context.metadata.specs) == "applies"
                positions = named_positions(self.context, task.data, delete)
                found.append((hides, _describe(delete, task.data, self.context.metadata, hides), positions))
            except UNREADABLE as e:
                if e.file == without_secrets(task.data_file.file_path):
                    raise
                unread.append(_unread(e, delete.data_file.file_path))
        return found

    def _version(
        self, task: ScanTask, batch: FileBatch, row: int, naming: Sequence[tuple[bool, HidingDelete, PositionBitmap]]
    ) -> RowVersion:
        position = batch.first_position + row
        return RowVersion(
            row=python_rows(batch.table.slice(row, 1))[0],
            data_file=task.data_file.file_path,
            position=position,
            sequence_number=task.data.sequence_number or 0,
            hidden_by=tuple(delete for hides, delete, positions in naming if hides and position in positions),
            spared_by=tuple(delete for hides, delete, positions in naming if not hides and position in positions),
        )


def _unread(e: DeletekitError, path: str) -> UnreadFile:
    return UnreadFile(file_path=e.file or path, error=e)


def _describe(entry: ManifestEntry, data: ManifestEntry, metadata: TableMetadata, hides: bool) -> HidingDelete:
    """Return a delete with the rule by which it hides rows, or does not."""
    delete = entry.data_file
    assert isinstance(delete, DeleteFile)
    scope: Literal["file", "partition", "table"] = "file"
    if delete.kind == "equality-delete":
        scope = "table" if is_global(metadata.specs[delete.spec_id]) else "partition"
    elif not referenced_path(delete):
        scope = "partition"
    ids = delete.equality_ids or ()
    found = HidingDelete(
        kind=delete.kind,
        file_path=delete.file_path,
        sequence_number=entry.sequence_number or 0,
        data_sequence_number=data.sequence_number or 0,
        applies=hides,
        scope=scope,
        key=tuple(_column(metadata, i) for i in ids),
        dropped=tuple(_column(metadata, i) for i in ids if not metadata.schema.find_column_name(i)),
        equality_ids=delete.equality_ids,
        content_offset=delete.content_offset,
        content_size_in_bytes=delete.content_size_in_bytes,
    )
    return replace(found, rule=found.rule_in(str.format))


def _column(metadata: TableMetadata, field_id: int) -> str:
    return metadata.schema.find_column_name(field_id) or metadata.all_fields[field_id].name


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
