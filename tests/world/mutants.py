"""Planted mistakes that a world finds: races that were mended here once, and what a writer of tables can get wrong.

A mutant is a change of the library while a world lives. `python -m tests.world --mutant NAME --worlds 130` lets worlds
live until one breaks a promise.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import deletekit as dk
from deletekit.commit import conflicts, new_snapshot, planned_change, swap
from deletekit.maintenance import compact, expire_snapshots, remove_orphan_files
from deletekit.maintenance.head_files import Head
from deletekit.rows.write_context import WriteContext
from deletekit.stream import batch_run
from deletekit.table import catalog, pyiceberg_store


@dataclass(frozen=True)
class Mutant:
    """A planted mistake: in `place`, `make` is given the attribute `name`, and makes the wrong one.

    Attributes
    ----------
    seed: of a world that found it, and that the search begins with.
    """

    what: str
    seed: int
    place: Any
    name: str
    make: Callable[[Any], Any]

    def patch(self) -> Any:
        return patch.object(self.place, self.name, self.make(getattr(self.place, self.name)))


def _refusal(state_after: Any) -> Any:
    def mutant(error: Any, *rest: Any) -> Any:
        if not isinstance(error, dk.CommitStateUnknownError):
            raise error
        return state_after(error, *rest)

    return mutant


def _closed(ask: Any) -> Any:
    def mutant(self: Any, swap_: Any) -> Any:
        try:
            return ask(self, swap_)
        finally:
            self.is_open = False

    return mutant


def _clean_first(swap_: Any) -> Any:
    def mutant(self: Any, offered: Any) -> None:
        for change, _ in offered:
            for entry in change.delta.removed_data_files:
                change.request.table.io.delete(entry.data_file.file_path)
        swap_(self, offered)

    return mutant


def _discarded(rebased: Any) -> Any:
    def mutant(self: Any) -> Any:
        done = rebased(self)
        done.discard()
        return done

    return mutant


def _own_alone(_: Any) -> Any:
    def mutant(delta: Any, overlaps: Any, *_: Any) -> Any:
        theirs = tuple(o.theirs for o in overlaps)
        return replace(delta, removed_delete_files=(*delta.removed_delete_files, *theirs))

    return mutant


def _head_alone(unreachable: Any) -> Any:
    def mutant(found: Any, before: Any, expiry: Any, after: Any, metadata_files: Any) -> Any:
        head = after.current_snapshot.snapshot_id
        raw = {**after.raw, "snapshots": [s for s in after.raw["snapshots"] if s["snapshot-id"] == head]}
        return unreachable(found, before, expiry, type(after)(raw), metadata_files)[0], set()

    return mutant


def _few(with_row_ids: Any) -> Any:
    def mutant(metadata: Any, manifests: Any, delta: Any) -> Any:
        listed, added = with_row_ids(metadata, manifests, delta)
        return listed, added and sum(f.record_count for f in delta.added_data_files)

    return mutant


def _kept(tag_update: Any) -> Any:
    def mutant(metadata: Any, name: str) -> Any:
        made = tag_update(metadata, name)
        return made if made.found is None else replace(made, snapshot_id=made.found)

    return mutant


def _always(*, value: Any) -> Callable[[Any], Any]:
    return lambda _: lambda *_, **__: value


def _aged(plan_expiry: Any) -> Any:
    return lambda metadata, request: plan_expiry(metadata, replace(request, older_than_ms=request.now_ms))


Change, Index = planned_change.PlannedChange, expire_snapshots
MUTANTS = {
    # Races that were mended here.
    "refusal": Mutant("a refusal of a request sent twice is believed", 15, pyiceberg_store, "state_after", _refusal),
    "unknown": Mutant("a lost answer counts as a failure", 58, swap._Question, "ask", _closed),
    "expired-base": Mutant(
        "a base that expires is a missing file", 1, planned_change, "expiry_as_lost_race", _always(value=nullcontext())
    ),
    "one-look": Mutant(
        "expiry does not read again what others expire", 10, Index, "read_latest", lambda _: lambda t, f: f(t.metadata)
    ),
    "vectors": Mutant("of two vectors that race one is lost", 49, planned_change, "merge_vectors", _own_alone),
    "stale-groups": Mutant("a compaction that lost keeps its files", 4, Head, "still_holds", _always(value=True)),
    "batch": Mutant("a batch is not looked for on its head", 4, batch_run.BatchRun, "_validate", _always(value=None)),
    "tag": Mutant("the tag of a sink does not move with it", 4, batch_run, "tag_update", _kept),
    "reachable": Mutant("what expires is decided by the head alone", 2, Index, "_unreachable", _head_alone),
    "numbers": Mutant(
        "compacted files get new sequence numbers",
        4,
        compact._Part,
        "_delta",
        lambda f: lambda *a: replace(f(*a), sequence_numbers={}),
    ),
    # Mistakes that others make.
    "clean-first": Mutant("old files are removed before the swap", 1, swap._Attempts, "_swap", _clean_first),
    "list-late": Mutant(
        "the manifest list is not there at the swap", 1, new_snapshot, "_write_list", _always(value=None)
    ),
    "blind": Mutant(
        "a change is rebased without a look", 1, planned_change, "judge", lambda _: lambda delta, *_: (delta, ())
    ),
    "reads": Mutant("rows that land meanwhile are not seen", 8, conflicts, "_check_reads", _always(value=None)),
    "overlaps": Mutant("vectors that land meanwhile are not seen", 49, conflicts, "_overlaps", _always(value=())),
    "young-snapshots": Mutant("snapshots expire without a grace period", 8, Index, "plan_expiry", _aged),
    "young-orphans": Mutant(
        "orphans are removed without a grace period",
        28,
        remove_orphan_files,
        "_cut_off",
        lambda f: lambda *_: f(None, force=True) + 4 * 86_400_000,
    ),
    "row-ids": Mutant("a snapshot takes too few row ids", 1, new_snapshot, "_with_row_ids", _few),
    "won": Mutant("a lost swap counts as won", 3, catalog.SqlStore, "_register", lambda f: lambda *a: f(*a) or True),
    "log": Mutant(
        "logged metadata files are removed at once",
        2,
        catalog,
        "unlogged_files",
        lambda _: lambda _, after, __: {entry["metadata-file"] for entry in after.raw["metadata-log"]},
    ),
    "rebased-away": Mutant("a rebased change loses its files", 1, Change, "rebased", _discarded),
    "kept": Mutant("files of a lost race stay", 1, WriteContext, "discard", _always(value=None)),
}
