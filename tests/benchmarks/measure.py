"""Measuring: each engine in a process of its own, runs of all engines in turns, peak memory of the first run.

It knows nothing about tables. What is measured is a function in the engine's process; its name and arguments go there
and time, memory and facts come back.
"""

from __future__ import annotations

import importlib
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

START_SECONDS = 180

Check = Callable[[str, dict[str, Any]], str | None]
"""Of an engine's name and the facts of its run: what is wrong with them."""


class Stopped(Exception):  # noqa: N818  # it is how a cell ends, not an error of ours
    """A worker that gives no more figures; the text is what the cell says, `why` the reason."""

    def __init__(self, verdict: str, why: str) -> None:
        super().__init__(verdict)
        self.why = why


@dataclass
class Cell:
    """What is known of one engine at one task: seconds of each run, or why there are none."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Seconds of processor time of each run, where its facts have them."""
    first_seconds: float | None = None
    """Of the first run in its process, which warms up."""
    peak_bytes: int | None = None
    """Of that first run."""
    facts: dict[str, Any] = field(default_factory=dict)
    verdict: str | None = None
    why: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds and not self.verdict else None

    def ratio_to(self, other: Cell) -> float | None:
        return self.median / other.median if self.median and other.median else None


class Worker:
    """A process in which `module:function` was called; what that returned is run there, again and again."""

    def __init__(self, target: str, *arguments: Any, seconds: float = 60) -> None:
        self.seconds = seconds
        ours, theirs = get_context("spawn").Pipe()
        self._pipe = ours
        self._process = get_context("spawn").Process(target=_serve, args=(theirs, target, arguments), daemon=True)
        self._process.start()
        theirs.close()
        try:
            self._answer(START_SECONDS)
        except Stopped:
            self.stop()
            raise

    def run(self, job: Any, seconds: float | None = None) -> tuple[float, dict[str, Any]]:
        """Seconds and facts of one run. Raises Stopped, and then the process is gone or of no use."""
        self._pipe.send(job)
        answer = self._answer(seconds or self.seconds)
        return answer["seconds"], answer["facts"]

    def run_with_memory(self, job: Any, seconds: float | None = None) -> tuple[float, dict[str, Any], int | None]:
        """As `run`, and the peak memory of the process and its children above what they held before."""
        before = self._reset_peak()
        took, facts = self.run(job, seconds)
        peak = memory_of(tree_of(self._process.pid), "VmHWM")
        return took, facts, None if before is None or peak is None else max(0, peak - before)

    def stop(self) -> None:
        """End the process; Spark's JVM ends with the pipe that its Python holds."""
        with suppress(OSError):
            self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _answer(self, seconds: float) -> dict[str, Any]:
        if not self._pipe.poll(seconds):
            self._process.kill()
            raise Stopped(f"> {seconds:.0f} s", "no answer in that time")
        try:
            answer: dict[str, Any] = self._pipe.recv()
        except EOFError:
            self._process.join(10)
            raise Stopped("crash", f"the process ended with {self._process.exitcode}") from None
        if "error" in answer:
            missing = answer["error"].startswith("ModuleNotFoundError")
            raise Stopped("not installed" if missing else "refuses", answer["error"])
        return answer

    def _reset_peak(self) -> int | None:
        for pid in tree_of(self._process.pid):
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
        return memory_of(tree_of(self._process.pid), "VmRSS")


def in_turns(
    workers: dict[str, Callable[[], Worker]],
    job: Any,
    *,
    runs: int,
    check: Check | None = None,
    warm_ups: Callable[[str], int] | None = None,
    say: Callable[[str], None] = lambda text: None,  # noqa: ARG005  # says nothing
) -> dict[str, Cell]:
    """A cell for each worker: after warm-ups, `runs` rounds in which each runs once, every second in reverse.

    Each runs as often as the others: a process that waits longer finds less of its memory ready, and is slower.
    An engine whose facts `check` finds wrong is measured no further.
    """
    cells = {name: Cell() for name in workers}
    alive: dict[str, Worker] = {}
    try:
        for name, start in workers.items():
            say(f"  {name} warms up")
            with _verdict(cells[name]):
                alive[name] = start()
                for number in range(warm_ups(name) if warm_ups else 1):
                    measured = alive[name].run_with_memory(job)
                    if number == 0:
                        cells[name].first_seconds, cells[name].facts, cells[name].peak_bytes = measured
                wrong = check(name, cells[name].facts) if check else None
                if wrong:
                    raise Stopped("wrong", wrong)
        for number in range(runs):
            say(f"  round {number + 1} of {runs}")
            for name, worker in list(alive.items())[:: -1 if number % 2 else 1]:
                if cells[name].verdict is None:
                    with _verdict(cells[name]):
                        _one_run(cells[name], worker, job, partial(check, name) if check else None)
    finally:
        for worker in alive.values():
            worker.stop()
    return cells


def _one_run(cell: Cell, worker: Worker, job: Any, check: Callable[[dict[str, Any]], str | None] | None) -> None:
    took, facts = worker.run(job)
    cell.seconds.append(took)
    cell.cpu += [facts["cpu"]] if "cpu" in facts else []
    wrong = check(facts) if check else None
    if wrong:
        raise Stopped("wrong", wrong)


@contextmanager
def _verdict(cell: Cell) -> Iterator[None]:
    """Writes a `Stopped` into the cell and goes on."""
    try:
        yield
    except Stopped as e:
        cell.verdict, cell.why = str(e), e.why


def _serve(pipe: Connection, target: str, arguments: tuple[Any, ...]) -> None:
    """The process: open the engine, then run whatever job comes until the pipe closes."""
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        module, name = target.split(":")
        run = getattr(importlib.import_module(module), name)(*arguments)
        pipe.send({"ready": True})
    except BaseException as e:  # noqa: BLE001  # whatever a peer raises is its answer
        pipe.send({"error": _told(e)})
        return
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            begin, used = time.perf_counter(), processor_seconds()
            result = run(job)
            seconds, used = time.perf_counter() - begin, processor_seconds() - used
            facts = {"cpu": used, **facts_of(result)}
            if "seconds" in facts:  # part of the work is not what is asked for
                seconds = facts["seconds"]
            del result
            pipe.send({"seconds": seconds, "facts": facts})
        except BaseException as e:  # noqa: BLE001  # as above; polars panics are not Exceptions
            pipe.send({"error": _told(e)})


def facts_of(result: Any) -> dict[str, Any]:
    """What is compared: rows and sums of the columns of an Arrow table; other results say it themselves."""
    if isinstance(result, dict):
        return result
    import pyarrow as pa  # noqa: PLC0415  # after the engine, whose imports are its baseline

    rows = result if isinstance(result, pa.Table) else result.to_arrow()
    sums = {f"sum_{f.name}": _sum(rows[f.name]) for f in rows.schema}
    return {"rows": len(rows), **sums}


def _sum(column: Any) -> Any:
    """The sum of numbers; of others how many are not NULL."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return pc.sum(column).as_py() if any(test(column.type) for test in tests) else len(column) - column.null_count


def processor_seconds() -> float:
    """User and system time of this process, and of those below it as the kernel counts them."""
    ticks = 0
    for pid in tree_of(os.getpid())[1:]:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + (ticks / os.sysconf("SC_CLK_TCK") if ticks else 0)


def _told(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:240]}"


def tree_of(pid: int | None) -> list[int]:
    """A process and all below it; empty where there is no /proc."""
    found, todo = [], [pid] if pid else []
    while todo:
        here = todo.pop()
        for children in Path(f"/proc/{here}/task").glob("*/children"):
            with suppress(OSError):  # a thread that has ended meanwhile
                todo += [int(text) for text in children.read_text(encoding="ascii").split()]
        found.append(here)
    return [p for p in found if Path(f"/proc/{p}/status").exists()]


def memory_of(pids: Iterable[int], name: str) -> int | None:
    """The sum of a field of /proc/<pid>/status, in bytes, over processes; None without any."""
    total = 0
    pids = list(pids)
    for one in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{one}/status").read_text(encoding="utf-8").splitlines():
                if line.startswith(f"{name}:"):
                    total += int(line.split()[1]) * 1024
    return total if pids else None
