"""Decide which batch of a stream each file is, from the files that the table names.

A file is known by its path and applied once. It is new only if that is certain: either all files of the stream are
accounted for, or its name comes after all known names. A file before a known one counts as old if the table's history
no longer tells. Any other file is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from deletekit.errors import InvalidInputError
from deletekit.stream.change_files import name_total, natural_key
from deletekit.table.sink_batches import Marker


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """A file as a batch.

    Attributes
    ----------
    is_old: whether it is in the table although its snapshot has expired.
    before: the files before it.
    moved: digests of batches from files of the same name in other folders, and their paths.
    """

    file: str
    batch_id: int
    is_old: bool = False
    before: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)


def plan_files(
    files: Sequence[str], newest: Marker | None, known: Sequence[Marker], *, allow_rewind: bool
) -> list[FileBatch]:
    """Return the batch of each file.

    Parameters
    ----------
    newest: the stream's newest batch.
    known: all of its batches whose snapshots the table still has, newest first.
    allow_rewind: apply all files after the newest batch.

    Raises InvalidInputError of kind `file-order` for a new file that comes before a file that is in the table, and
    `file-unknown` for a file that may or may not have been applied.
    """
    if newest is None:
        return _numbered(files, 0)
    if allow_rewind:
        return _numbered(files, newest.batch_id + 1)
    if newest.file is None:
        return _by_place(files, newest)
    return _KnownFiles(newest, known).plan(files)


def _numbered(files: Sequence[str], first: int) -> list[FileBatch]:
    return [FileBatch(file=f, batch_id=first + i, before=tuple(files[:i])) for i, f in enumerate(files)]


def _by_place(files: Sequence[str], newest: Marker) -> list[FileBatch]:
    """Give numbers to the files of a stream whose batches name no files, because `Sink.write` wrote them."""
    if len(files) <= newest.batch_id:
        message = "the batches in the table do not name the files that they come from"
        found, count = f"{len(files)} files", newest.batch_id + 1
        expected = f"once all files of the stream in their order, the {count} applied ones first"
        raise InvalidInputError(message, kind="file-unknown", field="files", found=found, expected=expected)
    return _numbered(files, 0)


class _KnownFiles:
    """The files of a stream. The table names some of them, and has the total of all."""

    def __init__(self, newest: Marker, known: Sequence[Marker]) -> None:
        self._newest = newest
        self._markers = {m.snapshot.snapshot_id: m for m in (*known, newest) if m.file is not None}.values()
        ordered = sorted(self._markers, key=lambda m: m.snapshot.sequence_number)
        self._number = {m.file: m.batch_id for m in ordered}
        self._taken = {m.batch_id for m in ordered}
        # What is left are the files whose snapshots have expired; 0: there are none.
        self._expired = ((newest.files_total or 0) - name_total(str(m.file) for m in ordered)) % 2**128

    def plan(self, files: Sequence[str]) -> list[FileBatch]:
        old = self._accounted(files)
        places = [i for i, f in enumerate(files) if f in self._number]
        last = max(places, default=-1)
        following, new, planned = min(self._taken), self._newest.batch_id, []
        for i in reversed(range(last + 1)):
            number = self._number.get(files[i])
            if number is None:
                number = self._before(files[i], following, is_old=None if old is None else i in old)
                planned.append(FileBatch(file=files[i], batch_id=number, is_old=True))
            else:
                planned.append(FileBatch(file=files[i], batch_id=number))
            following = number
        planned.reverse()
        for i in range(last + 1, len(files)):
            if old is not None and i in old:
                planned.append(FileBatch(file=files[i], batch_id=max(following - 1, 0), is_old=True))
                continue
            if old is None:
                self._check_new(files[i], files[:i])
            new += 1
            planned.append(FileBatch(file=files[i], batch_id=new, moved=self._moved(files[i])))
        return planned

    def _accounted(self, files: Sequence[str]) -> set[int] | None:
        """Return the positions of the files whose snapshots have expired, or None if they are not certain."""
        old: set[int] = set()
        total = 0
        for i, file in enumerate(files):
            if total == self._expired:
                return old
            if file not in self._number:
                old.add(i)
                total = name_total([file], total)
        return old if total == self._expired else None

    def _before(self, file: str, following: int, *, is_old: bool | None) -> int:
        """Return the number of a file before a known one. `is_old` is None if that is not certain."""
        number = following - 1
        if is_old is False or (is_old is None and (number < 0 or number in self._taken)):
            raise InvalidInputError(
                "a new file comes before a file that is in the table, and can no longer be applied before it",
                kind="file-order",
                file=file,
                found=f"a file before batch {following}",
                expected=f"new files after {self._newest.file}, which is the newest in the table",
            )
        return max(number, 0)

    def _check_new(self, file: str, before: Sequence[str]) -> None:
        newest = self._newest
        highest = newest.highest or ""
        stayed = newest.file in before or PurePath(highest).parent == PurePath(file).parent
        if not stayed or natural_key(file) <= natural_key(highest):
            raise InvalidInputError(
                "it is not known whether this file was applied, because the snapshots that would show it have expired; "
                "allow_rewind=True applies it nevertheless",
                kind="file-unknown",
                file=file,
                found=f"{newest.file} is the newest in the table, {highest} the last by name",
                expected="all files of the stream in their order, or the newest and then files of later names",
            )

    def _moved(self, file: str) -> Mapping[str, str]:
        name = PurePath(file).name
        return {m.digest: str(m.file) for m in self._markers if PurePath(str(m.file)).name == name}
