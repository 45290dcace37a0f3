"""Processes die in an atomic fan-out, in its maintenance and in maintenance beside it: all tables have one batch."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.commit.crashing import Case, run
from tests.commit.faults import KILLED, WHEN, Faults, parent_of_killed
from tests.invariants import check_table
from tests.stream.fanning import BATCHES, NAMES, deed, make_all
from tests.stream.replay import check, replay
from tests.tables import new_catalog


def newest(table: dk.Table) -> int:
    """Return the newest batch of the sink; -1 if there is none."""
    return max((s.batch_id for s in dk.stream.sinks(table) if s.batch_id is not None), default=-1)


def check_all(catalog: dk.Catalog) -> int:
    """Hold that all tables have the same batches, each once. Return the number of the newest."""
    tables = [dk.load_table(catalog, name) for name in NAMES]
    numbers = {newest(table) for table in tables}
    assert len(numbers) == 1, numbers
    (number,) = numbers
    for table in tables:
        batches = [[r for r in batch if r["_table"] == table.name] for batch in BATCHES[: number + 1]]
        rows = [[{n: v for n, v in r.items() if n != "_table"} for r in batch] for batch in batches]
        check(table, replay(rows))
        check_table(table, orphans=False)
    return number


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_all_tables_have_the_same_batches_whoever_dies(tmp_path: Path, seed: int) -> None:
    draw, home, counts = random.Random(seed), tmp_path / "warehouse", Counter[str]()
    with new_catalog(home) as catalog:
        make_all(catalog)
    calls: dict[str, list[str]] = {}
    with parent_of_killed("tests.stream.fanning") as process:

        def dies(name: str, number: int) -> None:
            at = draw.randrange(1, len(calls[name]) + 1)
            when = draw.choice(WHEN.get(calls[name][at - 1], ("before",)))
            code = process.run(home, name, number, at, when)
            assert code in (0, KILLED)
            counts[f"{name} {'killed' if code == KILLED else 'ended'}"] += 1

        done = -1
        while done < len(BATCHES) - 1:
            for name in draw.choices(["fan", "maintain"], k=draw.randrange(3)) if calls else ():
                dies(name, done + 1 if name == "fan" else draw.randrange(3))
                with new_catalog(home) as catalog:
                    at_most = min(done + 1, len(BATCHES) - 1)
                    assert done <= check_all(catalog) <= at_most
            for name, number in (("fan", done + 1), ("maintain", draw.randrange(3))):
                if name == "fan" or draw.random() < 0.3 or name not in calls:
                    faults = Faults()
                    run(home, Case(lambda t, n=name, i=number: statuses(deed(n, i)(t))), faults)  # type: ignore[misc]
                    calls[name] = max(calls.get(name, []), faults.names, key=len)
            done += 1
            with new_catalog(home) as catalog:
                assert check_all(catalog) == done
    assert counts["fan killed"] > 8, counts
    assert counts["maintain killed"] > 8, counts
    print(f"\nseed {seed}: {dict(counts)}")


def statuses(done: Any) -> None:
    """Hold that the parts of a batch are all written now, or all in their tables already."""
    if isinstance(done, dict):
        assert len({p.status for p in done.values()}) == 1, done
