"""Overwrites by filter and of partitions against a plain model, also when others commit meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.planned_change import plan_change
from tests.stored import live_files
from tests.tables import ITEMS, VERSION_AND_MODE, expected, items, live, make, refused, unchanged

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
NEW = items((7, "a", 7.0), (8, "a", 8.0))
EVERY_MODE = pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
LEVELS = pytest.mark.parametrize("level", ["serializable", "snapshot"])
OTHERS = [r for r in FIVE if r["category"] != "a"]


@EVERY_MODE
def test_rows_of_a_filter_are_replaced(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE[:3], FIVE[3:], format_version=version, partition_by=["bucket(2, id)"])
    done = dk.overwrite(table, NEW, "category = 'a'", mode=mode)
    assert live(table) == expected([*OTHERS, *NEW])
    assert (done.operation, done.sequence_number) == ("overwrite", 3 if version > 1 else 0)
    dk.overwrite(table, NEW, "category = 'a'", mode=mode)
    assert live(table) == expected([*OTHERS, *NEW]), "the same call once more changes nothing"


def test_every_row_is_replaced(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:3], FIVE[3:])
    dk.overwrite(table, NEW, "true")
    assert live(table) == expected(NEW)
    dk.overwrite(table, ITEMS.empty_table(), "true")
    assert live(table) == []
    with unchanged(table):
        assert dk.overwrite(table, [], "id > 3000000000").snapshot_id is None


def test_overwrites_that_cannot_be(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    with refused(table, dk.InvalidInputError, "overwrite", field="where", found="1 of 3 rows"):
        dk.overwrite(table, [*NEW, *items((9, None, 9.0))], "category = 'a'")
    for nothing in ("", " "):
        with refused(table, dk.InvalidInputError, "filter", field="where"):
            dk.overwrite(table, NEW, nothing)
    with refused(table, dk.InvalidInputError, "column-type", field="id"):
        dk.overwrite(table, [{"id": "x"}], "true")
    with refused(table, dk.InvalidInputError, "overwrite", field="table"):
        dk.overwrite_partitions(table, NEW)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("spec", [["category"], ["bucket(2, id)"], ["category", "truncate(4, id)"]], ids=str)
def test_partitions_are_replaced(catalog: dk.Catalog, version: int, spec: list[str]) -> None:
    """What stays is what pyarrow says is in no partition of a new row."""
    table = make(catalog, FIVE[:3], FIVE[3:], format_version=version, partition_by=spec)
    if version > 1:
        dk.delete(table, "id = 4", mode="merge-on-read")
    before = {f["file_path"]: f["partition"] for f in live_files(table, 0)}
    rows = {r["id"]: r for r in FIVE if version == 1 or r["id"] != 4}
    places = {i: before[dk.scan(table, f"id = {i}").plan()[0].data_file.file_path] for i in rows}
    done = dk.overwrite_partitions(table, items((1, "a", 0.5), (9, "a", 9.0)))
    mine = [f["partition"] for f in live_files(table, 0) if f["file_path"] not in before]
    kept = [rows[i] for i, place in places.items() if place not in mine]
    assert live(table) == expected([*kept, *items((1, "a", 0.5), (9, "a", 9.0))])
    assert done.summary["replace-partitions"] == "true"
    assert done.operation == "overwrite"
    assert dk.verify(table).ok


def test_no_rows_replace_no_partition(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    with unchanged(table):
        assert dk.overwrite_partitions(table, ITEMS.empty_table()).snapshot_id is None


def test_files_of_another_spec_are_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    dk.add_partition_field(table, "bucket(2, id)")
    with refused(table, dk.InvalidInputError, "overwrite", field="spec_id"):
        dk.overwrite_partitions(table, NEW)
    dk.compact(table, rewrite_all=True)
    dk.overwrite_partitions(table, NEW)


Verb = Callable[[dk.Table, Any], dk.results.Commit]
VERBS: dict[str, Verb] = {
    "by filter": lambda table, rows: dk.overwrite(table, rows, "category = 'a'"),
    "partitions": dk.overwrite_partitions,
}


def raced(
    table: dk.Table, verb: Verb, meanwhile: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> dk.results.Commit:
    """Run a verb; when it has planned for the first time, something else is committed."""
    ran = []

    def planned(*args: Any, **options: Any) -> Any:
        made = plan_change(*args, **options)
        if not ran:
            ran.append(1)
            meanwhile()
        return made

    monkeypatch.setattr("deletekit.verbs.shared.guards.plan_change", planned)
    return verb(table, NEW)


@LEVELS
@pytest.mark.parametrize("verb", VERBS)
def test_rows_that_land_meanwhile(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, verb: str, level: str) -> None:
    """Serializable: as if they had come first, so they are replaced. Snapshot: they stay."""
    properties = {"write.delete.isolation-level": level}
    table = make(catalog, FIVE, partition_by=["category"], properties=properties)
    landed = items((50, "a", 5.0))
    done = raced(table, VERBS[verb], lambda: dk.append(table, landed), monkeypatch)
    kept = [] if level == "serializable" else landed
    assert live(table) == expected([*OTHERS, *kept, *NEW])
    assert (done.plans, done.attempts) == (2 if level == "serializable" else 1, 2)


@LEVELS
@pytest.mark.parametrize("verb", VERBS)
def test_rows_elsewhere_are_no_conflict(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, verb: str, level: str
) -> None:
    properties = {"write.delete.isolation-level": level}
    table = make(catalog, FIVE, partition_by=["category"], properties=properties)
    landed = items((50, "b", 5.0))
    done = raced(table, VERBS[verb], lambda: dk.append(table, landed), monkeypatch)
    assert live(table) == expected([*OTHERS, *landed, *NEW])
    assert (done.plans, done.attempts) == (1, 2)


@LEVELS
@pytest.mark.parametrize("verb", VERBS)
def test_deletes_that_land_meanwhile(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, verb: str, level: str
) -> None:
    """The files that they are about are gone or changed: the overwrite is planned again, and no row comes back."""
    properties = {"write.delete.isolation-level": level}
    table = make(catalog, FIVE, partition_by=["category"], properties=properties)
    done = raced(table, VERBS[verb], lambda: dk.delete(table, "id in (1, 5)", mode="merge-on-read"), monkeypatch)
    assert live(table) == expected([*(r for r in OTHERS if r["id"] != 5), *NEW])
    assert done.plans == 2


@pytest.mark.spark
def test_spark_reads_what_was_overwritten(spark: Any, catalog: dk.Catalog) -> None:
    """Rows of a DataFrame overwrite partitions, and an overwrite by filter refuses them by name."""
    table = make(catalog, FIVE, partition_by=["category"])
    frame = spark.createDataFrame([tuple(r.values()) for r in NEW], "id int, category string, value double")
    dk.overwrite_partitions(table, frame)
    assert live(table) == expected([*OTHERS, *NEW])
    with refused(table, dk.UnsupportedError, "rows", field="rows"):
        dk.overwrite(table, frame, "true")
