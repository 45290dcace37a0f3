"""Delta tables that Spark with Delta Lake 4.4 writes: the histories that a sync has to follow.

Each is a list of SQL statements on a table `{t}`; what its rows are at each version, Spark's time travel says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.optional_types import DataFrame, SparkSession

_DV = "'delta.enableDeletionVectors'='true'"

HISTORIES: Mapping[str, Sequence[str]] = {
    # Everything that DML and maintenance do to vectors: made, replaced, cleared, shrunk, of files that are gone.
    "dml": (
        f"CREATE TABLE {{t}} (id BIGINT, p INT, v STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({_DV})",
        "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, CAST(id % 2 AS INT), concat('v', id) FROM range(200)",
        "DELETE FROM {t} WHERE id < 10",
        "DELETE FROM {t} WHERE id BETWEEN 20 AND 29 AND p = 1",
        (
            "MERGE INTO {t} t USING (SELECT id, CAST(id % 3 AS INT) p FROM range(190, 210)) s ON t.id = s.id "
            "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged' "
            "WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, s.p, NULL)"
        ),
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "REORG TABLE {t} APPLY (PURGE)",
        "RESTORE TABLE {t} TO VERSION AS OF 4",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE p = 0 OR id = 101",
        "INSERT OVERWRITE {t} VALUES (1, NULL, 'x'), (2, 3, 'y')",
    ),
    # Column mapping switched on for a table whose files have no ids; columns come and go; physical names and ids.
    "mapped": (
        (
            f"CREATE TABLE {{t}} USING delta PARTITIONED BY (p) TBLPROPERTIES ({_DV}) AS "
            "SELECT /*+ REPARTITION(1) */ id, concat('ä', id) v, named_struct('x', CAST(id AS INT), 'y', 'q') s, "
            "element_at(array('a b/c%=é', '#?&+', NULL, ''), CAST(id % 4 AS INT) + 1) p FROM range(80)"
        ),
        "DELETE FROM {t} WHERE id % 7 = 0",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')",
        "ALTER TABLE {t} RENAME COLUMN v TO `c.d`",
        "ALTER TABLE {t} ADD COLUMN (`a b` DOUBLE)",
        "INSERT INTO {t} SELECT id, 'new', named_struct('x', 1, 'y', NULL), 'a b/c%=é', 0.5 FROM range(100, 103)",
        "ALTER TABLE {t} DROP COLUMN s",
        "DELETE FROM {t} WHERE id % 7 = 2",
    ),
    # Paths with characters to escape, without column mapping to hide them; dates and timestamps to partition by.
    "places": (
        (
            f"CREATE TABLE {{t}} USING delta PARTITIONED BY (d, ts, pq, n, b) TBLPROPERTIES ({_DV}) AS "
            "SELECT /*+ REPARTITION(1) */ id, IF(id < 10, DATE'2024-02-29', DATE'1969-12-31') d, "
            "IF(id < 10, TIMESTAMP'2024-02-29 12:34:56.789012', TIMESTAMP'1969-12-31 23:59:59.999999') ts, "
            "IF(id < 10, 'a b/c%=é', NULL) pq, CAST(IF(id < 10, 12.50, -0.01) AS DECIMAL(9,2)) n, "
            "IF(id < 10, true, NULL) b FROM range(20)"
        ),
        "DELETE FROM {t} WHERE id IN (3, 4, 15)",
    ),
    # Every type, Spark's INT96 timestamps in years that nanoseconds of 64 bits do not reach among them.
    "types": (
        (
            "CREATE TABLE {t} (i8 BYTE, i16 SHORT, i32 INT, i64 BIGINT, f FLOAT, d DOUBLE, n DECIMAL(20,4), s STRING, "
            "y BINARY, b BOOLEAN, dt DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, a ARRAY<INT>, "
            "m MAP<STRING, STRUCT<k: BIGINT>>, st STRUCT<u: STRING, w: ARRAY<STRING>>) USING delta "
            f"TBLPROPERTIES ({_DV})"
        ),
        (
            "INSERT INTO {t} SELECT CAST(id - 3 AS BYTE), CAST(-id AS SHORT), CAST(id AS INT), id * 10000000000, "
            "IF(id = 1, FLOAT('NaN'), CAST(id AS FLOAT)), IF(id = 2, DOUBLE('-Infinity'), id / 3), "
            "CAST(id * 1.0001 - 3 AS DECIMAL(20,4)), concat(repeat('long text ', 5), id), "
            "CAST(CAST(id AS STRING) AS BINARY), "
            "id % 2 = 0, date_add(DATE'1970-01-01', CAST(id - 3 AS INT)), "
            "element_at(array(TIMESTAMP'0001-01-03 00:00:00.000001', TIMESTAMP'1600-06-15 01:02:03.456789', "
            "TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP'2024-02-29 01:02:03.456789', "
            "TIMESTAMP'9999-12-31 23:59:59.999999'), CAST(id % 5 AS INT) + 1), "
            "TIMESTAMP_NTZ'2024-02-29 01:02:03.456789', array(CAST(id AS INT), NULL), map('k', named_struct('k', id)), "
            "named_struct('u', 'x', 'w', array('p', NULL)) FROM range(20)"
        ),
        "INSERT INTO {t} (i64) VALUES (1)",
    ),
    # Checkpoints: V2 with sidecars, statistics parsed and not as JSON, and a log of which the beginning is gone.
    "checkpoints": (
        (
            f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({_DV}, 'delta.checkpointPolicy'='v2', "
            "'delta.checkpointInterval'='3', 'delta.checkpoint.writeStatsAsJson'='false', "
            "'delta.checkpoint.writeStatsAsStruct'='true') AS SELECT id, concat('v', id) v FROM range(30)"
        ),
        "DELETE FROM {t} WHERE id % 5 = 0",
        "DELETE FROM {t} WHERE id % 5 = 1",
        "UPDATE {t} SET v = 'u' WHERE id = 2",
        "DELETE FROM {t} WHERE id = 3",
    ),
    # Commits that add what is there (row tracking backfill), change data files, timestamps in commits, a widened type,
    # and the feature dropped.
    "features": (
        (
            f"CREATE TABLE {{t}} (id INT, v STRING) USING delta TBLPROPERTIES ({_DV}, "
            "'delta.enableChangeDataFeed'='true', "
            "'delta.enableInCommitTimestamps'='true', 'delta.checkpointInterval'='4')"
        ),
        "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ CAST(id AS INT), concat('v', id) FROM range(40)",
        "DELETE FROM {t} WHERE id < 4",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking'='true', 'delta.enableTypeWidening'='true')",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "INSERT INTO {t} VALUES (10000000000, 'wide')",
        "ALTER TABLE {t} DROP FEATURE deletionVectors",
        "DELETE FROM {t} WHERE id > 38",
    ),
    # Data files that lie elsewhere, by absolute path, and vectors that do so too.
    "clone": (
        "CREATE TABLE {t} SHALLOW CLONE {dml} VERSION AS OF 4",
        "DELETE FROM {t} WHERE id = 60",
    ),
    # Another table in the same log, by CREATE OR REPLACE: the same columns, others with partitions; and the old one.
    "replaced": (
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({_DV}) AS SELECT id, concat('v', id) v FROM range(30)",
        "DELETE FROM {t} WHERE id < 3",
        f"CREATE OR REPLACE TABLE {{t}} USING delta TBLPROPERTIES ({_DV}) AS SELECT id, 'new' v FROM range(5)",
        (
            f"CREATE OR REPLACE TABLE {{t}} USING delta PARTITIONED BY (p) TBLPROPERTIES ({_DV}) "
            "AS SELECT id, CAST(id % 2 AS INT) p FROM range(6)"
        ),
        "RESTORE TABLE {t} TO VERSION AS OF 1",
        "INSERT INTO {t} VALUES (100, 'x')",
    ),
}


NEEDS = {"clone": ("dml",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable:
    """A table that Spark made, and its rows at each version that can be read."""

    name: str
    path: Path
    rows: Mapping[int, list[dict[str, Any]]]

    @property
    def latest(self) -> int:
        return max(self.rows)


def build(spark: SparkSession, folder: Path, name: str) -> DeltaTable:
    """Make the table of a history; one that clones another expects that to be there."""
    path = folder / name
    for statement in HISTORIES[name]:
        spark.sql(statement.format(t=f"delta.`{path}`", **{n: f"delta.`{folder / n}`" for n in HISTORIES}))
    rows = {v: rows_at(spark, path, v) for v in range(latest_version(path) + 1)}
    return DeltaTable(name=name, path=path, rows=rows)


def latest_version(path: Path) -> int:
    """The newest version that has a JSON commit."""
    return max(int(p.stem) for p in (path / "_delta_log").glob("*.json") if p.stem.isdigit())


def rows_at(spark: SparkSession, path: Path, version: int) -> list[dict[str, Any]]:
    """The rows of a version, as Delta's own reader has them."""
    return plain_rows(spark.read.format("delta").option("versionAsOf", version).load(str(path)))


def plain_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows of Spark, timestamps as those of UTC without a zone: what Python makes of them goes by the machine's."""
    from pyspark.sql import functions as sf  # noqa: PLC0415  # pyspark is an extra

    columns = [
        sf.col(f"`{name}`").cast("timestamp_ntz") if kind == "timestamp" else sf.col(f"`{name}`")
        for name, kind in frame.dtypes
    ]
    rows = frame.select(*(c.alias(n) for c, n in zip(columns, frame.columns, strict=True))).collect()
    return [row.asDict(recursive=True) for row in rows]
