"""A commit opens no manifest that cannot list a file of the partitions that it is about, however many there are."""

import uuid
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.counting_io import FilesUsed
from tests.stored import manifest_list, vectors
from tests.tables import make

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["", "a", "b", "é", None]),
    "long": (pa.int64(), [-(2**40), -1, 0, 7, None]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("300.25"), None]),
    "date": (pa.date32(), [date(1969, 12, 31), date(2024, 2, 29), None]),
    "double": (pa.float64(), [-0.5, 3.0, NAN, None]),
    "uuid": (pa.uuid(), [uuid.UUID(int=n << 96).bytes for n in (1, 2**31, 2**32 - 1)]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_vectors_are_found_by_any_partition(catalog: dk.Catalog, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second delete of a file replaces its vector, so it must find that."""
    type_, values = VALUES[kind]
    schema = pa.schema([("id", pa.int64()), ("part", type_)])
    properties = {"commit.manifest-merge.enabled": "false"}
    table = make(catalog, schema=schema, format_version=3, partition_by=["part"], properties=properties)
    for number, value in enumerate(values):
        ids = pa.array(range(10 * number, 10 * number + 4))
        dk.append(
            table, pa.table([ids, pa.array([value] * 4, pa.binary(16) if kind == "uuid" else type_)], schema=schema)
        )
    for turn in range(2):
        for number in range(len(values)):
            dk.delete(table, f"id = {10 * number + turn}", mode="deletion-vector")
    rows = dk.scan(table).to_arrow()
    assert sorted(rows["id"].to_pylist()) == [10 * n + i for n in range(len(values)) for i in (2, 3)]
    assert sorted(map(sorted, vectors(table).values())) == [[0, 1]] * len(values)
    used = FilesUsed(monkeypatch)
    dk.append(table, rows)
    assert sum(path.endswith(".avro") for path in used.opened) == 1, "an append reads the manifest list alone"


def test_a_delete_reads_as_much_of_a_larger_table(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"commit.manifest-merge.enabled": "false"}
    schema = pa.schema([("id", pa.int64()), ("part", pa.int64())])
    table = make(catalog, schema=schema, format_version=3, partition_by=["part"], properties=properties)
    used, opened = FilesUsed(monkeypatch), []
    for number in range(12):
        dk.append(table, pa.table({"id": [2 * number, 2 * number + 1], "part": [number] * 2}))
        used.opened.clear()
        dk.delete(table, f"part = {number} and id = {2 * number}", mode="deletion-vector")
        opened.append(sum(used.opened[path] for path in used.opened if path.endswith(".avro")))
    assert len(manifest_list(table)) == 24
    assert opened == [opened[0]] * 12
