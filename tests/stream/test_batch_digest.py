"""The digest of a batch is the sum of those of its parts, whatever the layout of its columns, and of nothing else."""

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deletekit.stream import batch_digest as digests
from deletekit.stream.batch_digest import batch_digest, digest_of, key_sum
from deletekit.stream.change_rows import ChangeFormat, Changes, read_changes
from deletekit.table.types import schema_from_arrow

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("struct", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("float", pa.float32()),
        ("decimal", pa.decimal128(9, 2)),
        ("bytes", pa.binary()),
        ("flag", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("_change_type", pa.string()),
    ]
)
VALUES: dict[str, list[Any]] = {
    "text": [None, "", "a", "ab", "b"],
    "list": [None, [], [1], [None], [1, None], [None, 1]],
    "map": [None, [], [("a", 1.0)], [("a", None)], [("a", 1.0), ("b", 1.0)]],
    "struct": [None, {"a": None, "b": None}, {"a": 1, "b": []}, {"a": None, "b": ["x", None]}, {"a": 1, "b": ["x"]}],
    "float": [None, 0.0, -0.0, 1.5],
    "decimal": [None, Decimal("1.00"), Decimal("-1.00")],
    "bytes": [None, b"", b"\0", b"\1"],
    "flag": [None, True, False],
    "at": [None, 0, 1],
}


def rows_of(seed: int, count: int) -> pa.Table:
    random_ = random.Random(seed)
    rows = [
        {"id": random_.randrange(count), "_change_type": random_.choice(["INSERT", "UPDATE_AFTER", "DELETE"])}
        | {name: random_.choice(values) for name, values in VALUES.items()}
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def parsed(rows: pa.Table) -> Changes:
    schema = schema_from_arrow(pa.schema([f for f in SCHEMA if f.name != "_change_type"]))
    form = ChangeFormat(fields=(schema.find_field("id"),), change_type="_change_type", order=None)
    return read_changes(rows, schema, form)


@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_parts_add_up_in_any_layout(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    rows = rows_of(1, 300)
    whole = batch_digest(parsed(rows))
    monkeypatch.setattr(digests, "_BLOCK", block)
    part_of = rows.column("id").to_numpy() % 5
    parts = [parsed(rows.filter(pa.array(part_of == number))) for number in range(6)]  # the last one is empty
    assert digest_of([key_sum(part) for part in parts]) == whole
    cut = pa.concat_tables([rows.slice(0, 1), rows.slice(1, 120), rows.slice(121)])
    assert batch_digest(parsed(cut)) == whole
    keys_first = rows.take(pa.array(np.argsort(rows.column("id").to_numpy(), kind="stable")))
    assert batch_digest(parsed(keys_first)) == whole


def test_every_value_counts() -> None:
    """Each value of each column, and each type of change, gives another digest; so does the order in a key."""
    plain = {"id": 1, "_change_type": "INSERT"}
    batches = [[plain], [plain, plain], [{**plain, "id": None}], [{**plain, "_change_type": "DELETE"}], []]
    batches += [[{**plain, name: value}] for name, values in VALUES.items() for value in values if value is not None]
    first, second = {**plain, "text": "a"}, {**plain, "text": "b"}
    batches += [[first, second], [second, first], [first, {**second, "id": 2}], [second, {**first, "id": 2}]]
    found = [batch_digest(parsed(pa.Table.from_pylist(rows, SCHEMA))) for rows in batches]
    assert len(set(found)) == len(batches)
    other_order = [{**second, "id": 2}, first]
    assert batch_digest(parsed(pa.Table.from_pylist(other_order, SCHEMA))) in found


def test_the_digest_is_the_same_in_every_release() -> None:
    """Markers hold digests, so a change of this number is a new version."""
    rows = [{"id": i, "_change_type": "INSERT"} | {n: v[i % len(v)] for n, v in VALUES.items()} for i in range(20)]
    assert batch_digest(parsed(pa.Table.from_pylist(rows, SCHEMA))) == "1-07364ae8677247330d57d55326a66c46"
