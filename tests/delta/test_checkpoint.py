"""Checkpoints that hold more text than they are large, and those of delta-rs."""

import importlib
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deletekit.delta.checkpoint import read_checkpoint_parquet
from tests.delta.reading import raises_kind


@pytest.mark.parametrize("length", [20, 200_000])
def test_text_of_a_dictionary_page_is_counted_for_each_row(length: int) -> None:
    """Read plainly, the long text would take 20 GB; the short one is in no more rows than fit."""
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * length]))
    fields = {"path": paths, "size": pa.array(range(100_000)), "stats": paths}
    sink = io.BytesIO()
    pq.write_table(pa.table({"add": pa.StructArray.from_arrays(list(fields.values()), list(fields))}), sink)
    if length == 20:
        assert len(read_checkpoint_parquet(io.BytesIO(sink.getvalue())).adds) == 100_000
        return
    with raises_kind("delta-checkpoint", field="text"):
        read_checkpoint_parquet(io.BytesIO(sink.getvalue()))


@pytest.mark.peers
def test_a_checkpoint_whose_null_structs_have_required_fields(tmp_path: Path) -> None:
    """As delta-rs writes them: below a vector that is NULL, Parquet has indices into a dictionary without a value."""
    deltalake = importlib.import_module("deltalake")
    deltalake.write_deltalake(tmp_path, pa.table({"id": [1, 2]}))
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    checkpoint = next(tmp_path.rglob("*.checkpoint.parquet"))
    vectors = pq.read_schema(checkpoint).field("add").type.field("deletionVector")
    assert vectors.nullable
    assert not vectors.type.field("storageType").nullable
    actions = read_checkpoint_parquet(io.BytesIO(checkpoint.read_bytes()))
    assert actions.protocol is not None
    assert [(add.num_records, add.vector_id) for add in actions.adds] == [(2, None)]
