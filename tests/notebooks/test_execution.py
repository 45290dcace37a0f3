"""Every notebook runs: blank and solved, in every language, with Spark and without, and gives what is committed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from deletekit.course.checking import CHECK_TYPE
from deletekit.course.translations import LANGUAGES
from tests.notebooks import run_papermill
from tests.notebooks.lesson_runs import LESSON_BYTES, PLAIN, WITH_SPARK, all_right
from tests.tools.build_notebooks import as_text, execute, generate, notebook_file
from tests.tools.lessons import ROOT, lesson_names, read_source, solved
from tests.tools.translation import translate

lessons = pytest.mark.parametrize("name", lesson_names())
NEVER_STARTED = ("Address already in use", "Kernel didn't respond")
plain_lessons = pytest.mark.parametrize("name", PLAIN)
lessons_with_spark = pytest.mark.parametrize("name", WITH_SPARK)


def with_kernels(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command that starts kernels; once more when one did not start.

    jupyter_client chooses a kernel's ports before the kernel takes them, so two that start at once may meet on one; and
    it waits a minute at the most, which is short on a busy machine.
    """
    for _ in range(2):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0 or not any(said in done.stdout + done.stderr for said in NEVER_STARTED):
            break
    return done


# Code cells are equal in all languages (test_sources.py), so one language is solved in CI and the others at a release.
@pytest.mark.slow
@pytest.mark.parametrize("language", [pytest.param(n, marks=() if n == "en" else pytest.mark.long) for n in LANGUAGES])
def test_solved_lessons_are_right_without_network_and_java(
    language: str, tmp_path: Path, no_network: list[str]
) -> None:
    """Run with every solution, in a process of its own: papermill and Jupyter warn of each other."""
    files = [tmp_path / f"{name}.ipynb" for name in PLAIN]
    for name, file in zip(PLAIN, files, strict=True):
        nbformat.write(translate(solved(read_source(name)), language, name).notebook, file)
    environment = {
        **os.environ,
        "DELETEKIT_COURSE_ENGINE": "auto",
        "DELETEKIT_LANG": language,
        "DELETEKIT_PROGRESS": str(tmp_path / "progress.json"),
        "JAVA_HOME": str(tmp_path),
    }
    done = with_kernels(
        [*no_network, sys.executable, "-m", run_papermill.__name__, *map(str, files)], ROOT, environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name, file in zip(PLAIN, files, strict=True):
        outputs = [o for cell in nbformat.read(file, as_version=4).cells for o in cell.get("outputs", ())]
        all_right(name, [o.data[CHECK_TYPE] for o in outputs if CHECK_TYPE in o.get("data", {})])
    for lesson in map(json.loads, done.stdout.splitlines()):
        assert lesson["seconds"] < 60, lesson
        assert lesson["memory"] < LESSON_BYTES, lesson


@lessons
def test_blank_nothing_fails_and_nothing_is_correct(name: str) -> None:
    # The committed notebooks are the blank ones, run; test_two_runs_are_the_same runs them again.
    cells = nbformat.read(notebook_file("en", name), as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    statuses = {o.data[CHECK_TYPE]["status"] for o in outputs if CHECK_TYPE in o.get("data", {})}
    assert statuses
    assert "correct" not in statuses
    assert "error" not in {output.output_type for output in outputs}


@pytest.mark.sampled(7)
@plain_lessons
def test_two_runs_are_the_same_to_the_byte(name: str) -> None:
    made = execute(generate("en", name).notebook, "en")
    assert as_text(made) == notebook_file("en", name).read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.slow
@lessons_with_spark
def test_two_runs_on_spark_are_the_same_to_the_byte(name: str, own_spark: None) -> None:
    made = execute(generate("en", name).notebook, "en", "spark")
    assert as_text(made) == notebook_file("en", name).read_text(encoding="utf-8")


@pytest.mark.slow
@lessons_with_spark
def test_without_java_a_lesson_on_spark_runs_to_its_end_and_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    notebook = execute(generate("en", name).notebook, "en", "auto")  # a cell that fails ends it
    said = [o.text for c in notebook.cells if c.cell_type == "code" for o in c.outputs if o.output_type == "stream"]
    assert "".join(said).count("Spark is missing (Spark needs Java 17 or later, and there is no Java at JAVA_HOME") == 1
    assert "Passed over, because it needs Spark: " in "".join(said)


@pytest.mark.slow
@pytest.mark.parametrize(  # the code is the same in all of them: CI has the lessons by turns in two languages
    ("language", "which"),
    [
        ("en", slice(0, None, 2)),
        ("ko", slice(1, None, 2)),
        *(pytest.param(at, slice(None), marks=pytest.mark.long) for at in LANGUAGES),
    ],
    ids=["en-half", "ko-half", *LANGUAGES],
)
def test_nbval_finds_the_committed_outputs(language: str, which: slice, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DELETEKIT_COURSE_ENGINE": "local",
        "DELETEKIT_PROGRESS": str(tmp_path / "progress.json"),
    }
    environment.pop("DELETEKIT_LANG", None)  # the folder says it
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout", "120", "-q"]
    # Not this project's settings: they are for its own tests.
    options = ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-n0", "-W", "ignore"]
    # Those on Spark are compared where it is there, by test_two_runs_on_spark_are_the_same_to_the_byte.
    files = [notebook_file(language, name) for name in PLAIN[which]]
    done = with_kernels([*command, *options, *map(str, files)], tmp_path, environment)
    assert done.returncode == 0, done.stdout[-4000:]
