"""Files of rows: what a folder's name says, and what the file itself says."""

import csv
import json
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.rows.row_files import open_rows
from deletekit.table.types import schema_from_arrow

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "category": ["x", "007"]})


def test_a_folder_names_only_a_column_that_the_file_lacks(tmp_path: Path) -> None:
    schema = schema_from_arrow(ROWS.schema)
    for number, name in enumerate(("category=007", "id=7")):
        whole, part = tmp_path / name / "whole.parquet", tmp_path / name / "part.parquet"
        whole.parent.mkdir()
        pq.write_table(ROWS, whole)
        pq.write_table(ROWS.select([number]), part)
        assert open_rows(str(whole), schema).read_all() == ROWS
        found = open_rows(str(part), schema).read_all().to_pydict()
        assert found == {
            **ROWS.select([number]).to_pydict(),
            **({"category": ["007"] * 2} if not number else {"id": [7] * 2}),
        }


UUID_TEXT = "0f0e0d0c-0b0a-0908-0706-05040302aAff"
LATE = time(23, 59, 59, 999_999)
LAST = UUID(int=2**128 - 1)
NO_TIMES = [
    "24:00:00",
    "10:30:00.1234567",
    "1:02:03",
    "10:30:00Z",
    "10:30:00+01:00",
    "10:60:00",
    "soon",
    f"1970-01-01T{LATE}",
]
NO_UUIDS = [
    UUID_TEXT[1:],
    UUID_TEXT.replace("-", ""),
    f"{{{UUID_TEXT}}}",
    f"{UUID_TEXT}\n",
    f" {UUID_TEXT}",
    f"g{UUID_TEXT[1:]}",
]
TEXTS: list[tuple[pa.DataType, list[tuple[str, Any]], list[str]]] = [
    (pa.time64("us"), [("10:30:00.5", time(10, 30, 0, 500_000)), ("00:00:00", time()), (str(LATE), LATE)], NO_TIMES),
    (pa.uuid(), [(UUID_TEXT, UUID(UUID_TEXT)), (str(UUID(int=0)), UUID(int=0)), (str(LAST).upper(), LAST)], NO_UUIDS),
]


def written(folder: Path, form: str, texts: list[str | None]) -> str:
    """Write rows of an id and a text as a file, as other programs do."""
    file = folder / f"rows.{form}"
    with file.open("w", newline="") as target:
        if form == "jsonl":
            target.writelines(
                json.dumps({"id": i, **({} if t is None else {"v": t})}) + "\n" for i, t in enumerate(texts)
            )
        else:
            csv.writer(target, quoting=csv.QUOTE_MINIMAL).writerows([("id", "v"), *enumerate(texts)])
    return str(file)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize(("kind", "good", "bad"), TEXTS, ids=["time", "uuid"])
def test_texts_are_times_and_uuids(
    catalog: dk.Catalog, tmp_path: Path, form: str, kind: pa.DataType, good: list[tuple[str, Any]], bad: list[str]
) -> None:
    """A missing value is null, also in all rows; what is no such text is refused by its column, and no row is kept."""
    table = dk.create_table(catalog, "a.t", pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", kind)]))
    for texts in ([*(text for text, _ in good), None], [None, None]):
        rows = open_rows(written(tmp_path, form, texts), table.schema).read_all()
        dk.overwrite(table, rows, where="true")
        found = dk.scan(table).to_arrow().sort_by("id")["v"].to_pylist()
        assert found == [dict(good).get(text) if text is not None else None for text in texts]
    before = table.current_snapshot
    for text in bad:
        with pytest.raises(dk.InvalidInputError) as error:
            dk.append(table, open_rows(written(tmp_path, form, [good[0][0], text]), table.schema).read_all())
        assert error.value.kind in ("rows", "column-type"), text
    assert dk.load_table(catalog, "a.t").current_snapshot == before


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_changes_with_times_and_uuids_as_keys(catalog: dk.Catalog, tmp_path: Path, form: str) -> None:
    schema = pa.schema([pa.field("k", pa.uuid(), nullable=False), ("v", pa.time64("us"))])
    table = dk.create_table(catalog, "a.t", schema, format_version=3)
    one, two = str(UUID(int=1)), str(UUID(int=2))
    changes = [
        (one, "10:30:00.5", "INSERT"),
        (two, "11:00:00", "INSERT"),
        (one, "12:00:00", "UPDATE"),
        (two, None, "DELETE"),
    ]
    file = tmp_path / f"0.{form}"
    if form == "csv":
        lines = ["k,v,_change_type", *(",".join((k, v or "", t)) for k, v, t in changes)]
        file.write_text("\n".join(lines) + "\n")
    else:
        file.write_text("".join(json.dumps({"k": k, "v": v, "_change_type": t}) + "\n" for k, v, t in changes))
    with dk.stream.sink(table, "s", on="k") as sink:
        assert len(list(sink.run_files([file]))) == 1
    assert dk.scan(table.refresh()).to_arrow().to_pylist() == [{"k": UUID(int=1), "v": time(12)}]


HALF = datetime(2020, 1, 1, 0, 0, 0, 500_000)  # noqa: DTZ001
ZONED = datetime(2020, 1, 1, tzinfo=UTC)
LEAVES: dict[str, tuple[pa.DataType, Any, Any, Any]] = {
    # type, the JSON of a value, the value, JSON that is none
    "binary": (pa.binary(), "AP8=", b"\x00\xff", "not base64"),
    "fixed": (pa.binary(2), "AP8=", b"\x00\xff", "Yg=="),
    "uuid": (pa.uuid(), UUID_TEXT, UUID(UUID_TEXT), UUID_TEXT[1:]),
    "time": (pa.time64("us"), "10:30:00.5", time(10, 30, 0, 500_000), "10:30:00+01:00"),
    "date": (pa.date32(), "2020-02-29", date(2020, 2, 29), "2021-02-29"),
    "timestamp": (pa.timestamp("us"), "2020-01-01T00:00:00.5", HALF, "2020-01-01T00:00:00Z"),
    "timestamptz": (pa.timestamp("us", "UTC"), "2020-01-01T02:00:00+02:00", ZONED, "2020-01-01T00:00:00"),
    "float": (pa.float32(), 1.5, 1.5, 1e39),
    "string": (pa.string(), "Yg==", "Yg==", 5),
}  # fmt: skip
PLACES: dict[str, tuple[Any, Any]] = {
    "column": (lambda kind: kind, lambda value: value),
    "struct": (lambda kind: pa.struct([("a", kind), ("n", pa.int32())]), lambda value: {"a": value, "n": 1}),
    "list": (pa.list_, lambda value: [None, value]),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [{"key": "k", "value": value}]),
    "map of lists": (
        lambda kind: pa.map_(pa.string(), pa.list_(pa.struct([("a", kind)]))),
        lambda value: [{"key": "k", "value": [{"a": value}, None]}, {"key": "m", "value": None}],
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_json_is_read_alike_at_every_depth(catalog: dk.Catalog, tmp_path: Path, place: str) -> None:
    """Bytes are base64, times have the zone that their type has, a float is not infinite: or the column is refused."""
    kind_of, put = PLACES[place]
    schema = pa.schema([("id", pa.int64()), *((name, kind_of(leaf[0])) for name, leaf in LEAVES.items())])
    table = dk.create_table(catalog, "a.t", schema, format_version=3)
    good = {"id": 1, **{name: put(leaf[1]) for name, leaf in LEAVES.items()}}
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (good, {"id": 2})))
    dk.append(table, open_rows(str(file), table.schema).read_all())
    found, empty = dk.scan(table).to_arrow().sort_by("id").to_pylist()
    assert empty == dict.fromkeys(schema.names) | {"id": 2}
    wanted = {name: as_scanned(put(leaf[2])) for name, leaf in LEAVES.items()}
    assert {name: as_scanned(value) for name, value in found.items() if name != "id"} == wanted
    for name, leaf in LEAVES.items():
        file.write_text(json.dumps({**good, name: put(leaf[3])}) + "\n")
        with pytest.raises(dk.InvalidInputError):
            dk.append(table, open_rows(str(file), table.schema).read_all())


def as_scanned(value: Any) -> Any:
    """Entries of maps as pairs, as Arrow gives them; uuids inside of others are bytes there."""
    if isinstance(value, list):
        pairs = [(v["key"], v["value"]) if isinstance(v, dict) and set(v) == {"key", "value"} else v for v in value]
        return [as_scanned(v) for v in pairs]
    if isinstance(value, tuple):
        return tuple(map(as_scanned, value))
    if isinstance(value, dict):
        return {name: as_scanned(v) for name, v in value.items()}
    return value.bytes if isinstance(value, UUID) else value
