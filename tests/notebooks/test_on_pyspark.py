"""Every lesson on tables of PySpark: blank it gives what is committed, solved every check is correct."""

import os
from itertools import cycle, product
from pathlib import Path

import pytest

from deletekit.course.translations import LANGUAGES
from tests.notebooks.in_process import blank_gives_what_is_committed, solved_is_all_right
from tests.notebooks.lesson_runs import WITH_SPARK
from tests.optional_types import SparkSession
from tests.tools.lessons import lesson_names

# CI runs with solutions, on Spark, each second lesson in one language. With this set, every lesson runs in every
# language on Spark, which takes minutes more.
WHOLE = os.environ.get("DELETEKIT_COURSE") == "whole"


@pytest.mark.long
def test_pyspark_builds_the_same_tables(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "spark")
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / "progress.json"))
    # Every language, where that is asked for or a lesson's outputs can only be made on Spark.
    others = [(code, name) for code in LANGUAGES if code != "en" for name in (lesson_names() if WHOLE else WITH_SPARK)]
    for language, name in [*(("en", name) for name in lesson_names()), *others]:
        monkeypatch.setenv("DELETEKIT_LANG", language)
        blank_gives_what_is_committed(language, name)


@pytest.mark.slow  # more than a minute: not the last to begin
def test_solved_lessons_are_right_on_tables_of_pyspark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELETEKIT_COURSE_ENGINE", "spark")
    monkeypatch.setenv("DELETEKIT_PROGRESS", str(tmp_path / "progress.json"))
    each = product(lesson_names(), LANGUAGES) if WHOLE else zip(lesson_names()[::2], cycle(LANGUAGES))
    for name, language in each:
        monkeypatch.setenv("DELETEKIT_LANG", language)
        solved_is_all_right(name)
