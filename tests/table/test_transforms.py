"""Partition values of Arrow arrays are those of the specification's table, and of pyiceberg's value by value."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg import types as it
from pyiceberg.transforms import parse_transform

from deletekit.table.transforms import partition_values

HASHES = [  # "Appendix B: 32-bit Hash Requirements"
    (pa.array([34], pa.int32()), 2017239379),
    (pa.array([34], pa.int64()), 2017239379),
    (pa.array([Decimal("14.20")], pa.decimal128(9, 2)), -500754589),
    (pa.array([17486], pa.int32()).cast(pa.date32()), -653330422),
    (pa.array([81068000000]).cast(pa.time64("us")), -662762989),
    (pa.array([1510871468000000]).cast(pa.timestamp("us")), -2047944441),
    (pa.array([1510871468000001]).cast(pa.timestamp("us", "UTC")), -1207196810),
    (pa.array([1510871468000001001]).cast(pa.timestamp("ns", "UTC")), -1207196810),
    (pa.array(["iceberg"]), 1210000089),
    (pa.array([UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.uuid()), 1488055340),
    (pa.array([b"\0\1\2\3"], pa.binary(4)), -188683207),
    (pa.array([b"\0\1\2\3"]), -188683207),
]


@pytest.mark.parametrize(("column", "value"), HASHES, ids=lambda each: str(getattr(each, "type", "")))
def test_the_hashes_of_the_specification(column: pa.Array, value: int) -> None:
    buckets = 1_000_003
    found = partition_values(parse_transform(f"bucket[{buckets}]"), column)
    assert found.to_pylist() == [(value & 0x7FFFFFFF) % buckets]


DRAW = random.Random(36)
NUMBERS = [0, 1, -1, 127, -128, -129, 3_599, -3_600, *(DRAW.randrange(-(2**30), 2**30) for _ in range(50))]
DAYS = [n // 10_000 for n in NUMBERS]
MICROS = [n * 997_001 for n in NUMBERS]
NANOS = [*(n * 997_001_003 for n in NUMBERS), 3_600 * 10**9 - 1, -3_600 * 10**9 - 1, 999, -999]
TEXTS = ["", "a", "été€𝄞x", *("".join(DRAW.choices("aé€𝄞\0", k=n)) for n in range(30))]
COLUMNS: list[tuple[it.IcebergType, pa.Array, list[Any]]] = [
    (it.IntegerType(), pa.array(NUMBERS, pa.int32()), NUMBERS),
    (it.LongType(), pa.array(MICROS), MICROS),
    (it.DateType(), pa.array(DAYS, pa.int32()).cast(pa.date32()), DAYS),
    (it.TimestampType(), pa.array(MICROS).cast(pa.timestamp("us")), MICROS),
    (it.TimestamptzType(), pa.array(MICROS).cast(pa.timestamp("us", "UTC")), MICROS),
    (it.TimestampNanoType(), pa.array(NANOS).cast(pa.timestamp("ns")), NANOS),
    (it.StringType(), pa.array(TEXTS), TEXTS),
    (it.BinaryType(), pa.array([t.encode() for t in TEXTS]), [t.encode() for t in TEXTS]),
    *((it.DecimalType(digits, 3), pa.array(d, pa.decimal128(digits, 3)), d)
      for digits, d in ((12, [Decimal(n).scaleb(-3) for n in NUMBERS]), (38, [Decimal(n).scaleb(-3) for n in MICROS]))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "column", "values"), COLUMNS, ids=[str(kind) for kind, *_ in COLUMNS])
def test_each_transform_is_pyicebergs(kind: it.IcebergType, column: pa.Array, values: list[Any]) -> None:
    """At any place of memory too, as those of an IPC message or a memory map are; and a null stays null."""
    *before, data = pa.concat_arrays([column, pa.nulls(1, column.type)]).buffers()
    moved = pa.py_buffer(b"\0" + data.to_pybytes()).slice(1)
    apart = pa.Array.from_buffers(column.type, len(column) + 1, [*before, moved])
    names = ("bucket[16]", "truncate[7]", "truncate[1000]", "year", "month", "day", "hour")
    transforms = [t for t in map(parse_transform, names) if t.can_transform(kind)]
    assert transforms
    for transform in transforms:
        expected = [*map(transform.transform(kind), values), None]
        assert partition_values(transform, apart).to_pylist() == expected, transform


def test_what_lies_far_from_1970() -> None:
    """pyiceberg-core makes NULL of such years and months, so that a row would be in the partition of NULL."""

    def found(name: str, column: pa.Array) -> list[Any]:
        return partition_values(parse_transform(name), column).to_pylist()  # type: ignore[no-any-return]

    far = pa.array([3_789_000, -800_000], pa.int32()).cast(pa.date32())
    assert found("year", far) == [10373, -2191]
    assert found("month", far) == [124487, -26284]
    ends = pa.array([-(2**63), 2**63 - 1])
    assert found("year", ends.cast(pa.timestamp("us"))) == [-292278, 292277]
    assert found("year", ends.cast(pa.timestamp("ns"))) == [-293, 292]
    assert found("truncate[10]", ends) == [2**63 - 2, 2**63 - 8], "as in Java"
    assert found("truncate[100]", pa.array([Decimal("-9.99")], pa.decimal128(3, 2))) == [Decimal("-10.00")]
