"""The process ends at the calls that change something, and another one goes on: the rows are those of the dict."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import deletekit as dk
from tests.commit.crashing import CASES, NAME, make_table, run
from tests.commit.faults import KILLED, WHEN, Dying, Faults, kills, parent_of_killed
from tests.invariants import check_table
from tests.stored import snapshots_json
from tests.tables import live, new_catalog


@pytest.fixture(scope="module")
def dying() -> Iterator[Dying]:
    """Give the process whose children die."""
    with parent_of_killed("tests.commit.crashing") as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("stream.") and "race" not in n])
def test_another_process_goes_on(tmp_path: Path, name: str, dying: Dying) -> None:
    case, home, kept = CASES[name], tmp_path / "warehouse", tmp_path / "kept"
    with new_catalog(home) as catalog:
        make_table(catalog, case)
    shutil.copytree(home, kept)
    dry = Faults()
    run(home, case, dry)
    with new_catalog(home) as catalog:
        expected, commits = seen(dk.load_table(catalog, NAME))
    killed = 0
    for at, call, when in kills(dry.names):
        if call not in WHEN:
            continue  # it leaves what the end at the next change leaves
        shutil.rmtree(home)
        shutil.copytree(kept, home)
        assert dying.run(home, name, at, when) == KILLED
        with new_catalog(home) as catalog:
            table = dk.load_table(catalog, NAME)
            # A reset that is told again is told again: it is not a batch.
            again = name == "stream.reset_sink" and (call, when) == ("commit", "after")
            case.verb(table)
            assert seen(table.refresh()) == (expected, commits + again), f"killed at {call}, call {at}, {when}"
            check_table(table, orphans=False)
        killed += 1
    assert killed > 5
    print(f"\n{name}: killed {killed} times")


def seen(table: dk.Table) -> tuple[dict[str, object], int]:
    return {ref: live(table, ref=ref) for ref in table.metadata.refs}, len(snapshots_json(table))
