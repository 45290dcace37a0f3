"""Spark reads each table of the suite as the oracle does, but for the rules that Iceberg Java is known to break.

Through deletekit's data source it breaks none.
"""

import json

import pytest

from conformance.engines import rows_of
from conformance.run import Answer, Case, judge, load_suite
from tests.optional_types import SparkSession

# What Spark 4.1 with Iceberg 1.12.0 gives instead: the rows of the decoy of this rule, or no rows.
BREAKS = {
    "bounds_of_another_path": "path-bounds-that-lie",
    "data_newer_than_its_manifest": "sequence-in-range",
    "delete_below_zero_v2": "sequence-in-range",
    "delete_below_zero_v3": "sequence-in-range",
    "equality_dropped_and_readded_key_v3": "refuses",  # multiple fields for name k
    "equality_nan_outside_bounds": "nan-outside-bounds",
    "equality_nested_key_not_projected": "nested-key-not-projected",
    "equality_nested_null_key": "null-struct-leaf",
    "equality_timestamp_ns_key": "refuses",  # Spark has no type for it
    "key_dropped_and_added_again": "refuses",
    "nan_beside_other_bounds": "nan-outside-bounds",
    "nanoseconds": "refuses",
    "null_key_in_a_struct": "null-struct-leaf",
}

NO_TYPE = ("equality_timestamp_ns_key", "nanoseconds")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", load_suite(), ids=lambda case: case.name)
def test_spark_reads_each_table_right_but_for_known_bugs(spark: SparkSession, case: Case) -> None:
    assert judged(spark, case) == BREAKS.get(case.name, "right")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", load_suite(), ids=lambda case: case.name)
def test_the_data_source_reads_each_table_right(spark: SparkSession, case: Case) -> None:
    metadata = str(case.folder / case.metadata)
    for ref in case.refs:
        names = json.dumps([column["name"] for column in case.expected(ref)["columns"]])
        reader = spark.read.format("deletekit").options(ref=ref, columns=names)
        if case.name in NO_TYPE or case.is_damaged:
            with pytest.raises(Exception, match=r"Spark has no type for this column|FormatError"):
                reader.load(metadata).toArrow()
        else:
            answer = Answer("rows", rows_of(reader.load(metadata).toArrow()))
            assert judge(case, ref, answer, "spark").verdict == "right"


def judged(spark: SparkSession, case: Case) -> str:
    """`right`, `refuses`, or the rule that Spark breaks."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  # needs pyspark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    metadata = case.folder / case.metadata
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.suite")
    spark.sql(f"CALL local.system.register_table(table => 'suite.{case.name}', metadata_file => '{metadata}')")
    for ref in case.refs:
        names = ", ".join(f"`{column['name']}`" for column in case.expected(ref)["columns"])
        try:
            rows = rows_of(spark.sql(f"SELECT {names} FROM local.suite.{case.name} VERSION AS OF '{ref}'").toArrow())
            verdict = judge(case, ref, Answer("rows", rows), "spark")
        except (Py4JError, PySparkException) as e:
            verdict = judge(case, ref, Answer("refuses", words=str(e)), "spark")
        if verdict.verdict != "right":
            return verdict.breaks or verdict.verdict
    return "right"
