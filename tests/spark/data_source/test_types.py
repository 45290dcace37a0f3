"""Every type of Iceberg that Spark has, alone and in structs, lists and maps, required and optional: read and appended.

Since 4.2 Spark takes only batches of exactly its own types. Older releases take others too, so the test looks itself.
"""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.spark.releases import JARS, RELEASE, arrow_schema_of
from tests.interop.rows import same_rows
from tests.invariants import check_table
from tests.optional_types import DataFrame, SparkSession
from tests.spark.conftest import rows

OLD, NEW = dt.datetime(1900, 1, 1, 12, 0, 0, 7, dt.UTC), dt.datetime(2262, 4, 12, tzinfo=dt.UTC)
KINDS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "boolean": (pa.bool_(), True, False),
    "int": (pa.int32(), -(2**31), 7),
    "long": (pa.int64(), 2**63 - 1, -7),
    "float": (pa.float32(), float("nan"), -0.0),
    "double": (pa.float64(), float("-inf"), 5e-324),
    "decimal": (pa.decimal128(38, 10), Decimal("1e-10"), Decimal(-2)),
    "date": (pa.date32(), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "timestamp": (pa.timestamp("us"), OLD.replace(tzinfo=None), NEW.replace(tzinfo=None)),
    "timestamptz": (pa.timestamp("us", "UTC"), OLD, NEW),
    "string": (pa.string(), "\U0001f600<script>\x00", ""),
    "uuid": (pa.uuid(), UUID(int=1), UUID(int=2**127)),
    "fixed": (pa.binary(3), b"\x00\xff1", b"abc"),
    "binary": (pa.binary(), b"", b"\x00"),
}
# Always NULL, so never required.
UNKNOWN: dict[str, tuple[pa.DataType, Any]] = {
    "unknown": (pa.null(), None),
    "unknown_struct": (pa.struct([("int", pa.int32()), ("nothing", pa.null())]), {"int": 1, "nothing": None}),
    "unknown_list": (pa.list_(pa.null()), [None, None]),
    "unknown_map": (pa.map_(pa.string(), pa.struct([("nothing", pa.null())])), {"k": {"nothing": None}, "": None}),
}
NOT_IN_SPARK = {
    "time": pa.time64("us"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}


def every_type(version: int) -> pa.Schema:
    columns = [pa.field("id", pa.int64(), nullable=False)]
    for name, (kind, *_) in KINDS.items():
        needed, maybe = pa.field("needed", kind, nullable=False), pa.field("maybe", kind)
        both = pa.struct([needed, maybe])
        columns += [
            needed.with_name(name),
            maybe.with_name(f"{name}_or_null"),
            pa.field(f"{name}_struct", both),
            pa.field(f"{name}_needed_struct", both, nullable=False),
            pa.field(f"{name}_list", pa.list_(pa.field("element", kind, nullable=False)), nullable=False),
            pa.field(f"{name}_lists", pa.list_(pa.list_(kind))),
            pa.field(f"{name}_structs", pa.list_(pa.field("element", both, nullable=False))),
            pa.field(f"{name}_map", pa.map_(kind, pa.field("value", both, nullable=False))),
            pa.field(f"{name}_map_or_null", pa.map_(pa.string(), kind)),
        ]
    return pa.schema([*columns, *(pa.field(n, k) for n, (k, _) in UNKNOWN.items() if version == 3)])


def row(number: int, version: int) -> dict[str, Any]:
    """A row with a value wherever there can be one, or with NULL wherever it may be."""
    out: dict[str, Any] = {"id": number}
    for name, (_, *values) in KINDS.items():
        value, other = values[:: 1 if number % 2 else -1]
        full = {"needed": value, "maybe": None if number % 3 == 1 else other}
        out |= {name: value, f"{name}_needed_struct": full, f"{name}_list": [value, other] if number % 3 else []}
        if number % 3:
            out |= {f"{name}_or_null": other, f"{name}_struct": full, f"{name}_lists": [[other, None], None, []]}
            out |= {f"{name}_structs": [full, full], f"{name}_map": {value if value == value else 0.5: full}}
            out |= {f"{name}_map_or_null": {"k": value, "": None}}
    return out | {name: value for name, (_, value) in UNKNOWN.items() if version == 3 and number % 3}


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    keys_of_bytes = ["fixed_map", "binary_map"] if RELEASE == "4.0" else []  # its Python takes them for bytearrays
    return rows(frame.drop(*keys_of_bytes))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_type(spark: SparkSession, catalog: dk.Catalog, name: str, version: int) -> None:
    from deletekit.spark.data_source import DefaultSource  # noqa: PLC0415  # Spark 3.5 has no data sources

    table = dk.create_table(catalog, name, every_type(version), format_version=version)
    dk.append(table, [row(i, version) for i in range(6)])
    dk.append(table, [row(i, version) for i in range(6, 9)])
    dk.delete(table, "id in (2, 6)", mode="merge-on-read" if version > 1 else "copy-on-write")
    wanted = dk.scan(table).to_arrow()

    frame = spark.read.format("deletekit").load(name)
    found = collected(frame)
    if JARS:
        icebergs = spark.table(f"local.{name}")
        assert frame.schema == icebergs.schema
        same_rows(found, collected(icebergs))
    source = DefaultSource({"path": name, "warehouse": spark.conf.get("spark.sql.catalog.local.warehouse") or ""})
    reader: Any = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert all(batch.schema.equals(arrow_schema_of(frame.schema)) for batch in batches)
    read = pa.Table.from_batches(batches)
    read.validate(full=True)
    same_rows(read.to_pylist(), wanted.to_pylist())

    options: Any = {"format_version": version, "partition_by": ["bucket(2, string)"]}
    copy = dk.create_table(catalog, f"{name}_copy", every_type(version), **options)
    turned = frame.select(*reversed(frame.columns)).repartition(3)
    turned.write.format("deletekit").mode("append").save(copy.name)
    same_rows(dk.scan(copy.refresh()).to_arrow().to_pylist(), wanted.to_pylist())
    assert len(copy.metadata.snapshots) == 1
    assert dk.verify(copy).ok
    check_table(copy)
    if JARS:
        same_rows(collected(spark.table(f"local.{copy.name}")), found)


@pytest.mark.parametrize("kind", NOT_IN_SPARK)
def test_a_type_that_spark_lacks_is_refused_by_name(
    spark: SparkSession, catalog: dk.Catalog, name: str, kind: str
) -> None:
    """Before a job starts, wherever the column has it; the other columns can be read."""
    lacking = NOT_IN_SPARK[kind]
    columns = {
        "at": lacking,
        "pair.deep": pa.struct([("int", pa.int32()), ("deep", lacking)]),
        "list.element": pa.list_(lacking),
        "keys.key": pa.map_(lacking, pa.int32()),
        "map.value.element": pa.map_(pa.string(), pa.list_(lacking)),
    }
    schema = pa.schema([("id", pa.int64()), *((path.partition(".")[0], column) for path, column in columns.items())])
    dk.append(dk.create_table(catalog, name, schema, format_version=3), [{"id": 1}])
    reader, stream = spark.read.format("deletekit"), spark.readStream.format("deletekit").option("starting", "full")
    spark.sparkContext.setJobGroup(name, kind)
    for path, column in zip(columns, schema.names[1:], strict=True):
        with pytest.raises(Exception, match=f"Spark has no type for this column; field {path}; found {kind};"):
            reader.option("columns", f"id,{column}").load(name)
    for other in (spark.read.format("deletekit").option("changes-from", "start"), stream):
        with pytest.raises(Exception, match=f"Spark has no type for this column; field at; found {kind};"):
            other.load(name)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(name) == []
    assert [r.id for r in reader.option("columns", "id").load(name).collect()] == [1]
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(name)) == 1
