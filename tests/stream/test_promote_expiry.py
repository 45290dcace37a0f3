"""Promotions between expiries, beside dicts: no row is lost or doubled, and nothing promoted before is refused."""

import random
from typing import Any

import pytest

import deletekit as dk
from tests.interop.rows import same_rows
from tests.stream.replay import PEOPLE, State, replay
from tests.tables import Row, live, make, refused

STAGING = "staging"
START = [{"id": i, "name": "start", "score": i / 2} for i in range(12)]
NOW = 2**62


def staged(catalog: dk.Catalog, *targets: str) -> dk.Table:
    table = make(catalog, START[:6], START[6:], schema=PEOPLE, format_version=3)
    for branch in (STAGING, *targets):
        dk.create_branch(table, branch)
    return table


class History:
    """A table with a staging branch, and what its branches must hold."""

    def __init__(self, catalog: dk.Catalog, seed: int) -> None:
        self.chance = random.Random(seed)
        start = {(r["id"],): r for r in START}
        self.rows: dict[str, State] = {"main": start, STAGING: start}
        self.rows |= {"prod": start} if seed % 3 == 0 else {}
        self.common = {ref: start for ref in self.rows if ref != STAGING}
        self.table = staged(catalog, *self.rows.keys() - {"main", STAGING})
        self.promoted: set[str] = set()
        self.line: dict[int, tuple[State, State]] = {}  # main's snapshots
        self.batch = 0

    def step(self, number: int) -> None:
        ref = self.chance.choice(list(self.common))
        ways = [self.write, self.promote, self.expire, self.append, self.compact, self.roll_back, self.create_again]
        self.chance.choices(ways, [6, 4, 5, 2, 2, 1, 1])[0](number, ref)
        main = self.table.refresh().metadata.current_snapshot
        assert main is not None
        self.line[main.snapshot_id] = self.rows["main"], self.common["main"]
        for name, rows in self.rows.items():
            same_rows(dk.scan(self.table, ref=name).to_arrow().to_pylist(), rows.values())

    def write(self, number: int, _ref: str) -> None:
        keys = self.chance.sample(range(14), 5)
        put, gone = {"name": f"{number}", "_change_type": "UPDATE_AFTER"}, {"name": None, "_change_type": "DELETE"}
        changes = [{"id": k, "score": 0.5, **(put if i < 3 else gone)} for i, k in enumerate(keys)]
        with dk.stream.sink(self.table, "s", on=["id"], ref=STAGING, allow_rewind=True) as sink:
            sink.write(changes, self.batch)
        self.batch += 1
        self.rows[STAGING] = replay([changes], start=self.rows[STAGING])

    def promote(self, _number: int, ref: str) -> None:
        """What differs between the branch and what both had in common is applied to the target's dict."""
        mode, reset = self.chance.choice(["merge-on-read", "copy-on-write"]), self.chance.random() < 0.3
        call: dict[str, Any] = {"ref": ref, "on": ["id"], "mode": mode, "reset": reset}
        try:
            done = dk.stream.promote(self.table, STAGING, **call)
        except dk.InvalidInputError as e:
            if e.kind != "no-common-snapshot" or ref in self.promoted:
                raise
            return
        self.promoted |= {ref} if done.commit is not None else set()
        rows, common, branch = self.rows[ref], self.common[ref], self.rows[STAGING]
        new = {k: v for k, v in rows.items() if k not in common or k in branch}
        self.rows[ref] = new | {k: v for k, v in branch.items() if common.get(k) != v}
        self.rows[STAGING] = self.rows[ref] if reset else branch
        self.common[ref] = self.rows[STAGING]

    def expire(self, _number: int, _ref: str) -> None:
        dk.expire_snapshots(self.table, older_than=NOW, retain_last=self.chance.choice([1, 1, 1, 2, 4]))

    def append(self, number: int, ref: str) -> None:
        row: Row = {"id": 100 + number, "name": "own", "score": 0.0}
        dk.append(self.table, [row], ref=ref)
        self.rows[ref] = self.rows[ref] | {(row["id"],): row}

    def compact(self, _number: int, ref: str) -> None:
        dk.compact(self.table, ref=self.chance.choice([ref, STAGING]), rewrite_all=True)

    def roll_back(self, _number: int, _ref: str) -> None:
        metadata = self.table.metadata
        known = [s.snapshot_id for s in metadata.ancestors(metadata.refs["main"]["snapshot-id"])]
        snapshot_id = self.chance.choice([i for i in known if i in self.line] or known[:1])
        if snapshot_id in self.line:
            dk.rollback(self.table, snapshot_id)
            self.rows["main"], self.common["main"] = self.line[snapshot_id]

    def create_again(self, _number: int, _ref: str) -> None:
        if len(self.common) == 1:
            dk.drop_ref(self.table, STAGING)
            dk.create_branch(self.table, STAGING)
            self.rows[STAGING] = self.common["main"] = self.rows["main"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 24))])
def test_no_expiry_loses_what_was_promoted(catalog: dk.Catalog, seed: int) -> None:
    history = History(catalog, seed)
    for number in range(18):
        history.step(number)
    assert not [f for f in dk.verify(history.table).findings if f.severity == "error"]


def branch_that_goes_on(table: dk.Table, first: int = 20, ref: str = STAGING) -> None:
    for number in (first, first + 1):
        dk.append(table, [{"id": number, "name": "branch", "score": 0.0}], ref=ref)


def ids(table: dk.Table, ref: str = "main") -> list[int]:
    return sorted(row["id"] for row in live(table.refresh(), ref=ref))


def test_a_branch_that_was_moved_back_takes_its_rows_back(catalog: dk.Catalog) -> None:
    """A row that a vector hid, and that is live again in the same file, cannot be given back: this is refused."""
    table = staged(catalog)
    branch_that_goes_on(table)
    before = table.refresh().metadata.refs[STAGING]["snapshot-id"]
    branch_that_goes_on(table, 30)
    dk.stream.promote(table, STAGING, on=["id"])
    dk.set_current_snapshot(table, before, branch=STAGING)
    assert dk.stream.promote(table, STAGING, on=["id"]).deleted_rows == 2
    assert ids(table) == [*range(12), 20, 21]
    dk.delete(table, "id = 1", ref=STAGING, mode="deletion-vector")
    dk.stream.promote(table, STAGING, on=["id"])
    dk.set_current_snapshot(table, before, branch=STAGING)
    with refused(table, dk.InvalidInputError, "no-common-snapshot"):
        dk.stream.promote(table, STAGING, on=["id"])


def test_what_expired_before_any_promotion(catalog: dk.Catalog) -> None:
    """Expiry keeps the start of a branch that a sink writes to. Of another branch, the start may be unknown."""
    table = staged(catalog)
    branch_that_goes_on(table)
    dk.expire_snapshots(table, older_than=NOW, retain_last=1)
    with refused(table, dk.InvalidInputError, "no-common-snapshot") as told:
        dk.stream.promote(table, STAGING, on=["id"])
    assert "set_current_snapshot" in str(told.error)
    dk.set_current_snapshot(table, ref=STAGING)
    dk.append(table, [{"id": 100, "name": "main", "score": 0.0}])
    with dk.stream.sink(table, "s", on=["id"], change_type=None, ref=STAGING) as sink:
        for number in (0, 1):
            sink.write([{"id": 50 + number, "name": "sink", "score": 0.0}], number)
    dk.expire_snapshots(table, older_than=NOW, retain_last=1)
    assert dk.stream.promote(table, STAGING, on=["id"]).added_rows == 2
    assert ids(table) == [*range(12), 20, 21, 50, 51, 100]


def test_tags_of_branches_that_are_gone_go_too(catalog: dk.Catalog) -> None:
    table = staged(catalog)
    branch_that_goes_on(table)
    dk.stream.promote(table, STAGING, on=["id"])
    dk.drop_ref(table, STAGING)
    done = dk.expire_snapshots(table, older_than=NOW, retain_last=1)
    assert done.refs == ("deletekit-promoted-staging",)
    assert list(table.refresh().metadata.refs) == ["main"]
