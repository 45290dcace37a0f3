"""Write the changes of a table as JSON lines, Debezium's events or Parquet, and follow the table.

A file appears when it is whole. A folder gets a file for each snapshot; its newest file says where to go on.
"""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from deletekit.cli.row_writers import Counted, json_lines, kind_of, write_rows
from deletekit.errors import InvalidInputError, storage_error
from deletekit.stream.sources.debezium_lines import DebeziumLines
from deletekit.stream.sources.table import steps_after
from deletekit.table.table import Table
from deletekit.tools.changes import Changes
from deletekit.tools.snapshot_range import ChangeStep

_SUFFIXES = {"parquet": ".parquet", "jsonl": ".jsonl", "debezium": ".debezium.jsonl"}
_BY_SUFFIX = {".parquet": "parquet", ".jsonl": "jsonl", ".json": "jsonl"}
_NAME = re.compile(r"(\d{9,})-(\d+|none)(\.[a-z.]+)")


def format_of(target: Path) -> str:
    """Return the format that a file's name tells. Raise InvalidInputError for a name that tells none."""
    return kind_of(target, _BY_SUFFIX)


def print_changes(changes: Changes, kind: str) -> int:
    """Write changes as lines to standard output. Return how many they are."""
    counted = Counted(changes.to_batches())
    sys.stdout.writelines(f"{line}\n" for line in _lines(changes, kind)(counted))
    sys.stdout.flush()
    return counted.rows


def write_changes(changes: Changes, kind: str, target: Path, *, overwrite: bool) -> int:
    """Write changes to a file. Return how many they are. Raises as `write_rows` does."""
    lines = _lines(changes, kind)
    return write_rows(changes.arrow_schema, changes.to_batches(), target, kind, overwrite=overwrite, lines=lines)


def _lines(changes: Changes, kind: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[str]]:
    return DebeziumLines(changes).lines if kind == "debezium" else json_lines


@dataclass
class ChangeFolder:
    """A folder with a file of changes for each snapshot.

    A file's name is `NUMBER-SNAPSHOT`: its place in the order of files, and the snapshot that a copy is at which has
    applied all files up to it; `none` is a table before its first row.

    Attributes
    ----------
    number: of the newest file; 0 without any.
    snapshot: of the newest file.
    """

    path: Path
    kind: str
    number: int = 0
    snapshot: int | None = None

    def open(self, start: int | None) -> int | None:
        """Make the folder if it is not there. Return the snapshot to go on from: of its newest file, else `start`.

        Raises InvalidInputError for a folder that goes on elsewhere than at `start`, or that has files of another
        format; StorageError.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            found = [match for file in self.path.iterdir() if (match := _NAME.fullmatch(file.name))]
        except OSError as e:
            raise storage_error(e, str(self.path)) from e
        other = next((m for m in found if m[3] != _SUFFIXES[self.kind]), None)
        if other is not None:
            message, expected = "the folder has changes in another format", "another folder, or the same --format"
            raise InvalidInputError(message, kind="file-format", file=str(self.path), found=other[0], expected=expected)
        newest = max(found, key=lambda match: int(match[1]), default=None)
        if newest is None:
            return start
        self.number, self.snapshot = int(newest[1]), None if newest[2] == "none" else int(newest[2])
        if start not in (None, self.snapshot):
            raise InvalidInputError(
                "the folder goes on after another snapshot",
                kind="change-folder",
                file=str(self.path / newest[0]),
                field="--from",
                found=start,
                expected=f"no --from, --from {newest[2]}, or another folder",
            )
        return self.snapshot

    def write(self, changes: Changes, step: ChangeStep) -> int:
        """Write the changes of a step to the next file."""
        at = "none" if step.end is None else str(step.end)
        target = self.path / f"{self.number + 1:09}-{at}{_SUFFIXES[self.kind]}"
        rows = write_changes(changes, self.kind, target, overwrite=False)
        self.number += 1
        return rows


def following_steps(
    table: Table,
    at: int | None,
    ref: str,
    *,
    first: int,
    inverse: bool,
    poll: float,
    idle: float | None,
    most: int | None,
) -> Iterator[ChangeStep]:
    """Yield the steps after a snapshot, and then those of each new snapshot.

    Parameters
    ----------
    first: the ordinal of the first step.
    poll: seconds to wait until the table is asked again.
    idle: end after so many seconds without a new snapshot; None goes on.
    most: end after so many steps.

    Raises as `steps_after`.
    """
    number, newest = first, time.monotonic()
    while True:
        steps = steps_after(table, at, ref, inverse=inverse)
        for step in steps:
            yield replace(step, ordinal=number)
            at = step.end
            number += 1
            if most is not None and number == first + most:
                return
        left = None if idle is None else idle - (time.monotonic() - newest)
        if steps:
            newest = time.monotonic()
        elif left is not None and left <= 0:
            return
        else:
            time.sleep(poll if left is None else min(poll, left))
