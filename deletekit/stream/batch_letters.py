"""Hold the dead letters of one batch: in this process, or in files that tasks of an engine staged."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression

from deletekit.deletes.data_file_writer import write_data_files
from deletekit.deletes.filter import parse_filter
from deletekit.deletes.input_rows import align
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.write_context import WriteContext
from deletekit.engines.local import Engine
from deletekit.formats.content_file import DataFile
from deletekit.stream.fitting_rows import UnfitRow
from deletekit.stream.split_parts import read_rows, rows_path, write_rows_file
from deletekit.table.file_io import FileIO
from deletekit.verbs.shared.read_options import select_field

_SAME = ("source", "position", "kind", "row")
_LETTERS = "-letters"


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


@runtime_checkable
class BatchLetters(Protocol):
    """The dead letters of one batch."""

    def __len__(self) -> int: ...

    @property
    def first(self) -> str:
        """The error of one of them."""

    def digest(self, of_rows: str) -> str:
        """Return the digest of the batch from that of its other rows: it covers all rows as they were given."""

    def files(self, write: LetterWriter) -> list[DataFile]:
        """Write those that are not in the table yet."""


@dataclass(frozen=True, slots=True)
class HeldLetters:
    """Dead letters in this process."""

    letters: tuple[DeadLetter, ...] = ()

    def __len__(self) -> int:
        return len(self.letters)

    @property
    def first(self) -> str:
        return self.letters[0].error if self.letters else ""

    def digest(self, of_rows: str) -> str:
        return f"{of_rows}+{_digest(self.letters)}" if self.letters else of_rows

    def files(self, write: LetterWriter) -> list[DataFile]:
        return write(self.letters)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFile:
    """A file of dead letters that a task staged: how many they are, and the last of their errors."""

    path: str
    count: int
    last: str


class StagedLetters:
    """Dead letters in staged files, and some in this process. One task holds all that a batch may have."""

    def __init__(self, staged: Sequence[LetterFile], held: Sequence[DeadLetter], io: FileIO, engine: Engine) -> None:
        self._count = sum(file.count for file in staged) + len(held)
        self._all = _Staged(io, tuple(file.path for file in staged), tuple(held))
        self._engine, self.first = engine, (held[0].error if held else staged[0].last)
        (self._own,) = engine.map(lambda these: _digest(these.read()), [self._all])

    def __len__(self) -> int:
        return self._count

    def digest(self, of_rows: str) -> str:
        return f"{of_rows}+{self._own}"

    def files(self, write: LetterWriter) -> list[DataFile]:
        (files,) = self._engine.map(lambda these: write(these.read()), [self._all])
        return files


@dataclass(frozen=True, slots=True)
class _Staged:
    io: FileIO
    paths: tuple[str, ...]
    held: tuple[DeadLetter, ...]

    def read(self) -> list[DeadLetter]:
        rows = (row for path in self.paths for row in read_rows(self.io, path).to_pylist())
        return [*self.held, *(DeadLetter(**row) for row in rows)]


def stage_letters(context: WriteContext, unfit: Iterable[UnfitRow]) -> LetterFile | None:
    """Write the rows of a task that do not fit, which have no position. Return None if there are none."""
    letters = [DeadLetter.of(row, "", "") for row in unfit]
    if not letters:
        return None
    write_rows_file(context, pa.Table.from_pylist([asdict(letter) for letter in letters]), _LETTERS)
    return LetterFile(path=rows_path(context, _LETTERS), count=len(letters), last=letters[-1].error)


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
