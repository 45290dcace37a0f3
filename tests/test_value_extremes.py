"""The extremes of each type through every door that makes text of a value: the exact value, or a DeletekitError.

A door gives a text for each value. What it means is parsed back here, by code that shares nothing with the library's:
numpy's calendar has no end, and Python's `int`, `Decimal`, `float.fromhex` and `ast` read the rest.
"""

import ast
import base64
import csv
import datetime as dt
import html
import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.errors import DeletekitError
from deletekit.stream.sources.format_options import FormatOptions
from deletekit.stream.sources.source_types import SourceType
from deletekit.stream.sources.times import timestamps
from deletekit.table.python_values import python_rows, python_values
from deletekit.text import json_ready
from tests.cli.conftest import Run, run  # noqa: F401  # a fixture
from tests.tables import make, new_catalog, raises

LEAST, MOST = -(1 << 63), (1 << 63) - 1
DAY = 86_400_000_000
NEVER = 9223372036825200000
"""What PostgreSQL's `infinity` is in Debezium's microseconds; its `-infinity` is the other."""
MICROS = [LEAST, LEAST + 1, -9223372036832400000, -62135596800000001, -1, 0, 1, 253402300800000000, NEVER, MOST]
NANOS = [LEAST, LEAST + 1, -1, 0, 1, 999, 1000, MOST]
DAYS = [-(1 << 31), -719_529, -719_528, -719_163, -719_162, -1, 0, 2_932_896, 2_932_897, (1 << 31) - 1]
TEXTS = [
    "",
    "\0",
    "a\nb\r\t",
    "'\"\\",
    "<b>&amp;</b>",
    "\u202e\ufeff\u200b",
    "NULL",
    "\U0001f600",
    "+10000-01-01",
    "x" * 100,
]
FLOATS = [0.0, -0.0, 5e-324, -1.7976931348623157e308, math.inf, -math.inf, math.nan, 0.1]
NINES = "9" * 38
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [-(1 << 31), 0, (1 << 31) - 1]),
    "long": (pa.int64(), [LEAST, 0, MOST, (1 << 53) + 1]),
    "float": (
        pa.float32(),
        [
            *(struct.unpack("<f", struct.pack("<f", v))[0] for v in (0.1, 1e-45, 3.4028234e38)),
            *FLOATS[:2],
            *FLOATS[4:7],
        ],
    ),
    "double": (pa.float64(), FLOATS),
    "whole": (pa.decimal128(38, 0), [Decimal(NINES), Decimal("-" + NINES), Decimal(0)]),
    "part": (pa.decimal128(38, 38), [Decimal("0." + NINES), Decimal("-0." + NINES), Decimal("1E-38")]),
    "day": (pa.date32(), DAYS),
    "clock": (pa.time64("us"), [0, 1, DAY - 1]),
    "local": (pa.timestamp("us"), MICROS),
    "instant": (pa.timestamp("us", "UTC"), MICROS),
    "nano": (pa.timestamp("ns"), NANOS),
    "nano_instant": (pa.timestamp("ns", "UTC"), NANOS),
    "text": (pa.string(), TEXTS),
    "bytes": (pa.binary(), [b"", b"\0\xff", bytes(range(0, 256, 3))]),
    "fixed": (pa.binary(2), [b"\0\0", b"\xff\xfe"]),
    "id": (pa.uuid(), [bytes(16), b"\xff" * 16]),
    "flag": (pa.bool_(), [True, False]),
}
ROWS = max(len(values) for _, values in TYPES.values())


def column(kind: pa.DataType, values: list[Any]) -> Any:
    """Make an Arrow array of numbers as they are stored, filled up with NULL."""
    values = [*values, *[None] * (ROWS - len(values))]
    if isinstance(kind, pa.UuidType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).view(kind)
    return pa.array(values, kind)


def extremes() -> pa.Table:
    return pa.table({"n": pa.array(range(ROWS), pa.int64()), **{n: column(*TYPES[n]) for n in TYPES}})


def inside() -> pa.Table:
    """The same in structs, lists and maps."""
    flat, made = extremes(), {"n": pa.array(range(ROWS), pa.int64())}
    for name in TYPES:
        array, ends = flat.column(name).combine_chunks(), pa.array(range(ROWS + 1), pa.int32())
        made[f"{name}_s"] = pa.StructArray.from_arrays([array], names=["v"])
        made[f"{name}_l"] = pa.ListArray.from_arrays(ends, array)
        made[f"{name}_m"] = pa.MapArray.from_arrays(ends, pa.array(map(str, range(ROWS))), array)
    return pa.table(made)


# --- what a text means ------------------------------------------------------------------------------------------------


def days_of(text: str) -> int:
    sign, year, month, day = re.fullmatch(r"([+-]?)(\d{4,})-(\d\d)-(\d\d)", text).groups()  # type: ignore[union-attr]
    assert (sign == "+") == (int(year) > 9999 and sign != "-"), text  # as Java and Spark write it
    return int(np.datetime64(f"{'-' * (sign == '-')}{year}-{month}-{day}", "D").astype(np.int64))


def clock_of(text: str, digits: int) -> int:
    hour, minute, second, _, fraction = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(\.(\d{1,9}))?", text).groups()  # type: ignore[union-attr]
    whole = (int(hour) * 60 + int(minute)) * 60 + int(second)
    rest = (fraction or "").ljust(9, "0")
    assert not rest[digits:].strip("0"), text
    return whole * 10**digits + int(rest[:digits])


def number_of(value: Any, name: str) -> Any:
    """Return what is stored for the value that a text, or Python's value, means."""
    kind, types = TYPES[name][0], pa.types
    if value is None:
        return None
    text = json_ready(value) if isinstance(value, dt.date | dt.time) else value
    if types.is_date(kind):
        return days_of(str(text))
    if types.is_time(kind):
        return clock_of(str(text), 6)
    if types.is_timestamp(kind):
        found = re.fullmatch(r"(.*?)[T ](.*?)(Z|\+00:00)?", str(text))
        assert found is not None, text
        assert (found[3] is None) == (kind.tz is None), text
        digits = 9 if kind.unit == "ns" else 6
        return days_of(found[1]) * 86_400 * 10**digits + clock_of(found[2], digits)
    if types.is_decimal(kind):
        return Decimal(text)
    if types.is_floating(kind):
        return struct.pack("<d", float(text))
    if types.is_boolean(kind):
        return {"true": True, "false": False}.get(text, text) if isinstance(text, str) else text
    if isinstance(kind, pa.UuidType):
        return UUID(str(text)).bytes
    if types.is_integer(kind):
        return int(text)
    return text


def meant(name: str) -> list[Any]:
    values = [struct.pack("<d", v) if isinstance(v, float) else v for v in TYPES[name][1]]
    return [*values, *[None] * (ROWS - len(values))]


def stored(column: Any, name: str) -> list[Any]:
    """Return what a column stores: numbers of days and times, bytes of floats."""
    kind = TYPES[name][0]
    if pa.types.is_temporal(kind):
        column = column.cast(kind).cast(pa.int32() if pa.types.is_date(kind) else pa.int64())
    if isinstance(column.type, pa.UuidType):
        column = column.cast(pa.binary(16))
    return [struct.pack("<d", v) if isinstance(v, float) else v for v in column.to_pylist()]


def base64s(value: Any, name: str) -> Any:
    is_bytes = pa.types.is_binary(TYPES[name][0]) or pa.types.is_fixed_size_binary(TYPES[name][0])
    return number_of(base64.b64decode(value) if is_bytes and value is not None else value, name)


def sql(text: str, name: str) -> Any:
    """Return what a literal for people means: control characters are visible, and a long one is cut."""
    if text == "NULL":
        return None
    if text.startswith("'"):
        plain = re.sub(r"\\(x..|u....|U.{8}|[nrt])", lambda m: ast.literal_eval(f"'{m[0]}'"), text)
        return plain[1:-1].replace("''", "'")
    return bytes.fromhex(text[2:-1]) if text.startswith("X'") else number_of(text, name)


def same(found: Mapping[str, list[Any]], means: Callable[[Any, str], Any] = number_of, *left_out: str) -> None:
    """Hold that each text of each column means the value that is stored."""
    for name in TYPES:
        if name not in left_out:
            assert [means(v, name) for v in found[name]] == meant(name), name


# --- doors ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    with new_catalog(tmp_path_factory.mktemp("extremes")) as catalog:
        made = dk.create_table(catalog, "n.far", extremes().schema, format_version=3)
        dk.append(made, extremes())
        yield made.refresh()


def by_column(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_python_values(table: dk.Table) -> None:
    rows = sorted(python_rows(dk.scan(table).to_arrow()), key=lambda row: row["n"])
    same(by_column(rows))
    # In values and in parts of a column, also with NULL before them.
    for part in (inside(), inside().slice(1, ROWS - 2), inside().slice(ROWS - 1), inside().slice(0, 0)):
        for name in TYPES:
            found = [python_values(part.column(f"{name}_{kind}")) for kind in "slm"]
            values = [[v["v"] for v in found[0]], [v[0] for v in found[1]], [v[0][1] for v in found[2]]]
            start = part.column("n").to_pylist()
            assert [[number_of(v, name) for v in vs] for vs in values] == [[meant(name)[n] for n in start]] * 3


def test_null_structs_lists_and_maps() -> None:
    day = pa.array([2_932_897], pa.int32()).view(pa.date32())
    kinds = (
        pa.struct({"v": pa.date32()}),
        pa.list_(pa.date32()),
        pa.large_list(pa.date32()),
        pa.map_(pa.string(), pa.date32()),
    )
    assert [python_values(pa.nulls(2, kind)) for kind in kinds] == [[None, None]] * 4
    lists = pa.concat_arrays([pa.nulls(1, kinds[1]), pa.array([[]], kinds[1]), pa.ListArray.from_arrays([0, 1], day)])
    assert python_values(lists) == [None, [], ["+10000-01-01"]]
    assert python_values(pa.chunked_array([day, day]).dictionary_encode()) == ["+10000-01-01"] * 2


def test_what_is_no_value_is_refused() -> None:
    for number in (-1, DAY):
        times = pa.table({"c": pa.array([number], pa.int64()).view(pa.time64("us"))})
        with pytest.raises(DeletekitError, match=f"c.*{number}"):
            python_rows(times)
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<2i", 0, 3)), pa.py_buffer(b"\xed\xa0\x80")]
    )
    with pytest.raises(DeletekitError, match="UTF-8"):
        python_rows(pa.table({"c": broken}))


def test_explain(table: dk.Table) -> None:
    found = dk.explain(table, "true")
    rows = sorted((v.row for v in found), key=lambda row: row["n"])
    same(by_column(rows))
    assert "'+10000-01-01'" in found.to_text()
    assert "+10000-01-01" in found.to_html()
    cells = [re.findall(r"<t[dh] [^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", found.to_html())]
    shown = [
        dict(zip(["verdict", "n", *TYPES], map(html.unescape, row), strict=False)) for row in cells if len(row) > 9
    ]
    in_order = sorted(shown[1:], key=lambda row: int(row["n"]))
    same({name: [row[name] for row in in_order] for name in TYPES}, sql, "text", "bytes")


def test_the_screen_and_json(run: Run, table: dk.Table) -> None:  # noqa: F811
    location = table.metadata.location
    scanned = json.loads(run("scan", location, "--json").stdout)
    same(by_column(sorted(scanned["rows"], key=lambda row: row["n"])), base64s)
    told = json.loads(run("explain", location, "true", "--json").stdout)
    same(by_column(sorted((v["row"] for v in told["versions"]), key=lambda row: row["n"])), base64s)
    for name in ("day", "local", "nano_instant", "double", "part"):
        lines = run("scan", location, f"{name} IS NOT NULL", "--column", name, columns=80).stdout.splitlines()
        assert [sql(line.strip(), name) for line in lines[1:]] == [v for v in meant(name) if v is not None]


def test_files_of_rows(run: Run, table: dk.Table, tmp_path: Path) -> None:  # noqa: F811
    location, rows = table.metadata.location, dk.scan(table).to_arrow()
    for kind, read in (("parquet", pq.read_table), ("arrow", lambda f: pa.ipc.open_file(f).read_all())):
        assert run("scan", location, "-o", tmp_path / f"a.{kind}").exit_code == 0
        found = read(tmp_path / f"a.{kind}")
        assert [stored(found[n], n) for n in TYPES] == [stored(rows[n], n) for n in TYPES]
    assert run("scan", location, "-o", tmp_path / "a.jsonl").exit_code == 0
    lines = (tmp_path / "a.jsonl").read_text("utf-8").splitlines()
    same(by_column(sorted(map(json.loads, lines), key=lambda row: row["n"])), base64s)
    for name in TYPES:
        file = tmp_path / f"{name}.csv"
        done = run("scan", location, f"{name} IS NOT NULL", "--column", name, "-o", file)
        if name in ("day", "local", "instant", "bytes", "fixed", "id"):  # refused, and no file is left
            assert (done.exit_code, name in done.stderr, file.exists()) == (1, True, False)
            continue
        with file.open(encoding="utf-8", newline="") as opened:
            values = [row[0] for row in list(csv.reader(opened))[1:]]
        shown = [str(np.float64(np.float32(v))) for v in values] if name == "float" else values  # its shortest text
        assert [number_of(v, name) for v in shown] == [v for v in meant(name) if v is not None], name


def test_changes(run: Run, table: dk.Table) -> None:  # noqa: F811
    location = table.metadata.location
    lines = run("changes", location, "--format", "jsonl").stdout.splitlines()
    same(by_column(sorted(map(json.loads, lines), key=lambda row: row["n"])), base64s)
    events = [json.loads(line) for line in run("changes", location, "--format", "debezium").stdout.splitlines()]
    fields = {f["field"]: f for f in events[0]["schema"]["fields"][1]["fields"]}
    rows = by_column(sorted((e["payload"]["after"] for e in events), key=lambda row: row["n"]))
    for name in ("day", "clock", "local", "nano"):
        assert rows[name] == meant(name)
    zones = {"instant", "nano_instant"}
    same(rows, base64s, "day", "clock", "local", "nano", "whole", "part")
    for name in zones:  # what reads these events gets the same again
        source = SourceType(kind="string", name=fields[name]["name"])
        made = timestamps(rows[name], source, TYPES[name][0], FormatOptions())
        assert made.cast(pa.int64()).to_pylist() == meant(name)
    for name in ("whole", "part"):
        scale = int(fields[name]["parameters"]["scale"])
        unscaled = [v and int.from_bytes(base64.b64decode(v), "big", signed=True) for v in rows[name]]
        assert [v if v is None else Decimal(f"{v}E-{scale}") for v in unscaled] == meant(name)
    assert run("changes", location, "--json").exit_code == 0


def test_keys_in_errors_and_in_inspect(table: dk.Table, run: Run, tmp_path: Path) -> None:  # noqa: F811
    with new_catalog(tmp_path) as catalog:
        for name in TYPES:
            if name in ("float", "double"):
                continue  # no key
            values = extremes().filter(pc.is_valid(extremes()[name])).select([name])
            one = make(catalog, schema=values.schema, format_version=3)
            dk.append(one, pa.concat_tables([values, values]))
            with raises(dk.InvalidInputError, "key-not-unique"):
                dk.changes(one.refresh(), on=name, mode="upsert").to_arrow()
            dk.delete_keys(one, values)
            assert dk.scan(one.refresh()).count() == 0
            (delete,) = json.loads(run("inspect", one.metadata.location, "--json", "--deletes").stdout)["deletes"]
            assert [base64s(row[name], name) for row in delete["rows"]] == [v for v in meant(name) if v is not None]
            dk.upsert(one, values, on=[name])
            assert dk.scan(one.refresh()).to_arrow().num_rows == len(values)


@pytest.mark.parametrize(
    "transform", ["{}", "year({})", "month({})", "day({})", "hour({})", "bucket(4, {})", "truncate(2, {})"]
)
def test_partitions(catalog: dk.Catalog, transform: str) -> None:
    for name in TYPES:
        values = extremes().filter(pc.is_valid(extremes()[name])).select(["n", name])
        one = make(catalog, schema=values.schema, format_version=3)
        try:
            dk.add_partition_field(one, transform.format(name))
        except DeletekitError:
            continue  # no such transform for the type
        dk.append(one, values)
        found = dk.scan(one.refresh()).to_arrow().sort_by("n")
        assert stored(found.column(name), name) == stored(values.column(name), name), (transform, name)
        assert dk.verify(one, level="data").ok, (transform, name)


def test_delta_partitions_and_statistics(catalog: dk.Catalog, tmp_path: Path) -> None:
    """Delta has the years 1 to 9999: others are refused as partition values, and left out of statistics."""
    second = {"day": 86_400, "local": 10**6, "instant": 10**6}
    wanted = {
        "day": ["0001-01-01", "9999-12-31"],
        "local": ["0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.000000"],
    }
    wanted["instant"] = [text.replace(" ", "T") + "Z" for text in wanted["local"]]
    for name, texts in wanted.items():
        kind = TYPES[name][0]
        numbers = [s // second[name] if name == "day" else s * second[name] for s in (-62135596800, 253402300799)]
        for values in (numbers, [2_932_897 if name == "day" else 253402300800000000]):
            rows = pa.table({"n": pa.array(range(len(values))), name: column(kind, values)[: len(values)]})
            one = make(catalog, rows, schema=rows.schema, format_version=3, partition_by=[name])
            target = tmp_path / f"{name}{len(values)}"
            if len(values) == 1:
                with raises(dk.UnsupportedError, "delta-partition-value"):
                    dk.export_delta(one, target)
                continue
            dk.export_delta(one, target)
            log = [
                json.loads(line) for file in target.glob("_delta_log/*.json") for line in file.read_text().splitlines()
            ]
            assert sorted(a["add"]["partitionValues"][name] for a in log if "add" in a) == texts
        rows = extremes().select(["n", name])
        plain = make(catalog, rows, schema=rows.schema, format_version=3)
        dk.export_delta(plain, tmp_path / f"{name}-plain")
        (add,) = (
            json.loads(line)["add"]
            for file in (tmp_path / f"{name}-plain").glob("_delta_log/*.json")
            for line in file.read_text().splitlines()
            if '"add"' in line
        )
        stats = json.loads(add["stats"])
        assert (name in stats["minValues"], name in stats["maxValues"]) == (False, False)
