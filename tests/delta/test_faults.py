"""A fault, or the end of the process, at every call that a sync makes: the table is as before or as after, and the next
sync ends where it should.
"""

import shutil
from pathlib import Path

import pytest

import deletekit as dk
from tests.commit.faults import KILLED, WHEN, FaultError, Faults, kills, parent_of_killed
from tests.delta.handmade import HandMade, remove, with_vector
from tests.delta.killing import NAME, run
from tests.delta.reading import check_synced, without_state
from tests.invariants import reachable
from tests.tables import files_of, new_catalog

AFTER = [*range(2, 10), *range(20, 28)]
pytestmark = pytest.mark.slow
SCENES = pytest.mark.parametrize(
    ("format_version", "known"),
    [(3, True), (2, False), *(pytest.param(*case, marks=pytest.mark.long) for case in ((2, True), (3, False)))],
)
"""Both versions, and a table that is known or new; the other pairs before a release."""


class Scene:
    """A Delta table one version ahead of the warehouse, which can be put back."""

    def __init__(self, folder: Path, format_version: int, known: bool) -> None:
        self.version = format_version
        delta = HandMade(folder / "delta")
        one, two = delta.data(range(10)), delta.data(range(20, 30))
        first = with_vector(one, delta.vector([0]))
        delta.commit(first)
        self.path, self.home, self.kept = delta.path, folder / "warehouse", folder / "kept"
        self.before = list(range(1, 10)) if known else None
        if known:
            run(self.home, self.path, format_version, Faults())
        else:
            with new_catalog(self.home):
                pass
        delta.commit(with_vector(one, delta.vector([0, 1])), remove(first), with_vector(two, delta.vector([8, 9])))
        shutil.copytree(self.home, self.kept)
        dry = Faults()
        run(self.home, self.path, format_version, dry)
        self.calls = dry.names
        self.reset()

    def reset(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.kept, self.home)

    def faults(self) -> list[tuple[int, str]]:
        """Each call with what may become of it; of calls in a row that only read, the first."""
        pairs = zip(["", *self.calls], self.calls, strict=False)
        return [
            (at, when)
            for at, (last, name) in enumerate(pairs, 1)
            if name in WHEN or name != last
            for when in WHEN.get(name, ("before",))
        ]

    def rows(self) -> list[int] | None:
        with new_catalog(self.home) as catalog:
            try:
                table = dk.load_table(catalog, NAME)
            except dk.NotFoundError:
                return None
            return sorted(dk.scan(table).to_arrow()["id"].to_pylist())

    def check_next_sync(self) -> None:
        with new_catalog(self.home) as catalog:
            table = dk.sync_delta(self.path, catalog, NAME, format_version=self.version).table
            assert sorted(dk.scan(table).to_arrow()["id"].to_pylist()) == AFTER
            dk.clean_up_delta(table, orphan_hours=-1)
            assert without_state(files_of(table)) <= reachable(table), "nothing stays of what was killed"
            assert dk.verify(table).ok


@SCENES
def test_an_error_at_every_call(tmp_path: Path, format_version: int, known: bool) -> None:
    scene = Scene(tmp_path, format_version, known)
    assert {"write", "read", "open", "commit"} <= set(scene.calls)
    broke = 0
    for at, when in scene.faults():
        try:
            run(scene.home, scene.path, format_version, Faults(at, when))
        except (FaultError, dk.DeletekitError):
            broke += 1
            found = scene.rows()
            assert found in (scene.before, AFTER), (scene.calls[at - 1], at, when)
            if found == AFTER:
                with new_catalog(scene.home) as catalog:
                    check_synced(dk.load_table(catalog, NAME))
        scene.check_next_sync()
        scene.reset()
    assert broke > 10


@SCENES
def test_the_process_ends_at_every_change(tmp_path: Path, format_version: int, known: bool) -> None:
    scene = Scene(tmp_path, format_version, known)
    with parent_of_killed("tests.delta.killing") as killer:
        for at, call, when in kills(scene.calls):
            if call not in WHEN:
                continue  # it leaves what the end at the next change leaves
            code = killer.run(scene.home, scene.path, format_version, at, when)
            assert code == KILLED, (scene.calls[at - 1], at, when)
            assert scene.rows() in (scene.before, AFTER)
            scene.check_next_sync()
            scene.reset()
