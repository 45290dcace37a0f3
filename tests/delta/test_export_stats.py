"""Statistics of exported tables: they hold what the files have, and readers of Delta skip files by them rightly."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.delta.delta_tables import plain_rows
from tests.delta.reading import our_rows
from tests.interop.rows import same_rows
from tests.optional_types import SparkSession

BIG = Decimal("9" * 36 + ".99")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("n", pa.decimal128(38, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("y", pa.binary()),
        ("dt", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tn", pa.timestamp("us")),
        ("st", pa.struct([("x", pa.int32()), ("u", pa.string())])),
        ("l", pa.list_(pa.int32())),
    ]
)
SPECIAL: Mapping[str, list[Any]] = {
    "f": [0.1, float("nan"), float("inf"), -0.0, None],
    "d": [0.1, -float("inf"), -0.0, 1e300, float("nan"), None],
    "n": [BIG, BIG.copy_negate(), Decimal("0.01"), None],
    "s": ["a" * 40, "\U0010ffff" * 20, "", "a\0b", 'q"\\', "é" * 33, None],
    "dt": [date(1, 1, 1), date(9999, 12, 31), None],
    "ts": [datetime(*day, 23, 59, 59, 999999, tzinfo=UTC) for day in ((1969, 12, 31), (9999, 12, 31))],
}  # fmt: skip


def row(i: int, name: str = "", value: Any = None) -> dict[str, Any]:
    moment = datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC) + timedelta(days=i)
    plain = {
        "id": i,
        "i": i - 5,
        "f": i / 8,
        "d": i / 3,
        "n": Decimal(f"-{10**35 + i}.25") if i % 2 else Decimal(i) / 4,
        "s": f"text {i:02}",
        "b": bool(i % 2),
        "y": bytes([i]),
        "dt": moment.date(),
        "ts": moment,
        "tn": moment.replace(tzinfo=None),
        "st": {"x": i, "u": None} if i % 3 else None,
        "l": [i],
    }
    return {**plain, name: value} if name else plain


@pytest.fixture
def exported(catalog: dk.Catalog, tmp_path: Path) -> tuple[dk.Table, Path]:
    """Three ordinary files, and one for each special value."""
    table = dk.create_table(catalog, "t.x", SCHEMA, format_version=3)
    for start in (0, 10, 20):
        dk.append(table, pa.Table.from_pylist([row(i) for i in range(start, start + 10)], SCHEMA))
    for number, (name, value) in enumerate((n, v) for n, values in SPECIAL.items() for v in values):
        dk.append(table, pa.Table.from_pylist([row(100 + number, name, value)], SCHEMA))
    dk.delete(table, "id in (3, 12)", mode="deletion-vector")
    dk.export_delta(table, tmp_path / "delta", column_mapping="id")
    return table, tmp_path / "delta"


def test_statistics_are_those_of_the_rows(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = dk.create_table(catalog, "t.x", SCHEMA, format_version=3, partition_by=["b"])
    rows = [row(i) for i in range(0, 20, 2)]
    dk.append(table, pa.Table.from_pylist(rows, SCHEMA))
    dk.export_delta(table, tmp_path / "delta")
    lines = (tmp_path / "delta/_delta_log" / f"{0:020d}.json").read_text().splitlines()
    raw = next(json.loads(line)["add"]["stats"] for line in lines if '"add"' in line)
    stats = json.loads(raw, parse_float=Decimal)
    leaves = set(SCHEMA.names) - {"b", "l"}
    assert set(stats["nullCount"]) == leaves
    assert set(stats["minValues"]) == set(stats["maxValues"]) == leaves - {"y"}
    assert (stats["numRecords"], stats["tightBounds"]) == (10, False)
    assert stats["nullCount"]["st"] == {"x": 4, "u": 10}
    assert (stats["minValues"]["n"], stats["maxValues"]["n"]) == (Decimal("0.00"), Decimal("4.50"))
    assert (stats["minValues"]["ts"], stats["maxValues"]["ts"]) == (
        "2024-02-29T01:02:03.456Z",
        "2024-03-18T01:02:03.457Z",
    )
    assert stats["maxValues"]["tn"] == "2024-03-18T01:02:03.457"
    assert stats["maxValues"]["st"] == {"x": 16}


# A file whose only text is empty has no upper bound: an empty one may as well be no bound at all.
FILTERS = {
    "id = 15": 1, "i > 20": None, "f > 1000": None, "isnan(f)": None, "f = float('Infinity')": None, "d < -1": None,
    "d = 0": None, "n > 0": None, f"n = {BIG}": None, f"n = -{BIG}": None, "s = 'text 07'": 4, "s > 'b'": None,
    f"s = '{'a' * 40}'": None, "s = ''": None, "b": None, "y = X'05'": None, "dt = DATE'2024-03-02'": 3,
    "dt = DATE'9999-12-31'": None, "ts = TIMESTAMP'2024-03-02 01:02:03.456789'": 3,
    "ts = TIMESTAMP'1969-12-31 23:59:59.999999'": None, "ts > TIMESTAMP'9999-12-31 23:59:59.999'": None,
    "tn = TIMESTAMP_NTZ'2024-03-02 01:02:03.456789'": 1, "st.x = 7": None, "st.u IS NULL": None, "st IS NULL": None,
    "n IS NULL": None, "s IS NOT NULL": None, "l[0] = 7": None,
}  # fmt: skip


def test_spark_skips_files_rightly(spark: SparkSession, exported: tuple[dk.Table, Path]) -> None:
    table, path = exported
    delta = spark.read.format("delta").load(str(path))
    plain = spark.createDataFrame(delta.collect(), delta.schema)
    same_rows(plain_rows(plain), our_rows(table))
    # What each filter chooses of rows that have no statistics, in one query.
    chosen = plain.selectExpr("id", *(f"{text} AS f{n}" for n, text in enumerate(FILTERS))).collect()
    for n, (text, files) in enumerate(FILTERS.items()):
        frame = delta.where(text)
        assert sorted(r.id for r in frame.select("id").collect()) == sorted(r.id for r in chosen if r[f"f{n}"]), text
        if files is not None:
            assert scanned(frame) <= files, text
    total = spark.sql(f"SELECT count(*), max(i), min(n), max(s) FROM delta.`{path}`").collect()
    assert total == plain.selectExpr("count(*)", "max(i)", "min(n)", "max(s)").collect()


def scanned(frame: Any) -> int:
    """How many files Spark read."""
    rows = frame._jdf.queryExecution().executedPlan()
    frame._jdf.queryExecution().toRdd().count()
    return next(int(leaf.metrics().apply("numFiles").value()) for leaf in _leaves(rows))


def _leaves(plan: Any) -> list[Any]:
    leaves = plan.collectLeaves()
    return [leaves.apply(i) for i in range(leaves.size())]


@pytest.mark.peers
def test_deltalake_skips_files_rightly(catalog: dk.Catalog, tmp_path: Path) -> None:
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415  # a peer

    table = dk.create_table(catalog, "t.x", SCHEMA, format_version=3)
    for start in (0, 10, 20):
        dk.append(table, pa.Table.from_pylist([row(i) for i in range(start, start + 10)], SCHEMA))
    dk.delete(table, "id in (3, 12)", mode="deletion-vector")
    dk.export_delta(table, tmp_path / "delta")
    rows = dk.scan(table).to_arrow().to_pylist()
    delta = DeltaTable(tmp_path / "delta")
    assert delta.get_add_actions(flatten=True).num_rows == 3
    wanted: Mapping[str, Any] = {
        "id = 15": lambda r: r["id"] == 15,
        "s = 'text 07'": lambda r: r["s"] == "text 07",
        "n > 0": lambda r: r["n"] > 0,
        "dt = DATE '2024-03-02'": lambda r: r["dt"] == date(2024, 3, 2),
        "ts > TIMESTAMP '2024-03-20T00:00:00Z'": lambda r: r["ts"] > datetime(2024, 3, 20, tzinfo=UTC),
        "d > 5": lambda r: r["d"] > 5,
    }
    for text, holds in wanted.items():
        found = QueryBuilder().register("t", delta).execute(f"SELECT id FROM t WHERE {text}")
        batch = pa.table(found.read_all() if hasattr(found, "read_all") else pa.Table.from_batches(found))
        assert sorted(batch["id"].to_pylist()) == sorted(r["id"] for r in rows if holds(r)), text
