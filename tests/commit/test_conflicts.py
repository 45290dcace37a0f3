"""What landed meanwhile, kind by kind: a change stays as it is written, is united with it, or is planned anew.

Rows are compared with those of a list on which the same steps were done one after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import deletekit as dk
from tests.commit.racing import QUICK, racing
from tests.invariants import check_table
from tests.stored import live_files, position_deletes, vectors
from tests.tables import ITEMS, Row, expected, ids, items, live, make, raises, refused, set_by_another_writer

FIRST = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))
SECOND = items((4, "b", 4.0), (5, "b", 5.0))
Rows = list[Row]
BOTH = ("serializable", "snapshot")
MOR = {2: "position-delete", 3: "deletion-vector"}


@dataclass(frozen=True)
class Step:
    """A verb on a table, and the same on a list."""

    run: Callable[[dk.Table, str], Any]
    model: Callable[[Rows], Rows]


def delete(*gone: int, mode: str | None = None) -> Step:
    where = f"id in ({', '.join(map(str, gone))})"
    return Step(
        lambda t, own: dk.delete(t, where, mode=mode or own), lambda rows: [r for r in rows if r["id"] not in gone]
    )


def delete_value(least: float, mode: str | None = None, **options: Any) -> Step:
    return Step(
        lambda t, own: dk.delete(t, f"value >= {least}", mode=mode or own, **options),
        lambda rows: [r for r in rows if r["value"] < least],
    )


def append(*new: tuple[Any, ...]) -> Step:
    return Step(lambda t, _: dk.append(t, items(*new)), lambda rows: rows + items(*new))


def delete_keys(*gone: int) -> Step:
    return Step(
        lambda t, _: dk.delete_keys(t, [{"id": i} for i in gone]),
        lambda rows: [r for r in rows if r["id"] not in gone],
    )


def update(which: int, mode: str | None = None) -> Step:
    return Step(
        lambda t, own: dk.update(t, {"value": 0.5}, where=f"id = {which}", mode=mode or own),
        lambda rows: [{**r, "value": 0.5} if r["id"] == which else r for r in rows],
    )


def merge(*source: tuple[Any, ...], matched: Any = "update") -> Step:
    def model(rows: Rows) -> Rows:
        new = {r["id"]: r for r in items(*source)}
        known = {r["id"] for r in rows}
        kept = [new.get(r["id"], r) if matched == "update" else r for r in rows]
        return kept + [r for i, r in new.items() if i not in known]

    return Step(lambda t, own: dk.merge(t, items(*source), on=["id"], when_matched=matched, mode=own), model)


@dataclass(frozen=True)
class Case:
    """Our step, the steps that land before it, and how often ours is planned then."""

    ours: Step
    others: tuple[Step, ...]
    plans: int
    levels: tuple[str, ...] = BOTH
    modes: tuple[str, ...] = ("copy-on-write", "merge-on-read")
    before: tuple[Step, ...] = ()
    left: Rows | None = field(default=None)
    """The rows at the end, where they are not those of the serial order."""


COW, MERGE_ON_READ = ("copy-on-write",), ("merge-on-read",)
NEW = (100, "n", 100.0)
CASES = {
    "append, append": Case(append(NEW), (append((101, "n", 1.0)),), 1),
    "append, delete": Case(append(NEW), (delete(1),), 1),
    "append, update": Case(append(NEW), (update(1, "copy-on-write"),), 1),
    "keys, append of the key": Case(delete_keys(7), (append((7, "n", 1.0)),), 1),
    "keys, delete of the key": Case(delete_keys(1), (delete(1, 2),), 1),
    "delete, other file": Case(delete(1), (delete(4),), 1),
    "delete, append elsewhere": Case(delete(1), (append(NEW),), 1),
    "delete, append of the row": Case(delete(1), (append((1, "n", 9.0)),), 2, levels=("serializable",)),
    "delete, append of the row, left alone": Case(
        delete(1), (append((1, "n", 9.0)),), 1, levels=("snapshot",), left=[*FIRST[1:], *SECOND, *items((1, "n", 9.0))]
    ),
    "delete, same file": Case(delete(1), (delete(2),), 1, modes=MERGE_ON_READ),
    "delete, same file, twice": Case(delete(1), (delete(2), delete(3, 4)), 1, modes=MERGE_ON_READ),
    "delete, same file, with deletes before": Case(
        delete(1), (delete(2),), 1, modes=MERGE_ON_READ, before=(delete(3),)
    ),
    "delete, same file, equality": Case(delete(1), (delete_keys(2),), 1, modes=MERGE_ON_READ),
    "delete, same file, carried on": Case(delete(1), (delete(2),), 2, modes=COW),
    "delete, same file, equality, carried on": Case(delete(1), (delete_keys(2),), 2, modes=COW),
    "delete, file rewritten": Case(delete(1), (update(2, "copy-on-write"),), 2),
    "delete, file dropped": Case(delete(1), (delete(1, 2, 3),), 2),
    "delete of a whole file, delete in it": Case(delete(4, 5), (delete(4, mode="merge-on-read"),), 1),
    "delete, update of another row of the file": Case(
        delete(1), (update(3, "merge-on-read"),), 1, levels=("serializable",), modes=MERGE_ON_READ
    ),
    "delete, update of its row": Case(delete(1), (update(1, "merge-on-read"),), 2),
    "delete by value, update of its row to another value": Case(
        delete_value(4.0), (update(4, "merge-on-read"),), 2, levels=("snapshot",)
    ),
    "delete, update elsewhere": Case(delete(1), (update(4, "merge-on-read"),), 1),
    "update, other file": Case(update(1), (delete(4),), 1),
    "update, same row deleted": Case(update(1), (delete(1),), 2),
    "update, same row deleted by key": Case(update(1), (delete_keys(1),), 2),
    "update, same file": Case(update(1), (delete(2, mode="merge-on-read"),), 2),
    "update, same row updated": Case(update(1), (merge((1, "x", 8.0)),), 2),
    "update, append elsewhere": Case(update(1), (append(NEW),), 1),
    "update, append of the row": Case(update(1), (append((1, "n", 9.0)),), 2, levels=("serializable",)),
    "merge, append": Case(merge((1, "m", 7.0), (9, "m", 7.0)), (append((9, "n", 9.0)),), 2, levels=("serializable",)),
    "merge, append beyond its keys": Case(merge((1, "m", 7.0), (9, "m", 7.0)), (append(NEW),), 1),
    "merge, append of another key between": Case(merge((1, "m", 7.0), (9, "m", 7.0)), (append((8, "n", 9.0)),), 1),
    "merge of many keys, append of another key between": Case(
        merge((1, "m", 7.0), *((i, "m", 7.0) for i in range(10, 400))),
        (append((8, "n", 9.0)),),
        2,
        levels=("serializable",),
    ),
    "merge of many keys, append beyond them": Case(
        merge((1, "m", 7.0), *((i, "m", 7.0) for i in range(10, 400))), (append((500, "n", 9.0)),), 1
    ),
    "merge, append, both insert": Case(
        merge((9, "m", 7.0)),
        (append((9, "n", 9.0)),),
        1,
        levels=("snapshot",),
        left=[*FIRST, *SECOND, *items((9, "n", 9.0), (9, "m", 7.0))],
    ),
    "merge, matched row deleted": Case(merge((1, "m", 7.0)), (delete(1, mode="merge-on-read"),), 2),
    "merge, a row that was only looked up deleted": Case(
        merge((1, "m", 7.0), (9, "m", 1.0), matched=None), (delete(1, mode="merge-on-read"),), 2
    ),
    "merge, delete elsewhere": Case(merge((1, "m", 7.0)), (delete(4),), 1, modes=MERGE_ON_READ),
}
PARAMS = [
    pytest.param(case, level, mode, version, id=f"{name}-{level}-{mode}-v{version}")
    for name, case in CASES.items()
    for level in case.levels
    for mode in case.modes
    for version in (2, 3)
]


@pytest.mark.sampled(8, tier=1)
@pytest.mark.parametrize(("case", "level", "mode", "version"), PARAMS)
def test_what_landed(catalog: dk.Catalog, case: Case, level: str, mode: str, version: int) -> None:
    levels = {f"write.{verb}.isolation-level": level for verb in ("delete", "update", "merge")}
    table = make(catalog, FIRST, SECOND, format_version=version, properties={**QUICK, **levels})
    rows = FIRST + SECOND
    for step in case.before:
        step.run(table, mode)
        rows = step.model(rows)
    late = racing(catalog, table, *(lambda t, step=step: step.run(t, mode) for step in case.others))
    done = case.ours.run(late, mode)
    for step in (*case.others, case.ours):
        rows = step.model(rows)
    assert live(table.refresh()) == expected(rows if case.left is None else case.left)
    assert done.plans == case.plans
    assert done.attempts == 1 + len(case.others) or done.plans == 1 + len(case.others)
    check_table(table)  # no file that was written in vain
    assert dk.verify(table).ok


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes_of_one_file_add_up(catalog: dk.Catalog, granularity: str) -> None:
    properties = {**QUICK, "write.delete.granularity": granularity}
    table = make(catalog, FIRST, format_version=2, properties=properties)
    dk.delete(table, "id = 3", mode="position-delete")
    late = racing(catalog, table, lambda t: dk.delete(t, "id = 2", mode="position-delete"))
    done = dk.delete(late, "id = 1", mode="position-delete")
    assert (done.plans, done.attempts) == (1, 2)
    assert ids(table.refresh()) == []
    found = sorted(sorted(p for _, p in rows) for rows in position_deletes(table))
    assert found == ([[0, 2], [1, 2]] if granularity == "file" else [[0], [1], [2]])
    check_table(table)


def test_the_union_of_vectors_takes_the_place_of_what_landed(catalog: dk.Catalog) -> None:
    """Of two files in one Puffin file, only the vector that overlaps is written anew."""
    table = make(catalog, FIRST, SECOND, format_version=3, properties=QUICK)
    landed: list[dk.results.Commit] = []
    late = racing(catalog, table, lambda t: landed.append(dk.delete(t, "id = 2", mode="deletion-vector")))
    with dk.engine.local(1):
        done = dk.delete(late, "id in (1, 4)", mode="deletion-vector")
    first, second = (f["file_path"] for f in sorted(live_files(table.refresh(), 0), key=lambda f: -f["record_count"]))
    assert vectors(table) == {first: {0, 1}, second: {0}}
    assert done.removed_delete_files == landed[0].added_delete_files
    by_file = {f.referenced_data_file: f for f in done.added_delete_files}
    assert by_file[first].file_path != by_file[second].file_path
    assert done.summary["added-position-deletes"] == "3"
    assert done.summary["removed-position-deletes"] == "1"
    check_table(table)


@pytest.mark.parametrize(("granularity", "puffins"), [("file", 2), ("partition", 1)])
def test_united_vectors_keep_the_granularity_of_the_call(catalog: dk.Catalog, granularity: str, puffins: int) -> None:
    table = make(catalog, FIRST, [*SECOND, *items((6, "c", 6.0))], format_version=3, properties=QUICK)
    late = racing(catalog, table, lambda t: dk.delete(t, "id in (2, 5)", mode="deletion-vector"))
    done = dk.delete(late, "id in (1, 4)", mode="deletion-vector", granularity=granularity)
    assert (done.plans, done.attempts, ids(table.refresh())) == (1, 2, [3, 6])
    assert len(done.added_delete_files) == 2
    assert len({f.file_path for f in done.added_delete_files}) == puffins
    check_table(table)


def test_a_data_file_of_which_two_deletes_leave_no_row_is_dropped(catalog: dk.Catalog) -> None:
    table = make(catalog, FIRST, SECOND, format_version=3, properties=QUICK)
    late = racing(catalog, table, lambda t: dk.delete(t, "id in (2, 5)", mode="deletion-vector"))
    done = dk.delete(late, "id in (1, 4)", mode="deletion-vector")
    assert (done.plans, done.attempts, ids(table.refresh())) == (1, 2, [3])
    (left,) = live_files(table, 0)
    assert vectors(table) == {left["file_path"]: {0, 1}}
    assert [f.record_count for f in done.removed_data_files] == [2]
    assert (len(done.removed_delete_files), done.operation) == (2, "delete")
    check_table(table)
    assert dk.verify(table, level="data").ok


def test_a_delete_that_others_did_is_not_done_again(catalog: dk.Catalog) -> None:
    table = make(catalog, FIRST, format_version=3, properties=QUICK)
    late = racing(catalog, table, lambda t: dk.delete(t, "id in (1, 2)", mode="deletion-vector"))
    done = dk.delete(late, "id = 1", mode="deletion-vector")
    assert (done.snapshot_id, done.plans, done.attempts) == (None, 1, 2)
    assert ids(table.refresh()) == [3]
    check_table(table)


def test_a_change_that_stays_is_not_computed_again(catalog: dk.Catalog) -> None:
    table = make(catalog, FIRST, SECOND, format_version=3, properties=QUICK)
    asked: list[int] = []

    def value(rows: pa.Table) -> pa.Array:
        asked.append(len(rows))
        return pa.array([0.5] * len(rows))

    late = racing(catalog, table, *[lambda t: dk.append(t, items(NEW))] * 3)
    done = dk.update(late, {"value": value}, where="id = 1", mode="deletion-vector")
    assert (asked, done.plans, done.attempts) == ([1], 1, 4)
    assert done.sequence_number == 6
    check_table(table.refresh())


@pytest.mark.parametrize("version", [2, 3])
def test_on_a_branch(catalog: dk.Catalog, version: int) -> None:
    """What counts is what lands on the branch; main may get the very row."""
    mode = MOR[version]
    table = make(catalog, FIRST, SECOND, format_version=version, properties=QUICK)
    dk.create_branch(table, "b")
    late = racing(
        catalog,
        table,
        lambda t: dk.append(t, items((1, "main", 1.0))),
        lambda t: dk.delete(t, "id = 2", mode=mode, ref="b"),
        lambda t: dk.append(t, items((9, "b", 9.0)), ref="b"),
    )
    done = dk.delete(late, "id = 1", mode=mode, ref="b")
    assert (done.plans, done.attempts) == (1, 4)
    assert ids(table.refresh(), ref="b") == [3, 4, 5, 9]
    assert ids(table) == [1, 1, 2, 3, 4, 5]
    late = racing(catalog, table, lambda t: dk.append(t, items((3, "b", 1.0)), ref="b"))
    assert dk.delete(late, "id = 3", mode=mode, ref="b").plans == 2
    assert ids(table.refresh(), ref="b") == [4, 5, 9]
    check_table(table)


@pytest.mark.parametrize("level", BOTH)
def test_keys_that_were_looked_up_hide_no_row_that_nobody_saw(catalog: dk.Catalog, level: str) -> None:
    """The filter chooses by value and the delete file says id: a row with that id lands, whose value is another."""
    properties = {**QUICK, "write.delete.isolation-level": level, "write.update.isolation-level": level}
    table = make(catalog, FIRST, SECOND, properties=properties)
    late = racing(catalog, table, lambda t: dk.append(t, items((5, "n", 0.0))))
    with raises(dk.InvalidInputError, "equality-key-not-unique"):
        dk.delete(late, "value >= 5", mode="equality-delete", on=["id"])
    assert ids(table.refresh()) == [1, 2, 3, 4, 5, 5]
    check_table(table)
    late = racing(catalog, table, lambda t: dk.append(t, items((1, "n", 7.0))))
    done = dk.update(late, {"category": "u"}, where="id = 1", mode="equality-delete")
    assert done.plans == 2
    assert [r["category"] for r in live(table.refresh(), where="id = 1")] == ["u", "u"]


def test_keys_and_a_spec_that_gets_its_first_data(catalog: dk.Catalog) -> None:
    table = make(catalog, FIRST, partition_by=["id"], properties=QUICK)
    dk.add_partition_field(table, "category")
    dk.drop_partition_field(table, "category")  # rows go to the old spec again
    done = dk.delete_keys(racing(catalog, table, lambda t: dk.append(t, items((1, "n", 7.0)))), [{"id": 1}])
    assert ids(table.refresh()) == [2, 3], done
    check_table(table)


@pytest.mark.parametrize("version", [2, 3])
def test_the_base_expires_meanwhile(catalog: dk.Catalog, version: int) -> None:
    """What lies between is known by its parents, though the snapshot that the change was planned on has gone."""
    table = make(catalog, FIRST, SECOND, format_version=version, properties=QUICK)

    def other(t: dk.Table) -> None:
        dk.delete(t, "id = 2", mode=MOR[version])
        dk.expire_snapshots(t, older_than=2**62, retain_last=1)

    done = dk.delete(racing(catalog, table, other), "id = 1", mode=MOR[version])
    assert (done.plans, done.attempts) == (1, 2)
    assert ids(table.refresh()) == [3, 4, 5]
    check_table(table)

    def two(t: dk.Table) -> None:  # and now what lies between has gone too
        dk.append(t, items(NEW))
        dk.append(t, items((101, "n", 1.0)))
        dk.expire_snapshots(t, older_than=2**62, retain_last=1)

    done = dk.delete(racing(catalog, table, two), "id = 3", mode=MOR[version])
    assert (done.plans, done.attempts) == (2, 2)
    assert ids(table.refresh()) == [4, 5, 100, 101]
    check_table(table)


@pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector"])
def test_files_that_expire_while_they_are_read(catalog: dk.Catalog, mode: str) -> None:
    """Rewritten and expired between planning and reading: the race is lost, and the file is not called missing."""
    table = make(catalog, FIRST, SECOND, format_version=3, properties=QUICK)
    asked: list[list[int]] = []

    def value(rows: pa.Table) -> pa.Array:
        asked.append(rows.column("id").to_pylist())
        if len(asked) == 1:
            other = dk.load_table(catalog, table.name)
            dk.update(other, {"value": 9.0}, where="id in (1, 4)", mode="copy-on-write")
            dk.expire_snapshots(other, older_than=2**62, retain_last=1)
        return pc.add(rows.column("value"), 1.0)

    with dk.engine.local(1):
        done = dk.update(table, {"value": value}, where="id in (1, 4)", mode=mode)
    assert len(asked[0]) == 1, "its neighbour was to be read, and was gone"
    assert (done.plans, done.attempts) == (2, 2)
    assert live(table, where="id in (1, 4)") == items((1, "a", 10.0), (4, "b", 10.0))
    check_table(table)


def test_a_file_that_is_missing_is_missing(catalog: dk.Catalog) -> None:
    """A snapshot that is there and whose file is not: no race, and no second try."""
    table = make(catalog, FIRST, format_version=3, properties=QUICK)
    (path,) = (f["file_path"] for f in live_files(table, 0))
    Path(path).unlink()
    with refused(table, dk.NotFoundError, "file-not-found", file=path):
        dk.delete(table, "id = 1", mode="deletion-vector")


def test_a_table_of_the_same_name_is_another_table(catalog: dk.Catalog) -> None:
    table = make(catalog, FIRST, properties=QUICK)

    def replaced(t: dk.Table) -> None:
        catalog.drop_table(t.name)
        dk.append(dk.create_table(catalog, t.name, ITEMS, location=f"{t.location}-2"), SECOND)

    with raises(dk.NotFoundError, "table-not-found", field="table-uuid"):
        dk.delete(racing(catalog, table, replaced), "true")
    assert ids(dk.load_table(catalog, table.name)) == [4, 5]


def test_manifests_that_are_rewritten_meanwhile(catalog: dk.Catalog) -> None:
    """Everything is in another manifest, and nothing is new."""
    table = make(catalog, FIRST, SECOND, format_version=3, properties=QUICK)
    dk.delete(table, "id = 3", mode="deletion-vector")

    def other(t: dk.Table) -> None:
        dk.append(t, items(NEW))
        assert dk.rewrite_manifests(t).rewritten_manifests

    done = dk.update(racing(catalog, table, other), {"value": 0.0}, where="id = 1", mode="deletion-vector")
    assert (done.plans, done.attempts) == (1, 2)
    assert ids(table.refresh()) == [1, 2, 4, 5, 100]
    check_table(table)


@pytest.mark.parametrize("published", ["fast-forward", "cherry-pick"])
def test_what_is_published_from_a_branch_has_landed(catalog: dk.Catalog, published: str) -> None:
    table = make(catalog, FIRST, SECOND, format_version=3, properties=QUICK)
    dk.create_branch(table, "audit")
    staged = dk.append(table, items((1, "staged", 1.0)), ref="audit").snapshot_id
    assert staged is not None
    if published == "cherry-pick":
        dk.append(table, items(NEW))  # so that the snapshot is done again

    def other(t: dk.Table) -> None:
        if published == "fast-forward":
            dk.fast_forward(t, "main", "audit")
        else:
            dk.cherry_pick(t, staged)

    done = dk.delete(racing(catalog, table, other), "id = 1", mode="deletion-vector")
    assert done.plans == 2
    assert 1 not in ids(table.refresh())
    assert ids(table, ref="audit") == [1, 1, 2, 3, 4, 5]
    check_table(table)


@pytest.mark.parametrize(
    "other",
    [
        lambda t: dk.set_properties(t, {"x": "y"}) or dk.append(t, items(NEW)),
        lambda t: dk.add_column(t, "extra", "int") or dk.append(t, items(NEW)),
        lambda t: dk.upgrade_format_version(t, 3) or dk.append(t, items(NEW)),
        lambda t: dk.rollback(t, t.current_snapshot.parent_snapshot_id) and dk.append(t, items(NEW)),
    ],
    ids=["properties", "column", "upgrade", "rollback"],
)
def test_what_a_plan_rests_on_besides_files(catalog: dk.Catalog, other: Any) -> None:
    table = make(catalog, SECOND, FIRST, properties=QUICK)
    done = dk.delete(racing(catalog, table, other), "id = 4", mode="merge-on-read")
    assert done.plans == 2
    assert 4 not in ids(table.refresh())
    assert 100 in ids(table)
    check_table(table)


def test_rows_that_get_their_ids_meanwhile_keep_them(catalog: dk.Catalog) -> None:
    """The first commit after an upgrade to v3 gives every row its id; an update that was planned before knows none."""
    table = make(catalog, FIRST, SECOND, format_version=2, properties=QUICK)
    dk.upgrade_format_version(table, 3)
    seen: dict[int, int] = {}

    def other(t: dk.Table) -> None:
        dk.append(t, items(NEW))
        rows = dk.scan(t, columns=["id", "_row_id"]).to_arrow().to_pylist()
        seen.update({r["id"]: r["_row_id"] for r in rows})

    done = dk.update(racing(catalog, table, other), {"value": 0.0}, where="id = 1", mode="deletion-vector")
    after = {r["id"]: r["_row_id"] for r in dk.scan(table.refresh(), columns=["id", "_row_id"]).to_arrow().to_pylist()}
    assert (after, done.plans) == (seen, 2)


# --- giving up --------------------------------------------------------------------------------------------------------


def test_giving_up_names_what_was_in_the_way(catalog: dk.Catalog) -> None:
    table = make(catalog, FIRST, format_version=3, properties={**QUICK, "commit.retry.num-retries": "0"})
    landed: list[dk.results.Commit] = []

    def lose(other: Callable[[dk.Table], dk.results.Commit], verb: Callable[[dk.Table], Any]) -> dk.CommitConflictError:
        late = racing(catalog, table, lambda t: landed.append(other(t)))
        with pytest.raises(dk.CommitConflictError) as caught:
            verb(late)
        check_table(table.refresh())
        assert caught.value.retryable
        return caught.value

    error = lose(lambda t: dk.append(t, items((1, "n", 1.0))), lambda t: dk.delete(t, "id = 1", mode="deletion-vector"))
    assert (error.kind, error.file) == ("conflicting-data-file", landed[-1].added_data_files[0].file_path)
    error = lose(
        lambda t: dk.delete(t, "id = 2", mode="deletion-vector"),
        lambda t: dk.update(t, {"value": 0.0}, where="id = 3", mode="deletion-vector"),
    )
    assert (error.kind, error.file) == ("conflicting-delete", landed[-1].added_delete_files[0].file_path)
    error = lose(
        lambda t: dk.delete(t, "id = 3", mode="copy-on-write"),
        lambda t: dk.delete(t, "category = 'a'", mode="deletion-vector"),
    )
    gone = {f.file_path for f in landed[-1].removed_data_files}
    assert (error.kind, error.file in gone) == ("missing-data-file", True)
    error = lose(lambda t: dk.append(t, items(NEW)), lambda t: dk.append(t, items(NEW)))
    assert (error.kind, error.file) == ("commit-conflict", None)


@pytest.mark.parametrize("verb", ["delete", "update", "merge"])
def test_an_isolation_level_that_there_is_not(catalog: dk.Catalog, verb: str) -> None:
    name = f"write.{verb}.isolation-level"
    table = make(catalog, FIRST)
    set_by_another_writer(table, {name: "read-committed"})
    verbs: dict[str, Callable[[], Any]] = {
        "delete": lambda: dk.delete(table, "id = 1"),
        "update": lambda: dk.update(table, {"value": 0.0}, where="id = 1"),
        "merge": lambda: dk.merge(table, FIRST, on=["id"]),
    }
    with refused(table, dk.InvalidInputError, "property", field=name, found="read-committed"):
        verbs[verb]()
    dk.set_properties(table, {name: "SNAPSHOT"})
    verbs[verb]()
