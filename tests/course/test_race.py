"""A race comes out as its two writers want it: who commits first, how often, and what the slow one does then."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course.race import Meanwhile, outcome
from tests.tables import ids, new_catalog


@pytest.fixture
def table(tmp_path: Path) -> Iterator[dk.Table]:
    with new_catalog(tmp_path) as catalog:
        made = dk.create_table(catalog, "db.race", pa.schema([("id", pa.int32())]), format_version=3)
        for start in (0, 5):
            dk.append(made, pa.table({"id": pa.array(range(start, start + 5), pa.int32())}))
        yield made


def delete(where: str) -> Callable[[dk.Table], object]:
    return lambda other: dk.delete(other, where, mode="deletion-vector")


@pytest.mark.parametrize(
    ("theirs", "wanted", "left"),
    [
        (delete("id = 8"), "rebased", {0, 2, 3, 4, 5, 6, 7, 9}),
        (delete("id = 2"), "merged", {0, 3, 4, 5, 6, 7, 8, 9}),
        (lambda other: dk.compact(other, rewrite_all=True), "replanned", {0, 2, 3, 4, 5, 6, 7, 8, 9}),
        (lambda _: None, "committed", {0, 2, 3, 4, 5, 6, 7, 8, 9}),
    ],
    ids=["rebased", "merged", "replanned", "committed"],
)
def test_the_outcome_is_what_the_slow_writer_did(
    table: dk.Table, theirs: Callable[[dk.Table], object], wanted: str, left: set[int]
) -> None:
    before = [s.snapshot_id for s in table.metadata.snapshots.values()]
    assert table.catalog is not None
    other = dk.load_table(table.catalog, table.identifier)
    commit = dk.delete(table, "id = 1", mode="deletion-vector", engine=Meanwhile(lambda: theirs(other)))
    assert outcome(commit) == wanted
    assert ids(table) == sorted(left)
    # The snapshots say it too: that of the other writer lies between the base and ours.
    new = [s for s in table.metadata.snapshots.values() if s.snapshot_id not in before]
    assert len(new) == (1 if wanted == "committed" else 2)
    assert max(new, key=lambda s: s.sequence_number).snapshot_id == commit.snapshot_id


def test_the_other_writer_commits_once_and_after_the_first_tasks() -> None:
    seen: list[str] = []
    engine = Meanwhile(lambda: seen.append("other"))

    def work(number: int) -> int:
        seen.append(f"task {number}")
        return number

    for _ in range(2):
        assert list(engine.map(work, [1, 2])) == [1, 2]
    assert seen == ["task 1", "task 2", "other", "task 1", "task 2"]
    assert engine.tasks == 4


def test_a_commit_that_was_made_already_is_refused() -> None:
    with pytest.raises(dk.InvalidInputError, match=r"not a function.*lambda"):
        Meanwhile("DELETE")  # type: ignore[arg-type]
