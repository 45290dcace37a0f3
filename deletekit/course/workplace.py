"""Set up a lesson: an empty catalog in a temporary folder, and tables filled by PySpark or, without Java, by deletekit.

Both engines must write the same rows into the same number of files, one commit each: a lesson prints the same on both.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deletekit.course.explanations import translate_in_notebook
from deletekit.course.printing import notebook_shell
from deletekit.course.rewinding import NAMESPACE, Rewinder
from deletekit.course.translations import text
from deletekit.course.views.table_view import LESSON_FOLDER
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.rows.available_memory import available_memory
from deletekit.spark.releases import check_release
from deletekit.spark.sessions import end_session, running_session, session
from deletekit.table.catalog import Catalog
from deletekit.table.open_catalog import local_catalog
from deletekit.table.table import Table
from deletekit.verbs.append import append, create_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ENGINES = ("auto", "spark", "local")
_ENGINE_VARIABLE = "DELETEKIT_COURSE_ENGINE"
_SPARK_NEEDS = 3 << 30
"""Bytes of free memory below which `auto` takes Spark only for a lesson about it.

A lesson on Spark was measured with 1 GB, most of it its JVM. A learner has two or three open.
"""
_numbers = count(1)
_started: set[str] = set()
"""Ids of the Spark applications that lessons of this process started."""

_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    # Rows keep the order they are given in, and each append is one file for each partition.
    "spark.sql.iceberg.distribution-mode": "none",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A lesson's catalog and its folder, with `table` to build tables and `sql` to run Spark SQL.

    Attributes
    ----------
    engine: which one fills the tables: `spark` or `local`.
    """

    number: str
    catalog: Catalog
    folder: Path
    engine: str

    @property
    def spark(self) -> SparkSession | None:
        """Return the Spark session, started again after `close`; None if deletekit fills the tables."""
        if self.engine == "local":
            return None
        running = running_session()
        known = running is not None and running.conf.get(f"spark.sql.catalog.{self.catalog.name}", None)
        return running if known else _session(self.folder, self.catalog.name)

    def table(
        self,
        name: str,
        *parts: pa.Table,
        format_version: int = 2,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Create the table `course.<name>` and append each of `parts` in a commit of its own.

        A table that has this name already is removed first, with its files: the cell may be run again. The first part
        gives columns and types. Raises InvalidInputError if there is none, or for a name that leads to another folder.
        """
        if not parts:
            raise InvalidInputError("a lesson's table needs rows", kind="lesson", field="parts")
        _check_name("name", name)
        self._remove(name)
        identifier = f"{NAMESPACE}.{name}"
        table = create_table(
            self.catalog,
            identifier,
            parts[0].schema,
            format_version=format_version,
            partition_by=partition_by,
            properties=properties,
        )
        for part in parts:
            self.append(table, part)
        return table

    def append(self, table: Table, rows: pa.Table) -> None:
        """Append rows to a table of this lesson in one commit, with one file in each partition."""
        spark = self.spark
        if spark is None:
            append(table, rows)
            return
        target = f"{_quoted(self.catalog.name)}.{NAMESPACE}.{_quoted(table.identifier[-1])}"
        frame = spark.createDataFrame(rows).coalesce(1)
        typed = [frame[_quoted(f.name)].cast(f.dataType).alias(f.name) for f in spark.table(target).schema]
        # In a Spark frame any column may be null; the table's schema says which are required.
        writer = frame.select(*typed).writeTo(target)
        writer.option("check-nullability", "false").option("fanout-enabled", "true").append()
        table.refresh()

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement in Spark SQL and return its rows. The lesson's tables have their bare names there.

        Without Spark, print one sentence that says so and return no rows.
        """
        spark = self.spark
        if spark is None:
            shown = " ".join(statement.split())
            print(text("Passed over, because it needs Spark: {statement}", statement=shown))  # noqa: T201
            return []
        before = f"{_quoted(spark.catalog.currentCatalog())}.{_quoted(spark.catalog.currentDatabase())}"
        spark.sql(f"USE {_quoted(self.catalog.name)}.{NAMESPACE}")
        try:
            return [row.asDict(recursive=True) for row in spark.sql(statement).collect()]
        finally:
            spark.sql(f"USE {before}")  # other code may use the session too

    def rewind(self, step: str, *what: Table | Path | str) -> None:
        """Remember tables as they are before a step; set them back to that when the cell of the step is run again.

        Parameters
        ----------
        step: a name that no other step of the lesson has.
        what: tables, names of tables that the step itself creates, and folders in the folder of the lesson.

        Steps that came later are forgotten: run their cells again too. Raises InvalidInputError for another folder or
        name, before anything is changed.
        """
        _check_name("step", step)
        for thing in what:
            if isinstance(thing, Path):
                if self.folder not in thing.parents or ".." in thing.parts:
                    raise _bad_argument("what", str(thing), "a folder in here.folder")
            elif not isinstance(thing, Table):
                _check_name("what", thing)
        tables = [thing for thing in what if isinstance(thing, Table)]
        names = [table.identifier[-1] for table in tables] + [name for name in what if isinstance(name, str)]
        Rewinder(folder=self.folder).begin(step, names, [path for path in what if isinstance(path, Path)])
        for table in tables:
            table.refresh()

    def close(self) -> None:
        """Free the memory of Spark, if a lesson started it; a cell that needs it later starts it again.

        The tables stay until the kernel ends: the widgets on the page read them.
        """
        running = running_session()
        if running is not None and running.sparkContext.applicationId in _started:
            end_session(running)
        print(text("Lesson {number} is done: what it started has ended.", number=self.number))  # noqa: T201

    def _remove(self, name: str) -> None:
        """Remove a table with its files, and the steps that could bring it back."""
        Rewinder(folder=self.folder).forget(name)
        with suppress(NotFoundError):
            self.catalog.drop_table(f"{NAMESPACE}.{name}")
        shutil.rmtree(self.folder / NAMESPACE / name, ignore_errors=True)


def lesson(number: str, *, engine: str | None = None, needs_spark: bool = False) -> Lesson:
    """Set up a lesson: an empty catalog in a temporary folder, which is removed when the notebook's kernel ends.

    Parameters
    ----------
    number: `06`.
    engine: `spark`: PySpark fills the tables. `local`: deletekit does. `auto`: PySpark if it starts, else deletekit
        after a sentence that says so; with less than 3 GB of memory free, deletekit unless the lesson is about Spark.
        None: the value of the variable DELETEKIT_COURSE_ENGINE, else `auto`.
    needs_spark: the lesson is about Spark; without Spark the sentence says that `sql` does nothing.

    Raises InvalidInputError for another engine, EnvironmentMissingError for `spark` if Spark cannot start.
    """
    chosen = engine or os.environ.get(_ENGINE_VARIABLE) or "auto"
    if chosen not in ENGINES:
        raise InvalidInputError("unknown engine of the course", "lesson", "engine", chosen, ", ".join(ENGINES))
    free = available_memory()
    if chosen == "auto" and not needs_spark and free is not None and free < _SPARK_NEEDS:
        chosen = "local"
    translate_in_notebook()
    # Spark resolves links in a path, such as that of macOS's temporary folder.
    folder = Path(tempfile.mkdtemp(prefix=f"{LESSON_FOLDER}{number}-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    name = f"lesson_{number}_{next(_numbers)}"  # a running session keeps every catalog that it opened
    try:
        if chosen != "local":
            _session(folder, name)
            chosen = "spark"
    except RuntimeError as e:  # EnvironmentMissingError, or pyspark's own error if the JVM does not start
        if chosen == "spark":
            raise
        chosen = "local"
        _say_without_spark(" ".join(str(e).split()), needs_spark=needs_spark)
    else:
        if chosen == "local" and needs_spark:
            _say_without_spark(f"{_ENGINE_VARIABLE}=local", needs_spark=True)
    return Lesson(number=number, catalog=local_catalog(folder, name), folder=folder, engine=chosen)


def _check_name(field: str, name: object) -> None:
    """Raise InvalidInputError for what could lead out of the lesson's folder: what is there is removed."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w ,-]+", name):
        raise _bad_argument(field, name, "letters, digits, _ and -")


def _bad_argument(field: str, found: object, expected: str) -> InvalidInputError:
    return InvalidInputError("a lesson cannot use that", kind="lesson", field=field, found=found, expected=expected)


def _session(folder: Path, catalog_name: str) -> SparkSession:
    check_release(runtime=True)  # lessons speak Iceberg's SQL
    running = running_session()
    # Jupyter's server names the notebook. Where it does not, a program runs it: nbval would find another output.
    shell = notebook_shell() if running is None and "JPY_SESSION_NAME" in os.environ else None
    if shell is not None:
        print(text("Spark is starting: 10 to 20 seconds, once a lesson."))  # noqa: T201
    try:
        started = session(folder, catalog_name=catalog_name, master="local[1]", settings=_SETTINGS)
    finally:
        if shell is not None:
            shell.display_pub.clear_output()  # what a notebook keeps is the same in every run
    if running is None:
        _started.add(started.sparkContext.applicationId)
    for key, value in _SETTINGS.items():
        started.conf.set(key, value)
    started.sql(f"CREATE NAMESPACE IF NOT EXISTS {_quoted(catalog_name)}.{NAMESPACE}")
    return started


def _say_without_spark(reason: str, *, needs_spark: bool) -> None:
    said = (
        text("Spark is missing ({reason}): every cell that asks it says so and does nothing.", reason=reason)
        if needs_spark
        else text("The tables are built without Spark, and every cell shows the same ({reason}).", reason=reason)
    )
    print(said)  # noqa: T201


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
