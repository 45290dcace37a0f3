"""A commit is undone and later ones stay: random histories beside plain Python lists, and each refusal by name.

The model knows a row by its `_row_id` on v3, and by its values elsewhere. What a commit did is the difference of the
rows before and after it. It knows nothing of files, positions and kinds of deletes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.invariants import check_table
from tests.maintenance.model import FAR, between, lineage, other, snapshot_ids
from tests.storage import stored_at
from tests.tables import MAINTENANCE, MODES, Row, ids, items, live, make, new_catalog, raises, refused, unchanged

HISTORIES = 500
FIELDS = NestedField(1, "id", IntegerType(), required=True), NestedField(2, "v", IntegerType())
SCHEMAS = {keyed: Schema(*FIELDS, identifier_field_ids=[1] if keyed else []) for keyed in (False, True)}
Act = Callable[[list[Row]], list[Row]]


class History:
    """A table under random commits, and the rows after each, with today's columns.

    Attributes
    ----------
    keyed: `id` identifies rows, and no two have the same.
    commits: of each snapshot its id, the rows after it, what it does to any rows, and the snapshot that it reverted.
    """

    def __init__(self, catalog: dk.Catalog, seed: int) -> None:
        self.choose = random.Random(seed)
        self.version, self.keyed = self.choose.choice([1, 2, 2, 3, 3, 3]), self.choose.random() < 0.5
        self.table = make(
            catalog,
            schema=SCHEMAS[self.keyed],
            format_version=self.version,
            partition_by=self.choose.choice([[], [], ["bucket(2, id)"], ["id"]]),
            properties={"write.delete.mode": self.choose.choice(MODES[self.version])},
        )
        self.commits: list[tuple[int, list[Row], Act | None, int | None]] = []
        self.row_ids: set[int] = set()
        self.seen: Counter[str] = Counter()
        self.ref, self.names, self.number = "main", ["v"], 100
        self.append()
        if self.choose.random() < 0.3:
            self.ref = "work"
            dk.create_branch(self.table, self.ref)

    @property
    def rows(self) -> list[Row]:
        return self.commits[-1][1] if self.commits else []

    def run(self, steps: int) -> None:
        acts = [self.append, self.delete, self.delete, self.update, self.put, self.overwrite, self.maintain]
        acts = [*acts, *acts, self.revert, self.revert, self.revert, self.revert, self.evolve]
        for _ in range(steps):
            self.choose.choice(acts)()

    # --- commits -----------------------------------------------------------------------------------------------------

    def append(self) -> None:
        known = {row["id"] for row in self.rows} if self.keyed else set()
        free = [i for i in range(8) if i not in known]
        rows = [self._row(i) for i in free[: self.choose.randint(1, 4)]]
        rows += [] if self.keyed else self.choose.sample(rows, 1)
        if rows:
            self._note(dk.append(self.table, rows, ref=self.ref), lambda old: [*old, *rows])

    def delete(self) -> None:
        """Hide rows by a filter, or by keys without a look at the table; some are hidden already."""
        some, where = self._some()
        if self.version > 1 and self.choose.random() < 0.3:
            done = dk.delete_keys(self.table, [{"id": i} for i in some], ref=self.ref)
        else:
            done = dk.delete(self.table, where, mode=self.choose.choice(MODES[self.version]), ref=self.ref)
        self._note(done, lambda old: [row for row in old if row["id"] not in some])

    def update(self) -> None:
        (some, where), name, value = self._some(), self.choose.choice(self.names), self.choose.randint(0, 3)
        mode = self._mode()
        done = dk.update(self.table, {name: value}, where=where, mode=mode, ref=self.ref)
        new = {name: value} | self._lineage(mode)
        self._note(done, lambda old: [row | new if row["id"] in some else row for row in old])

    def put(self) -> None:
        """Replace rows by key, and insert those with new keys."""
        mode, rows = self._mode(), {i: self._row(i) for i in self._some()[0]}
        if self.keyed and self.choose.random() < 0.5:
            done = dk.upsert(self.table, list(rows.values()), mode=mode, ref=self.ref)
        else:
            done = dk.merge(self.table, list(rows.values()), on="id", mode=mode, ref=self.ref)
        same = self._lineage(mode)
        self._note(
            done,
            lambda old: [
                *(row | rows[row["id"]] | same if row["id"] in rows else row for row in old),
                *(row for i, row in rows.items() if i not in {row["id"] for row in old}),
            ],
        )

    def overwrite(self) -> None:
        some, where = self._some()
        self.number += 1
        rows = [self._row(i) | {"v": self.number} for i in some]
        done = dk.overwrite(self.table, rows, where, mode=self._mode(), ref=self.ref)
        self._note(done, lambda old: [*(row for row in old if row["id"] not in some), *rows])

    def maintain(self) -> None:
        verb = self.choose.choice(MAINTENANCE if self.version > 1 else MAINTENANCE[:1])
        if self.ref == "main":
            verb(self.table)
        else:
            dk.compact(self.table, rewrite_all=True, ref=self.ref)
        assert bag(self._read()) == bag(self.rows)

    def evolve(self) -> None:
        name = f"c{len(self.table.refresh().metadata.schemas)}"
        if self.choose.random() < 0.4:
            fields = [f.name for f in self.table.spec.fields]
            if fields:
                dk.drop_partition_field(self.table, fields[0])
            else:
                dk.add_partition_field(self.table, self.choose.choice(["truncate(4, id)", "bucket(3, id)"]))
        elif len(self.names) > 1 and self.choose.random() < 0.5:
            dk.drop_column(self.table, gone := self.names.pop())
            self._each_row(lambda row: {n: v for n, v in row.items() if n != gone})
        else:
            default = self.choose.choice([None, 1]) if self.version > 2 else None
            dk.add_column(self.table, name, "int", default=default)
            self.names.append(name)
            self._each_row(lambda row: row | {name: default})

    # --- to undo a commit --------------------------------------------------------------------------------------------

    def revert(self) -> None:
        own = [snapshot for snapshot, *_ in self.commits]
        at = own.index(self.choose.choice([*own, *(target for *_, target in self.commits if target in own)]))
        snapshot, skips = own[at], self.choose.random() < 0.4
        before = self.commits[at - 1][1] if at else []
        left, came = difference(before, self.commits[at][1])
        back, lost, is_known = self._judge(at, left, came)
        stuck = len(left) - len(back) + len(lost)
        options: Any = {"ref": self.ref, "engine": LocalEngine(1), "on_conflict": "skip" if skips else None}
        tried = result_or_error(lambda: dk.revert(self.table, snapshot, dry_run=True, **options))
        kind = getattr(tried, "kind", None)
        assert self._is_undone(snapshot) == (kind == "revert")
        if isinstance(tried, dk.InvalidInputError):
            self.seen[str(kind)] += 1
            is_counted = str(tried.found).startswith(f"{stuck} row")
            assert kind == "revert" or (not skips and (is_counted or not is_known)), (tried, left, came)
            return
        done = dk.revert(self.table, snapshot, **options)
        self.seen["done"] += 1
        counts = [done.inserted_rows, done.removed_rows, done.skipped_rows]
        assert counts == [tried.inserted_rows, tried.removed_rows, tried.skipped_rows]
        assert sum(counts) == len(left) + len(came)
        if is_known or not skips:
            assert skips or not stuck
            assert counts == [len(back), len(came) - len(lost), stuck]
            now = [*minus(self.rows, minus(came, lost)), *back]
            if not stuck:
                self._check_replay(at, left, came, now)
            self._note(done.commit, lambda _: now, snapshot)
        else:  # which of equal rows were deleted later is not known
            found, self.seen["unknown"] = self._read(), self.seen["unknown"] + 1
            more, fewer = difference(found, self.rows)
            assert not minus(more, left)
            assert not minus(fewer, came)
            assert len(more) - len(fewer) == counts[0] - counts[1]
            if done.commit.snapshot_id is not None:
                self.commits.append((done.commit.snapshot_id, found, None, snapshot))

    def _judge(self, at: int, left: list[Row], came: list[Row]) -> tuple[list[Row], list[Row], bool]:
        """Return which rows come back, which of `came` must be left alone, and whether the model knows it surely."""
        back, lost, later = list(left), minus(came, self.rows), self.commits[at:]
        deleted = [row for a, b in pairwise(later) for row in difference(a[1], b[1])[0]]
        is_known = self.version > 2 or not any(row in deleted for row in came)
        while True:
            staying = [*minus(self.rows, minus(came, lost)), *lost]
            blocked = [row for row in back if any(self._clash(row, one) for one in staying)]
            back = minus(back, blocked)
            tied = [row for row in minus(came, lost) if any(self._clash(row, one) for one in minus(left, back))]
            lost += tied
            if not blocked and not tied:
                return back, lost, is_known

    def _clash(self, row: Row, one: Row) -> bool:
        return (self.version > 2 and row["_row_id"] == one["_row_id"]) or (self.keyed and row["id"] == one["id"])

    def _is_undone(self, snapshot: int) -> bool:
        return any(target == snapshot and not self._is_undone(own) for own, _, _, target in self.commits)

    def _check_replay(self, at: int, left: list[Row], came: list[Row], now: list[Row]) -> None:
        """A delete that no later commit was about is undone as if it had never been."""
        acts = [act for _, _, act, _ in self.commits[at + 1 :]]
        rows = self.commits[at - 1][1] if at else []
        mine = [row for row in rows if row in left]
        for act in acts:
            rows = act(rows) if act is not None else []
        if mine and not came and all(any(row is one for one in rows) for row in mine):
            self.seen["replayed"] += 1
            assert bag(rows, ids=False) == bag(now, ids=False)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _note(self, done: Any, act: Act, reverted: int | None = None) -> None:
        expected, found = act(self.rows), self._read()
        new = [row for row in expected if row.get("_row_id") is None]
        known = [row for row in expected if row.get("_row_id") is not None]
        if self.version > 2:
            rest = minus(found, known)
            assert len(rest) == len(found) - len(known), (expected, found)
            assert bag(rest, ids=False) == bag(new, ids=False)
            assert not {row["_row_id"] for row in rest} & self.row_ids
            self.row_ids |= {row["_row_id"] for row in rest}
        else:
            assert bag(found) == bag(new)
        if done.snapshot_id is not None:
            self.commits.append((done.snapshot_id, found, act if reverted is None else None, reverted))

    def _each_row(self, change: Callable[[Row], Row]) -> None:
        self.commits = [(own, [change(row) for row in rows], None, target) for own, rows, _, target in self.commits]

    def _read(self) -> list[Row]:
        names = ["id", *self.names, *(["_row_id"] if self.version > 2 else [])]
        rows: list[Row] = dk.scan(self.table, columns=names, ref=self.ref, engine=LocalEngine(1)).to_arrow().to_pylist()
        return rows

    def _row(self, key: int) -> Row:
        return {"id": key} | {name: self.choose.randint(0, 3) for name in self.names}

    def _some(self) -> tuple[list[int], str]:
        some = self.choose.sample(range(8), self.choose.randint(1, 3))
        return some, f"id in ({', '.join(map(str, some))})"

    def _mode(self) -> Any:
        """Choose a mode; without keys, equality deletes would leave open which of equal rows has which row id."""
        return self.choose.choice([m for m in MODES[self.version] if self.keyed or m != "equality-delete"])

    def _lineage(self, mode: str) -> Row:
        """What a row that is written again has for another row id, if it has."""
        return {"_row_id": None} if self.version > 2 and mode == "equality-delete" else {}


def result_or_error(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except dk.InvalidInputError as error:
        return error


def bag(rows: Sequence[Row], *, ids: bool = True) -> Counter[str]:
    return Counter(repr(sorted((k, v) for k, v in row.items() if ids or k != "_row_id")) for row in rows)


def minus(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Rows without others, each of which takes away one."""
    rest = list(rows)
    for row in others:
        if row in rest:
            rest.remove(row)
    return rest


def difference(before: list[Row], after: list[Row]) -> tuple[list[Row], list[Row]]:
    """Rows that left and that came; a row that left and came again with another row id is neither."""
    left, came = minus(before, after), minus(after, before)
    for row in list(left):
        again = next((one for one in came if bag([one], ids=False) == bag([row], ids=False)), None)
        if again is not None:
            left, came = minus(left, [row]), minus(came, [again])
    return left, came


@pytest.mark.sampled(17, tier=1)
@pytest.mark.parametrize("seeds", range(0, HISTORIES, 10))
def test_random_histories(tmp_path: Path, seeds: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(seeds, seeds + 10):
        with new_catalog(tmp_path / str(seed)) as catalog:
            history = History(catalog, seed)
            try:
                history.run(14)
            except Exception as error:
                error.add_note(f"seed {seed}, version {history.version}, keyed {history.keyed}, done {history.seen}")
                raise
            check_table(history.table)
            seen += history.seen
    print(seen)
    assert min(seen[kind] for kind in ("done", "revert-conflict")) > 0, seen


# --- one commit -------------------------------------------------------------------------------------------------------

ROWS = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))


def snapshot_of(done: Any) -> int:
    assert done.snapshot_id is not None
    return int(done.snapshot_id)


@pytest.mark.parametrize("ref", ["main", "work"])
def test_conflicts_are_named(catalog: dk.Catalog, ref: str) -> None:
    table = make(catalog, ROWS, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    dk.create_branch(table, "work")
    update = snapshot_of(dk.update(table, {"value": 9.0}, where="id < 3", mode="merge-on-read", ref=ref))
    later = snapshot_of(dk.delete(table, "id = 2", ref=ref))
    before = lineage(table, ref="main" if ref == "work" else "work")
    with refused(table, dk.InvalidInputError, "revert-conflict") as refusal:
        dk.revert(table, update, ref=ref)
    assert refusal.error.found == f"2 rows, such as (id, category, value) = (2, 'a', 2.0), changed by {later}"
    with unchanged(table):
        tried = dk.revert(table, update, ref=ref, on_conflict="skip", dry_run=True)
    done = dk.revert(table, update, ref=ref, on_conflict="skip")
    for one in (tried, done):
        assert (one.inserted_rows, one.removed_rows, one.skipped_rows, one.ref) == (1, 1, 2, ref)
    assert (tried.commit.snapshot_id, done.commit.summary["reverted-snapshot-id"]) == (None, str(update))
    number = done.commit.sequence_number
    assert lineage(table, ref=ref) == [(1, 0, number), (3, 2, 1)]
    assert lineage(table, ref="main" if ref == "work" else "work") == before
    check_table(table)


def test_a_key_that_is_live_again_is_a_conflict(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": 1, "v": 1}, {"id": 2, "v": 2}], schema=SCHEMAS[True], format_version=2)
    gone = snapshot_of(dk.delete(table, "id < 3", mode="position-delete"))
    later = snapshot_of(dk.append(table, [{"id": 2, "v": 3}]))
    dk.compact(table, rewrite_all=True)
    with refused(table, dk.InvalidInputError, "revert-conflict") as refusal:
        dk.revert(table, gone)
    assert refusal.error.found == f"1 row, such as (id) = (2), changed by {later}"
    dk.revert(table, gone, on_conflict="skip")
    assert live(table) == [{"id": 1, "v": 1}, {"id": 2, "v": 3}]


@pytest.mark.parametrize("version", [1, 2])
def test_an_equal_row_of_a_later_commit_is_not_taken(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, ROWS[:1], format_version=version)
    mine = snapshot_of(dk.append(table, ROWS[1:]))
    dk.delete(table, "id = 2", mode="copy-on-write")
    dk.append(table, ROWS[1:2])
    with refused(table, dk.InvalidInputError, "revert-conflict"):
        dk.revert(table, mine)
    assert dk.revert(table, mine, on_conflict="skip").removed_rows == 1
    assert ids(table) == [1, 2]


def test_what_cannot_be_reverted(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, ROWS, format_version=2)
    dk.create_branch(table, "work")
    aside = snapshot_of(dk.append(table, ROWS, ref="work"))
    gone = snapshot_of(dk.delete(table, "id = 1", mode="copy-on-write"))
    dk.compact(table, rewrite_all=True)
    rewritten = snapshot_ids(table)[-1]
    for snapshot in (aside, rewritten):
        with refused(table, dk.InvalidInputError, "revert", field="snapshot_id"):
            dk.revert(table, snapshot)
    with refused(table, dk.NotFoundError, "snapshot-not-found"):
        dk.revert(table, 5)
    undone = snapshot_of(dk.revert(table, gone).commit)
    with refused(table, dk.InvalidInputError, "revert", found=f"as {undone}"):
        dk.revert(table, gone)
    again = snapshot_of(dk.revert(table, undone).commit)
    assert ids(table) == [2, 2, 3, 3]
    dk.revert(table, gone, on_conflict="skip")  # its revert was reverted
    assert ids(table) == [1, 1, 2, 2, 3, 3]
    dk.drop_ref(table, "work")
    dk.expire_snapshots(table, older_than=FAR, retain_last=2)
    assert again in snapshot_ids(table)
    with refused(table, dk.NotFoundError, "snapshot-expired", found=undone):
        dk.revert(table, again)


def test_a_file_that_is_gone_is_named(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=2)
    done = dk.delete(table, "id = 1", mode="copy-on-write")
    (file,) = done.removed_data_files
    stored_at(file.file_path).unlink()
    with refused(table, dk.NotFoundError, "file-not-found", file=file.file_path):
        dk.revert(table, snapshot_of(done))


def test_a_lost_race_is_planned_again(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    update = snapshot_of(dk.update(table, {"value": 9.0}, where="id < 3", mode="merge-on-read"))
    race = between(table, before=lambda: dk.delete(other(table), "id = 2", mode="merge-on-read"))
    with race, raises(dk.InvalidInputError, "revert-conflict"):
        dk.revert(table, update)
    with between(table, before=lambda: dk.append(other(table), ROWS[1:2])):
        done = dk.revert(table, update, on_conflict="skip")
    assert (done.commit.plans, done.skipped_rows) == (2, 2)
    assert [row["value"] for row in live(table)] == [1.0, 2.0, 3.0]
    check_table(table)


def test_rows_from_before_an_upgrade(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:1], format_version=2)
    added = snapshot_of(dk.append(table, ROWS[1:]))
    gone = snapshot_of(dk.delete(table, "id = 1", mode="position-delete"))
    dk.compact(table, rewrite_all=True)
    dk.upgrade_format_version(table, 3)
    tried = dk.revert(table, added, dry_run=True)
    assert (tried.removed_rows, tried.skipped_rows) == (2, 0)
    dk.append(table, items((4, "c", 4.0)))
    dk.revert(table, gone)
    dk.revert(table, added)
    assert ids(table) == [1, 4]
    assert len({row_id for _, row_id, _ in lineage(table)} - {None}) == 2
    check_table(table)


def test_rows_of_any_type_are_found_after_a_rewrite(catalog: dk.Catalog) -> None:
    kinds = {"id": 1, "d": float("nan"), "l": [1, None], "m": [("k", -0.0)], "s": {"a": None, "t": "x"}, "n": None}
    rows = pa.Table.from_pylist(
        [kinds, kinds, kinds | {"id": 2, "s": None}],
        pa.schema(
            [
                ("id", pa.int32()),
                ("d", pa.float64()),
                ("l", pa.list_(pa.int32())),
                ("m", pa.map_(pa.string(), pa.float32())),
                ("s", pa.struct([("a", pa.int32()), ("t", pa.string())])),
                ("n", pa.decimal128(9, 2)),
            ]
        ),
    )
    for version in (2, 3):
        table = make(catalog, rows.slice(0, 1), schema=rows, format_version=version)
        added = snapshot_of(dk.append(table, rows))
        gone = snapshot_of(dk.delete(table, "id = 2", mode="merge-on-read"))
        dk.compact(table, rewrite_all=True)
        dk.revert(table, gone)
        dk.compact(table, rewrite_all=True)
        done = dk.revert(table, added, on_conflict="skip")
        # Without row ids, a value that was deleted since may be this row's.
        assert (done.removed_rows, done.skipped_rows) == ((2, 1) if version == 2 else (3, 0))
        assert dk.scan(table).count() == (2 if version == 2 else 1)
