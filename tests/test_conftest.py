"""What tests/conftest.py promises: a skip fails CI, the `spark` fixture marks its users, and the session works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dev import java_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]

SKIPS = """
import pytest

def test_runs():
    pass

@pytest.mark.skip(reason="no such part")
def test_marked():
    pass

def test_inside():
    pytest.skip("not on this machine")

@pytest.mark.xfail(reason="known")
def test_expected():
    assert False
"""


TIERS = """
import time
import pytest

def test_first():
    pass

@pytest.mark.slow
def test_second():
    pass

@pytest.mark.slow
@pytest.mark.first_tier
def test_first_by_mark():
    time.sleep(3)

@pytest.mark.long
@pytest.mark.slow
def test_third():
    pass

def test_on_spark(spark):
    pass

@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", range(100))
def test_few_second(n):
    pass

@pytest.mark.sampled(4, tier=1)
@pytest.mark.parametrize("n", range(100))
def test_few(n):
    pass
"""
TIER_FIXTURES = """
import pytest
from tests import tiers

tiers.FIRST_TIER_SECONDS = 0.2
pytest_plugins = ["tests.tiers"]

def pytest_configure(config):
    for mark in ("slow", "long", "first_tier", "sampled(n)", "spark"):
        config.addinivalue_line("markers", mark)

@pytest.fixture
def spark():
    pass

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.spark)
"""


def run_pytest(folder: Path, *arguments: str, ci: bool) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CI": "true" if ci else "", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.no_skips", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_a_skip_fails_in_ci_and_passes_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIPS)
    (tmp_path / "test_file.py").write_text("import pytest\npytest.importorskip('no_such_module')")
    result = run_pytest(tmp_path, "-n", "2", "test_it.py", ci=True)
    assert result.returncode == 1
    assert "1 failed, 1 passed, 1 xfailed, 1 error" in result.stdout
    assert "test_it.py::test_marked was skipped, and CI allows no skip: Skipped: no such part" in result.stdout
    assert "test_it.py::test_inside was skipped, and CI allows no skip: Skipped: not on this machine" in result.stdout
    result = run_pytest(tmp_path, "test_file.py", ci=True)
    assert result.returncode != 0
    assert "test_file.py was skipped, and CI allows no skip: Skipped: could not import" in result.stdout
    result = run_pytest(tmp_path, "test_it.py", ci=False)
    assert result.returncode == 0
    assert "1 passed, 2 skipped, 1 xfailed" in result.stdout


@pytest.mark.slow
def test_tiers_are_chosen_by_marks_and_a_long_test_fails_the_first(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TIERS)
    (tmp_path / "conftest.py").write_text(TIER_FIXTURES)
    found = {}
    for tier in (1, 2, 3):
        file = tmp_path / f"{tier}.txt"
        result = run_pytest(tmp_path, "-n0", f"--tier={tier}", f"--durations-file={file}", ci=True)
        assert result.returncode == 0, result.stdout + result.stderr
        found[tier] = {line.rpartition("::")[2] for line in file.read_text().splitlines()}
    few = {tier: {name for name in names if name.startswith("test_few")} for tier, names in found.items()}
    assert {tier: names - few[tier] for tier, names in found.items()} == {
        1: {"test_first", "test_first_by_mark"},
        2: {"test_second", "test_on_spark"},
        3: {"test_third"},
    }
    sampled = {tier: {name for name in names if "second" in name} for tier, names in few.items()}
    assert 15 <= len(sampled[2]) <= 35
    assert 15 <= len(few[1]) <= 35
    assert sampled[1] == set()
    assert sum(map(len, few.values())) == 200
    slow = TIERS.replace("def test_first():\n    pass", "def test_first():\n    time.sleep(3)")
    (tmp_path / "test_it.py").write_text(slow)
    result = run_pytest(tmp_path, "-n", "2", "--tier=1", ci=True)
    assert result.returncode == 1
    assert "3.0 s  test_it.py::test_first\n" in result.stdout
    assert "test_first_by_mark" not in result.stdout


def test_java_problem_names_the_missing_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_problem() == f"Spark needs Java 17 or later, and there is no Java at JAVA_HOME ({tmp_path}/bin/java)"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_problem() == "Spark needs Java 17 or later, and there is no Java on the PATH"


@pytest.mark.parametrize(
    ("shown", "found"), [('openjdk version "11.0.2" 2019', "11"), ('java version "1.8.0_292"', "8")], ids=["11", "8"]
)
def test_java_problem_names_the_old_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shown: str, found: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{shown}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_problem() == f"Spark needs Java 17 or later, and {java} is Java {found}"


def test_the_spark_fixture_marks_its_users(request: pytest.FixtureRequest, spark: SparkSession) -> None:
    assert request.node.get_closest_marker("spark") is not None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_the_spark_session_writes_a_deletion_vector(spark: SparkSession) -> None:
    spark.sql(
        "create table local.scaffold.t (id int, name string) using iceberg "
        "tblproperties ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
    )
    spark.sql("insert into local.scaffold.t values (1, 'a'), (2, 'b'), (3, 'c')").collect()
    spark.sql("delete from local.scaffold.t where id = 2").collect()
    assert [row.id for row in spark.sql("select id from local.scaffold.t order by id").collect()] == [1, 3]
    files = spark.sql("select content, file_format, record_count from local.scaffold.t.delete_files").collect()
    assert [tuple(row) for row in files] == [(1, "PUFFIN", 1)]
    spark.sql("drop table local.scaffold.t purge").collect()
