"""Kill a sink's process again and again, and let a reader look after each kill: `python -m tests.stream.kill_loop`.

A sink applies random batches. Its process ends by SIGKILL at a random moment, at a random call to storage or catalog,
or, on Spark, its driver does. A reader of another process then compares the table with a dict: it holds
whole batches only, none that was acknowledged is missing, and none is there twice. Another process goes on.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import deletekit as dk
from tests.commit.faults import WHEN, Faults, faulty
from tests.stream.replay import PEOPLE, Row, check, random_batches, replay
from tests.tables import new_catalog

ROOT = Path(__file__).parents[2]
NAME, SINK = "test.t", "killed"
MODES = ("auto", "index-only", "eq-only")
ENGINES = ("local", "driver")
BATCHES, ROWS, KEYS = 12, 30, 25
LONGEST = 0.6
"""Seconds that a local process lives at most when it is killed at a random moment."""
PATIENCE = 300


@dataclass(frozen=True)
class Job:
    """One life of the sink's process: it applies batches from the first that the table lacks, until it ends.

    Attributes
    ----------
    seconds: it is killed after so many; 0: not by the clock.
    at, when: the call to storage or catalog at which it ends, and how much of that call is done; 0: at none.
    """

    folder: str
    mode: str
    seed: int
    seconds: float = 0
    at: int = 0
    when: str = "before"


class Kills(Faults):
    """Ends the process by SIGKILL at the chosen call."""

    def call(self, name: str, whole: Any, half: Any = None) -> Any:
        self.names.append(name)
        if len(self.names) != self.at:
            return whole()
        if self.when == "after":
            whole()
        elif self.when == "half" and half is not None:
            half()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("dead")


def batches_of(seed: int) -> list[list[Row]]:
    return list(random_batches(2 * seed, BATCHES, ROWS, KEYS))


def live(job: Job) -> None:
    """Be the sink: apply what the table lacks, and note each batch that `write` said is in."""
    batches = batches_of(job.seed)
    with new_catalog(Path(job.folder) / "wh") as catalog, faulty(Kills(job.at, job.when), catalog):
        table = dk.load_table(catalog, NAME)
        with dk.stream.sink(table, SINK, on=["id"], mode=job.mode) as sink:  # type: ignore[arg-type]
            last = sink.last_batch()
            # The source does not know whether the newest batch was told to be in, and sends it again.
            for number in range(0 if last is None else last[1], BATCHES):
                sink.write(batches[number], number)
                note(job.folder, number)


def note(folder: str, number: int) -> None:
    with (Path(folder) / "acknowledged").open("ab", buffering=0) as file:
        file.write(b"%d\n" % number)


class Trial:
    """One table, killed until it has every batch; then another one follows."""

    def __init__(self, folder: Path, mode: str, version: int, seed: int) -> None:
        self.folder, self.mode, self.seed = folder, mode, seed
        self.seen, self.batches = -1, batches_of(seed)
        folder.mkdir(parents=True)
        with new_catalog(folder / "wh") as catalog:
            dk.create_table(catalog, NAME, PEOPLE, format_version=version)

    @property
    def is_done(self) -> bool:
        return self.seen == BATCHES - 1

    @property
    def acknowledged(self) -> int:
        file = self.folder / "acknowledged"
        lines = file.read_text().split() if file.exists() else []
        return max(map(int, lines), default=-1)

    def look(self) -> int:
        """Be the reader after a kill. Return how many batches are in."""
        with new_catalog(self.folder / "wh") as catalog:
            table = dk.load_table(catalog, NAME)
            found = [int(s.summary["deletekit.batch-id"]) for s in ordered(table) if "deletekit.batch-id" in s.summary]
            assert found == list(range(len(found))), f"each batch once and in order: {found}"
            newest = len(found) - 1
            assert newest >= max(self.acknowledged, self.seen), f"batch {self.acknowledged} was in, and is lost"
            check(table, replay(self.batches[: newest + 1]))
            self.seen = newest
        return newest + 1


def ordered(table: dk.Table) -> list[Any]:
    return sorted(table.metadata.snapshots.values(), key=lambda s: s.sequence_number)


# --- who kills --------------------------------------------------------------------------------------------------------


@contextmanager
def forking() -> Iterator[subprocess.Popen[str]]:
    """Start the process whose children are killed: it only imports, for a fork wants that nothing has run."""
    command = [sys.executable, "-m", "tests.stream.kill_loop", "--serve"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)


def ask(process: subprocess.Popen[str], job: Job) -> bool:
    """Let a child live a job. Return whether it was killed, and did not come to its end first."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(asdict(job)) + "\n")
    process.stdin.flush()
    code = int(process.stdout.readline())
    assert code in (0, -signal.SIGKILL), f"the sink itself ended with {code}: {job}"
    return code != 0


def serve() -> None:
    for line in sys.stdin:
        job = Job(**json.loads(line))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                live(job)
                code = 0
            finally:
                os._exit(code)
        if job.seconds:
            time.sleep(job.seconds)
            os.kill(child, signal.SIGKILL)  # a child that has ended is there until it is waited for
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def local_job(trial: Trial, chance: random.Random, calls: int) -> Job:
    job = {"folder": str(trial.folder), "mode": trial.mode, "seed": trial.seed}
    if chance.random() < 0.5:
        return Job(**job, seconds=chance.uniform(0.02, LONGEST))  # type: ignore[arg-type]
    when = chance.choice([w for ways in WHEN.values() for w in ways])
    return Job(**job, at=chance.randint(1, calls), when=when)  # type: ignore[arg-type]


def loop(
    kills: int, *, mode: str = "auto", version: int = 3, engine: str = "local", seed: int = 0, folder: Path
) -> Counter[str]:
    """Kill so often. Return counts of kills, batches, tables and looks; raises AssertionError for what is wrong."""
    from tests.stream import kill_spark  # noqa: PLC0415  # only where Spark is

    counts: Counter[str] = Counter()
    chance = random.Random(f"{seed} {mode} {version} {engine}")
    with forking() as process:
        while counts["kills"] < kills:
            trial = Trial(folder / f"table{counts['tables']}", mode, version, seed * 1000 + counts["tables"])
            counts["tables"] += 1
            while not trial.is_done and counts["kills"] < kills:
                before = trial.seen
                local = engine == "local"
                killed = ask(process, local_job(trial, chance, 120)) if local else kill_spark.ask(trial, chance)
                counts["kills"] += killed
                counts["looks"] += 1
                counts["batches"] += trial.look() - 1 - before
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stream.kill_loop", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of each mode and version (200)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["auto"])
    parser.add_argument("--versions", nargs="+", type=int, choices=(2, 3), default=[3])
    parser.add_argument("--engine", choices=ENGINES, default="local", help="whose process is killed (local)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve()
        return 0
    for mode in options.modes:
        for version in options.versions:
            with tempfile.TemporaryDirectory() as folder:
                counts = loop(
                    options.kills, mode=mode, version=version, engine=options.engine, seed=options.seed,
                    folder=Path(folder),
                )  # fmt: skip
            print(line(options.engine, mode, version, options.seed, counts), flush=True)
    return 0


def line(engine: str, mode: str, version: int, seed: int, counts: Counter[str]) -> str:
    what = ", ".join(f"{name} {counts[name]}" for name in ("kills", "batches", "tables", "looks"))
    return f"{engine}, {mode}, v{version}, seed {seed}: {what}; none lost, none twice, none by half"


if __name__ == "__main__":
    for each in dk.__all__:
        getattr(dk, each)
    for each in ("polars", "pyarrow.parquet", "sqlalchemy.dialects.sqlite"):
        import_module(each)
    sys.exit(main())
