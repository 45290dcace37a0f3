"""Spark reads each table of the suite as the oracle does, but for the rules that Iceberg Java is known to break.

Through deletekit's data source it breaks none.
"""

import json
from pathlib import Path

import pytest

from conformance.suite import Case, load_suite, relocate
from deletekit.conformance.rows import rows_of, same
from tests.conformance.build import SUITE
from tests.optional_types import SparkSession

# What Spark 4.1 with Iceberg 1.12.0 gives instead: the rows of the decoy of this rule, or no rows.
BREAKS = {
    "equality_dropped_and_readded_key_v3": "crashes",  # multiple fields for name k
    "equality_nan_outside_bounds": "nan-outside-bounds",
    "equality_nested_key_not_projected": "nested-key-not-projected",
    "equality_nested_null_key": "null-struct-leaf",
    "equality_timestamp_ns_key": "crashes",  # Spark has no type for it
    "key_dropped_and_added_again": "crashes",
    "nan_beside_other_bounds": "nan-outside-bounds",
    "nanoseconds": "crashes",
    "null_key_in_a_struct": "null-struct-leaf",
}

NO_TYPE = ("equality_timestamp_ns_key", "nanoseconds")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", load_suite(SUITE), ids=lambda case: case.name)
def test_spark_reads_each_table_right_but_for_known_bugs(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    assert judged(spark, case, tmp_path) == BREAKS.get(case.name, "right")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", load_suite(SUITE), ids=lambda case: case.name)
def test_the_data_source_reads_each_table_right(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    metadata = str(relocate(case, tmp_path / case.name))
    for ref in case.refs:
        names = json.dumps([column["name"] for column in case.columns(ref)])
        reader = spark.read.format("deletekit").options(ref=ref, columns=names)
        if case.name in NO_TYPE:
            with pytest.raises(Exception, match="Spark has no type for this column"):
                reader.load(metadata)
        else:
            assert same(rows_of(reader.load(metadata).toArrow()), case.expected(ref))


def judged(spark: SparkSession, case: Case, folder: Path) -> str:
    """`right`, the rule whose decoy Spark's rows are, `wrong` or `crashes`."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  # needs pyspark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    metadata = relocate(case, folder / case.name)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.suite")
    spark.sql(f"CALL local.system.register_table(table => 'suite.{case.name}', metadata_file => '{metadata}')")
    for ref in case.refs:
        names = ", ".join(f"`{column['name']}`" for column in case.columns(ref))
        try:
            rows = rows_of(spark.sql(f"SELECT {names} FROM local.suite.{case.name} VERSION AS OF '{ref}'").toArrow())
        except (Py4JError, PySparkException):
            return "crashes"
        if not same(rows, case.expected(ref)):
            decoys = [d.breaks for d in case.decoys if d.ref == ref and same(rows, case.decoy_rows(d))]
            return (decoys or [f"wrong: {rows}"])[0]
    return "right"
