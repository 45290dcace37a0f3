"""Batches of changes through the sink, in every mode, against a dict."""

import pyarrow as pa
import pytest

import deletekit as dk
from tests.stored import live_files
from tests.stream.replay import PEOPLE, check, random_batches, replay
from tests.tables import make, refused

MODES = ("auto", "eq-only", "index-only")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partition_by", [(), ("bucket(3, id)",), ("name",)], ids=["whole", "by key", "not by key"])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_mode_is_a_dict(
    catalog: dk.Catalog, mode: str, version: int, partition_by: tuple[str, ...], seed: int
) -> None:
    table = make(catalog, schema=PEOPLE, format_version=version, partition_by=partition_by)
    batches = list(random_batches(seed, batches=6, rows=15, keys=12))
    with dk.stream.sink(table, "people", on=["id"], mode=mode) as sink:
        for number, batch in enumerate(batches):
            progress = sink.write(batch, number)
            assert progress.status == "committed"
            check(table, replay(batches[: number + 1]))
    equality = [f for f in live_files(table, 1) if f["content"] == 2]
    assert bool(equality) == (mode == "eq-only")


PLACE = pa.struct([pa.field("k", pa.int32(), nullable=False), pa.field("r", pa.int32(), nullable=False)])
STRICT = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("token", pa.uuid(), nullable=False),
        pa.field("at", PLACE),
    ]
)


@pytest.mark.parametrize(("mode", "version"), [("auto", 2), ("eq-only", 3), ("index-only", 3)])
def test_rows_that_delete_need_their_key_only(catalog: dk.Catalog, mode: str, version: int) -> None:
    """Also where the table has required columns and the batch has no row that is put."""
    rows = [{"id": i, "name": "x", "token": bytes(16), "at": {"k": i, "r": 1}} for i in range(8)]
    table = make(catalog, rows, schema=STRICT, format_version=version)
    with dk.stream.sink(table, "people", on=["id"], mode=mode) as sink:
        sink.write([{"id": 1, "_change_type": "DELETE"}], 0)
        sink.write(pa.table({"id": pa.array([2]), "_change_type": ["-D"]}), 1)
        sink.write([{"id": 3, "_change_type": "DELETE"}, {**rows[4], "name": "y", "_change_type": "UPDATE_AFTER"}], 2)
        with refused(table, dk.InvalidInputError, "column-not-found", field="nome"):
            sink.write([{"id": 4, "nome": "z", "_change_type": "DELETE"}], 3)
        with refused(table, dk.InvalidInputError, "column-not-found", field="token"):
            sink.write([{"id": 9, "name": "z", "_change_type": "INSERT"}], 3)
    with dk.stream.sink(table, "places", on=["at.k"], mode=mode) as sink:
        sink.write([{"at": {"k": 5}, "_change_type": "DELETE"}], 0)
    found = dk.scan(table, columns=["id", "name"]).to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(0, "x"), (4, "y"), (6, "x"), (7, "x")]
