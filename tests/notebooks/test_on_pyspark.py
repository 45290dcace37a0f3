"""Every lesson on tables of PySpark: blank it gives what is committed, solved every check is correct."""

from __future__ import annotations

import os
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest

from deletekit.course.checking import CHECK_TYPE, Verdict
from deletekit.course.language import LANGUAGES
from tests.notebooks.in_process import run_in_process
from tests.notebooks.lesson_runs import WITH_SPARK, all_right
from tests.tools.build_notebooks import notebook_file
from tests.tools.lessons import learner, lesson_names, read_source, solved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# CI runs every language without Spark, and on Spark English, and with solutions each lesson in one language. With this
# set, every lesson runs in every language on Spark, which takes minutes more.
WHOLE = os.environ.get("DELETEKIT_COURSE") == "whole"


def test_pyspark_builds_the_same_tables(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "spark")
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / "progress.json"))
    # Every language, where that is asked for or a lesson's outputs can only be made on Spark.
    others = [(code, name) for code in LANGUAGES if code != "en" for name in (lesson_names() if WHOLE else WITH_SPARK)]
    for language, name in [*(("en", name) for name in lesson_names()), *others]:
        monkeypatch.setenv("DELETEKIT_LANG", language)
        wanted = {
            cell.id: [text for output in cell.outputs for text in texts_of(output)]
            for cell in nbformat.read(notebook_file(language, name), as_version=4).cells
            if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", ())
        }
        found = run_in_process(learner(read_source(name)))
        assert {cell: found[cell].texts for cell in wanted} == wanted, (language, name)


def test_solved_lessons_are_right_on_tables_of_pyspark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "spark")
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / "progress.json"))
    each = product(lesson_names(), LANGUAGES) if WHOLE else zip(lesson_names(), cycle(LANGUAGES))
    for name, language in each:
        monkeypatch.setenv("DELETEKIT_LANG", language)
        values = [ran.value for ran in run_in_process(solved(read_source(name))).values()]
        all_right(name, [v._repr_mimebundle_()[CHECK_TYPE] for v in values if isinstance(v, Verdict)])


def texts_of(output: nbformat.NotebookNode) -> list[str]:
    """What an output prints; of a value its text and, if it has one, its HTML."""
    if output.output_type == "stream":
        return [output.text]
    return ["".join(output.data[kind]) for kind in ("text/plain", "text/html") if kind in output.data]
