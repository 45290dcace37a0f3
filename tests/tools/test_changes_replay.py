"""Changes replayed: the rows at one snapshot and the changes give the rows at another, for every pair of snapshots.

Random histories of every kind of commit are written. What a snapshot holds is what `scan` reads of it, and each history
also runs on plain Python lists, so that a scan that is wrong is noticed.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.deletes.changed_files import changed_files
from deletekit.deletes.changed_rows import read_rows, rows_to_read
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, ReadRequest
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import LocalEngine
from deletekit.formats.content_file import ManifestEntry
from deletekit.table.snapshot import SnapshotReader
from deletekit.tools import change_reader
from tests.tables import MODES, make, new_catalog

Row = dict[str, Any]
ABOUT = ("_change_type", "_change_ordinal", "_commit_snapshot_id", "_row_id")
SCHEMA = pa.schema([("id", pa.string()), ("grp", pa.string()), ("v", pa.int32()), ("w", pa.float32())])
KEYS: tuple[str | None, ...] = (None, "", "é", "a", "b", "c", "d", "e", "f", "longer than the others")
FILTERS: dict[str, Callable[[Row], bool]] = {
    "id = 'a' OR id = 'c' OR grp = 'b'": lambda row: row["id"] in ("a", "c") or row["grp"] == "b",
    "id IS NULL": lambda row: row["id"] is None,
    "grp = 'a' AND id > 'b'": lambda row: row["grp"] == "a" and row["id"] is not None and row["id"] > "b",
    "grp IS NOT NULL": lambda row: row["grp"] is not None,
}
"""Filters on columns that no history renames, and what they say of a row."""
CORES = LocalEngine(1)
FIRST_TIER, SECOND_TIER, ALL = 4, 16, 520
"""How many histories there are in each tier."""


class History:
    """A table, and what its branches hold.

    Parameters
    ----------
    unique: whether no two rows have the same `id`, so that changes can be told by key.
    """

    def __init__(self, catalog: dk.Catalog, seed: int, versions: Sequence[int] = (1, 2, 2, 3, 3)) -> None:
        self.choose = random.Random(seed)
        self.unique = seed % 3 > 0
        by = self.choose.choice([[], [], ["grp"], ["bucket(2, id)"], ["truncate(2, v)"]])
        version = self.choose.choice(versions)
        self.table = make(catalog, schema=SCHEMA, format_version=version, partition_by=by)
        self.heads: dict[str, list[Row]] = {"main": []}
        self.rows_at: dict[int, list[Row]] = {}
        self.names = {n: n for n in SCHEMA.names}  # today's names by the first ones
        self.done: Counter[str] = Counter()
        dk.append(self.table, self._saw("main", self._fresh(["main"], 6)))
        self._note("main")

    @property
    def mode(self) -> Any:
        return self.choose.choice(MODES[self.table.format_version])

    def run(self, steps: int) -> None:
        acts: list[Callable[[str], str | None]] = [
            self.append, self.delete, self.delete, self.delete, self.update, self.update, self.upsert, self.keys,
            self.keys, self.maintain, self.maintain, self.schema, self.partition, self.upgrade, self.branch, self.pick,
            self.overwrite,
        ]  # fmt: skip
        for _ in range(steps):
            act, ref = self.choose.choice(acts), self.choose.choice(["main", *self.heads])
            if act(ref) != "not done":
                self.done[act.__name__] += 1
            self._note(ref)

    def run_upgraded_on_branches(self, steps: int) -> None:
        """Make branches before the upgrade to v3, so that each gives the rows that they have in common its own ids."""
        self.run(steps - 1)
        self.branch("main")
        self.run(steps - 1)
        self.branch(self.choose.choice(list(self.heads)))
        while self.upgrade("main") is None:
            self.done["upgrade"] += 1
        for ref in self.choose.sample(sorted(self.heads), len(self.heads)):
            self.choose.choice([self.append, self.delete, self.update, self.keys])(ref)
            self._note(ref)
        self.run(steps)

    # --- commits -----------------------------------------------------------------------------------------------------

    def append(self, ref: str) -> str | None:
        rows = self._fresh([ref], self.choose.randint(1, 4))
        if not rows:
            return "not done"
        dk.append(self.table, self._saw(ref, rows), ref=ref)
        return None

    def delete(self, ref: str) -> None:
        some = self._some(ref)
        self._without(ref, some)
        granularity = self.choose.choice(["file", "partition"]) if self.table.format_version == 2 else None
        dk.delete(self.table, self._where(some), mode=self.mode, ref=ref, granularity=granularity)

    def update(self, ref: str) -> None:
        name, some = self.choose.choice(["v", "w"]), self._some(ref)
        value = self._value(name)
        for row in self.heads[ref]:
            if row["id"] in some:
                row[self.names[name]] = value
        dk.update(self.table, {self.names[name]: value}, where=self._where(some), mode=self.mode, ref=ref)

    def upsert(self, ref: str) -> None:
        rows = [self._row(i) for i in self.choose.sample(KEYS, self.choose.randint(1, 3))]
        self._without(ref, [row["id"] for row in rows])
        dk.upsert(self.table, self._saw(ref, rows), on=["id"], mode=self.mode, ref=ref)

    def keys(self, ref: str) -> str | None:
        """Write equality deletes without a look at the table; some hide rows that are hidden already."""
        if self.table.format_version == 1:
            return "not done"
        some = {*self._some(ref), *self.choose.sample(KEYS, self.choose.randint(1, 2))}
        self._without(ref, some)
        scope: Any = self.choose.choice([None, "global"])
        dk.delete_keys(self.table, [{"id": i} for i in some], scope=scope, ref=ref)
        return None

    def overwrite(self, ref: str) -> None:
        some = self._some(ref)
        self._without(ref, some)
        rows = self._saw(ref, [self._row(i) for i in some])
        dk.overwrite(self.table, rows, where=self._where(some), ref=ref)

    def pick(self, ref: str) -> str | None:
        """Append to another branch, and apply that snapshot to this one too."""
        others = [name for name in self.heads if name != ref]
        if not others:
            self.branch(ref)
            return self.pick(ref)
        other = self.choose.choice(others)
        rows = self._fresh([ref, other], self.choose.randint(1, 2))
        if not rows:
            return "not done"
        dk.append(self.table, self._saw(other, rows), ref=other)
        dk.cherry_pick(self.table, self._head(other), ref=ref)
        self._saw(ref, rows)
        return None

    # --- what changes no row -----------------------------------------------------------------------------------------

    def maintain(self, ref: str) -> str | None:
        if ref != "main":
            return "not done"
        what: list[Callable[[], Any]] = [
            lambda: dk.compact(self.table, rewrite_all=True),
            lambda: dk.rewrite_manifests(self.table),
        ]
        if self.table.format_version > 1:
            what += [
                lambda: dk.compact(self.table, delete_file_threshold=1),
                lambda: dk.convert_equality_deletes(self.table),
                lambda: dk.rewrite_position_deletes(self.table, rewrite_all=True),
                lambda: dk.remove_dangling_deletes(self.table),
            ]
        self.choose.choice(what)()
        return None

    def schema(self, ref: str) -> None:
        del ref
        new = f"c{len(self.table.metadata.schemas)}"
        added = [n for n in self.names if n not in SCHEMA.names]
        act = self.choose.choice(["add", "drop", "rename", "widen"])
        if act == "drop" and added:
            gone = self.choose.choice(added)
            dk.drop_column(self.table, self.names[gone])
            name = self.names.pop(gone)
            if self.choose.random() < 0.5:  # another column of the same name
                dk.add_column(self.table, name, "int")
                self.names[new] = name
        elif act == "rename":
            name = self.choose.choice(["v", "w"])
            dk.rename_column(self.table, self.names[name], new)
            self.names[name] = new
        elif act == "widen":
            name, kind = self.choose.choice([("v", "long"), ("w", "double")])
            dk.update_column(self.table, self.names[name], type=kind)
        else:
            default = 7 if self.table.format_version > 2 and self.choose.random() < 0.5 else None
            dk.add_column(self.table, new, "int", default=default)
            self.names[new] = new
        self.heads = {ref: self._read(ref=ref) for ref in self.heads}

    def partition(self, ref: str) -> None:
        del ref
        fields = self.table.metadata.spec.fields
        live = [f.name for f in fields if str(f.transform) != "void"]
        if live and self.choose.random() < 0.5:
            dk.drop_partition_field(self.table, live[0])
        elif not live:
            dk.add_partition_field(self.table, self.choose.choice(["grp", "bucket(3, id)"]))

    def upgrade(self, ref: str) -> str | None:
        del ref
        if self.table.format_version == 3:
            return "not done"
        dk.upgrade_format_version(self.table, self.table.format_version + 1)
        return None

    def branch(self, ref: str) -> str | None:
        name = f"b{len(self.heads)}"
        if len(self.heads) > 2:
            return "not done"
        dk.create_branch(self.table, name, self._head(ref))
        self.heads[name] = [dict(row) for row in self.heads[ref]]
        return None

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _head(self, ref: str) -> int:
        return self.table.refresh().metadata.snapshot_of_ref(ref).snapshot_id  # type: ignore[union-attr]

    def _note(self, ref: str) -> None:
        """Hold that the branch has the rows that it should have, and remember them."""
        found = self._read(ref=ref)
        assert bag(found) == bag(self.heads[ref]), (ref, self.done)

    def _read(self, **at: Any) -> list[Row]:
        rows: list[Row] = dk.scan(self.table.refresh(), engine=CORES, **at).to_arrow().to_pylist()
        return rows

    def _some(self, ref: str) -> list[str | None]:
        ids = sorted({row["id"] for row in self.heads[ref]}, key=repr)
        return self.choose.sample(ids, min(len(ids), self.choose.randint(1, 3)))

    def _where(self, ids: Sequence[str | None]) -> str:
        tests = ["id IS NULL" if i is None else f"id = '{i}'" for i in ids]
        return " OR ".join(tests) or "false"

    def _without(self, ref: str, ids: Any) -> None:
        self.heads[ref] = [row for row in self.heads[ref] if row["id"] not in ids]

    def _fresh(self, refs: Sequence[str], count: int) -> list[Row]:
        if not self.unique:
            rows = [self._row(self.choose.choice(KEYS)) for _ in range(count)]
            return [*rows, *self.choose.sample(rows, self.choose.randint(0, 1))]
        known = {row["id"] for ref in refs for row in self.heads[ref]}
        free = [i for i in KEYS if i not in known]
        return [self._row(i) for i in self.choose.sample(free, min(count, len(free)))]

    def _row(self, key: str | None) -> Row:
        row = {"id": key, "grp": self.choose.choice(["a", "b", None])}
        return row | {now: self._value(first) for first, now in self.names.items() if first not in ("id", "grp")}

    def _value(self, first_name: str) -> Any:
        if first_name == "w":
            return self.choose.choice([0.0, -0.0, 1.5, float("nan"), None])
        return self.choose.choice([0, 1, 2, None])

    def _saw(self, ref: str, rows: list[Row]) -> list[Row]:
        self.heads[ref] += [dict(row) for row in rows]
        return rows


# --- what the changes must do -----------------------------------------------------------------------------------------


def bag(rows: Sequence[Row], *more: str) -> Counter[str]:
    """Rows with how often each is there, NaN equal to NaN."""
    return Counter(repr(sorted((k, v) for k, v in r.items() if k in more or k not in ABOUT)) for r in rows)


def replayed(rows: Counter[str], changes: Sequence[Row]) -> Counter[str]:
    """Apply changes in order; a delete takes exactly one row of these values away."""
    out = Counter(rows)
    for change in changes:
        (key,) = bag([change])
        if change["_change_type"] in ("delete", "update_before"):
            assert out[key] > 0, f"no such row to take away: {change}"
            out[key] -= 1
        else:
            assert change["_change_type"] in ("insert", "update_after"), change
            out[key] += 1
    return +out


def upserted(rows: Sequence[Row], changes: Sequence[Row]) -> Counter[str]:
    """Apply changes by key `id`."""
    by_key = {row["id"]: row for row in rows}
    for change in changes:
        if change["_change_type"] == "delete":
            del by_key[change["id"]]
        else:
            assert (change["id"] in by_key) == (change["_change_type"] == "update_after"), change
            by_key[change["id"]] = change
    return bag(list(by_key.values()))


class Snapshots:
    """The rows of each snapshot of a table, as a schema of the table reads them."""

    def __init__(self, table: dk.Table) -> None:
        self.table = table.refresh()
        self.metadata = self.table.metadata
        self._rows: dict[int, list[Row]] = {}
        self._lineage: dict[int, Counter[tuple[Any, ...]]] = {}

    def rows(self, snapshot_id: int | None, schema: Any) -> list[Row]:
        """Rows with the columns of a schema: found by id, with the default of those that the snapshot had not."""
        if snapshot_id is None:
            return []
        snapshot = self.metadata.snapshot_by_id(snapshot_id)
        ids = {f.field_id: f.name for f in self.metadata.schema_of(snapshot).fields}
        return [
            {
                f.name: row[ids[f.field_id]] if f.field_id in ids else f.initial_default
                for f in schema.fields
            }
            | {"_row_id": row.get("_row_id")}
            for row in self._all(snapshot_id)
        ]  # fmt: skip

    def schema_of(self, snapshot_id: int) -> Any:
        return self.metadata.schema_of(self.metadata.snapshot_by_id(snapshot_id))

    def line(self, ref: str) -> list[int]:
        """The snapshots of a branch, oldest first."""
        head = self.metadata.snapshot_of_ref(ref)
        return [s.snapshot_id for s in self.metadata.ancestors(head and head.snapshot_id)][::-1]

    def _all(self, snapshot_id: int) -> list[Row]:
        if snapshot_id not in self._rows:
            names = [f.name for f in self.schema_of(snapshot_id).fields]
            more = ["_row_id"] if self.metadata.format_version > 2 else []
            scan = dk.scan(self.table, columns=[*names, *more], snapshot_id=snapshot_id, engine=CORES)
            self._rows[snapshot_id] = scan.to_arrow().to_pylist()
        return self._rows[snapshot_id]

    def lineage(self, snapshot_id: int) -> Counter[tuple[Any, ...]]:
        """The row ids and last sequence numbers of the rows of a snapshot."""
        if snapshot_id not in self._lineage:
            columns = ["_row_id", "_last_updated_sequence_number"]
            scan = dk.scan(self.table, columns=columns, snapshot_id=snapshot_id, engine=CORES)
            self._lineage[snapshot_id] = Counter(tuple(r.values()) for r in scan.to_arrow().to_pylist())
        return self._lineage[snapshot_id]


def check_pair(snapshots: Snapshots, start: int | None, end: int, schema: Any, *, unique: bool, **options: Any) -> int:
    """Hold that changes of all modes lead from one snapshot to the other. Return how many results were compared."""
    table = snapshots.table
    old, new = snapshots.rows(start, schema), snapshots.rows(end, schema)
    asked: list[dict[str, Any]] = [{"mode": "all"}, {"mode": "net"}]
    by_key = random.Random(start).choice(["all", "net", "upsert"])
    asked += [{"mode": by_key, "on": "id"}, {"mode": "upsert", "on": "id"}][by_key == "upsert" :] if unique else []
    asked += [view(random.Random(end), schema)]
    if snapshots.metadata.format_version > 2:
        check_sides(snapshots, start, end)
    every = old, new
    for question in asked:
        old, new = (seen(rows, question) for rows in every)
        found = dk.changes(table, start, end, engine=CORES, **question, **options).to_arrow().to_pylist()
        told = (start, end, question, found)
        if question["mode"] == "upsert":
            assert upserted(old, found) == bag(new), told
            continue
        assert replayed(bag(old), found) == bag(new), told
        check_order(found)
        if question["mode"] == "net":
            left, came = sides(found)
            # Of a row that is on both sides nothing is said, and of each row what both snapshots say of it.
            assert bag(left, "_row_id") <= bag(old, *row_id(found)), told
            assert bag(came, "_row_id") <= bag(new, *row_id(found)), told
            assert not bag(left) & bag(came), told
    return len(asked)


def check_sides(snapshots: Snapshots, start: int | None, end: int) -> None:
    """Hold that each side of a change is read with the entry, and so with the row ids, of its own snapshot."""
    table, metadata = snapshots.table, snapshots.metadata
    steps = [None if i is None else metadata.snapshot_by_id(i) for i in (start, end)]
    reader = SnapshotReader(table.io, metadata)
    planned = [[(t.data, deletes_of(t)) for t in plan_scan(metadata, s, reader)] for s in steps]
    context, request = ReadContext(table.io, metadata), ReadRequest((), lineage=True)
    for change in changed_files(metadata, reader, *steps):
        for task, tasks in zip((change.before, change.after), planned, strict=True):
            assert task is None or (task.data, deletes_of(task)) in tasks, (start, end, change)
        for rows in rows_to_read(context, change):
            found = Counter(tuple(r.values()) for t, _ in read_rows(context, rows, request) for r in t.to_pylist())
            side = snapshots.lineage(start if rows.is_delete and start is not None else end)
            assert found <= side, (start, end, change, found - side)


def deletes_of(task: ScanTask) -> list[ManifestEntry]:
    return sorted(task.deletes, key=lambda e: repr(e.data_file.identity))


def view(choose: random.Random, schema: Any) -> dict[str, Any]:
    """Choose a question for some rows and columns."""
    names = [f.name for f in schema.fields]
    columns = choose.sample(names, choose.randint(1, len(names)))
    return {"mode": choose.choice(["all", "net"]), "columns": columns, "where": choose.choice([*FILTERS, None])}


def seen(rows: Sequence[Row], question: dict[str, Any]) -> list[Row]:
    """Return what a question sees of rows."""
    columns, where = question.get("columns"), question.get("where")
    wanted = [row for row in rows if where is None or FILTERS[where](row)]
    return [{k: v for k, v in row.items() if columns is None or k in (*columns, "_row_id")} for row in wanted]


def row_id(changes: Sequence[Row]) -> list[str]:
    return ["_row_id"] if changes and "_row_id" in changes[0] else []


def sides(changes: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    left = [c for c in changes if c["_change_type"] in ("delete", "update_before")]
    return left, [c for c in changes if c["_change_type"] in ("insert", "update_after")]


def check_order(changes: Sequence[Row]) -> None:
    """Ordinals ascend, and in each commit rows leave before others come, with as many images before as after."""
    kinds = ["delete", "update_before", "update_after", "insert"]
    order = [(c["_change_ordinal"], kinds.index(c["_change_type"])) for c in changes]
    assert [o for o, _ in order] == sorted(o for o, _ in order)
    for ordinal in {o for o, _ in order}:
        of_commit = [kind for o, kind in order if o == ordinal]
        assert [kind > 1 for kind in of_commit] == sorted(kind > 1 for kind in of_commit)
        assert of_commit.count(1) == of_commit.count(2)


def check_branch(snapshots: Snapshots, ref: str, *, unique: bool) -> int:
    """Hold it for every pair of snapshots of a branch, the empty table before the first one too."""
    line = snapshots.line(ref)
    starts: list[int | None] = [None, *line]
    return sum(
        check_pair(snapshots, start, end, snapshots.schema_of(end), unique=unique)
        for number, start in enumerate(starts)
        for end in line[number:]
    )


def check_steps(snapshots: Snapshots, ref: str) -> None:
    """Hold that each commit's changes have the row ids that scans of it and its parent have."""
    line = snapshots.line(ref)
    if not line:
        return
    schema = snapshots.schema_of(line[-1])
    found = dk.changes(snapshots.table, None, line[-1], engine=CORES).to_arrow().to_pylist()
    for before, after in zip([None, *line], line, strict=False):
        own = [c for c in found if c["_commit_snapshot_id"] == after]
        left, came = sides(own)
        assert bag(left, "_row_id") <= bag(snapshots.rows(before, schema), *row_id(found))
        assert bag(came, "_row_id") <= bag(snapshots.rows(after, schema), *row_id(found))
        pairs = [[c["_row_id"] for c in own if c["_change_type"] == f"update_{e}"] for e in ("before", "after")]
        assert pairs[0] == pairs[1]


def check_back(history: History, snapshots: Snapshots) -> int:
    """Hold that a branch that went back is refused, and told of backwards on request; so for another branch."""
    count = 0
    refs = sorted(history.heads)
    *line, head = snapshots.line("main")
    pairs = [(head, i) for i in history.choose.sample(line, min(len(line), 2))]
    pairs += [(snapshots.line(a)[-1], snapshots.line(b)[-1]) for a in refs for b in refs if a != b]
    for start, end in pairs:
        if snapshots.metadata.is_ancestor(end, start):
            continue
        with pytest.raises(dk.InvalidInputError) as refusal:
            dk.changes(snapshots.table, start, end)
        assert refusal.value.kind in ("snapshot-order", "snapshot-branch")
        schema = snapshots.metadata.schema
        count += check_pair(snapshots, start, end, schema, unique=history.unique, inverse=True)
    return count


def replay(directory: Path, seed: int, *, upgraded: int = 0) -> tuple[int, Counter[str]]:
    """Write a history and check it. Return the number of results compared, and what the history did.

    `upgraded`: each branch is upgraded to v3, with so many steps around it; 0 for any history.
    """
    with new_catalog(directory) as catalog:
        history = History(catalog, seed, (1, 2)) if upgraded else History(catalog, seed)
        history.run_upgraded_on_branches(upgraded) if upgraded else history.run(7)
        snapshots = Snapshots(history.table)
        compared = 0
        for ref in history.heads:
            compared += check_branch(snapshots, ref, unique=history.unique) if ref == "main" else 0
            if snapshots.metadata.format_version > 2:
                check_steps(snapshots, ref)
        compared += check_back(history, snapshots)
        if history.choose.random() < 0.5 and len(line := snapshots.line("main")) > 2:
            dk.rollback(history.table, line[-3])
            after = Snapshots(history.table)
            schema = after.metadata.schema
            found = dk.changes(after.table, line[-1], inverse=True).to_arrow().to_pylist()
            assert replayed(bag(after.rows(line[-1], schema)), found) == bag(after.rows(line[-3], schema))
            compared += 1
    return compared, history.done


@pytest.mark.parametrize("seed", range(FIRST_TIER))
def test_every_pair_of_snapshots(tmp_path: Path, seed: int) -> None:
    replay(tmp_path, seed)


def test_branches_that_were_upgraded_each_for_itself(tmp_path: Path) -> None:
    replay(tmp_path, 0, upgraded=1)


@pytest.mark.parametrize("seed", range(ALL, ALL + 2))
def test_rows_that_are_too_many_to_hold_are_compared_by_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(change_reader, "_HELD_ROWS", 3)
    replay(tmp_path, seed)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST_TIER, FIRST_TIER + SECOND_TIER))
def test_every_pair_of_snapshots_of_more_histories(tmp_path: Path, seed: int) -> None:
    replay(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_branches_that_were_upgraded_each_for_itself_of_all_histories(tmp_path: Path, seed: int) -> None:
    replay(tmp_path, seed, upgraded=3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(FIRST_TIER + SECOND_TIER, ALL))
def test_every_pair_of_snapshots_of_all_histories(tmp_path: Path, seed: int) -> None:
    replay(tmp_path, seed)
