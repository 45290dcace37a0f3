"""A table under random commands, against lists of dicts that the same commands are done to.

By default hypothesis runs the same examples each time, for about half a minute. `DELETEKIT_STATEFUL=<minutes>` runs new
ones for about that long, and prints how to repeat one that fails.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, currently_in_test_context, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import deletekit as dk
from deletekit.engines.local import LocalEngine
from deletekit.table.sinks.batches import sink_tag
from tests.invariants import check_table, reachable
from tests.storage import ON_S3, stored_at
from tests.stored import metadata_json, vectors
from tests.tables import MODES, Row, files_of, make, new_catalog, order

EXAMPLES_A_MINUTE = 3 if ON_S3 else 60
EXAMPLES = 3 if ON_S3 else 30
MINUTES = int(os.environ.get("DELETEKIT_STATEFUL", "0"))
SETTINGS = settings(
    max_examples=MINUTES * EXAMPLES_A_MINUTE or EXAMPLES,
    stateful_step_count=25,
    derandomize=not MINUTES,
    database=None,
    print_blob=bool(MINUTES),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

# `uid` says which row is which, whatever becomes of its other columns.
START = pa.schema(
    [
        ("uid", pa.int64()),
        ("id", pa.int32()),
        ("num", pa.int32()),
        ("cat", pa.string()),
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
    ]
)
FIXED = ("uid", "id")
IDS = st.integers(0, 9)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(0, 3),
    "long": st.sampled_from([0, 1, 2, 3, 2**40]),
    "string": st.sampled_from(["", "a", "ab", "b"]),
    "timestamp": st.sampled_from(
        [*map(dt.datetime.fromisoformat, ("1969-12-31T23:59:59.999999", "1970-01-01", "2024-02-29T12:30:00"))]
    ),
    "date": st.sampled_from([dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
}
# Every transform, of several types.
PARTITIONS = [
    "cat", "num", "day", "bucket(2, id)", "bucket(3, uid)", "bucket(2, cat)", "bucket(2, at)", "truncate(1, cat)",
    "truncate(2, num)", "year(at)", "month(day)", "day(at)", "hour(at)", "void(num)", "void(cat)", "void(id)",
]  # fmt: skip
FIRST_PARTITIONS: list[list[str]] = [[], ["cat"], ["id"], ["cat", "void(id)"], ["void(at)", "day(day)"], ["hour(at)"]]
THREADS = st.sampled_from([1, 3])
LOG = {"write.metadata.previous-versions-max": "1000"}  # what is logged no longer is an orphan
FAR = 4_102_444_800_000  # 2100, in milliseconds

Test = Callable[[Row], bool]


@dataclass
class Branch:
    """What a branch should hold, and the lineage of each row that was seen last: (`_row_id`, last updated)."""

    rows: list[Row] = field(default_factory=list)
    lineage: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)

    def copy(self) -> Branch:
        return Branch([dict(row) for row in self.rows], dict(self.lineage))


class TableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        directory = self._stack.enter_context(tempfile.TemporaryDirectory())
        self.catalog = self._stack.enter_context(new_catalog(Path(directory)))
        self.types = {
            "uid": "long", "id": "int", "num": "int", "cat": "string", "at": "timestamp", "day": "date",
        }  # fmt: skip
        self.branches = {"main": Branch()}
        self.history: dict[int, list[Row]] = {}
        # What a branch would hold that goes back to a snapshot: its rows, with the columns of today.
        self.rows_of: dict[int, list[Row]] = {}
        self.uids = 0
        self.names = 0

    def teardown(self) -> None:
        try:
            for snapshot_id, rows in self.history.items():
                assert self._scan(snapshot_id=snapshot_id) == rows
            check_table(self.table)
        finally:
            self._stack.close()

    @initialize(version=st.sampled_from([2, 3, 1, 2, 3]), partition_by=st.sampled_from(FIRST_PARTITIONS))
    def create(self, version: int, partition_by: list[str]) -> None:
        self.table = self._make(schema=START, format_version=version, partition_by=partition_by, properties=LOG)

    # --- rows --------------------------------------------------------------------------------------------------------

    @rule(data=st.data(), count=st.integers(2, 8))
    def append(self, data: st.DataObject, count: int) -> None:
        ref = self._ref(data)
        rows = [self._row(data) for _ in range(count)]
        self._commit(ref, dk.append(self.table, rows, ref=ref), [*self.branches[ref].rows, *rows])

    @rule(data=st.data(), threads=THREADS, granularity=st.sampled_from([None, "file", "partition"]))
    def delete(self, data: st.DataObject, threads: int, granularity: str | None) -> None:
        ref, mode = self._ref(data), self._mode(data)
        where, test = self._filter(data)
        done = dk.delete(self.table, where, mode=mode, ref=ref, granularity=granularity, engine=LocalEngine(threads))
        rows = self.branches[ref].rows
        left = [row for row in rows if not test(row)]
        assert mode == "equality-delete" or (done.snapshot_id is None) == (len(left) == len(rows))
        self._commit(ref, done, left)

    @precondition(lambda self: self.table.format_version > 1)
    @rule(data=st.data(), scope=st.sampled_from([None, "global"]))
    def delete_keys(self, data: st.DataObject, scope: Any) -> None:
        ref = self._ref(data)
        names = self._key_names(data)
        keys = data.draw(st.lists(st.fixed_dictionaries({n: self._values(n) for n in names}), min_size=1, max_size=4))
        gone = {tuple(key[n] for n in names) for key in keys}
        left = [row for row in self.branches[ref].rows if tuple(row[n] for n in names) not in gone]
        self._commit(ref, dk.delete_keys(self.table, keys, scope=scope, ref=ref), left)

    @rule(data=st.data(), threads=THREADS)
    def update(self, data: st.DataObject, threads: int) -> None:
        ref, mode = self._ref(data), self._mode(data)
        where, test = self._filter(data)
        name = data.draw(st.sampled_from([n for n in self.types if n != "uid"]))
        value = data.draw(self._values(name))
        done = dk.update(self.table, {name: value}, where=where, mode=mode, ref=ref, engine=LocalEngine(threads))
        rows = self.branches[ref].rows
        changed = {row["uid"] for row in rows if test(row)}
        after = [{**row, name: value} if row["uid"] in changed else row for row in rows]
        assert (done.snapshot_id is None) == (not changed)
        self._commit(ref, done, after, {uid: uid for uid in changed}, keeps=mode != "equality-delete")

    @rule(data=st.data(), threads=THREADS, matched=st.sampled_from(["update", "delete", None]))
    def merge(self, data: st.DataObject, threads: int, matched: Any) -> None:
        ref, mode = self._ref(data), self._mode(data)
        ids = data.draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
        rows = self.branches[ref].rows
        source = [{**self._row(data), "id": i} for i in ids]
        counts = {i: sum(row["id"] == i for row in rows) for i in ids}
        inserts = max(counts.values()) <= 1 or matched != "update"  # or several rows would get one uid
        if not inserts:
            source = [{n: v for n, v in row.items() if n != "uid"} for row in source]
        done = dk.merge(
            self.table, source, on=["id"], when_matched=matched, when_not_matched="insert" if inserts else None,
            mode=mode, ref=ref, engine=LocalEngine(threads),
        )  # fmt: skip
        by_id = {row["id"]: row for row in source}
        after, changed = [], {}
        for row in rows:
            if row["id"] not in by_id or matched is None:
                after.append(row)
            elif matched == "update":
                after.append({**row, **by_id[row["id"]]})
                changed[after[-1]["uid"]] = row["uid"]
        if inserts:
            after += [row for row in source if not counts[row["id"]]]
        self._commit(ref, done, after, changed, keeps=mode != "equality-delete")

    @rule(data=st.data(), count=st.integers(1, 4), threads=THREADS)
    def upsert(self, data: st.DataObject, count: int, threads: int) -> None:
        ref, mode, names = self._ref(data), self._mode(data), self._key_names(data)
        rows = list({self._key(row, names): row for row in (self._row(data) for _ in range(count))}.values())
        done = dk.upsert(self.table, rows, on=names, mode=mode, ref=ref, engine=LocalEngine(threads))
        after, changed = self._put(ref, rows, names)
        self._commit(ref, done, after, changed, keeps=mode != "equality-delete")

    @precondition(lambda self: self.table.format_version > 1)
    @rule(data=st.data(), count=st.integers(1, 4), mode=st.sampled_from(["auto", "eq-only", "index-only"]))
    def stream(self, data: st.DataObject, count: int, mode: Any) -> None:
        """A batch of a sink: rows that are put, and keys that go."""
        ref, names = self._ref(data), self._key_names(data)
        rows = list({self._key(row, names): row for row in (self._row(data) for _ in range(count))}.values())
        deletes = data.draw(st.integers(0, len(rows)), label="deletes")
        changes = [row | {"_change_type": "DELETE" if i < deletes else "INSERT"} for i, row in enumerate(rows)]
        sink_id = self._name()
        with dk.stream.sink(self.table, sink_id, on=names, mode=mode, ref=ref) as sink:
            done = sink.write(changes, 0).commit
        dk.drop_ref(self.table, sink_tag(sink_id))
        assert done is not None
        after, changed = self._put(ref, rows, names)
        gone = {row["uid"] for row in rows[:deletes]}
        after = [row for row in after if row["uid"] not in gone]
        changed = {new: old for new, old in changed.items() if new not in gone}
        self._commit(ref, done, after, changed, keeps=mode in ("auto", "index-only"))

    # --- the table ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.table.format_version < 3)
    @rule(by=st.sampled_from([1, 1, 2]))
    def upgrade(self, by: int) -> None:
        dk.upgrade_format_version(self.table, min(self.table.format_version + by, 3))

    @precondition(lambda self: len(self.types) < 8)
    @rule(data=st.data(), kind=st.sampled_from(["int", "string"]))
    def add_column(self, data: st.DataObject, kind: str) -> None:
        name = self._name()
        default = data.draw(st.none() | VALUES[kind]) if self.table.format_version >= 3 else None
        dk.add_column(self.table, name, kind, default=default)
        self.types[name] = kind
        self._each_row(lambda row: row | {name: default})

    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        used = {f.source_id for f in self.table.refresh().spec.fields}
        free = [n for n in self.types if n not in FIXED and self.table.schema.find_field(n).field_id not in used]
        if free:
            name = data.draw(st.sampled_from(free))
            dk.drop_column(self.table, name)
            del self.types[name]
            self._each_row(lambda row: {n: v for n, v in row.items() if n != name})

    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        movable = [n for n in self.types if n not in FIXED]
        if movable:
            old, new = data.draw(st.sampled_from(movable)), self._name()
            dk.rename_column(self.table, old, new)
            self.types = {new if n == old else n: kind for n, kind in self.types.items()}
            self._each_row(lambda row: {new if n == old else n: v for n, v in row.items()})

    @precondition(lambda self: "int" in self.types.values())
    @rule(data=st.data())
    def promote_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([n for n, kind in self.types.items() if kind == "int"]))
        dk.update_column(self.table, name, type="long")
        self.types[name] = "long"

    @rule(text=st.sampled_from(PARTITIONS))
    def add_partition_field(self, text: str) -> None:
        try:
            dk.add_partition_field(self.table, text)
        except dk.InvalidInputError as error:
            # Its column is gone or has another name now, or it is there already.
            if error.kind != "partition-spec":
                raise

    @rule(data=st.data())
    def drop_partition_field(self, data: st.DataObject) -> None:
        names = [f.name for f in self.table.refresh().spec.fields]
        if names:
            dk.drop_partition_field(self.table, data.draw(st.sampled_from(names)))

    @precondition(lambda self: len(self.branches) < 3 and self.history)
    @rule()
    def create_branch(self) -> None:
        head = self.table.refresh().current_snapshot
        if head is not None:
            name = f"branch{len(self.branches)}"
            dk.create_branch(self.table, name)
            self.branches[name] = self.branches["main"].copy()

    # --- maintenance -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def rewrite_manifests(self, data: st.DataObject) -> None:
        ref = self._ref(data)
        done = dk.rewrite_manifests(self.table, ref=ref)
        if done.commit is not None:
            self._commit(ref, done.commit, self.branches[ref].rows)

    @precondition(lambda self: self.history)
    @rule(data=st.data(), threads=THREADS, starting=st.booleans(), parts=st.booleans(), rewrite_all=st.booleans())
    def compact(self, data: st.DataObject, threads: int, starting: bool, parts: bool, rewrite_all: bool) -> None:
        ref = self._ref(data)
        where = data.draw(st.none() | st.just("id < 5"), label="where")
        done = dk.compact(
            self.table, where, ref=ref, partial_progress=parts, use_starting_sequence_number=starting,
            rewrite_all=rewrite_all, min_input_files=2, engine=LocalEngine(threads),
        )  # fmt: skip
        for one in done.commits:
            self._commit(ref, one, self.branches[ref].rows)

    @precondition(lambda self: self.history)
    @rule(data=st.data(), verb=st.sampled_from(["positions", "keys", "dangling"]), rewrite_all=st.booleans())
    def rewrite_deletes(self, data: st.DataObject, verb: str, rewrite_all: bool) -> None:
        ref = self._ref(data)
        where = data.draw(st.none() | st.just("id < 5"), label="where")
        done: Any
        if verb == "positions":
            done = dk.rewrite_position_deletes(self.table, where, ref=ref, rewrite_all=rewrite_all, min_input_files=2)
        elif verb == "keys":
            done = dk.convert_equality_deletes(self.table, where, ref=ref)
        else:
            done = dk.remove_dangling_deletes(self.table, ref=ref)
        if done.commit is not None:
            self._commit(ref, done.commit, self.branches[ref].rows)

    @precondition(lambda self: self.history)
    @rule(data=st.data(), unreferenced=st.booleans())
    def erase(self, data: st.DataObject, unreferenced: bool) -> None:
        ref = self._ref(data)
        where, test = self._filter(data)
        done = dk.erase(self.table, where, refs=[ref], unreferenced=unreferenced)
        left = [row for row in self.branches[ref].rows if not test(row)]
        assert done.is_erased == (not done.remaining)
        assert not (done.remaining.get("") and unreferenced)
        # Expiring may have left a tag where a branch was last promoted.
        assert done.remaining.keys() <= set(self.table.refresh().metadata.refs) - {ref} | {""}
        if done.expired is not None:
            assert (done.expired.failed_files, done.expired.refs) == ({}, ())
            self._forget(done.expired)
        self.branches[ref].rows = [dict(row) for row in left]
        # Of the commits but the last, those are left that held none of the rows.
        for one in done.commits:
            if one.snapshot_id in self.table.metadata.snapshots:
                self._commit(ref, one, left)

    @precondition(lambda self: self.history)
    @rule(keep=st.integers(1, 4))
    def expire_snapshots(self, keep: int) -> None:
        self._expire(keep)
        assert files_of(self.table) == reachable(self.table)

    @precondition(lambda self: self.history)
    @rule(younger=st.booleans())
    def remove_orphan_files(self, younger: bool) -> None:
        stray = stored_at(self.table.refresh().location) / "data" / f"stray{self.uids}.parquet"
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"stray")
        done = dk.remove_orphan_files(self.table, older_than=FAR if younger else None, force=younger)
        assert done.orphan_files == ((str(stray),) if younger else ())
        stray.unlink(missing_ok=True)

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        ref = self._ref(data)
        line = self._ancestors(ref)
        if line:
            target = data.draw(st.sampled_from(line), label="snapshot")
            dk.rollback(self.table, target, ref=ref)
            self._moved(ref, target)

    @precondition(lambda self: len(self.branches) > 1)
    @rule(data=st.data())
    def fast_forward(self, data: st.DataObject) -> None:
        ref, to = self._ref(data), self._ref(data)
        refs = self.table.refresh().metadata.refs
        ahead = refs[to]["snapshot-id"]
        if refs[ref]["snapshot-id"] in self._ancestors(to):
            dk.fast_forward(self.table, ref, to)
            self._moved(ref, ahead)
        else:
            with pytest.raises(dk.InvalidInputError):
                dk.fast_forward(self.table, ref, to)

    @precondition(lambda self: self.history)
    @rule(data=st.data(), count=st.integers(1, 3))
    def publish(self, data: st.DataObject, count: int) -> None:
        """Stage an append, let something come in between or not, and pick it."""
        ref, rows = self._ref(data), [self._row(data) for _ in range(count)]
        if ref not in self.table.refresh().metadata.refs:
            return
        dk.create_branch(self.table, "staging", self.table.metadata.refs[ref]["snapshot-id"])
        staged = dk.append(self.table, rows, ref="staging").snapshot_id
        dk.drop_ref(self.table, "staging")
        assert staged is not None
        if data.draw(st.booleans(), label="in between"):
            other, more = self._ref(data), [self._row(data)]
            self._commit(other, dk.append(self.table, more, ref=other), [*self.branches[other].rows, *more])
        if data.draw(st.booleans(), label="expire it"):
            self._expire(1000)
            with pytest.raises(dk.NotFoundError):
                dk.cherry_pick(self.table, staged, ref=ref)
            return
        done = dk.cherry_pick(self.table, staged, ref=ref)
        after = [*self.branches[ref].rows, *rows]
        if done.commit is not None:
            self._commit(ref, done.commit, after)
        else:
            self.rows_of[staged] = [dict(row) for row in after]
            self._moved(ref, staged)

    # --- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def branches_hold_their_rows(self) -> None:
        for ref, branch in self.branches.items():
            assert self._scan(ref=ref) == sorted(branch.rows, key=order), ref
            assert dk.scan(self.table, ref=ref).count() == len(branch.rows)

    @invariant()
    def explained_rows_are_the_rows(self) -> None:
        found = dk.explain(self.table, "id >= 3")
        wanted = [row for row in self.branches["main"].rows if row["id"] >= 3]
        assert sorted((v.row for v in found.live), key=order) == sorted(wanted, key=order)

    @invariant()
    def vectors_are_one_for_a_file(self) -> None:
        for ref in self.branches:
            if self.table.current_snapshot is not None:
                vectors(self.table, ref)

    @invariant()
    def some_of_the_past_is_as_it_was(self) -> None:
        for snapshot_id in list(self.history)[:2]:
            assert self._scan(snapshot_id=snapshot_id) == self.history[snapshot_id]

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _make(self, **options: Any) -> dk.Table:
        return make(self.catalog, **options)

    def _expire(self, keep: int) -> None:
        done = dk.expire_snapshots(self.table, older_than=FAR, retain_last=keep)
        assert done.failed_files == {}
        self._forget(done)

    def _forget(self, done: dk.results.ExpiredSnapshots) -> None:
        for snapshot_id in done.snapshot_ids:
            self.history.pop(snapshot_id, None)
            self.rows_of.pop(snapshot_id, None)

    def _moved(self, ref: str, snapshot_id: int) -> None:
        """Take over what the model held at a snapshot; which row ids its rows had, it does not remember."""
        self.branches[ref] = Branch([dict(row) for row in self.rows_of[snapshot_id]])

    def _ancestors(self, ref: str) -> list[int]:
        metadata = metadata_json(self.table.refresh())
        parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in metadata["snapshots"]}
        line, at = [], metadata["refs"].get(ref, {}).get("snapshot-id")
        while at in parents:
            line.append(at)
            at = parents[at]
        return line

    def _commit(
        self,
        ref: str,
        done: dk.results.Commit,
        rows: Sequence[Row],
        changed: dict[int, int] | None = None,
        *,
        keeps: bool = True,
    ) -> None:
        """Take over the model's new rows; `changed` maps the uid of a changed row to the one it had before."""
        branch = self.branches[ref]
        branch.rows = [dict(row) for row in rows]
        if currently_in_test_context():
            event(f"v{self.table.format_version} {done.operation or 'nothing to do'}")  # --hypothesis-show-statistics
        if done.snapshot_id is None:
            return
        self.history[done.snapshot_id] = self._scan(snapshot_id=done.snapshot_id)
        self.rows_of[done.snapshot_id] = [dict(row) for row in branch.rows]
        self._check_lineage(branch, ref, done, changed or {}, keeps)

    def _check_lineage(
        self, branch: Branch, ref: str, done: dk.results.Commit, changed: dict[int, int], keeps: bool
    ) -> None:
        columns = ["uid", "_row_id", "_last_updated_sequence_number"]
        found = dk.scan(self.table, columns=columns, ref=ref).to_arrow().to_pylist()
        now = {row["uid"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in found}
        before, branch.lineage = branch.lineage, now
        if self.table.format_version < 3:
            assert set(now.values()) <= {(None, None)}
            return
        numbers = [row_id for row_id, _ in now.values()]
        assert None not in numbers
        assert len(set(numbers)) == len(numbers), "row ids are unique"
        for uid, (row_id, updated) in now.items():
            was_id, was_updated = before.get(changed.get(uid, uid), (None, None))
            if was_id is None:
                continue  # a new row, or one from before the upgrade
            if uid not in changed:
                assert (row_id, updated) == (was_id, was_updated)
            else:
                assert updated == done.sequence_number
                assert (row_id == was_id) == keeps

    def _scan(self, **options: Any) -> list[Row]:
        return sorted(dk.scan(self.table, **options).to_arrow().to_pylist(), key=order)

    def _each_row(self, change: Callable[[Row], Row]) -> None:
        for branch in self.branches.values():
            branch.rows = [change(row) for row in branch.rows]
        self.rows_of = {i: [change(row) for row in rows] for i, rows in self.rows_of.items()}

    def _ref(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(list(self.branches)), label="ref")

    def _mode(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(MODES[self.table.refresh().format_version]), label="mode")

    def _name(self) -> str:
        self.names += 1
        return f"c{self.names}"

    def _key_names(self, data: st.DataObject) -> list[str]:
        names = st.sampled_from([n for n in self.types if n != "uid"])
        return data.draw(st.lists(names, min_size=1, max_size=3, unique=True), label="key")

    def _key(self, row: Row, names: Sequence[str]) -> tuple[Any, ...]:
        return tuple(row[n] for n in names)

    def _put(self, ref: str, rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Row], dict[int, int]]:
        """The rows when these are put in the place of those with their keys, and which one each alone replaces."""
        before, keys = self.branches[ref].rows, {self._key(row, names) for row in rows}
        after = [row for row in before if self._key(row, names) not in keys]
        changed = {}
        for row in rows:
            replaced = [old["uid"] for old in before if self._key(old, names) == self._key(row, names)]
            if len(replaced) == 1:
                changed[row["uid"]] = replaced[0]
        return [*after, *rows], changed

    def _values(self, name: str) -> st.SearchStrategy[Any]:
        return IDS if name == "id" else st.none() | VALUES[self.types[name]]

    def _row(self, data: st.DataObject) -> Row:
        self.uids += 1
        return {"uid": self.uids} | {n: data.draw(self._values(n), label=n) for n in self.types if n != "uid"}

    def _filter(self, data: st.DataObject) -> tuple[str, Test]:
        """A filter as text and as a function; of NULL it is true only when it asks for NULL."""
        name = data.draw(st.sampled_from([n for n in self.types if n != "uid"]), label="column")
        one = data.draw(IDS if name == "id" else VALUES[self.types[name]], label="value")
        low = data.draw(IDS, label="id")
        written = str(one) if isinstance(one, int) else f"'{one if isinstance(one, str) else one.isoformat()}'"
        choices: list[tuple[str, Test]] = [
            (f"{name} = {written}", lambda row: row[name] == one),
            (f"{name} != {written}", lambda row: row[name] not in (None, one)),
            (f"{name} is null", lambda row: row[name] is None),
            (f"not ({name} is null)", lambda row: row[name] is not None),
            (f"{name} = {written} and id >= {low}", lambda row: row[name] == one and row["id"] >= low),
            (f"{name} = {written} or id = {low}", lambda row: row[name] == one or row["id"] == low),
            (f"id > {low}", lambda row: row["id"] > low),
            (f"id in ({low}, 3, 5)", lambda row: row["id"] in (low, 3, 5)),
        ]
        return data.draw(st.sampled_from(choices), label="filter")


TableMachine.TestCase.settings = SETTINGS


@pytest.mark.slow
@pytest.mark.timeout(600 + 180 * MINUTES)
class TestTable(TableMachine.TestCase):
    """What pytest collects."""


def test_the_model_would_notice(tmp_path: Path) -> None:
    """A row that comes back, or one that goes, is a difference to the machine's invariants."""
    machine = TableMachine()
    machine.create(2, [])
    try:
        rows = [{"uid": 1, "id": 1, "num": None, "cat": "a", "at": None, "day": None}]
        machine._commit("main", dk.append(machine.table, rows), rows)
        machine.branches_hold_their_rows()
        before = files_of(machine.table)
        dk.append(machine.table, rows)
        assert files_of(machine.table) > before
        with pytest.raises(AssertionError):
            machine.branches_hold_their_rows()
    finally:
        machine._stack.close()
