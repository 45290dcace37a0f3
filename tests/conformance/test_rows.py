"""Values of every type as the JSON of the suite."""

import datetime as dt
import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from conformance.engines import rows_of

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
