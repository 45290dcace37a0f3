"""Keep change rows and messages that do not fit in a table of their own, each once, and apply the others.

The dead letters of a batch are committed before the batch. If the process ends in between, the batch comes again: its
dead letters that are in the table already are not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.input_rows import as_table
from deletekit.deletes.plan import plan_scan
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.public import public, public_methods
from deletekit.stream.applied_batches import BatchId
from deletekit.stream.batch_letters import (
    BatchLetters,
    DeadLetter,
    HeldLetters,
    LetterFile,
    LetterWriter,
    StagedLetters,
)
from deletekit.stream.change_rows import ChangeFormat
from deletekit.stream.fitting_rows import UnfitRow, fitting_rows, json_text, too_many
from deletekit.table.catalog import Catalog
from deletekit.table.file_io import FileIO
from deletekit.table.table import Table
from deletekit.table.types import arrow_type
from deletekit.verbs.append import create_table

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
        self._waiting: dict[tuple[str, str, str, str], DeadLetter] = {}
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
        self._waiting[source, position, kind, row] = DeadLetter(
            source=source, position=position, kind=kind, error=error, row=row
        )
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

    def take(self, unfit: Iterable[UnfitRow], source: str, *, ordered: bool) -> HeldLetters:
        """Return what was added, and rows of the batch that do not fit. What was added is forgotten.

        Rows of a batch that comes in any order have no position.
        """
        letters = list(self._waiting.values())
        letters += [DeadLetter.of(row, source, str(row.number) if ordered else "") for row in unfit]
        self.clear()
        if len(letters) > self.most:
            raise too_many(f"a batch has more dead letters than {self.most}; the last: {letters[-1].error}", self.most)
        return HeldLetters(tuple(letters))

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
            files = letters.files(LetterWriter(context=base.write, tasks=tasks, where=where, batch=common))
            return RowDelta(added_data_files=tuple(files), read_set=ReadSet(where=where)) if files else RowDelta()

        commit(plan_change(self.table, plan))


def without_dead_letters(
    letters: DeadLetters | None, rows: Any, schema: Schema, form: ChangeFormat, source: str
) -> tuple[Any, HeldLetters]:
    """Return the rows of a batch that fit the table, and its dead letters. Without `letters` all rows must fit."""
    if letters is None:
        return rows, HeldLetters()
    rows, unfit = fitting_rows(rows, schema, form, letters.most)
    return rows, letters.take(unfit, source, ordered=form.ordered)


def with_staged(letters: DeadLetters | None, staged: Sequence[LetterFile], io: FileIO, engine: Engine) -> BatchLetters:
    """Return the dead letters of a batch whose rows tasks have read. Without `letters` there are none."""
    if letters is None:
        return HeldLetters()
    held = letters.take((), "", ordered=False)
    if not staged:
        return held
    if len(held) + sum(file.count for file in staged) > letters.most:
        message = f"a batch has more dead letters than {letters.most}; the last: {staged[-1].last}"
        raise too_many(message, letters.most)
    return StagedLetters(staged, held.letters, io, engine)


def with_rejected(
    letters: DeadLetters, rows: Any, schema: Schema, wrong: Mapping[int, InvalidInputError], known: BatchLetters
) -> tuple[pa.Table, HeldLetters]:
    """Return the rows of a batch without some, and its dead letters with these, which have no position."""
    assert isinstance(known, HeldLetters)
    held = as_table(rows, schema, "changes")
    texts = {number: json_text(held.slice(number, 1).to_pylist()[0]) for number in wrong}
    unfit = [UnfitRow(number=number, error=error, row=texts[number]) for number, error in wrong.items()]
    every = (*known.letters, *(DeadLetter.of(row, "", "") for row in unfit))
    if len(every) > letters.most:
        raise too_many(f"a batch has more dead letters than {letters.most}; the last: {every[-1].error}", letters.most)
    left = [number for number in range(len(held)) if number not in wrong]
    return held.take(pa.array(left, pa.int64())), HeldLetters(every)
