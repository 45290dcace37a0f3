"""Every notebook runs: blank and solved, in every language, with Spark and without, and gives what is committed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import papermill
import pytest

from deletekit.course.checking import CHECK_TYPE
from deletekit.course.language import LANGUAGES
from tests.notebooks.in_process import outputs_in_process
from tests.tools.build_notebooks import NOTEBOOKS, as_text, engine_of, execute, generate, notebook_file
from tests.tools.lessons import learner, lesson_names, needs_spark, read_source, solved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITH_SPARK = [name for name in lesson_names() if needs_spark(name)]
lessons = pytest.mark.parametrize("name", lesson_names())
PORT_TAKEN = "Address already in use"
plain_lessons = pytest.mark.parametrize("name", [name for name in lesson_names() if name not in WITH_SPARK])
lessons_with_spark = pytest.mark.parametrize("name", WITH_SPARK)


def verdicts(notebook: nbformat.NotebookNode) -> list[dict[str, object]]:
    """List what the checks of an executed notebook said, for programs."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.data[CHECK_TYPE] for output in outputs if CHECK_TYPE in output.get("data", {})]


def run_with_papermill(notebook: nbformat.NotebookNode, folder: Path, engine: str) -> nbformat.NotebookNode:
    """Run in a process of its own: papermill and Jupyter warn of each other, and here warnings are errors."""
    nbformat.write(notebook, folder / "in.ipynb")
    environment = {
        **os.environ,
        "DELETEKIT_COURSE_ENGINE": engine,
        "DELETEKIT_LANG": "en",
        "DELETEKIT_PROGRESS": str(folder / "progress.json"),
    }
    command = [sys.executable, "-m", papermill.__name__, "in.ipynb", "out.ipynb"]
    options = ["--no-progress-bar", "--execution-timeout", "120", "--kernel", "python3"]
    done = with_kernels([*command, *options], folder, environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return nbformat.read(folder / "out.ipynb", as_version=4)


def with_kernels(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command that starts kernels; once more when one died at its start.

    jupyter_client chooses a kernel's ports before the kernel takes them, so two that start at once may meet on one.
    """
    for _ in range(2):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0 or PORT_TAKEN not in done.stdout + done.stderr:
            break
    return done


@plain_lessons
def test_with_solutions_every_check_is_correct(name: str, tmp_path: Path) -> None:
    check_solved(name, tmp_path)


@pytest.mark.spark
@pytest.mark.slow
@lessons_with_spark
def test_with_solutions_and_spark_every_check_is_correct(name: str, tmp_path: Path, own_spark: None) -> None:
    check_solved(name, tmp_path)


def check_solved(name: str, folder: Path) -> None:
    found = verdicts(run_with_papermill(solved(read_source(name)), folder, engine_of(name)))
    on_purpose = sum("wrong-on-purpose" in cell.metadata.get("tags", ()) for cell in read_source(name).cells)
    assert sum(v["status"] == "not-yet" for v in found) == on_purpose
    right = {v["exercise"] for v in found if v["status"] == "correct"}
    asked = {cell.metadata["exercise"] for cell in read_source(name).cells if "exercise" in cell.metadata}
    assert right == asked
    assert {v["status"] for v in found} <= {"correct", "noted", "not-yet"}


@lessons
def test_blank_nothing_fails_and_nothing_is_correct(name: str) -> None:
    # The committed notebooks are the blank ones, run; test_two_runs_are_the_same runs them again.
    found = verdicts(nbformat.read(notebook_file("en", name), as_version=4))
    assert found
    assert "correct" not in {v["status"] for v in found}
    assert not any(
        output.output_type == "error"
        for cell in nbformat.read(notebook_file("en", name), as_version=4).cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )


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


@lessons_with_spark
def test_without_java_a_lesson_on_spark_runs_to_its_end_and_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    notebook = execute(generate("en", name).notebook, "en", "auto")  # a cell that fails ends it
    said = [o.text for c in notebook.cells if c.cell_type == "code" for o in c.outputs if o.output_type == "stream"]
    assert "".join(said).count("Spark is missing (Spark needs Java 17 or later, and there is no Java at JAVA_HOME") == 1
    assert "Passed over, because it needs Spark: " in "".join(said)


@pytest.mark.parametrize("language", LANGUAGES)
def test_nbval_finds_the_committed_outputs(language: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DELETEKIT_COURSE_ENGINE": "local",
        "DELETEKIT_PROGRESS": str(tmp_path / "progress.json"),
    }
    environment.pop("DELETEKIT_LANG", None)  # the folder says it
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout", "120", "-q"]
    # Not this project's settings: they are for its own tests.
    options = ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-n0", "-W", "ignore"]
    # These are compared where Spark is there, below.
    options += [f"--ignore={notebook_file(language, name)}" for name in WITH_SPARK]
    done = with_kernels([*command, *options, str(NOTEBOOKS / language)], tmp_path, environment)
    assert done.returncode == 0, done.stdout[-4000:]


def test_pyspark_builds_the_same_tables(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "spark")
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / "progress.json"))
    others = [(language, name) for language in LANGUAGES if language != "en" for name in WITH_SPARK]
    for language, name in [*(("en", name) for name in lesson_names()), *others]:
        monkeypatch.setenv("DELETEKIT_LANG", language)
        wanted = {
            cell.id: [text for output in cell.outputs for text in texts_of(output)]
            for cell in nbformat.read(notebook_file(language, name), as_version=4).cells
            if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", ())
        }
        found = outputs_in_process(learner(read_source(name)))
        assert {cell: found[cell] for cell in wanted} == wanted, (language, name)


def texts_of(output: nbformat.NotebookNode) -> list[str]:
    """What an output prints; of a value its text and, if it has one, its HTML."""
    if output.output_type == "stream":
        return [output.text]
    return ["".join(output.data[kind]) for kind in ("text/plain", "text/html") if kind in output.data]
