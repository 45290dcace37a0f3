"""Spark and deletekit act by turns on one table, and both read after each step what a plain model of the rows holds.

`DELETEKIT_TURNS=<steps>` and `DELETEKIT_TURNS_SEEDS=<first>-<last>` make it longer. A step that fails tells seed,
number and everything that was done, so that the same run can be made again; steps depend on their seed alone.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import deletekit as dk
from tests.absent_fields import COUNTS, Left, leave_out
from tests.optional_types import SparkSession
from tests.stateful import turns_of_deletekit, turns_of_spark
from tests.stateful.turns_machine import FAR, Machine
from tests.stateful.turns_of_deletekit import OUR_ACTIONS
from tests.stateful.turns_of_spark import SPARK_ACTIONS

STEPS = int(os.environ.get("DELETEKIT_TURNS", "10"))
FIRST, LAST = (int(seed) for seed in os.environ.get("DELETEKIT_TURNS_SEEDS", "2-3").split("-"))
SEEDS = range(FIRST, LAST + 1)
NAMESPACE = "turns"
V1_STEPS = 15
"""After so many steps a table of version 1 is upgraded at the latest."""
IN_V1 = (
    *("insert", "insert_some_columns", "overwrite", "delete", "delete_by_query", "update", "merge", "add_column"),
    *("rename_column", "rewrite_data_files", "append", "merge_some_columns", "upsert", "compact"),
)
FILL = {"Spark": turns_of_spark.insert, "deletekit": turns_of_deletekit.append}


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> dk.Catalog:
    """The embedded catalog that the shared session has as `local`."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS local.{NAMESPACE}")
    return dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))


@pytest.mark.slow
@pytest.mark.timeout(600 + 30 * STEPS)
@pytest.mark.parametrize("seed", SEEDS)
def test_both_read_what_both_wrote(spark: SparkSession, catalog: dk.Catalog, seed: int) -> None:
    machine = Machine(spark, catalog, seed, NAMESPACE)
    counts: Counter[str] = Counter()
    number = 0
    try:
        for number in range(STEPS):
            counts[turn(machine, number)] += 1
        for snapshot_id in list(machine.model.snapshots)[-4:]:
            machine.check_snapshot(snapshot_id)
    except BaseException as error:
        error.add_note("\n".join([f"seed {seed}, step {number}; what was done:", *machine.history]))
        raise
    print(f"\nseed {seed}: {sum(counts.values())} steps: {dict(counts.most_common())}")


def turn(machine: Machine, number: int) -> str:
    """Do one step and check all; give its name."""
    machine.rng = rng = Random(f"{machine.seed}: step {number}")
    whose: dict[str, dict[Callable[[Any], None], int]] = {"Spark": SPARK_ACTIONS, "deletekit": OUR_ACTIONS}
    actor = rng.choice(sorted(whose))
    chosen = whose[actor]
    if machine.version == 1:
        chosen = {action: weight for action, weight in chosen.items() if action.__name__ in IN_V1}
        if rng.random() > 0.9 or number >= V1_STEPS:
            chosen = {leave_version_1: 1}
    if len(machine.model.branches["main"].rows) < 4 and rng.random() < 0.7:
        chosen = {FILL[actor]: 1}
    action = act(machine, chosen, f"--- step {number}: {actor}")
    machine.check(number)
    return f"{actor} {action}"


def leave_version_1(machine: Machine) -> None:
    """Upgrade a table whose lists have no counts, as v1 lets them be, by either engine.

    Iceberg's Java cannot write a list of v2 with an unknown count. So deletekit makes the first commit, and the older
    snapshots go.
    """
    rng, null = machine.rng, machine.rng.random() < 0.5
    version, left = rng.choice([2, 2, 3]), Left(listed=rng.choice([COUNTS, COUNTS[1::2], COUNTS[:3]]))
    machine.note(f"another writer leaves out {left.listed}, {null=}")
    leave_out(machine.table.refresh(), left, null=null)
    if rng.random() < 0.5:
        machine.sql(f"ALTER TABLE {machine.name} SET TBLPROPERTIES ('format-version' = '{version}')")
    else:
        machine.ours(dk.upgrade_format_version, version)
    machine.table.refresh()
    turns_of_deletekit.append(machine)
    machine.ours(dk.expire_snapshots, older_than=FAR, retain_last=1)


def act(machine: Machine, actions: dict[Callable[[Any], None], int], title: str) -> str:
    """Do one of some actions, another one where there is nothing to do; give its name."""
    while True:
        action = machine.rng.choices(list(actions), list(actions.values()))[0]
        machine.note(f"{title}, {action.__name__}")
        done = len(machine.history)
        action(machine)
        if len(machine.history) > done:
            return action.__name__
        machine.history.pop()
