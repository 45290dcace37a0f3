"""Delta tables that Spark with Delta Lake 4.4 writes: the histories that a sync has to follow.

Each is a list of SQL statements on a table `{t}`; what its rows are at each version, Spark's time travel says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["HISTORIES", "NEEDS", "DeltaTable", "build", "latest_version", "rows_at"]

_DV = "'delta.enableDeletionVectors'='true'"
_MAPPED = f"{_DV}, 'delta.columnMapping.mode'='name'"

HISTORIES: Mapping[str, Sequence[str]] = {
    # Everything that DML and maintenance do to vectors: made, replaced, cleared, shrunk, of files that are gone.
    "dml": (
        f"CREATE TABLE {{t}} (id BIGINT, p INT, v STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({_DV})",
        "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, CAST(id % 2 AS INT), concat('v', id) FROM range(200)",
        "DELETE FROM {t} WHERE id < 10",
        "DELETE FROM {t} WHERE id BETWEEN 20 AND 29 AND p = 1",
        "UPDATE {t} SET v = 'updated' WHERE id IN (50, 51, 52)",
        (
            "MERGE INTO {t} t USING (SELECT id, CAST(id % 3 AS INT) p FROM range(190, 210)) s ON t.id = s.id "
            "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged' "
            "WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, s.p, NULL)"
        ),
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "DELETE FROM {t} WHERE p = 1 AND id > 150",
        "REORG TABLE {t} APPLY (PURGE)",
        "RESTORE TABLE {t} TO VERSION AS OF 5",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id = 100",
        "DELETE FROM {t} WHERE p = 0",
        "ALTER TABLE {t} SET TBLPROPERTIES ('some.thing'='else')",
        "INSERT OVERWRITE {t} VALUES (1, NULL, 'x'), (2, 3, 'y')",
        "DELETE FROM {t} WHERE id = 1",
    ),
    # Physical names, field ids in the files, values that paths must escape, and columns that come and go.
    "mapped": (
        (
            "CREATE TABLE {t} (id BIGINT, `a b` STRING, s STRUCT<x: INT, y: STRING>, p STRING) USING delta "
            f"PARTITIONED BY (p) TBLPROPERTIES ({_MAPPED})"
        ),
        (
            "INSERT INTO {t} SELECT id, concat('ä', id), named_struct('x', CAST(id AS INT), 'y', 'q'), "
            "element_at(array('a b/c%=é', '#?&+', NULL, ''), CAST(id % 4 AS INT) + 1) FROM range(80)"
        ),
        "DELETE FROM {t} WHERE id % 7 = 0",
        "ALTER TABLE {t} RENAME COLUMN `a b` TO `c.d`",
        "ALTER TABLE {t} ADD COLUMN (`a b` DOUBLE)",
        "INSERT INTO {t} VALUES (1000, 'new', named_struct('x', 1, 'y', NULL), 'a b/c%=é', 0.5)",
        "ALTER TABLE {t} DROP COLUMN s",
        "DELETE FROM {t} WHERE id % 7 = 1",
    ),
    # Column mapping switched on for a table whose files have no ids.
    "upgraded": (
        f"CREATE TABLE {{t}} (id BIGINT, v STRING) USING delta TBLPROPERTIES ({_DV})",
        "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, concat('v', id) FROM range(50)",
        "DELETE FROM {t} WHERE id < 5",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')",
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        "INSERT INTO {t} VALUES (100, 'new')",
        "DELETE FROM {t} WHERE id IN (10, 100)",
    ),
    # Paths with characters to escape, without column mapping to hide them; dates and timestamps to partition by.
    "places": (
        (
            "CREATE TABLE {t} (id BIGINT, d DATE, ts TIMESTAMP, pq STRING, n DECIMAL(9,2), b BOOLEAN) USING delta "
            f"PARTITIONED BY (d, ts, pq, n, b) TBLPROPERTIES ({_DV})"
        ),
        (
            "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, DATE'2024-02-29', TIMESTAMP'2024-02-29 12:34:56.789012', "
            "'a b/c%=é', CAST(12.50 AS DECIMAL(9,2)), true FROM range(10)"
        ),
        (
            "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59.999999', "
            "NULL, CAST(-0.01 AS DECIMAL(9,2)), NULL FROM range(10, 20)"
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
        "DELETE FROM {t} WHERE i64 = 30000000000",
        "INSERT INTO {t} (i64) VALUES (1)",
    ),
    # Checkpoints: V2 with sidecars, statistics parsed and not as JSON, and a log of which the beginning is gone.
    "checkpoints": (
        (
            f"CREATE TABLE {{t}} (id BIGINT, v STRING) USING delta TBLPROPERTIES ({_DV}, "
            "'delta.checkpointPolicy'='v2', "
            "'delta.checkpointInterval'='3', 'delta.checkpoint.writeStatsAsJson'='false', "
            "'delta.checkpoint.writeStatsAsStruct'='true')"
        ),
        *(f"INSERT INTO {{t}} SELECT id, concat('v', id) FROM range({i * 10}, {i * 10 + 10})" for i in range(3)),
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
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking'='true')",
        "UPDATE {t} SET v = 'u' WHERE id = 5",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening'='true')",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "INSERT INTO {t} VALUES (10000000000, 'wide')",
        "DELETE FROM {t} WHERE id > 38",
    ),
    # Data files that lie elsewhere, by absolute path, and vectors that do so too.
    "clone": (
        "CREATE TABLE {t} SHALLOW CLONE {dml} VERSION AS OF 5",
        "DELETE FROM {t} WHERE id = 60",
    ),
    # Another table in the same log, by CREATE OR REPLACE: the same columns, others, other partitions; and the old one.
    "replaced": (
        f"CREATE TABLE {{t}} (id BIGINT, v STRING) USING delta TBLPROPERTIES ({_DV})",
        "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, concat('v', id) FROM range(30)",
        "DELETE FROM {t} WHERE id < 3",
        f"CREATE OR REPLACE TABLE {{t}} USING delta TBLPROPERTIES ({_DV}) AS SELECT id, 'new' v FROM range(5)",
        "DELETE FROM {t} WHERE id = 2",
        (
            f"CREATE OR REPLACE TABLE {{t}} USING delta PARTITIONED BY (p) TBLPROPERTIES ({_DV}) "
            "AS SELECT id, CAST(id % 2 AS INT) p FROM range(6)"
        ),
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "INSERT INTO {t} VALUES (100, 'x')",
    ),
    # '' is NULL in the log, and stays in the file.
    "emptied": (
        "CREATE TABLE {t} (id BIGINT, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, ''), (2, NULL), (3, 'x')",
        "UPDATE {t} SET p = p WHERE id = 1",
    ),
    "dropped": (
        f"CREATE TABLE {{t}} (id BIGINT) USING delta TBLPROPERTIES ({_DV})",
        "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id FROM range(30)",
        "DELETE FROM {t} WHERE id < 3",
        "ALTER TABLE {t} DROP FEATURE deletionVectors",
        "DELETE FROM {t} WHERE id = 20",
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
