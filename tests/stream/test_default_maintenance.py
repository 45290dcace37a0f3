"""What a sink does to its table unless it is told otherwise: it stays small, and loses nothing that anybody keeps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.table.file_io import PyIcebergIO
from tests.invariants import check_table
from tests.maintenance.model import staged
from tests.stored import live_files
from tests.stream.replay import PEOPLE, check, put, random_batches, replay
from tests.tables import make

SHORT = {"history.expire.max-snapshot-age-ms": "1"}


def people(table: dk.Table, **options: Any) -> dk.stream.Sink:
    return dk.stream.sink(table, "people", on=["id"], **options)


def batches_of(table: dk.Table, count: int, first: int = 0, **options: Any) -> None:
    with people(table, **options) as sink:
        for number in range(first, first + count):
            assert sink.write([put(number % 7, str(number))], number).status == "committed"
    table.refresh()


def metadata_files(table: dk.Table) -> list[Path]:
    return list(Path(table.location.removeprefix("file://"), "metadata").rglob("*.*"))


@pytest.mark.slow
def test_what_a_batch_opens_and_leaves_stays_flat(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = PyIcebergIO.open

    @contextmanager
    def told(self: PyIcebergIO, path: str) -> Iterator[Any]:
        opened.append(path)
        with real(self, path) as stream:
            yield stream

    monkeypatch.setattr(PyIcebergIO, "open", told)
    table = make(catalog, schema=PEOPLE, format_version=3, properties=SHORT)
    opens, left = [], []
    batches = list(random_batches(3, batches=80, rows=5, keys=60))
    with people(table) as sink:
        for progress in sink.run(batches):
            assert progress.maintained is None or progress.maintained.failed is None
            if progress.batch_id % 20 == 19:
                opens.append(len(opened))
                left.append(len(metadata_files(table)))
                opened.clear()
    assert max(opens[2:]) <= 1.5 * opens[1], opens
    assert max(left) <= 1.2 * left[0] <= 60, left
    assert len(live_files(table.refresh(), 0)) < 12
    check(table, replay(batches))
    check_table(table)


def test_young_snapshots_stay_and_old_metadata_files_go(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3)
    batches_of(table, 45)
    assert len(table.metadata.snapshots) >= 45
    assert sum(path.name.endswith(".metadata.json") for path in metadata_files(table)) == 11
    assert table.properties["write.metadata.previous-versions-max"] == "10"


@pytest.mark.parametrize(
    "properties",
    [
        {"write.metadata.delete-after-commit.enabled": "false"},
        {"write.metadata.previous-versions-max": "100"},
        {"gc.enabled": "false"},
    ],
)
def test_what_the_table_says_of_metadata_files_counts(catalog: dk.Catalog, properties: dict[str, str]) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3, properties={**SHORT, **properties})
    before = dict(table.properties)
    batches_of(table, 21)
    assert table.properties == before
    assert sum(path.name.endswith(".metadata.json") for path in metadata_files(table)) > 20
    assert (len(table.metadata.snapshots) > 20) == ("gc.enabled" in properties)


def test_only_what_the_sink_made_and_nobody_keeps_expires(catalog: dk.Catalog) -> None:
    table = make(
        catalog, [{"id": 100, "name": "first", "score": 0.0}], schema=PEOPLE, format_version=3, properties=SHORT
    )
    batches_of(table, 3)
    dk.append(table, [{"id": 101, "name": "second", "score": 0.0}])
    dk.create_tag(table, "kept")
    dk.create_branch(table, "other")
    late = staged(table, [{"id": 102, "name": "staged", "score": 0.0}])
    others = [i for i, s in table.refresh().metadata.snapshots.items() if "deletekit.sink-id" not in s.summary]
    batches_of(table, 37, 3)
    metadata = table.metadata
    assert len(others) == 3
    assert late in others
    assert set(others) < set(metadata.snapshots), "what others made stays, old and staged"
    assert len(metadata.snapshots) < 12
    assert len(dk.scan(table, ref="kept").to_arrow()) == len(dk.scan(table, ref="other").to_arrow()) == 5
    assert len(dk.scan(table, snapshot_id=others[0]).to_arrow()) == 1
    with people(table) as sink:
        assert sink.last_batch() == ("", 39)
        assert [sink.write([put(n % 7, str(n))], n).status for n in (0, 20, 39, 40)] == [*["skipped"] * 3, "committed"]
    check_table(table)


def test_as_many_stay_as_the_table_keeps(catalog: dk.Catalog) -> None:
    least = {"history.expire.min-snapshots-to-keep": "30"}
    table = make(catalog, schema=PEOPLE, format_version=3, properties={**SHORT, **least})
    batches_of(table, 60)
    assert 30 <= len(list(table.metadata.ancestors(table.metadata.refs["main"]["snapshot-id"]))) < 60


def test_without_an_index_equality_deletes_stay(catalog: dk.Catalog) -> None:
    """The sink was asked to hold no index, which a conversion needs."""
    table = make(catalog, schema=PEOPLE, format_version=3)
    with people(table, mode="eq-only") as sink:
        for number in range(20):
            progress = sink.write([put(number % 7, str(number))], number)
        assert progress.maintained is not None
        assert (progress.maintained.converted_delete_files, sink.index) == (0, None)


def test_none_does_nothing(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3, properties=SHORT)
    batches_of(table, 21, maintain=None)
    assert len(table.metadata.snapshots) == 21
    assert table.properties == {**table.properties, **SHORT}
