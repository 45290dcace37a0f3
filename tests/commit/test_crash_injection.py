"""A fault at every storage and catalog call of every verb: the table is as before or as after, whole, and clean.

Each verb runs once to count its calls. Then, for each call, on a copy of the same table, it runs with an error there
(the call not made, made by half, or made and not answered), and for calls of every kind in a process that ends there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import deletekit as dk
from deletekit.deletes.write_context import WriteContext
from tests.commit.crashing import CASES, NAME, PROPERTIES, Verb, run, verbs
from tests.commit.faults import KILLED, WHEN, FaultError, Faults
from tests.invariants import check_table, reachable
from tests.tables import ITEMS, Row, files_of, items, live, make, new_catalog

ROOT = Path(__file__).parents[2]
FIRST = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))
SECOND = items((4, "b", 4.0), (5, "b", 5.0))


class Trial:
    """A table that can be put back, on disk and in the catalog, to what it was."""

    def __init__(self, folder: Path, version: int, verb: Verb) -> None:
        self.home, self.kept = folder / "warehouse", folder / "kept"
        with new_catalog(self.home) as catalog:
            table = dk.create_table(catalog, NAME, ITEMS, format_version=version, properties=PROPERTIES)
            dk.append(table, FIRST)
            dk.append(table, SECOND)
            dk.delete(table, "id = 3", mode="merge-on-read")  # so that a vector has a predecessor
            self.before = live(table)
        shutil.copytree(self.home, self.kept)
        dry = Faults()
        run(self.home, verb, dry)
        self.calls = dry.names
        self.after, _ = self.look("dry")
        assert self.after != self.before

    def reset(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.kept, self.home)

    def look(self, what: str) -> tuple[list[Row], int]:
        """Hold what must be, whatever happened; give the rows, and how many files had to be cleared away."""
        with new_catalog(self.home) as catalog:
            table = dk.load_table(catalog, NAME)
            rows = live(table)
            orphans = dk.remove_orphan_files(table, older_than=int(time.time() * 1000) + 60_000, force=True)
            assert files_of(table) == reachable(table), what
            check_table(table)
            report = dk.verify(table)
            assert report.ok, (what, report)
            return rows, len(orphans.orphan_files)


@pytest.fixture
def dying() -> Iterator[subprocess.Popen[str]]:
    """Give the process whose children die."""
    command = [sys.executable, "-m", "tests.commit.crashing"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("version", "name"), CASES)
def test_an_error_at_every_call(tmp_path: Path, version: int, name: str) -> None:
    verb = verbs(version)[name]
    trial = Trial(tmp_path, version, verb)
    outcomes: Counter[str] = Counter()
    for at, call in enumerate(trial.calls, 1):
        for when in WHEN.get(call, ("before",)):
            trial.reset()
            said = "done"
            try:
                run(trial.home, verb, Faults(at, when))
            except (dk.DeletekitError, FaultError) as e:
                said = type(e).__name__
            what = f"{name} v{version}: {call}, call {at}, {when}: {said}"
            rows, orphans = trial.look(what)
            assert rows in (trial.before, trial.after), what
            if said != "CommitStateUnknownError":
                assert (rows == trial.after) == (said == "done"), what
                assert orphans == 0, what
            outcomes[f"{said}: {'after' if rows == trial.after else 'before'}"] += 1
    print(f"\n{name} v{version}: {sum(outcomes.values())} errors at {len(trial.calls)} calls: {dict(outcomes)}")


@pytest.mark.slow
@pytest.mark.parametrize(("version", "name"), [c for c in CASES if not c[1].startswith("merge")])
def test_the_end_of_the_process_at_calls_of_every_kind(
    tmp_path: Path, version: int, name: str, dying: subprocess.Popen[str]
) -> None:
    """The last call of each kind, and the first that changes something; which is every COMMIT and every swap."""
    trial = Trial(tmp_path, version, verbs(version)[name])
    numbers = {call: [i for i, c in enumerate(trial.calls, 1) if c == call] for call in trial.calls}
    outcomes: Counter[str] = Counter()
    assert dying.stdin is not None
    assert dying.stdout is not None
    for call, found in numbers.items():
        for at in sorted({found[0], found[-1]} if call in WHEN else {found[-1]}):
            for when in WHEN.get(call, ("before",)):
                trial.reset()
                dying.stdin.write(json.dumps([str(trial.home), version, name, at, when]) + "\n")
                dying.stdin.flush()
                what = f"{name} v{version}: killed at {call}, call {at}, {when}"
                assert int(dying.stdout.readline()) == KILLED, what
                rows, orphans = trial.look(what)
                assert rows in (trial.before, trial.after), what
                outcomes["after" if rows == trial.after else "before"] += 1
                outcomes["orphans"] += orphans
    killed = outcomes["after"] + outcomes["before"]
    print(f"\n{name} v{version}: killed {killed} times at {len(numbers)} kinds of calls: {dict(outcomes)}")


def test_what_cannot_be_removed_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage that neither writes the manifest nor removes the data file: the caller hears of the first."""
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, FIRST)
        write = WriteContext.write

        def no_manifest(context: WriteContext, path: str, data: bytes) -> None:
            if path.endswith(".avro"):
                raise FaultError("no manifest")
            write(context, path, data)

        monkeypatch.setattr(WriteContext, "write", no_manifest)
        monkeypatch.setattr(type(table.io), "delete", lambda *_: 1 / 0)
        with pytest.raises(FaultError):
            dk.append(table, SECOND)
        monkeypatch.undo()
        left = files_of(table) - reachable(table)
        assert [Path(p).suffix for p in left] == [".parquet"]
        dk.remove_orphan_files(table, older_than=int(time.time() * 1000) + 60_000, force=True)
        check_table(table)
