"""A change stream applied to an Iceberg table batch by batch, as a pure model: what a streaming writer writes, what a
crash leaves behind, and which rows a reader then sees.

Law: no table and no files; the rules by which rows are hidden are the specification's. What this
shows are the steps inside one batch of a writer to a real table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

__all__ = ["BATCHES", "Change", "Commit", "Crash", "Mode", "ModelTable", "applied"]

Mode = Literal["equality-and-position", "equality-delete", "deletion-vector"]
Crash = Literal["", "before-commit", "after-commit"]


@dataclass(frozen=True, slots=True)
class Change:
    """`insert` adds a row and looks for none; `upsert` replaces the rows of its id; `delete` ends them."""

    op: Literal["insert", "upsert", "delete"]
    id: int
    value: str = ""


BATCHES: tuple[tuple[Change, ...], ...] = (
    (Change("insert", 1, "a"), Change("insert", 2, "b"), Change("insert", 3, "c")),
    (Change("upsert", 2, "b2"), Change("delete", 3)),
    (Change("insert", 4, "d"), Change("upsert", 4, "d2"), Change("upsert", 1, "a2")),
    (Change("delete", 2), Change("insert", 5, "e")),
)


@dataclass(frozen=True, slots=True)
class Commit:
    """One snapshot: `checkpoint` is the number of its batch; rows: (id, value); positions: (data file, position)."""

    sequence: int
    checkpoint: int
    rows: tuple[tuple[int, str], ...]
    equality: frozenset[int] = frozenset()
    positions: frozenset[tuple[int, int]] = frozenset()
    vectors: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class ModelTable:
    """Commits in order, and what was written without being committed."""

    commits: tuple[Commit, ...] = ()
    orphans: tuple[Commit, ...] = field(default=())

    def rows(self) -> list[tuple[int, int, int, str, bool]]:
        """Every row: sequence number of its file, position, id, value, and whether a reader sees it."""
        found = []
        for data in self.commits:
            hidden = {p for c in self.commits for s, p in c.positions | c.vectors if s == data.sequence}
            for position, (key, value) in enumerate(data.rows):
                gone = position in hidden or any(key in c.equality and data.sequence < c.sequence for c in self.commits)
                found.append((data.sequence, position, key, value, not gone))
        return found

    def live(self) -> list[tuple[int, str]]:
        """What a reader sees, sorted."""
        return sorted((key, value) for _, _, key, value, seen in self.rows() if seen)


def applied(
    batches: Sequence[Sequence[Change]],
    mode: Mode,
    *,
    crash: Crash = "",
    resumed: bool = False,
    checkpoint_check: bool = True,
) -> ModelTable:
    """The table after some batches, the last of which may have met a crash.

    Parameters
    ----------
    crash: `before-commit`, when files were written and no snapshot; `after-commit`, before the source was told.
    resumed: the writer has started again, and was given the last batch a second time.
    checkpoint_check: on start the writer looks which checkpoint the table's last snapshot names, and skips up to it.
    """
    table = ModelTable()
    for number, batch in enumerate(batches[:-1] if crash else batches, 1):
        table = _committed(table, batch, number, mode)
    if not crash or not batches:
        return table
    last = len(batches)
    written = _commit_of(table, batches[-1], last, mode)
    if crash == "before-commit":
        table = replace(table, orphans=(written,))
    else:
        table = replace(table, commits=(*table.commits, written))
    seen = max((c.checkpoint for c in table.commits), default=0)
    if not resumed or (checkpoint_check and seen >= last):
        return table
    return _committed(table, batches[-1], last, mode)


def _committed(table: ModelTable, batch: Sequence[Change], checkpoint: int, mode: Mode) -> ModelTable:
    return replace(table, commits=(*table.commits, _commit_of(table, batch, checkpoint, mode)))


def _commit_of(table: ModelTable, batch: Sequence[Change], checkpoint: int, mode: Mode) -> Commit:
    """What the writer of a mode makes of a batch."""
    sequence = len(table.commits) + 1
    rows: list[tuple[int, str]] = []
    dead: set[int] = set()
    touched: set[int] = set()
    for change in batch:
        if change.op != "insert":
            touched.add(change.id)
            dead |= {position for position, (key, _) in enumerate(rows) if key == change.id}
        if change.op != "delete":
            rows.append((change.id, change.value))
    if mode == "equality-and-position":
        own = frozenset((sequence, position) for position in dead)
        return Commit(sequence, checkpoint, tuple(rows), equality=frozenset(touched), positions=own)
    kept = tuple(row for position, row in enumerate(rows) if position not in dead)
    if mode == "equality-delete":
        return Commit(sequence, checkpoint, kept, equality=frozenset(touched))
    earlier = {(s, p) for s, p, key, _, seen in table.rows() if seen and key in touched}
    return Commit(sequence, checkpoint, kept, vectors=frozenset(earlier))
