"""Commit the change of a verb if it keeps to what the caller allows: so many rows, and engines that can read it.

A refused change leaves nothing behind. What is checked is the change as it would be committed, so it is checked again
after each lost race.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.new_snapshot import NewSnapshot
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.reader_verdicts.judgement import check_readable, in_use
from deletekit.reader_verdicts.known_verdicts import known_verdicts
from deletekit.table.metadata import MAIN
from deletekit.table.metadata_update import apply_updates
from deletekit.table.properties import READABLE_BY, value_of
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.text import count
from deletekit.verbs.shared.count_rows import count_live_rows
from deletekit.verbs.shared.equality_keys import ensure_unpartitioned_spec

_BY_POSITION, _BY_FILE = "merge-on-read", "copy-on-write"


@dataclass(frozen=True, slots=True)
class Way:
    """How to write a change.

    Attributes
    ----------
    mode, granularity: as the verb takes them; None is the table's.
    counts: the change must count the rows that it hides, if it has to read them for it.
    """

    mode: str | None = None
    granularity: str | None = None
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Guards:
    """How a change is committed, and what it must keep to; see `delete`. Raises InvalidInputError for bad limits.

    Attributes
    ----------
    readable_by: the engines; None takes the table's property `deletekit.readable-by`.
    """

    ref: str = MAIN
    properties: Mapping[str, str] | None = None
    dry_run: bool = False
    at_most: int | str | None = None
    expect: int | None = None
    readable_by: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuse limits that are none."""
        _ = self._share
        for name in ("at_most", "expect"):
            given = getattr(self, name)
            if isinstance(given, int) and given < 0:
                raise _no_limit(name, given)

    @property
    def counts(self) -> bool:
        """Whether rows are counted."""
        return self.at_most is not None or self.expect is not None

    def readable(self, properties: Mapping[str, str]) -> Callable[[Base, NewSnapshot], None] | None:
        """Return a check that the engines read a new snapshot right, by what its manifests say; None without engines.

        Raises InvalidInputError for an unknown engine.
        """
        given = value_of(properties, READABLE_BY) if self.readable_by is None else self.readable_by
        names = (given,) if isinstance(given, str) else tuple(given or ())
        if not names:
            return None
        verdicts = in_use(known_verdicts(), names)

        def check(base: Base, made: NewSnapshot) -> None:
            metadata = apply_updates(base.metadata, made.updates)
            reader = SnapshotReader(base.write.io, metadata)
            check_readable(verdicts, metadata, metadata.snapshots[made.snapshot.snapshot_id], reader, base.ref)

        return check

    def check(self, base: Base, delta: RowDelta, engine: Engine) -> RowDelta:
        """Return the change to commit. Raises InvalidInputError if it hides or changes more rows than it may."""
        rows = 0 if delta.is_empty else delta.matched_rows
        if rows is None:
            message = "the rows that this change hides are not counted"
            expected = "another mode, or rows that are not a Spark DataFrame's"
            raise UnsupportedError(message, "row-limit", "at_most or expect", "equality deletes", expected)
        found, most = count(rows, "row"), self.at_most
        if self.expect is not None and rows != self.expect:
            raise _too_many("the change is about other rows than expected", "expect", found, str(self.expect))
        if isinstance(most, int) and rows > most:
            raise _too_many("the change is about more rows than it may be", "at_most", found, f"at most {most}")
        if isinstance(most, str) and rows:
            context = ReadContext(base.table.io, base.metadata)
            live = count_live_rows(context, plan_scan(base.metadata, base.snapshot, base.reader), engine)
            if rows > live * self._share:
                message, found = "the change is about more rows than it may be", f"{rows} of {count(live, 'live row')}"
                raise _too_many(message, "at_most", found, f"at most {most}")
        return replace(delta, read_set=None)  # planned and counted again after a lost race

    @property
    def _share(self) -> Fraction:
        """The share of the table's rows that `at_most` names."""
        text = self.at_most if isinstance(self.at_most, str) else "100 %"
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
        if found is None or Fraction(found[1]) > 100:  # percent
            raise _no_limit("at_most", text)
        return Fraction(found[1]) / 100


def commit_guarded(
    table: Table,
    plan: Callable[[Base, Way], RowDelta],
    guards: Guards,
    engine: Engine,
    *,
    verb: str | None = None,
    mode: str | None = None,
    granularity: str | None = None,
    refreshed: bool = False,
    is_global: bool = False,
) -> Commit:
    """Plan a change and commit it, in the first way that its guards let pass.

    Parameters
    ----------
    plan: returns the change, written in a way.
    verb: whose `write.<verb>.mode` holds, so that another mode may be tried if some engine does not read the table's
        own; None for a verb without modes.
    refreshed: as in `plan_change`.
    is_global: keys are deleted in all partitions, which needs a spec without fields.

    Raises InvalidInputError or UnsupportedError if the change does not keep to the guards, and as `commit`.
    """
    check = guards.readable((table if refreshed else table.refresh()).properties)
    if is_global:
        if check or guards.counts or guards.dry_run:  # so that a refused change leaves no spec behind
            tried, dry = ensure_unpartitioned_spec(table, dry_run=True), replace(guards, dry_run=True)
            ways: Any = {"verb": verb, "mode": mode, "granularity": granularity}
            done = commit_guarded(tried, plan, dry, engine, refreshed=True, **ways)
            if guards.dry_run:
                return done
            is_global = any(delete.kind == "equality-delete" for delete in done.added_delete_files)
        table = ensure_unpartitioned_spec(table) if is_global else table
    refusal: UnsupportedError | InvalidInputError | None = None
    for way in _ways(table, verb, mode, granularity) if check else [Way(mode, granularity)]:
        chosen = replace(way, counts=guards.counts or guards.dry_run)

        def planned(base: Base, way: Way = chosen) -> RowDelta:
            delta = plan(base, way)
            return guards.check(base, delta, engine) if guards.counts else delta

        shared: Any = {"ref": guards.ref, "properties": guards.properties, "dry_run": guards.dry_run}
        try:
            return commit(plan_change(table, planned, check=check, refreshed=refusal is None, **shared))
        except (UnsupportedError, InvalidInputError) as e:
            if e.kind == "row-limit" or (e.kind != "not-readable" and refusal is None):
                raise
            refusal = refusal or e  # a later way may be one that the other arguments do not allow
    assert refusal is not None
    raise refusal


def _ways(table: Table, verb: str | None, mode: str | None, granularity: str | None) -> Iterator[Way]:
    """Yield ways to write a change: as the caller or the table says, else by position, else with whole files."""
    if verb is None:
        yield Way()
        return
    own = value_of(table.properties, f"write.{verb}.mode")
    has_deletes = table.metadata.version.has_deletes
    modes = [mode] if mode is not None else dict.fromkeys([own, *[_BY_POSITION] * has_deletes, _BY_FILE])
    for one in modes:
        is_laid_out = granularity is None and one not in (_BY_FILE, "equality-delete")
        for layout in dict.fromkeys([granularity, *["file"] * is_laid_out]):
            yield Way(one, layout)


def _no_limit(name: str, given: Any) -> InvalidInputError:
    expected = 'a number of rows, or a share as "1 %"' if name == "at_most" else "a number of rows"
    return InvalidInputError("not a limit of rows", "row-limit", name, given, expected)


def _too_many(message: str, name: str, found: str, expected: str) -> InvalidInputError:
    return InvalidInputError(message, "row-limit", name, found, f"{expected}; nothing was changed")
