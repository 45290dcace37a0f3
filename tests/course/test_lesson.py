"""Lessons build the same tables with PySpark and without; the names of files are the same in every run."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course import Aliases, Lesson, lesson, workplace
from deletekit.errors import EnvironmentMissingError, InvalidInputError, NotFoundError
from tests.optional_types import SparkSession
from tests.tables import ids


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


def test_without_java_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv("DELETEKIT_COURSE_ENGINE", raising=False)
    monkeypatch.setattr(workplace, "available_memory", lambda: 16 << 30)
    here = lesson("06")
    assert here.engine == "local"
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("The tables are built without Spark, and every cell shows the same (Spark needs Java")
    build(here)
    with pytest.raises(EnvironmentMissingError, match="Java"):
        lesson("06", engine="spark")


def test_what_a_lesson_cannot_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "duck")
    with pytest.raises(InvalidInputError, match="auto, spark, local"):
        lesson("06")
    with pytest.raises(InvalidInputError, match="needs rows"):
        lesson("06", engine="local").table("empty")


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


# --- cells that are run again ---------------------------------------------------------------------------------------


def test_a_table_replaces_the_one_of_its_name_with_its_files() -> None:
    here = lesson("06", engine="local")
    first = here.table("users", dk.datasets.users())
    dk.delete(first, "id = 1", mode="position-delete")
    again = here.table("users", dk.datasets.animals(), format_version=3)
    assert [field.name for field in again.schema.fields] == dk.datasets.animals().column_names
    assert ids(again) == ids(here.table("other", dk.datasets.animals()))
    files = list((here.folder / "course" / "users" / "data").rglob("*.parquet"))
    assert len(files) == 1
    assert dk.verify(again).ok


def test_a_step_that_is_run_again_finds_what_it_found() -> None:
    here = lesson("06", engine="local")
    users, other = (here.table(name, dk.datasets.users(), format_version=3) for name in ("users", "other"))
    for _ in range(3):
        here.rewind("one", users)
        dk.delete(users, "id = 1", mode="deletion-vector")
        dk.create_tag(users, "now")  # a second one of the name would be refused
        assert ids(users) == [2, 3, 4]
    here.rewind("two", users, "new", here.folder / "notes")
    (here.folder / "notes").mkdir()
    dk.delete(other, "id = 4", mode="deletion-vector")
    dk.delete(users, "id = 2", mode="deletion-vector")
    dk.expire_snapshots(users, older_than=datetime.now(UTC) + timedelta(days=1), retain_last=1)
    here.rewind("two", users, "new", here.folder / "notes")
    assert ids(users) == [2, 3, 4]
    assert ids(other) == [1, 2, 3], "a step sets back what it names, and nothing else"
    assert not (here.folder / "notes").exists()
    assert dk.verify(users, level="data").ok

    # An earlier step: the later one then begins from what it finds.
    here.rewind("one", users)
    assert ids(users) == [1, 2, 3, 4]
    here.rewind("two", users)
    assert ids(users) == [1, 2, 3, 4]

    # A table that is built anew has no steps.
    users = here.table("users", dk.datasets.users(), format_version=3)
    dk.delete(users, "id = 4", mode="deletion-vector")
    here.rewind("one", users)
    assert ids(users) == [1, 2, 3]


@pytest.mark.parametrize("name", ["{outside}", "../outside", "..", ".", "", "a/b", "a\\b", "..\\x"])
def test_nothing_outside_of_its_tables_is_removed(name: str, tmp_path: Path) -> None:
    here = lesson("06", engine="local")
    users = here.table("users", dk.datasets.users())
    outside = tmp_path / "outside"
    kept = [outside / "kept", here.folder / "outside" / "kept"]
    for file in kept:
        file.parent.mkdir()
        file.touch()
    name = name.format(outside=outside)
    folders = [outside, here.folder, here.folder / ".." / "outside", Path("outside")]
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="letters, digits"):
            here.table(name, dk.datasets.users())
        with pytest.raises(InvalidInputError, match="letters, digits"):
            here.rewind("step", name)
        for folder in folders:
            with pytest.raises(InvalidInputError, match=r"a folder in here\.folder"):
                here.rewind("step", folder)
    assert all(file.exists() for file in kept)
    assert ids(users) == [1, 2, 3, 4]


# --- letting go -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lesson_ran", [False, True])
def test_a_new_kernel_says_which_cells_to_run(
    lesson_ran: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    startup = Path(workplace.__file__).with_name("kernel_startup") / "deletekit_course.py"
    notebook = tmp_path / "ja" / "04_equality_deletes.ipynb"
    notebook.parent.mkdir()
    monkeypatch.setenv("JPY_SESSION_NAME", str(notebook))
    monkeypatch.delenv("DELETEKIT_LANG")
    if not lesson_ran:
        monkeypatch.delitem(sys.modules, "deletekit.course.workplace")
    try:
        for metadata, ours in (({}, False), ({"deletekit": {"lesson": "04"}}, True)):
            notebook.write_text(json.dumps({"metadata": metadata}))
            kernel = shell.instance()
            kernel.safe_execfile(str(startup), kernel.user_ns, raise_exceptions=True)
            assert "_deletekit_course" not in kernel.user_ns
            kernel.run_cell('check("04.1")')
            shown = capsys.readouterr().out
            assert ("Run > Run All Above Selected Cell" in shown) == (ours and not lesson_ran)
            assert ("NameError" in shown) == (lesson_ran or not ours)
            kernel.run_cell("1 / 0")
            assert "ZeroDivisionError" in capsys.readouterr().out
            shell.clear_instance()
    finally:
        shell.clear_instance()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_closing_ends_the_spark_that_the_lesson_started_and_rewinds_its_tables(own_spark: None) -> None:
    code = """
import psutil, deletekit as dk
from deletekit.course import lesson
def programs(): return [p.name() for p in psutil.Process().children(recursive=True) if "java" in p.name()]
for _ in range(2):  # its cell is run twice
    here = lesson("12", engine="spark", needs_spark=True)
    users = here.table("users", dk.datasets.users(), format_version=3)
    for _ in range(2):
        here.rewind("delete", users)
        here.sql("DELETE FROM users WHERE id = 1")
        assert [row["id"] for row in here.sql("SELECT id FROM users ORDER BY id")] == [2, 3, 4]
        here.append(users.refresh(), dk.datasets.users())
        assert here.sql("SELECT count(*) AS n FROM users") == [{"n": 7}]
assert programs()
here.close()
assert not programs()
here.rewind("again", users)
assert here.sql("SELECT count(*) AS n FROM users") == [{"n": 7}]  # it starts again, in the same process
here.close()
assert not programs()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


# --- the engine of a small machine ------------------------------------------------------------------------------------


def test_a_small_machine_takes_spark_only_for_lessons_about_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def no_session(folder: Path, name: str) -> None:
        del folder
        asked.append(name[:9])
        raise EnvironmentMissingError("no Spark in this test", kind="java")

    monkeypatch.delenv("DELETEKIT_COURSE_ENGINE", raising=False)
    monkeypatch.setattr(workplace, "_session", no_session)
    monkeypatch.setattr(workplace, "available_memory", lambda: 2 << 30)
    assert lesson("06").engine == "local"
    assert (asked, capsys.readouterr().out) == ([], ""), "nothing is missing, so nothing is said"
    lesson("12", needs_spark=True)
    assert asked == ["lesson_12"]
    monkeypatch.setattr(workplace, "available_memory", lambda: 16 << 30)
    lesson("06")
    assert asked == ["lesson_12", "lesson_06"]
    # The variable decides, however small the machine is.
    monkeypatch.setattr(workplace, "available_memory", lambda: 2 << 30)
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "spark")
    with pytest.raises(EnvironmentMissingError):
        lesson("07")
    assert asked[-1] == "lesson_07"


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
