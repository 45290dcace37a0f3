"""Run tasks as Spark tasks, with PySpark's DataFrame API; the driver plans and commits.

Only the result that Spark returns of a job counts. So a retried, speculative or lost attempt neither doubles a row nor
loses one. A failed attempt deletes its files itself, or the driver does where it knows their paths;
`remove_orphan_files` finds what a killed process left behind. The driver collects only what tasks return.
"""

from __future__ import annotations

import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from deletekit.deletes.write_context import WriteContext
from deletekit.engines.local import LocalEngine
from deletekit.engines.serialization import Sender, error_in_text, unpack_result
from deletekit.engines.spark_worker import RESULT_SCHEMA, PartitionWorker, RowsWorker, Worker
from deletekit.errors import DeletekitError, UnsupportedError

_T = TypeVar("_T")
_R = TypeVar("_R")

_JOBS_AHEAD = 2
# Tasks of a Spark task: more while jobs are quick and return little, so that ten thousand small files are no ten
# thousand Spark tasks, and a large scan never has more than a few results on the driver.
_MOST_TASKS = 256
_QUICK_SECONDS = 2.0
_SMALL_BYTES = 32 << 20
_READS_PER_THREAD = 4


class SparkEngine:
    """Runs tasks on the executors of a Spark session, a few jobs ahead of the reader.

    Parameters
    ----------
    session: a SparkSession of PySpark; its workers need deletekit. A Spark Connect session is refused.
    threads: how many groups of tasks run at a time; default Spark's parallelism, the cores of all executors.

    Raises UnsupportedError for Spark Connect, which has no accumulators to hear of written files through.
    """

    def __init__(self, session: SparkSession, threads: int | None = None) -> None:
        if not isinstance(session, SparkSession):  # Connect's is another class
            raise UnsupportedError(
                "the Spark engine needs a classic session",
                kind="spark-connect",
                field="session",
                found=f"{type(session).__module__}.{type(session).__name__}",
            )
        self.session = session
        self.threads = threads or session.sparkContext.defaultParallelism
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
        sender = Sender()
        packed = sender.pack(fn)
        todo, tasks_each = iter(tasks), 1
        running: deque[tuple[_Job, Future[_Done]]] = deque()
        with ThreadPoolExecutor(_JOBS_AHEAD) as pool:
            try:
                while True:
                    while len(running) < _JOBS_AHEAD and (some := list(islice(todo, tasks_each * self.threads))):
                        job = _Job(packed, [sender.pack(g) for g in _dealt(some, self.threads)], sender.contexts)
                        running.append((job, pool.submit(self._run, job)))
                    if not running:
                        return
                    done = running.popleft()[1].result()
                    tasks_each = min(tasks_each * done.growth, _MOST_TASKS)
                    yield from done.results()
            finally:
                for job, future in running:
                    future.cancel()
                    self._jobs.interruptTag(job.name)

    def map_partitions(self, frame: DataFrame, fn: Callable[[Iterator[pa.RecordBatch]], _R]) -> list[_R]:
        """Return `fn` of the rows of each partition of a DataFrame, called where the rows are. Raises as `map`.

        Parameters
        ----------
        fn: takes Arrow batches; what it returns should be small, for the driver holds all of it.
        """
        names, sender = frame.columns, Sender()
        job = _Job(sender.pack(lambda batches: fn(b.rename_columns(names) for b in batches)), [], sender.contexts)
        worker = PartitionWorker(job.name, job.fn, self._written, _most_attempts(self.session))
        # mapInArrow takes a dot in a name for the way into a struct.
        plain = frame.toDF(*(f"column_{i}" for i in range(len(names))))
        return list(self._done(job, plain.mapInArrow(worker, RESULT_SCHEMA)).results())

    def frame(
        self, session: SparkSession, fn: Callable[[_T], Iterator[pa.RecordBatch]], tasks: Iterable[_T], schema: str
    ) -> DataFrame:
        """Return the rows that `fn` yields for each task as a lazy DataFrame of `session`.

        Parameters
        ----------
        schema: of the rows, as Spark's DDL.
        """
        sender = Sender()
        todo = list(tasks)
        groups = [sender.pack(group) for group in _dealt(todo, self.threads * _READS_PER_THREAD)]
        worker = RowsWorker(sender.pack(fn), groups)
        return session.range(0, len(groups), 1, max(len(groups), 1)).mapInArrow(worker, schema)

    def _run(self, job: _Job) -> _Done:
        """Run one Spark job: a partition, and so a Spark task, for each group."""
        worker = Worker(job.name, job.fn, job.groups, self._written, _most_attempts(self.session))
        count = len(job.groups)
        done = self._done(job, self._jobs.range(0, count, 1, count).mapInArrow(worker, RESULT_SCHEMA))
        speculates = self.session.sparkContext.getConf().get("spark.speculation", "false") == "true"
        for attempt, reported in done.reports:
            job.discard_others(attempt, reported, speculates=speculates)
        return done

    def _done(self, job: _Job, rows: DataFrame) -> _Done:
        """Run a job, and tell the driver's WriteContexts of every file it wrote, even if it fails."""
        start = time.monotonic()
        rows.sparkSession.addTag(job.name)
        try:
            done = _Done(rows.toArrow(), time.monotonic() - start)
        except (PySparkException, Py4JJavaError) as e:
            job.adopt(self._written.value.pop(job.name, []))
            told = error_in_text(str(e))
            if told is not None:
                raise told from e
            raise DeletekitError("the Spark job failed", kind="spark-job", found=_reason(e)) from e
        except BaseException:  # the user's Ctrl-C ends the job too
            rows.sparkSession.interruptTag(job.name)
            raise
        finally:
            rows.sparkSession.removeTag(job.name)
        self._written.value.pop(job.name, None)
        for _, reported in done.reports:
            job.adopt(reported)
        return done


@dataclass
class _Job:
    """What one Spark job runs.

    Attributes
    ----------
    contexts: the driver's WriteContexts, numbered as in what the workers report.
    """

    fn: bytes
    groups: list[bytes]
    contexts: list[WriteContext]
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def adopt(self, reported: Iterable[tuple[int, str]]) -> None:
        """Remember written files, so that they are deleted if the change is not committed."""
        for number, path in reported:
            self.contexts[number].remember(path)

    def discard_others(self, attempt: str, reported: Iterable[tuple[int, str]], *, speculates: bool) -> None:
        """Delete what other attempts at the same tasks wrote: the same names with another attempt's number.

        No directory is listed, so an attempt that still runs, or that did something else, leaves files behind.
        """
        group, own = attempt.rsplit("-", 1)
        others = [n for n in range(int(own) + 1 + speculates) if n != int(own)]
        for number, path in reported:
            before, _, after = path.rpartition(attempt)
            for other in others:
                with suppress(Exception):
                    self.contexts[number].io.delete(f"{before}{group}-{other}{after}")


class _Done:
    """What a job returned: rows of (group, place, part, data), as RESULT_SCHEMA has them.

    Attributes
    ----------
    reports: of each group the attempt that counts, and what it wrote.
    growth: how many times as many tasks the next job may have.
    """

    def __init__(self, rows: pa.Table, seconds: float) -> None:
        self._data = rows.column("data")
        # The data itself stays where it is: Arrow cannot put more than 2 GB of it into one array.
        names = ("group", "place", "part")
        order = pc.sort_indices(rows.select(names), [(name, "ascending") for name in names]).to_pylist()
        keys = zip(rows["group"].take(order).to_pylist(), rows["place"].take(order).to_pylist(), strict=True)
        runs = groupby(zip(keys, order, strict=True), itemgetter(0))
        self._values = [(place, [row for _, row in some]) for (_, place), some in runs]
        self.reports: list[tuple[str, list[tuple[int, str]]]] = [
            unpack_result(self._joined(parts)) for place, parts in self._values if place < 0
        ]
        quick = seconds < _QUICK_SECONDS and rows.nbytes < _SMALL_BYTES
        self.growth = 4 if quick else 1

    def results(self) -> Iterator[Any]:
        """Yield the results in order. Raise the error of a task in its place."""
        for place, parts in self._values:
            if place >= 0:
                result, error = unpack_result(self._joined(parts))
                if error is not None:
                    raise error
                yield result

    def _joined(self, parts: list[int]) -> bytes:
        return b"".join(self._data[i].as_py() for i in parts)


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


def _most_attempts(session: SparkSession) -> int:
    """Return how often Spark tries a task; a local master has it in its name."""
    local = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\s*\])?", str(session.sparkContext.master))
    if local:
        return int(local[1] or 1)
    return int(session.sparkContext.getConf().get("spark.task.maxFailures", "4"))


def _reason(error: Exception) -> str:
    """Return Spark's text of the causes: the outermost names the file, the innermost the fault."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    died = [line for line in lines if "exited unexpectedly" in line]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return "; ".join(dict.fromkeys(died[:1] or causes or lines[:1]))
