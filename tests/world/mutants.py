"""Planted mistakes: each is one that was mended here once, or one that a writer of tables can make. A world finds them.

A mutant is a change of the library while a world lives. `python -m tests.world --mutant NAME` runs worlds until one is
broken.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import deletekit as dk
from deletekit.commit import conflicts, new_snapshot, planned_change, swap
from deletekit.maintenance import compact, expire_snapshots, remove_orphan_files
from deletekit.maintenance.head_files import Head as HeadFiles
from deletekit.rows.write_context import WriteContext
from deletekit.stream import batch_run
from deletekit.table import catalog, pyiceberg_store

Patch = Callable[[], Any]


def _put(place: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    """Replace an attribute by what `make` makes of it."""
    return lambda: patch.object(place, name, make(getattr(place, name)))


def _refused(state_after: Any) -> Any:
    """A refusal is believed at once; an unknown state is looked into as it should be."""

    def mutant(error: Any, *arguments: Any) -> Any:
        if not isinstance(error, dk.CommitStateUnknownError):
            raise error
        return state_after(error, *arguments)

    return mutant


def _cleaning_first(_swap: Any) -> Any:
    def mutant(self: Any, offered: Any) -> None:
        for change, _ in offered:
            for entry in change.delta.removed_data_files:
                change.request.table.io.delete(entry.data_file.file_path)
        _swap(self, offered)

    return mutant


def _listing_late(write_list: Any) -> Any:
    """The manifest list is written when the commit is through."""
    late: list[Any] = []

    def mutant(*arguments: Any) -> None:
        late.append(arguments)

    return mutant


def _unlogged_first(_: Any) -> Any:
    """The metadata file that a commit replaces goes before the commit."""

    def mutant(before: Any, after: Any, location: str) -> set[str]:
        return {entry["metadata-file"] for entry in after.raw["metadata-log"]}

    return mutant


def _ignoring_age(plan_expiry: Any) -> Any:
    def mutant(metadata: Any, request: Any) -> Any:
        return plan_expiry(metadata, replace(request, older_than_ms=request.now_ms))

    return mutant


def _lost_vectors(_: Any) -> Any:
    """Of two vectors of one data file, the own one is taken and the other one removed."""

    def mutant(delta: Any, overlaps: Any, *_: Any) -> Any:
        theirs = tuple(o.theirs for o in overlaps)
        return replace(delta, removed_delete_files=(*delta.removed_delete_files, *theirs))

    return mutant


@contextmanager
def _nothing(_: Any) -> Iterator[None]:
    yield


def _few_row_ids(with_row_ids: Any) -> Any:
    """Rows of files that a merged manifest lists again take no ids."""

    def mutant(metadata: Any, manifests: Any, delta: Any) -> Any:
        listed, added = with_row_ids(metadata, manifests, delta)
        return listed, added and sum(f.record_count for f in delta.added_data_files)

    return mutant


def _failing(ask: Any) -> Any:
    """What breaks off while the catalog is asked counts as failed."""

    def mutant(self: Any, swap_: Any) -> Any:
        try:
            return ask(self, swap_)
        finally:
            self.is_open = False

    return mutant


def _keeping(tag_update: Any) -> Any:
    """The tag of a sink stays where it was made."""

    def mutant(metadata: Any, name: str, snapshot_id: int | None = None) -> Any:
        made = tag_update(metadata, name, snapshot_id)
        return made if made.found is None else replace(made, snapshot_id=made.found)

    return mutant


def _young(cut_off: Any) -> Any:
    return lambda *_: cut_off(None, force=True) + 4 * 86_400_000


def _unread(read_latest: Any) -> Any:
    return lambda table, read: read(table.refresh().metadata)


def _ours(reads: Any) -> Any:
    """A change is put on the new head without a look at what landed."""
    return lambda delta, *_: (delta, ())


def _true(_: Any) -> Any:
    return lambda *_, **__: True


def _none(_: Any) -> Any:
    return lambda *_, **__: None


def _empty(_: Any) -> Any:
    return lambda *_, **__: ()


def _new_numbers(delta: Any) -> Any:
    """The files of a compaction get the number of its commit, so that older deletes of rows stop to apply."""
    return lambda self, head: replace(delta(self, head), sequence_numbers={})


def _discarding(rebased: Any) -> Any:
    def mutant(self: Any) -> Any:
        done = rebased(self)
        done.discard()
        return done

    return mutant


def _shared(unreachable: Any) -> Any:
    """Files of an expired snapshot go, whether or not another one has them too."""

    def mutant(reachability: Any, before: Any, expiry: Any, after: Any, metadata_files: Any) -> Any:
        files, _ = unreachable(reachability, before, expiry, replace_snapshots(after), metadata_files)
        return files, set()

    return mutant


def replace_snapshots(metadata: Any) -> Any:
    head = metadata.current_snapshot
    raw = {**metadata.raw, "snapshots": [s for s in metadata.raw["snapshots"] if s["snapshot-id"] == head.snapshot_id]}
    return type(metadata)(raw)


@dataclass(frozen=True)
class Mutant:
    """A planted mistake, and the seed of a world that finds it."""

    what: str
    seed: int
    patch: Patch


MUTANTS: dict[str, Mutant] = {
    # Races that were mended here.
    "refusal-believed": Mutant(
        "a refused request that was sent twice counts as failed, and its files are removed",
        1,
        _put(pyiceberg_store, "state_after", _refused),
    ),
    "unknown-is-failure": Mutant(
        "an answer that was lost counts as a failure: the files of the commit are removed",
        1,
        _put(swap._Question, "ask", _failing),
    ),
    "expired-base": Mutant(
        "a base that expires while it is read is a missing file",
        1,
        _put(planned_change, "expiry_as_lost_race", lambda _: _nothing),
    ),
    "maintenance-reads-once": Mutant(
        "expiry does not read again what others expire meanwhile",
        1,
        _put(expire_snapshots, "read_latest", _unread),
    ),
    "vectors-not-united": Mutant(
        "of two vectors that race, one is lost",
        1,
        _put(planned_change, "merge_vectors", _lost_vectors),
    ),
    "stale-groups": Mutant(
        "a compaction that lost a race keeps its new files, whatever was deleted meanwhile",
        1,
        _put(HeadFiles, "still_holds", _true),
    ),
    "batch-not-looked-for": Mutant(
        "a batch is not looked for on the head that it is committed on",
        1,
        _put(batch_run.BatchRun, "_validate", _none),
    ),
    "tag-stays": Mutant("the tag of a sink does not move with its batches", 1, _put(batch_run, "tag_update", _keeping)),
    "expiry-decided-early": Mutant(
        "which files expire is decided by the head alone, not by all that is left",
        1,
        _put(expire_snapshots, "_unreachable", _shared),
    ),
    "new-numbers": Mutant(
        "compacted files have a new sequence number",
        1,
        _put(compact._Part, "_delta", _new_numbers),
    ),
    # Mistakes that others make.
    "clean-up-before-swap": Mutant(
        "old files are removed before the swap", 1, _put(swap._Attempts, "_swap", _cleaning_first)
    ),
    "list-after-swap": Mutant("the manifest list is written late", 1, _put(new_snapshot, "_write_list", _listing_late)),
    "rebase-without-look": Mutant(
        "a change is rebased without a look at what landed", 1, _put(planned_change, "judge", _ours)
    ),
    "reads-not-checked": Mutant("rows that land meanwhile are not seen", 1, _put(conflicts, "_check_reads", _none)),
    "overlaps-not-seen": Mutant("vectors that land meanwhile are not seen", 1, _put(conflicts, "_overlaps", _empty)),
    "young-expire": Mutant(
        "snapshots expire without the grace period", 1, _put(expire_snapshots, "plan_expiry", _ignoring_age)
    ),
    "young-orphans": Mutant(
        "orphans are removed without the grace period", 1, _put(remove_orphan_files, "_cut_off", _young)
    ),
    "row-ids-short": Mutant("a snapshot takes too few row ids", 1, _put(new_snapshot, "_with_row_ids", _few_row_ids)),
    "race-won": Mutant(
        "a lost swap counts as won", 1, _put(catalog.SqlStore, "_register", lambda f: lambda *a: f(*a) or True)
    ),
    "metadata-too-early": Mutant(
        "earlier metadata files go too early", 1, _put(catalog, "unlogged_files", _unlogged_first)
    ),
    "rebase-discards": Mutant(
        "a rebased change loses its files", 1, _put(planned_change.PlannedChange, "rebased", _discarding)
    ),
    "never-discards": Mutant("files of a lost race stay", 1, _put(WriteContext, "discard", _none)),
}
