"""A fault at the storage and catalog calls of every verb: the table is as before or as after, whole, and clean.

Each verb runs once to count its calls. Then, on the same table again, it runs with an error at a call (the call not
made, made by half, or made and not answered), and once more in a process that ends there. Of similar calls in a row,
few are chosen (`faults.errors` and `faults.kills`); with `DELETEKIT_KILL_EVERYWHERE`, every call is.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.rows.write_context import WriteContext
from tests.commit.crashing import CASES, LATER, NAME, Case, make_table, run
from tests.commit.faults import KILLED, Dying, FaultError, Faults, errors, kills, parent_of_killed
from tests.invariants import check_table, reachable
from tests.stored import snapshots_json
from tests.tables import files_of, items, live, make, new_catalog

# One verb in the first tier, all others in the second.
FIRST = {"delete, deletion-vector": pytest.mark.first_tier}
EVERY_VERB = pytest.mark.parametrize("name", [pytest.param(name, marks=FIRST.get(name, ())) for name in CASES])
# Errors at every request of these are simulated (tests/world); a process that really ends is not.
SIMULATED = (
    *("append", "delete", "update", "merge", "overwrite", "upsert"),
    *("compact", "erase", "expire", "rewrite", "stream.sink"),
)
pytestmark = pytest.mark.slow
Items = set[tuple[str, tuple[int, int]]]
Record = Callable[[str, object], None]


class Trial:
    """A table that is put back, on disk and in the catalog, to what it was.

    Attributes
    ----------
    known: what may be seen of it: `before`, `after`, and for a verb that loses a race `between`, after the other's.
    """

    def __init__(self, folder: Path, case: Case) -> None:
        self.case, self.home, self.kept = case, folder / "warehouse", folder / "kept"
        with new_catalog(self.home) as catalog:
            table = make_table(catalog, case)
            self.location = table.metadata_location
            self.known = {"before": self.state(table)}
            shutil.copytree(self.home, self.kept)
            self.untouched = tree(self.home)
            if case.race is not None:
                case.race(table)
                self.known["between"] = self.state(table.refresh())
        self.reset()
        dry = Faults()
        run(self.home, case, dry)
        self.calls, self.alone = dry.names, dry.alone
        with new_catalog(self.home) as catalog:
            self.known["after"] = self.state(dk.load_table(catalog, NAME))
        assert (self.known["after"] == self.known["before"]) == case.same or case.several
        self.reset()

    def faults(self) -> Iterator[tuple[int, str, str]]:
        """Where an error is; in a race, from when it is being lost."""
        return errors(self.calls, self.alone)

    def kills(self) -> Iterator[tuple[int, str, str]]:
        """The faults that differ when it is the process that ends."""
        return kills(self.calls, self.alone)

    def reset(self) -> None:
        there = tree(self.home)
        for path in there.keys() - self.untouched.keys():
            (self.home / path).unlink()
        for path, stat in self.untouched.items():
            if there.get(path) != stat:
                shutil.copy2(self.kept / path, self.home / path)

    def look(self, what: str) -> tuple[str, int]:
        """Hold what must be, whatever happened; say which state it is, and how many files had to be cleared away."""
        if self.untouched == tree(self.home):
            return "before", 0
        with new_catalog(self.home) as catalog:
            table = dk.load_table(catalog, NAME)
            if table.metadata_location == self.location and self.files() <= tree(self.home).items():
                # The same metadata file, and each file is what it was: all that can differ is what else lies there.
                orphans = dk.remove_orphan_files(table, older_than=LATER, force=True)
                assert self.case.same or self.files() == files_only(tree(self.home)), what
                assert files_of(table) == reachable(table), what
                return "before", len(orphans.orphan_files)
            seen = self.state(table)
            orphans = dk.remove_orphan_files(table, older_than=LATER, force=True)
            assert files_of(table) == reachable(table), what
            check_table(table)
            report = dk.verify(table)
            assert report.ok, (what, report)
        names = [name for name, known in self.known.items() if known == seen]
        assert names, (what, seen)
        return names[-1], len(orphans.orphan_files)

    def state(self, table: dk.Table) -> Any:
        """What is to be seen of a table: its rows on every branch, its history, its schema and its version."""
        rows = {ref: live(table, ref=ref) for ref in table.metadata.refs}
        if self.case.several:
            return rows
        history = [s["summary"]["operation"] for s in snapshots_json(table)]
        return rows, history, table.schema, table.format_version

    def files(self) -> Items:
        """Those that the table consisted of; what lies about when orphans are looked for does not belong to them."""
        return {(path, stat) for path, stat in files_only(self.untouched) if "orphan" not in path}


def files_only(found: Mapping[str, tuple[int, int]]) -> Items:
    """Without the catalog's own, which may be written without being changed."""
    return {(path, stat) for path, stat in found.items() if not path.startswith("catalog.db")}


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file."""
    stats = {path.relative_to(folder).as_posix(): path.lstat() for path in folder.rglob("*") if path.is_file()}
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if n.startswith(SIMULATED) else ()) for n in CASES]
)
def test_an_error_at_every_call(tmp_path: Path, name: str, record_property: Record) -> None:
    trial = Trial(tmp_path, CASES[name])
    outcomes: Counter[str] = Counter()
    for at, call, when in trial.faults():
        said = "done"
        try:
            run(trial.home, trial.case, Faults(at, when))
        except dk.DeletekitError as e:
            said = type(e).__name__
        what = f"{name}: error at {call}, call {at}, {when}: {said}"
        seen, orphans = trial.look(what)
        if said == "done":
            assert seen == "after" or trial.case.same, what
        elif said != "CommitStateUnknownError" and not trial.case.goes_on:
            assert seen != "after" or trial.case.same or trial.case.several, what
            assert orphans == 0 or trial.case.same, what
        outcomes[f"{said}: {seen}"] += 1
        trial.reset()
    record_property("figure: injected errors", sum(outcomes.values()))
    print(f"\n{name}: {sum(outcomes.values())} errors at {len(trial.calls)} calls: {dict(outcomes)}")


@pytest.fixture(scope="module")
def dying() -> Iterator[Dying]:
    """Give the process whose children die."""
    with parent_of_killed("tests.commit.crashing") as process:
        yield process


@pytest.mark.sampled(6)
@EVERY_VERB
def test_the_end_of_the_process_at_every_call(tmp_path: Path, name: str, dying: Dying, record_property: Record) -> None:
    trial = Trial(tmp_path, CASES[name])
    outcomes: Counter[str] = Counter()
    killed = cleared = 0
    for at, call, when in trial.kills():
        what = f"{name}: killed at {call}, call {at}, {when}"
        assert dying.run(trial.home, name, at, when) == KILLED, what
        seen, orphans = trial.look(what)
        outcomes[seen] += 1
        killed += 1
        cleared += orphans
        trial.reset()
    record_property("figure: processes killed at a call", killed)
    print(f"\n{name}: killed {killed} times at {len(trial.calls)} calls: {dict(outcomes)}, {cleared} orphans")


def test_what_cannot_be_removed_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage that neither writes the manifest nor removes the data file: the caller hears of the first."""
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, items((1, "a", 1.0)))
        write = WriteContext.write

        def no_manifest(context: WriteContext, path: str, data: bytes) -> None:
            if path.endswith(".avro"):
                raise FaultError("no manifest")
            write(context, path, data)

        monkeypatch.setattr(WriteContext, "write", no_manifest)
        monkeypatch.setattr(type(table.io), "delete", lambda *_: 1 / 0)
        with pytest.raises(dk.StorageError, match="no manifest"):
            dk.append(table, items((2, "b", 2.0)))
        monkeypatch.undo()
        left = files_of(table) - reachable(table)
        assert [Path(p).suffix for p in left] == [".parquet"]
        dk.remove_orphan_files(table, older_than=LATER, force=True)
        check_table(table)
