"""Values of every type as JSON, and which rows are the same."""

import datetime as dt
import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

import deletekit as dk
from conformance.suite import moved
from deletekit.conformance.rows import rows_of, same
from deletekit.formats.puffin import Blob, puffin_parts
from tests.conformance.test_suite import CASES, read

AN_ID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001

# The examples of the spec's table of JSON single values, and what JSON alone has no form for.
VALUES = [
    (True, pa.bool_(), True),
    (34, pa.int64(), 34),
    (1.5, pa.float32(), 1.5),
    (-0.0, pa.float64(), -0.0),
    (math.nan, pa.float64(), "NaN"),
    (-math.inf, pa.float32(), "-Infinity"),
    (Decimal("14.20"), pa.decimal128(9, 2), "14.20"),
    (Decimal("1E-10"), pa.decimal128(38, 10), "0.0000000001"),
    (dt.date(2017, 11, 16), pa.date32(), "2017-11-16"),
    (dt.time(22, 31, 8), pa.time64("us"), "22:31:08.000000"),
    (MOMENT, pa.timestamp("us"), "1969-12-31T23:59:59.999999"),
    (MOMENT.replace(tzinfo=dt.UTC), pa.timestamp("us", "UTC"), "1969-12-31T23:59:59.999999+00:00"),
    (-1, pa.timestamp("ns"), "1969-12-31T23:59:59.999999999"),
    ("iceberg", pa.string(), "iceberg"),
    ("iceberg", pa.dictionary(pa.int32(), pa.string()), "iceberg"),
    (AN_ID.bytes, pa.uuid(), str(AN_ID)),
    (b"\x00\x01\xff", pa.binary(3), "0001FF"),
    (b"\x00", pa.large_binary(), "00"),
    ({"a": None, "b": MOMENT}, pa.struct({"a": pa.int32(), "b": pa.timestamp("us")}),
     {"a": None, "b": "1969-12-31T23:59:59.999999"}),
    ([1.0, None], pa.list_(pa.float64()), [1.0, None]),
    ([("z", b"\x01"), ("a", None)], pa.map_(pa.string(), pa.binary()), [["a", None], ["z", "01"]]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind", "expected"), VALUES, ids=lambda v: str(v)[:30])
def test_each_value_has_one_form(value: object, kind: pa.DataType, expected: object) -> None:
    [[found]] = rows_of(pa.table({"c": pa.array([value], kind)}))
    assert repr(found) == repr(expected)
    assert rows_of(pa.table({"c": pa.array([None], kind)})) == [[None]]


def test_rows_are_the_same_in_any_order_each_as_often() -> None:
    assert same([[1, "a"], [2, None]], [[2.0, None], [1, "a"]])
    assert same([[{"a": [1], "b": None}]], [[{"b": None, "a": [1]}]])
    assert not same([[1], [1]], [[1]])
    assert not same([[0.0]], [[-0.0]])
    assert not same([[1]], [[True]])
    assert not same([["1"]], [[1]])
    assert not same([[[1, 2]]], [[[2, 1]]])


def test_a_puffin_file_with_gaps_is_not_moved() -> None:
    """Its vectors would lie elsewhere than the manifest says."""
    case = next(case for case in CASES if case.name == "three_vectors_in_one_puffin")
    files = dict(read(case.folder / "table"))
    (name,) = (name for name in files if name.endswith(".puffin"))
    parts, footer = puffin_parts([Blob(type="gap", data=b"gap"), Blob(type="x", data=b"x")])
    whole = b"".join(parts)
    files[name] = whole.replace(f'"offset":{footer.blobs[1].offset}'.encode(), b'"offset":5')
    with pytest.raises(dk.UnsupportedError) as caught:
        moved(files, case.metadata.removeprefix("table/"), case.root, "file:///elsewhere")
    assert caught.value.kind == "puffin-gaps"
