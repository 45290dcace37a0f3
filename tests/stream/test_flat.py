"""What a batch costs stays flat: compacted files are not read again, and maintenance keeps manifests few."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import deletekit as dk
from deletekit.table.file_io import PyIcebergIO
from tests.invariants import check_table
from tests.stored import live_files, manifest_list
from tests.stream.replay import PEOPLE, check, put, random_batches, replay
from tests.tables import live, make

Maintain = dk.stream.Maintain


def people(table: dk.Table, maintain: Any, mode: Any = "auto") -> dk.stream.Sink:
    return dk.stream.sink(table, "people", on=["id"], mode=mode, maintain=maintain)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of the files that are opened from now on."""
    paths: list[str] = []
    real = PyIcebergIO.open

    @contextmanager
    def told(self: PyIcebergIO, path: str) -> Iterator[Any]:
        paths.append(path)
        with real(self, path) as stream:
            yield stream

    monkeypatch.setattr(PyIcebergIO, "open", told)
    return paths


@pytest.mark.parametrize(
    ("options", "is_sorted", "version"),
    [
        pytest.param({}, False, 3, id="whole"),
        pytest.param({"partition_by": ("bucket(3, id)",)}, False, 2, id="in partitions"),
        pytest.param({}, True, 3, id="sorted"),
    ],
)
def test_compacted_files_are_not_read_again(
    catalog: dk.Catalog, options: Any, is_sorted: bool, version: int, opened: list[str]
) -> None:
    """The rows of a sorted file are at other places than those that were read, so it is read once."""
    table = make(catalog, schema=PEOPLE, format_version=version, **options)
    if is_sorted:
        dk.set_sort_order(table, ["name"])
    batches = list(random_batches(5, batches=14, rows=20, keys=60))
    with people(table, Maintain(every=4, min_small_files=2)) as sink:
        after_round, rounds = False, 0
        for number, batch in enumerate(batches):
            before = {f["file_path"] for f in live_files(table.refresh(), 0)} if number else set()
            opened.clear()
            progress = sink.write(batch, number)
            assert progress.status == "committed"
            if progress.maintained is None:
                read = before & set(opened)
                assert len(read) == progress.read_files == int(is_sorted and after_round)
                rounds += after_round
            after_round = progress.maintained is not None and progress.maintained.added_data_files > 0
            check(table, replay(batches[: number + 1]))
    assert rounds == 3


def test_rows_keep_their_ids_through_the_announced_files(catalog: dk.Catalog) -> None:
    """The row ids that compaction stores are those that the next batch takes over."""
    table = make(catalog, schema=PEOPLE, format_version=3)
    ids: dict[int, int] = {}
    with people(table, Maintain(every=3, min_small_files=2)) as sink:
        for number in range(12):
            sink.write([put(k, str(number)) for k in range(number % 3, 2 * number + 2)], number)
            for row in dk.scan(table.refresh(), columns=["id", "_row_id"]).to_arrow().to_pylist():
                assert ids.setdefault(row["id"], row["_row_id"]) == row["_row_id"]
    assert len(set(ids.values())) == len(ids) == 24


@pytest.mark.parametrize("version", [2, 3])
def test_maintenance_merges_manifests(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, schema=PEOPLE, format_version=version)
    batches = list(random_batches(3, batches=24, rows=10, keys=200))
    with people(table, Maintain(every=8, min_small_files=3)) as sink:
        for progress in sink.run(batches):
            if progress.maintained is not None:
                found = manifest_list(table.refresh())
                assert sum(m["content"] == 0 for m in found) <= 2
                assert sum(m["content"] == 1 for m in found) <= 1
    check(table, replay(batches))
    check_table(table)


def test_large_files_are_not_all_due_in_one_round(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight files have too many hidden rows. A round writes one of them again, and after eight rounds none is left."""
    table = make(catalog, schema=PEOPLE, format_version=3, partition_by=("name",))
    dk.append(table, [{"id": n, "name": f"p{n % 8}", "score": n // 8 / 1} for n in range(400)])
    dk.delete(table, "score < 20", mode="deletion-vector")
    expected = live(table)
    monkeypatch.setattr("deletekit.stream.maintain._ROUND_ROWS", 0)
    rounds = []
    with people(table, Maintain(every=1)) as sink:
        for number in range(10):
            progress = sink.write([], number)
            assert progress.maintained is not None
            rounds.append(progress.maintained.rewritten_data_files)
    assert rounds == [1] * 8 + [0, 0]
    assert live(table.refresh()) == expected
    assert not live_files(table, 1)
    monkeypatch.undo()
    dk.delete(table, "score < 45", mode="deletion-vector")
    with people(table, Maintain(every=1)) as sink:
        whole = sink.write([], 10).maintained
    assert whole is not None
    assert whole.rewritten_data_files == 8, "small files are done at once"
