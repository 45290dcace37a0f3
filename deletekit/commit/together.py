"""Commit planned changes of several tables in one transaction of their catalog: all of them or none.

After a lost race every change is rebased or planned again, as `swap.commit` does for one. If the catalog's answer was
lost, all files are kept, because all commits may have happened.
Spec: REST catalog, "CommitTransactionRequest".
"""

from collections.abc import Sequence
from dataclasses import replace

from deletekit.commit.planned_change import PlannedChange
from deletekit.commit.swap import Commit, answered, result_of, tell_commit, write_snapshot
from deletekit.errors import CommitConflictError, CommitStateUnknownError, DeletekitError
from deletekit.log import telling_failure
from deletekit.table.any_catalog import TableState
from deletekit.table.back_off import retry


def commit_together(changes: Sequence[PlannedChange]) -> list[Commit]:
    """Commit changes of different tables of one catalog, none of them empty.

    Raises as `swap.commit`, and UnsupportedError if the catalog has no transactions over several tables.
    """
    current, started, lost, unknown = list(changes), False, False, False

    def attempt() -> list[Commit]:
        nonlocal started, lost, unknown
        if started:
            rebase, lost = lost, False
            for number, change in enumerate(current):
                current[number] = change.rebased() if rebase else change.replanned()
        started, lost = True, False
        made = [snapshot for change in current if (snapshot := write_snapshot(change)) is not None]
        unknown = True
        try:
            states = _swap(current, [(snapshot.requirements, snapshot.updates) for snapshot in made])
        except CommitStateUnknownError:
            raise
        except DeletekitError as error:  # a definite no
            unknown, lost = False, isinstance(error, CommitConflictError)
            raise
        for change, state in zip(current, states, strict=True):
            change.request.table.adopt(state)
        attempts = current[0].back_off.attempts
        plans = [change.plans for change in current]
        return [replace(result_of(m), attempts=attempts, plans=n) for m, n in zip(made, plans, strict=True)]

    names = ", ".join(change.request.table.name for change in changes)
    try:
        with telling_failure(names, changes[0].request.ref):
            done = retry(attempt, changes[0].back_off)
    except BaseException:
        if not unknown:
            for change in current:
                change.discard()
        raise
    for change, one in zip(current, done, strict=True):
        tell_commit(change, one)
    return done


def _swap(changes: Sequence[PlannedChange], made: Sequence[tuple[Sequence, Sequence]]) -> list[TableState]:  # type: ignore[type-arg]
    tables = [change.request.table for change in changes]
    parts = [(table.identifier, *part) for table, part in zip(tables, made, strict=True)]
    return answered(lambda: tables[0].require_catalog().commit_together(parts))
