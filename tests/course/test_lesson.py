"""Lessons build the same tables with PySpark and without; the names of files are the same in every run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course import Aliases, Lesson, lesson
from deletekit.course.views.table_view import TableView
from deletekit.errors import EnvironmentMissingError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def facts(table: dk.Table) -> dict[str, Any]:
    """Give everything that a lesson may show of a table."""
    names = Aliases(table)
    entries = [
        [names.of(e["data_file"]["file_path"]), e["status"], e["sequence_number"], e["data_file"]["record_count"]]
        for manifest in dk.inspect(table)["manifests"]
        for e in manifest["entries"]
    ]
    return {
        "schema": [(f.field_id, f.name, str(f.field_type), f.required) for f in table.schema.fields],
        "version": table.format_version,
        "names": list(names),
        "entries": entries,
        "rows": dk.scan(table, columns=[*(f.name for f in table.schema.fields), "_pos"]).to_arrow().to_pylist(),
    }


def build(here: Lesson) -> list[dict[str, Any]]:
    users = here.table("users", dk.datasets.users(), format_version=3, properties={"a'b": "c\\d"})
    assert users.properties["a'b"] == "c\\d"
    dk.delete(users, "id in (1, 3)", mode="deletion-vector")
    animals = here.table("animals", dk.datasets.animals(), dk.datasets.animals())
    dk.delete_keys(animals, [{"category": None}])
    days = pa.table({"day": ["mon", "tue", "mon", "wed"], "n": pa.array([4, 3, 2, 1], pa.int64())})
    split = here.table("days", days, partition_by=["day"])
    dk.delete(split, "n = 2", mode="position-delete")
    for table in (users, animals, split):
        assert dk.verify(table).ok
    return [facts(table) for table in (users, animals, split)]


def test_both_engines_build_the_same(spark: SparkSession) -> None:
    with_spark, without = lesson("06", engine="spark"), lesson("06", engine="local")
    assert (with_spark.engine, without.engine) == ("spark", "local")
    assert build(with_spark) == build(without)


def test_two_lessons_have_two_folders() -> None:
    one, two = lesson("01", engine="local"), lesson("01", engine="local")
    assert one.folder != two.folder
    one.table("users", dk.datasets.users())
    two.table("users", dk.datasets.users())


def test_without_java_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv("DELETEKIT_COURSE_ENGINE", raising=False)
    here = lesson("06")
    assert here.engine == "local"
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("The tables are built without Spark, and every cell shows the same (Spark needs Java")
    build(here)
    with pytest.raises(EnvironmentMissingError, match="Java"):
        lesson("06", engine="spark")


def test_the_variable_chooses_the_engine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "local")
    assert lesson("06").engine == "local"
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "duck")
    with pytest.raises(InvalidInputError, match="auto, spark, local"):
        lesson("06")


def test_sql_finds_the_tables_of_the_lesson_and_leaves_the_session_as_it_was(spark: SparkSession) -> None:
    def place() -> tuple[str, str]:
        return spark.catalog.currentCatalog(), spark.catalog.currentDatabase()

    here = lesson("12", engine="spark", needs_spark=True)
    before = place()
    here.table("users", dk.datasets.users())
    assert here.sql("SELECT id FROM users ORDER BY id DESC LIMIT 2") == [{"id": 4}, {"id": 3}]
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        here.sql("SELECT * FROM nowhere")
    assert place() == before


def test_without_spark_sql_says_what_it_passes_over(capsys: pytest.CaptureFixture[str]) -> None:
    here = lesson("12", engine="local", needs_spark=True)
    assert here.sql("DELETE\n  FROM users") == []
    assert capsys.readouterr().out.splitlines() == [
        "Spark is missing (DELETEKIT_COURSE_ENGINE=local): every cell that asks it says so and does nothing.",
        "Passed over, because it needs Spark: DELETE FROM users",
    ]


def test_a_table_needs_rows() -> None:
    with pytest.raises(InvalidInputError, match="needs rows"):
        lesson("06", engine="local").table("empty")


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_follow_the_history() -> None:
    here = lesson("06", engine="local")
    people = pa.table({"id": pa.array(range(10), pa.int64())})
    table = here.table("people", people)
    names = Aliases(table)
    assert list(names) == ["S1", "L1", "M1", "D1"]
    dk.delete(table, "id = 1", mode="position-delete")
    dk.delete(table, "id = 2", mode="equality-delete")
    dk.upgrade_format_version(table, 3)
    dk.delete(table, "id = 3", mode="deletion-vector")
    assert {"S4", "E1", "P1", "V1"} <= set(names)
    assert names.snapshot_id("S4") == table.current_snapshot.snapshot_id
    assert names.of(names.path("P1")) == "P1"
    assert names.of(names.file("V1")) == "V1"
    assert Path(names.path("D1")).is_file()
    assert names.of("elsewhere") == "elsewhere"
    with pytest.raises(NotFoundError, match="D1"):
        names.path("D9")


def test_names_are_those_of_the_widgets() -> None:
    here = lesson("06", engine="local")
    table = here.table("numbers", *(pa.table({"id": pa.array([i, i + 10], pa.int64())}) for i in range(3)))
    dk.delete(table, "id = 1", mode="position-delete")
    dk.compact(table, min_input_files=1, use_starting_sequence_number=True)
    here.append(table, pa.table({"id": pa.array([5], pa.int64())}))
    dk.delete_keys(table, [{"id": 5}])
    names, shown = Aliases(table), TableView(table).aliases
    files = [alias for alias in names if alias[0] in "DEPV"]
    assert files == ["D1", "D2", "D3", "D4", "D5", "P1", "E1"]
    assert [shown.identity(alias) for alias in files] == [names.file(alias).identity for alias in files]
    assert [names.of(i) for i in (s.snapshot_id for s in shown.snapshots)] == [f"S{n}" for n in range(1, 8)]


def test_names_follow_what_is_in_the_files_and_not_the_order_of_writing() -> None:
    here = lesson("06", engine="local")
    shops = ["north", "east", "south", "west"]
    found = []
    for order in (shops, shops[::-1]):
        rows = pa.table({"shop": order, "id": pa.array([shops.index(s) for s in order], pa.int64())})
        table = here.table(f"sold_{order[0]}", rows, format_version=3, partition_by=["shop"])
        dk.delete_keys(table, [{"shop": s, "id": 9} for s in order])
        names = Aliases(table)
        found.append({a: names.file(a).partition for a in names if a[0] in "DE"})
    assert found[0] == found[1]
    assert len(found[0]) == 8


def test_vectors_that_share_a_file_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    here = lesson("06", engine="local")
    parts = [pa.table({"id": pa.array([i, i + 10], pa.int64())}) for i in range(2)]
    table = here.table("two", *parts, format_version=3)
    with dk.engine.local(threads=1):
        dk.delete(table, "id < 2 and id > -5", mode="deletion-vector", granularity="partition")
    names = Aliases(table)
    assert names.path("V1") == names.path("V2")
    assert [(d["name"], d["positions"]) for d in names.deletes()] == [("V1", [0]), ("V2", [0])]
    assert [names.of(names.file(v).referenced_data_file) for v in ("V1", "V2")] == ["D1", "D2"]
    names.show(names.file("V1"), "file_path", "record_count")
    assert capsys.readouterr().out == "file_path: V1+V2\nrecord_count: 1\n"


def test_what_is_shown_has_no_path_and_no_id(capsys: pytest.CaptureFixture[str]) -> None:
    here = lesson("06", engine="local")
    users = here.table("users", dk.datasets.users())
    dk.delete(users, "id = 1", mode="equality-delete")
    names = Aliases(users)
    names.show(dk.explain(users, "id = 1", columns=["id"]))
    names.show(dk.inspect(users)["manifests"], "manifest_path", "entries.status", "entries.snapshot_id")
    names.show({"location": users.location, "deep": [[{names.path("D1"): 1}]], "count": 4})
    shown = capsys.readouterr().out
    assert str(here.folder) not in shown
    assert str(users.current_snapshot.snapshot_id) not in shown
    assert "row 0 of D1" in shown
    assert "location: users" in shown
