from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField
from pyiceberg.transforms import parse_transform
from pyiceberg.types import DecimalType, IcebergType, LongType, TimestampNanoType, TimestamptzNanoType

from deletekit.table.partition import partition_values

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NANOS = [0, 1, -1, 3_600 * 10**9 - 1, 3_600 * 10**9, -3_600 * 10**9, -3_600 * 10**9 - 1, 4_102_444_800 * 10**9 + 999]


def expected(transform: str, nanos: int) -> int:
    at = EPOCH + timedelta(microseconds=nanos // 1000)
    return {
        "year": at.year - 1970,
        "month": (at.year - 1970) * 12 + at.month - 1,
        "day": nanos // (86_400 * 10**9),
        "hour": nanos // (3_600 * 10**9),
    }[transform]


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
@pytest.mark.parametrize(("zone", "kind"), [(None, TimestampNanoType()), ("UTC", TimestamptzNanoType())], ids=str)
def test_time_transforms_of_nanoseconds_on_both_sides_of_1970(
    transform: str, zone: str | None, kind: IcebergType
) -> None:
    field = PartitionField(1, 1000, parse_transform(transform), "p")
    column = pa.array([*NANOS, None], pa.timestamp("ns", zone))
    found = partition_values(field, kind, column).cast(pa.int32()).to_pylist()
    assert found == [*(expected(transform, n) for n in NANOS), None]


@pytest.mark.parametrize("shift", [1, 4, 8])
@pytest.mark.parametrize("transform", ["identity", "bucket[8]", "truncate[50]"])
@pytest.mark.parametrize(
    ("kind", "values"),
    [(DecimalType(20, 3), pa.array([Decimal("1.250"), None, Decimal("-7.001")], pa.decimal128(20, 3))),
     (LongType(), pa.array([1, None, -70]))],
    ids=str,
)  # fmt: skip
def test_values_may_lie_anywhere_in_memory(kind: IcebergType, values: pa.Array, transform: str, shift: int) -> None:
    """As those of an IPC message or a memory map do."""
    valid, data = values.buffers()
    moved = pa.py_buffer(bytes(shift) + data.to_pybytes()).slice(shift)
    assert moved.address % 16 == shift % 16
    field = PartitionField(1, 1000, parse_transform(transform), "p")
    found = partition_values(field, kind, pa.Array.from_buffers(values.type, len(values), [valid, moved]))
    assert found.to_pylist() == partition_values(field, kind, values).to_pylist()
