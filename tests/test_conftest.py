"""What tests/conftest.py promises: a skip fails CI, the `spark` fixture marks its users, and the session works."""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dev import java_problem
from tests.optional_types import SparkSession
from tests.tiers import tier

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


LONG = """
import time
import pytest

def test_long():
    time.sleep(0.2)

@pytest.mark.first_tier
def test_long_with_leave():
    time.sleep(0.2)

@pytest.mark.slow
def test_of_another_tier():
    assert False
"""
SHORTER_LIMIT = """
from tests import tiers
tiers.FIRST_TIER_SECONDS, tiers._busy = 0.1, lambda: 1.0
pytest_plugins = ["tests.tiers"]
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


def test_tiers_are_chosen_by_marks() -> None:
    def tier_of(*marks: pytest.Mark, name: str = "t.py::test") -> int:
        return tier(cast("pytest.Item", SimpleNamespace(nodeid=name, iter_markers=partial(chosen, marks))))

    def chosen(marks: Sequence[pytest.Mark], name: str | None = None) -> list[pytest.Mark]:
        return [mark for mark in marks if name in (None, mark.name)]

    mark = {name: getattr(pytest.mark, name).mark for name in ("slow", "long", "spark", "first_tier")}
    assert tier_of() == tier_of(mark["slow"], mark["first_tier"]) == 1
    assert tier_of(mark["slow"]) == tier_of(mark["spark"]) == 2
    assert tier_of(mark["long"], mark["slow"]) == 3
    for first in (1, 2):
        few = [tier_of(pytest.mark.sampled(4, tier=first).mark, name=f"t.py::test[{n}]") for n in range(100)]
        assert 15 <= few.count(first) <= 35
        assert few.count(first) + few.count(3) == 100


@pytest.mark.slow
def test_a_long_test_fails_the_first_tier(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(LONG)
    (tmp_path / "conftest.py").write_text(SHORTER_LIMIT)
    result = run_pytest(tmp_path, "-n1", "--tier=1", ci=True)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "2 passed" in result.stdout
    assert "FAILED test_it.py::test_long: 0.2 s\n" in result.stdout
    assert "with_leave" not in result.stdout


def test_java_problem_names_the_missing_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_problem() == f"Spark needs Java 17 or later, and there is no Java at JAVA_HOME ({tmp_path}/bin/java)"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_problem() == "Spark needs Java 17 or later, and there is no Java on the PATH"


def test_the_spark_fixture_marks_its_users(request: pytest.FixtureRequest, spark: SparkSession) -> None:
    assert request.node.get_closest_marker("spark") is not None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
