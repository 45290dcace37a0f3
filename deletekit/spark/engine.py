"""Run tasks as Spark tasks, with PySpark's DataFrame API; the driver plans and commits.

Only the result that Spark returns of a job counts. So a retried, speculative or lost attempt neither doubles a row nor
loses one. A failed attempt deletes its files itself, or the driver does where it knows their paths;
`remove_orphan_files` finds what a killed process left behind. The driver collects only what tasks return.
"""

from __future__ import annotations

import re
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import groupby, islice
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from deletekit.engines.local import EngineBlock, LocalEngine, checked_threads
from deletekit.engines.packing import pack, unpack_result
from deletekit.errors import DeletekitError, EnvironmentMissingError
from deletekit.rows.write_context import WriteContext
from deletekit.spark.errors_in_text import error_in_text
from deletekit.spark.releases import check_classic, to_arrow
from deletekit.spark.worker import RESULT_SCHEMA, RowsWorker, Worker
from deletekit.version import __version__

_T = TypeVar("_T")
_R = TypeVar("_R")

_pack = partial(pack, cloudpickle=cloudpickle)
_JOBS_AHEAD = 2
# Tasks of a Spark task: more while jobs are quick and return little, so that ten thousand small files are no ten
# thousand Spark tasks, and a large scan never has more than a few results on the driver.
_MOST_TASKS = 256
_QUICK_SECONDS = 2.0
_SMALL_BYTES = 32 << 20
_READS_PER_THREAD = 4
_CHECKED = set[str]()
"""Ids of the Spark applications whose executors have this deletekit."""


class SparkEngine(EngineBlock):
    """Runs tasks on the executors of a Spark session, a few jobs ahead of the reader.

    Parameters
    ----------
    session: a SparkSession of PySpark; its workers need deletekit. A Spark Connect session is refused.
    threads: how many groups of tasks run at a time; default Spark's parallelism, the cores of all executors.

    Raises UnsupportedError for Spark Connect, which has no accumulators to hear of written files through;
    EnvironmentMissingError if the executors' Python lacks this deletekit; InvalidInputError for less than one thread.
    """

    def __init__(self, session: SparkSession, threads: int | None = None) -> None:
        check_classic(session)
        check_executors(session)
        self.session = session
        self.threads = checked_threads(threads) or session.sparkContext.defaultParallelism
        self._jobs = session.newSession()
        # The default would put 10,000 parts of results into one Arrow batch, which must stay below 2 GB.
        self._jobs.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "64")
        self._written = session.sparkContext.accumulator({}, _Written())

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalEngine, (1,)  # inside a task, tasks run right there

    def map(self, fn: Callable[[_T], _R], tasks: Iterable[_T]) -> Iterator[_R]:
        """Yield `fn` of each task, in order. Raise the first task's error as the class it had.

        Raises DeletekitError of kind `spark-job` when a job failed otherwise: say, when every attempt's worker died.
        """
        contexts: list[WriteContext] = []
        packed = _pack(fn, contexts)
        todo, tasks_each = iter(tasks), 1
        running: deque[tuple[str, Future[_Done]]] = deque()
        with ThreadPoolExecutor(_JOBS_AHEAD) as pool:
            try:
                while True:
                    while len(running) < _JOBS_AHEAD and (some := list(islice(todo, tasks_each * self.threads))):
                        worker = self._worker(packed, [_pack(group, contexts) for group in _dealt(some, self.threads)])
                        running.append((worker.job, pool.submit(self._run, worker, contexts)))
                    if not running:
                        return
                    done = running.popleft()[1].result()
                    tasks_each = min(tasks_each * done.growth, _MOST_TASKS)
                    yield from done.results()
            finally:
                for job, future in running:
                    future.cancel()
                    self.session.sparkContext.cancelJobsWithTag(job)

    def map_partitions(self, frame: DataFrame, fn: Callable[[Iterator[pa.RecordBatch]], _R]) -> list[_R]:
        """Return `fn` of the rows of each partition of a DataFrame, called where the rows are. Raises as `map`.

        Parameters
        ----------
        fn: takes Arrow batches; what it returns should be small, for the driver holds all of it.
        """
        names, contexts = frame.columns, list[WriteContext]()
        worker = self._worker(_pack(lambda batches: fn(b.rename_columns(names) for b in batches), contexts), None)
        # mapInArrow takes a dot in a name for the way into a struct.
        plain = frame.toDF(*(f"column_{i}" for i in range(len(names))))
        return list(self._done(worker, contexts, plain).results())

    def frame(
        self, session: SparkSession, fn: Callable[[_T], Iterator[pa.RecordBatch]], tasks: Iterable[_T], schema: str
    ) -> DataFrame:
        """Return the rows that `fn` yields for each task as a lazy DataFrame of `session`.

        Parameters
        ----------
        schema: of the rows, as Spark's DDL.
        """
        groups = [_pack(group, []) for group in _dealt(list(tasks), self.threads * _READS_PER_THREAD)]
        numbers = session.range(0, len(groups), 1, max(len(groups), 1))
        return numbers.mapInArrow(RowsWorker(fn=_pack(fn, []), groups=groups), schema)

    def _worker(self, fn: bytes, groups: list[bytes] | None) -> Worker:
        return Worker(
            job=uuid.uuid4().hex[:8],
            fn=fn,
            groups=groups,
            written=self._written,
            most_attempts=_most_attempts(self.session),
        )

    def _run(self, worker: Worker, contexts: list[WriteContext]) -> _Done:
        """Run one Spark job: a partition, and so a Spark task, for each group. Delete what other attempts wrote.

        These have the same file names with another attempt's number. No directory is listed, so an attempt that still
        runs, or that did something else, leaves files behind.
        """
        count = len(worker.groups or ())
        done = self._done(worker, contexts, self._jobs.range(0, count, 1, count))
        speculates = self.session.sparkContext.getConf().get("spark.speculation", "false") == "true"
        for attempt, written in done.reports:
            group, own = attempt.rsplit("-", 1)
            others = [f"{group}-{n}" for n in range(int(own) + 1 + speculates) if n != int(own)]
            for number, path in written:
                before, _, after = path.rpartition(attempt)
                for other in others:
                    with suppress(Exception):
                        contexts[number].io.delete(f"{before}{other}{after}")
        return done

    def _done(self, worker: Worker, contexts: list[WriteContext], rows: DataFrame) -> _Done:
        """Run a job on rows, and tell the driver's WriteContexts of every file it wrote, even if it fails."""

        def remember(written: Iterable[tuple[int, str]]) -> None:
            for number, path in written:
                contexts[number].remember(path)

        start, context = time.monotonic(), self.session.sparkContext  # a session's own tags need Spark 4
        context.addJobTag(worker.job)
        try:
            done = _Done(to_arrow(rows.mapInArrow(worker, RESULT_SCHEMA)), time.monotonic() - start)
        except (PySparkException, Py4JJavaError) as e:
            remember(self._written.value.pop(worker.job, []))
            raise (
                error_in_text(str(e)) or DeletekitError("the Spark job failed", kind="spark-job", found=_reason(e))
            ) from e
        except BaseException:  # the user's Ctrl-C ends the job too
            context.cancelJobsWithTag(worker.job)
            raise
        finally:
            context.removeJobTag(worker.job)
        self._written.value.pop(worker.job, None)
        for _, written in done.reports:
            remember(written)
        return done


class _Done:
    """What a job returned: rows of (group, place, part, data), as RESULT_SCHEMA has them.

    Attributes
    ----------
    reports: of each group the attempt that counts, and what it wrote.
    growth: how many times as many tasks the next job may have.
    """

    def __init__(self, rows: pa.Table, seconds: float) -> None:
        self._data = rows.column("data")
        keys = list(zip(*(rows[name].to_pylist() for name in ("group", "place", "part")), strict=True))
        # The data itself stays where it is: Arrow cannot put more than 2 GB of it into one array.
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self._values = [(key[1], list(some)) for key, some in groupby(order, lambda row: keys[row][:2])]
        self.reports: list[tuple[str, list[tuple[int, str]]]] = [
            self._unpacked(parts) for place, parts in self._values if place < 0
        ]
        self.growth = 4 if seconds < _QUICK_SECONDS and rows.nbytes < _SMALL_BYTES else 1

    def results(self) -> Iterator[Any]:
        """Yield the results in order. Raise the error of a task in its place."""
        for place, parts in self._values:
            if place >= 0:
                result, error = self._unpacked(parts)
                if error is not None:
                    raise error
                yield result

    def _unpacked(self, parts: list[int]) -> Any:
        return unpack_result(b"".join(self._data[i].as_py() for i in parts))


class _Written(AccumulatorParam[dict[str, list[tuple[int, str]]]]):
    """Collects, by job, the files of successful attempts, even if the job fails later."""

    def zero(self, value: dict[str, list[tuple[int, str]]]) -> dict[str, list[tuple[int, str]]]:
        return type(value)()

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802  # PySpark's name
        for job, written in value2.items():
            value1.setdefault(job, []).extend(written)
        return value1


def _dealt(tasks: list[_T], groups: int) -> list[list[_T]]:
    """Return the tasks in order, in at most so many groups of equal size."""
    each = max(1, -(-len(tasks) // groups))
    return [tasks[at : at + each] for at in range(0, len(tasks), each)]


def check_executors(session: SparkSession) -> None:
    """Run a small task, once a session, to see whether another Python than the driver's has this deletekit."""
    context = session.sparkContext
    here = re.match(r"local(\[|$)", str(context.master)) and context.pythonExec == sys.executable
    if here or context.applicationId in _CHECKED:
        return

    def version_there(_: int) -> str:
        try:
            from deletekit.version import __version__ as there  # noqa: PLC0415  # as the executor has it
        except ImportError:
            return "none"
        return there

    try:
        found = context.parallelize([0], 1).map(version_there).first()
    except (PySparkException, Py4JJavaError) as e:
        found = _reason(e)
    if found != __version__:
        message, expected = "the executors' Python lacks this deletekit", f"deletekit {__version__} there"
        raise EnvironmentMissingError(message, kind="executors", field="PYSPARK_PYTHON", found=found, expected=expected)
    _CHECKED.add(context.applicationId)


def _most_attempts(session: SparkSession) -> int:
    """Return how often Spark tries a task; a local master has it in its name."""
    local = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\s*\])?", str(session.sparkContext.master))
    if local:
        return int(local[1] or 1)
    return int(session.sparkContext.getConf().get("spark.task.maxFailures", "4"))


def _reason(error: Exception) -> str:
    """Return Python's error, or Spark's text of the causes: the outermost names the file, the innermost the fault."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    died = [line for line in lines if "exited unexpectedly" in line]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    python = [line for line in lines if re.match(r"[\w.]*Error: ", line)]
    return "; ".join(dict.fromkeys(died[:1] or python[-1:] or causes or lines[:1]))
