"""Spark with Iceberg reads every state that random commands bring a table to: all branches, and some of the past."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

import deletekit as dk
from tests.optional_types import SparkSession
from tests.stateful.test_table_model import MINUTES, TableMachine
from tests.tables import Row, make, order

EXAMPLES = 4 * MINUTES or 2


@pytest.mark.slow
@pytest.mark.timeout(900 + 180 * MINUTES)
def test_spark_reads_every_state(spark: SparkSession) -> None:
    catalog = dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.test")
    reads = 0

    class Machine(TableMachine):
        def _make(self, **options: Any) -> dk.Table:
            return make(catalog, **options)

        @invariant()
        def spark_reads_the_rows(self) -> None:
            nonlocal reads
            spark.sql(f"REFRESH TABLE {name_of(self.table)}")
            for ref, branch in self.branches.items():
                if self.table.refresh().metadata.refs.get(ref):
                    assert spark_rows(f"VERSION AS OF '{ref}'", self.table) == sorted(branch.rows, key=order), ref
                    reads += 1
            for snapshot_id in list(self.history)[-3:-1]:
                assert spark_rows(f"VERSION AS OF {snapshot_id}", self.table) == self.history[snapshot_id]
                reads += 1

    def name_of(table: dk.Table) -> str:
        return "local." + ".".join(table.identifier)

    def spark_rows(version: str, table: dk.Table) -> list[Row]:
        found = spark.sql(f"SELECT * FROM {name_of(table)} {version}").toArrow().to_pylist()
        return sorted(found, key=order)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            derandomize=not MINUTES,
            database=None,
            phases=[Phase.generate],  # a failure is not made smaller: that takes Spark minutes
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert reads > 20 * EXAMPLES
    print(f"\nstates read by Spark: {reads}")
