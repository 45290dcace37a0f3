"""Simulated commits: version 3's against what deletekit really writes, version 4's against version 3's live files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deletekit as dk
from deletekit.course.v4.commits import (
    ASSUMPTIONS,
    Append,
    Commit,
    Compact,
    Delete,
    V3Tree,
    V4Tree,
    Written,
    _reference,
    simulate,
)
from deletekit.course.v4.mumbling import decode
from tests.tables import new_catalog

ROWS = 1000


def files(table: dk.Table) -> set[str]:
    return {file.name for file in Path(table.location).rglob("*") if file.is_file()}


def kinds(names: set[str]) -> dict[str, int]:
    """Count new files of a real table by the simulation's kinds."""
    return {
        "metadata JSON": sum(n.endswith(".metadata.json") for n in names),
        "manifest list": sum(n.startswith("snap-") for n in names),
        "manifests": sum(n.endswith(".avro") and not n.startswith("snap-") for n in names),
        "Puffin": int(any(n.endswith(".puffin") for n in names)),  # how many is the writers' choice
    }


def test_version_3_writes_as_many_files_as_deletekit_does(tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        schema = pa.schema([("file", pa.int64()), ("row", pa.int64())])
        table = dk.create_table(catalog, "n.t", schema, format_version=3)

        def append(number: int) -> None:
            dk.append(table, pa.table({"file": [number] * ROWS, "row": list(range(ROWS))}))

        def delete(where: str) -> None:
            dk.delete(table, where, mode="deletion-vector")

        steps: list[tuple[Any, Commit]] = [
            (lambda: append(0), Append(1)),
            (lambda: append(1), Append(1)),
            (lambda: append(2), Append(1)),
            (lambda: delete("file < 2 and row < 5"), Delete(10, (0, 1))),
            (lambda: delete("file = 2 and row < 5"), Delete(5, (2,))),
            (lambda: delete("row >= 5 and row < 10"), Delete(15, (0, 1, 2))),
            (lambda: append(3), Append(1)),
            (lambda: delete("file = 0 and row = 20"), Delete(1, (0,))),
            (lambda: dk.compact(table, rewrite_all=True), Compact((0, 1, 2, 3))),
            (lambda: append(4), Append(1)),
        ]
        real = []
        for step, _ in steps:
            before = files(table)
            step()
            real.append(kinds(files(table) - before))
    simulated = [row[0].files for row in simulate([commit for _, commit in steps], V3Tree(), rows_per_file=ROWS)]
    assert simulated == real


def test_every_tree_has_the_same_live_files_and_vectors() -> None:
    commits = [Append(5), Delete(7, (0, 1, 4)), Append(1), Delete(9, (1, 2, 5)), Compact((0, 1)), Delete(2, (6, 3))]
    trees = [V3Tree(), V4Tree(most_in_root=3), V4Tree(most_in_root=0, marks_dead=False), V4Tree()]
    simulate(commits, *trees, rows_per_file=ROWS)
    numbers = {path[-12:-8]: deleted for path, deleted in trees[0].live().items()}
    assert numbers == {"0002": 3, "0003": 1, "0004": 3, "0005": 3, "0006": 1}
    assert [tree.live() for tree in trees[1:]] == [trees[0].live()] * 3


@st.composite
def histories(draw: st.DrawFn) -> list[Commit]:
    commits: list[Commit] = [Append(draw(st.integers(1, 6)))]
    live = list(range(commits[0].files))  # type: ignore[arg-type]
    new = len(live)
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["append", "delete", "delete", "compact"]))
        some = draw(st.lists(st.sampled_from(live), min_size=1, unique=True))
        if kind == "append":
            commits.append(Append(1))
            live.append(new)
        elif kind == "delete":
            commits.append(Delete(len(some) + draw(st.integers(0, 5)), some))
        else:
            commits.append(Compact(some))
            live = [number for number in live if number not in some] + [new]
        new += kind != "delete"
    return commits


@settings(deadline=None)
@given(histories(), st.integers(0, 5), st.booleans())
def test_any_history_leaves_the_same_table(commits: list[Commit], most_in_root: int, marks_dead: bool) -> None:
    three, four = V3Tree(), V4Tree(most_in_root, marks_dead)
    rows = simulate(commits, three, four, rows_per_file=ROWS)
    assert four.live() == three.live()
    for written, drafts in rows:
        assert drafts.files["metadata JSON"] == drafts.files["root manifest"] == 1
        assert drafts.files["Puffin"] == written.files["Puffin"]
        assert drafts.bytes > 0
    assert all(entry.content_type == 0 for leaf in four._leaves for entry in leaf.entries)


def last(*commits: Commit, **four: Any) -> tuple[Written, Written]:
    three, drafts = simulate(commits, V3Tree(), V4Tree(**four))[-1]
    return three, drafts


def test_what_a_small_commit_writes() -> None:
    append = last(Append(50), Append(1))
    delete = last(Append(50), Delete(10, (3,)))
    again = last(Append(50), Delete(10, (3,)), Delete(10, (3,)))
    assert [w.count for w in append] == [3, 2]
    assert [w.count for w in delete] == [4, 3]
    assert [w.count for w in again] == [5, 3]
    assert append[0].bytes < append[1].bytes, "the root with its 50 entries is written again"


def test_dead_entries_of_a_leaf_are_marked_in_the_root() -> None:
    tree = V4Tree(most_in_root=4)
    simulate([Append(5), Delete(3, (1, 2, 4)), Compact((0, 1))], tree)
    (leaf,) = tree._leaves
    assert (len(leaf.entries), leaf.dead, leaf.deleted, leaf.replaced) == (5, {0, 1, 2, 4}, {0}, set())
    info = _reference(leaf).manifest_info
    assert info is not None
    assert info.dv is not None
    assert (set(decode(info.dv)), info.dv_cardinality) == ({0, 1, 2, 4}, 4)


def test_the_first_milestone_writes_leaves_again() -> None:
    marked, written = last(Append(50), Append(1), Delete(1, (7,)), most_in_root=0, marks_dead=False)
    assert written.files["leaves"] == 1
    assert written.bytes > marked.bytes
    _, marks = last(Append(101), Delete(1, (7,)))
    assert marks.files["leaves"] == 0


@pytest.mark.parametrize(
    ("commits", "field"),
    [
        ([Append(0)], "files"),
        ([Delete(1, (0,))], "files"),
        ([Append(1), Delete(1, ())], "files"),
        ([Append(1), Delete(2, (0, 0))], "files"),
        ([Append(2), Compact((0, 1)), Delete(1, (0,))], "files"),
        ([Append(2), Delete(1, (0, 1))], "rows"),
        ([Append(1), Delete(ROWS + 1, (0,))], "rows"),
        ([Append(1), Delete(ROWS, (0,)), Compact((0,)), Delete(1, (1,))], "files"),
    ],
)
def test_what_cannot_be_is_refused(commits: list[Commit], field: str) -> None:
    with pytest.raises(dk.InvalidInputError) as caught:
        simulate(commits, V3Tree(), rows_per_file=ROWS)
    assert (caught.value.kind, caught.value.field) == ("v4-commit", field)


def test_every_assumption_has_a_source() -> None:
    assert all(len(about) > 20 and source for about, source in ASSUMPTIONS)
