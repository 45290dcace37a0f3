"""Keep change rows and messages that do not fit in a table of their own, each once, and apply the others.

The dead letters of a batch are committed before the batch. If the process ends in between, the batch comes again: its
dead letters that are in the table already are not written again. They are in this process, or in files that tasks of an
engine staged.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.filters.filter import parse_filter
from deletekit.formats.content_file import DataFile
from deletekit.public import public, public_methods
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align, as_table
from deletekit.rows.write_context import WriteContext
from deletekit.stream.applied_batches import BatchId
from deletekit.stream.change_rows import ChangeFormat
from deletekit.stream.fitting_rows import UnfitRow, fitting_rows, json_text, too_many
from deletekit.stream.split_parts import read_rows, write_rows_file
from deletekit.table.catalog import Catalog
from deletekit.table.file_io import FileIO
from deletekit.table.table import Table
from deletekit.table.types import arrow_type
from deletekit.verbs.append import create_table
from deletekit.verbs.shared.read_options import select_field

_SAME = ("source", "position", "kind", "row")
_LETTERS = "-letters"
_T = TypeVar("_T")
_COLUMNS = (
    ("table_name", pa.string()),
    ("sink_id", pa.string()),
    ("query_id", pa.string()),
    ("batch_id", pa.int64()),
    ("source", pa.string()),
    ("position", pa.string()),
    ("kind", pa.string()),
    ("error", pa.string()),
    ("row", pa.string()),
    ("at", pa.timestamp("us", "UTC")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What does not fit, why, and where it is from."""

    source: str
    position: str
    kind: str
    error: str
    row: str

    @classmethod
    def of(cls, unfit: UnfitRow, source: str, position: str) -> DeadLetter:
        """Return a row of a batch that does not fit."""
        return cls(source=source, position=position, kind=unfit.error.kind, error=str(unfit.error), row=unfit.row)

    @property
    def identity(self) -> tuple[str, ...]:
        return self.source, self.position, self.kind, self.row


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFile:
    """A file of dead letters that a task staged: how many they are, and the last of their errors."""

    path: str
    count: int
    last: str


@dataclass(frozen=True, slots=True)
class BatchLetters:
    """The dead letters of one batch. One process holds all of them at a time.

    Attributes
    ----------
    held: those in this process; staged: files of those that tasks found; source: what reads these files.
    """

    held: tuple[DeadLetter, ...] = ()
    staged: tuple[LetterFile, ...] = ()
    source: tuple[FileIO, Engine] | None = None

    def __len__(self) -> int:
        return len(self.held) + sum(file.count for file in self.staged)

    @property
    def first(self) -> str:
        """The error of one of them."""
        return (*(letter.error for letter in self.held), *(file.last for file in self.staged), "")[0]

    def digest(self, of_rows: str) -> str:
        """Return the digest of the batch from that of its other rows: it covers all rows as they were given."""
        return f"{of_rows}+{self.of_all(_digest)}" if len(self) else of_rows

    def of_all(self, make: Callable[[Sequence[DeadLetter]], _T]) -> _T:
        """Return what a function makes of all letters, called in a task if some are staged."""
        if self.source is None:
            return make(self.held)
        held, (io, engine) = self.held, self.source

        def task(paths: Sequence[str]) -> _T:
            rows = (row for path in paths for row in read_rows(io, path).to_pylist())
            return make([*held, *(DeadLetter(**row) for row in rows)])

        (made,) = engine.map(task, [[file.path for file in self.staged]])
        return made


def stage_letters(context: WriteContext, unfit: Iterable[UnfitRow]) -> LetterFile | None:
    """Write the rows of a task that do not fit, which have no position. Return None if there are none."""
    letters = [DeadLetter.of(row, "", "") for row in unfit]
    if not letters:
        return None
    path = write_rows_file(context, pa.Table.from_pylist([asdict(letter) for letter in letters]), _LETTERS)
    return LetterFile(path=path, count=len(letters), last=letters[-1].error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterWriter:
    """Writes dead letters to their table, in any process, except for those that are there.

    Attributes
    ----------
    tasks: read the data files that may have some of the batch; where: which rows are of the batch.
    batch: the columns that all of them share.
    """

    context: WriteContext
    tasks: Sequence[ScanTask]
    where: BooleanExpression
    batch: Mapping[str, Any]

    def __call__(self, letters: Sequence[DeadLetter]) -> list[DataFile]:
        there = Counter[tuple[str, ...]]()
        for task in self.tasks:
            there.update(self._found(task))
        new = []
        for letter in letters:
            if there[letter.identity]:
                there[letter.identity] -= 1
            else:
                new.append({**self.batch, **asdict(letter)})
        schema = self.context.metadata.schema
        return list(write_data_files(self.context, [align(new, schema)])) if new else []

    def _found(self, task: ScanTask) -> Iterable[tuple[str, ...]]:
        context, schema = ReadContext(self.context.io, self.context.metadata), self.context.metadata.schema
        fields = tuple(select_field(schema, name) for name in _SAME)
        for batch in read_task(context, task, ReadRequest(fields, parse_filter(self.where, schema), only_live=True)):
            live = batch.table if batch.live_mask is None else batch.table.filter(batch.live_mask)
            yield from zip(*(column.to_pylist() for column in live.columns), strict=True)


def _digest(letters: Sequence[DeadLetter]) -> str:
    each = sorted(repr(letter.identity).encode() for letter in letters)
    return hashlib.sha256(b"\n".join(each)).hexdigest()[:32]


@public
def dead_letter_schema() -> pa.Schema:
    """Return the columns of a table of dead letters.

    `table_name`, `sink_id`, `query_id` and `batch_id` tell the batch; `source` and `position` where the row is from (a
    file or topic; the number of the row or an offset); `kind` and `error` why it does not fit; `row` is the row as JSON
    or the message as text; `at` is when it was written.
    """
    return pa.schema([pa.field(name, kind) for name, kind in _COLUMNS])


@public
def create_dead_letters(catalog: Catalog, identifier: str | Sequence[str]) -> Table:
    """Create a table of dead letters, for the argument `dead_letters` of `sink`. Several sinks may share it.

    Raises InvalidInputError if the table exists, and as `create_table`.
    """
    return create_table(catalog, identifier, dead_letter_schema(), format_version=2)


@public_methods
class DeadLetters:
    """The dead letters of a sink: `Sink.dead_letters`. What is added belongs to the batch that is written next.

    Attributes
    ----------
    table: where they are kept.
    most: how many a batch may have.
    """

    def __init__(self, table: Table, most: int) -> None:
        self.table, self.most = table, most
        self._waiting: dict[tuple[str, ...], DeadLetter] = {}
        self._is_checked = False

    def add(self, *, source: str, position: str, kind: str, error: str, row: str) -> None:
        """Add a message that cannot be understood; a source calls this before it writes the batch without it.

        Adding the same one again changes nothing.

        Parameters
        ----------
        source, position: where the message is from, as a topic and an offset.
        kind, error: why it cannot be understood.
        row: the message as text.

        Raises InvalidInputError (`dead-letters`) if the batch has too many.
        """
        letter = DeadLetter(source=source, position=position, kind=kind, error=error, row=row)
        self._waiting[letter.identity] = letter
        if len(self._waiting) > self.most:
            self._waiting.clear()
            raise too_many(f"a batch has more dead letters than {self.most}; the last: {error}", self.most)

    def reject(self, message: Any, error: InvalidInputError) -> None:
        """Add a message of a source (`stream.sources.Message`), as `add` does: the hook `reject` of a decoder."""
        value = message.key if message.value is None else message.value
        self.add(
            source=message.topic,
            position=message.position,
            kind=error.kind,
            error=str(error),
            row=(value or b"").decode("utf-8", "backslashreplace"),
        )

    def clear(self) -> None:
        """Forget what was added and not written."""
        self._waiting.clear()

    def of_batch(
        self,
        letters: Iterable[DeadLetter],
        staged: Sequence[LetterFile] = (),
        source: tuple[FileIO, Engine] | None = None,
    ) -> BatchLetters:
        """Return the dead letters of a batch: what was added, which is forgotten, and others. Refuse too many."""
        held = (*self._waiting.values(), *letters)
        self.clear()
        found = BatchLetters(held, tuple(staged), source if staged else None)
        if len(found) > self.most:
            last = staged[-1].last if staged else held[-1].error
            raise too_many(f"a batch has more dead letters than {self.most}; the last: {last}", self.most)
        return found

    def check(self, table: Table) -> None:
        """Raise InvalidInputError (`dead-letter-table`) if the table cannot keep dead letters, or is the sink's own."""
        if self._is_checked:
            return
        metadata = self.table.refresh().metadata
        if self.most < 0:
            message, field = "not a number of dead letters", "max_dead_letters"
            raise InvalidInputError(message, kind="dead-letters", field=field, found=self.most, expected="0 or more")
        if metadata.table_uuid == table.metadata.table_uuid:
            message = "the dead letters would be rows of the table that the sink writes to"
            raise InvalidInputError(message, kind="dead-letter-table", field="dead_letters", found=self.table.name)
        check_request(self.table, "main")
        found = {f.name: arrow_type(f.field_type) for f in metadata.schema.fields}
        wrong = [name for name, kind in _COLUMNS if found.get(name) != kind]
        if wrong:
            raise InvalidInputError(
                "the table has not the columns of dead letters",
                kind="dead-letter-table",
                field=wrong[0],
                found=found.get(wrong[0]),
                expected="a table that stream.create_dead_letters made",
            )
        self._is_checked = True

    def write(self, table: Table, batch: BatchId, letters: BatchLetters) -> None:
        """Commit the dead letters of a batch, except for those that are in the table already."""
        if not len(letters):
            return
        identity = {
            "table_name": table.name,
            "sink_id": batch.sink_id,
            "query_id": batch.query_id,
            "batch_id": batch.batch_id,
        }
        terms: list[BooleanExpression] = [
            EqualTo(term=Reference(name), value=literal(value)) for name, value in identity.items()
        ]
        where, common = reduce(And, terms), {**identity, "at": datetime.now(UTC)}

        def plan(base: Base) -> RowDelta:
            tasks = tuple(plan_scan(base.metadata, base.snapshot, base.reader, where))
            files = letters.of_all(LetterWriter(context=base.write, tasks=tasks, where=where, batch=common))
            return RowDelta(added_data_files=tuple(files), read_set=ReadSet(where=where)) if files else RowDelta()

        commit(plan_change(self.table, plan))


def without_dead_letters(
    letters: DeadLetters | None, rows: Any, schema: Schema, form: ChangeFormat, source: str
) -> tuple[Any, BatchLetters]:
    """Return the rows of a batch that fit the table, and its dead letters. Without `letters` all rows must fit."""
    if letters is None:
        return rows, BatchLetters()
    rows, unfit = fitting_rows(rows, schema, form, letters.most)
    # Rows of a batch that comes in any order have no position.
    places = (str(row.number) if form.ordered else "" for row in unfit)
    return rows, letters.of_batch(DeadLetter.of(row, source, at) for row, at in zip(unfit, places, strict=True))


def with_staged(letters: DeadLetters | None, staged: Sequence[LetterFile], io: FileIO, engine: Engine) -> BatchLetters:
    """Return the dead letters of a batch whose rows tasks have read. Without `letters` there are none."""
    if letters is None:
        return BatchLetters()
    return letters.of_batch((), staged, (io, engine))


def with_rejected(
    letters: DeadLetters, rows: Any, schema: Schema, wrong: Mapping[int, InvalidInputError], known: BatchLetters
) -> tuple[pa.Table, BatchLetters]:
    """Return the rows of a batch without some, and its dead letters with these, which have no position."""
    held = as_table(rows, schema, "changes")
    texts = {number: json_text(held.slice(number, 1).to_pylist()[0]) for number in wrong}
    unfit = [UnfitRow(number=number, error=error, row=texts[number]) for number, error in wrong.items()]
    found = letters.of_batch([*known.held, *(DeadLetter.of(row, "", "") for row in unfit)])
    left = [number for number in range(len(held)) if number not in wrong]
    return held.take(pa.array(left, pa.int64())), found
