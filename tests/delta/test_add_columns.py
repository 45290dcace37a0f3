"""Checks by column and files made late are the same as parsing each row, and as a dict."""

import importlib
import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deletekit.delta.actions import AddFile, parse_actions
from deletekit.delta.add_columns import AddColumns, Counts, LiveFiles
from deletekit.delta.checkpoint import read_checkpoint_parquet
from deletekit.delta.deletion_vector import encode_z85
from deletekit.errors import DeletekitError, FormatError

VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("cardinality", pa.int64()),
    ]
)
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("stats_parsed", pa.struct([("numRecords", pa.int64())])),
        ("deletionVector", VECTOR),
        ("baseRowId", pa.int64()),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
)
# What a field can be that is wrong, or seldom.
ODD: dict[str, list[Any]] = {
    "path": [None, "", "a%20b.parquet", "./c.parquet", "\u00e9.parquet"],
    "partitionValues": [None, [], [("p", None)]],
    "size": [None, -1, 0, 2**62],
    "dataChange": [None, False],
    "stats": [None, "", "no JSON", "[]"],
    "stats_parsed": [None, {"numRecords": 7}],
    "baseRowId": [-1, 0, 2**60],
}
ODD_VECTOR: dict[str, list[Any]] = {
    "storageType": [None, "", "r", "p", "i"],
    "pathOrInlineDv": [None, "", "short", "ab" + encode_z85(bytes(16)), "../" + "0" * 20, "%nSc1" + "0" * 15],
    "offset": [None, -1, 0, 2**31],
    "sizeInBytes": [None, 3, 4, 2**31],
    "cardinality": [None, -1, 0, 2**62],
}


def row(rng: random.Random, number: int) -> dict[str, Any]:
    uuid = encode_z85(rng.randbytes(16))
    vector = {"storageType": "u", "pathOrInlineDv": uuid, "offset": 1, "sizeInBytes": 34, "cardinality": number}
    return {
        "path": f"p=1/part-{number}.parquet",
        "partitionValues": [("p", "1")],
        "size": number,
        "dataChange": True,
        "stats": '{"numRecords":5}',
        "deletionVector": vector if number % 3 == 0 else None,
    }


def checkpoint(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"add": pa.array([None, *rows], ADD)}), sink, row_group_size=4)
    return sink.getvalue()


def with_field_twice(structs: pa.StructArray, name: str) -> pa.StructArray:
    names = [*(field.name for field in structs.type), name]
    return pa.StructArray.from_arrays([structs.field(n) for n in names], names, mask=structs.is_null())


def outcome(parse: Any) -> Any:
    try:
        return list(parse())
    except DeletekitError as e:
        return type(e), e.message, e.kind, e.field, str(e.found), str(e.expected)


@pytest.mark.sampled(4, tier=1)
@pytest.mark.parametrize("seed", range(150))
def test_as_row_by_row(seed: int) -> None:
    rng = random.Random(seed)
    rows = [row(rng, n) for n in range(9)]
    for _ in range(rng.randrange(3)):
        chosen = rng.choice(rows)
        if chosen["deletionVector"] and rng.random() < 0.6:
            name = rng.choice(list(ODD_VECTOR))
            chosen["deletionVector"][name] = rng.choice(ODD_VECTOR[name])
        else:
            name = rng.choice(list(ODD))
            chosen[name] = rng.choice(ODD[name])
    data = checkpoint(rows)
    plain = pq.read_table(io.BytesIO(data)).column("add").drop_null().to_pylist()
    expected = outcome(lambda: parse_actions([{"add": value} for value in plain]).adds)
    found = outcome(lambda: [add for adds in read_checkpoint_parquet(io.BytesIO(data))[1] for add in adds])
    assert found == expected


@pytest.mark.parametrize("name", ["path", "stats", "deletionVector", "tags", "cardinality", "offset"])
def test_a_field_that_is_there_twice(name: str) -> None:
    """Readers do not agree which one counts."""
    adds = pa.array([row(random.Random(n), n) for n in range(6)], ADD)
    if name in [field.name for field in VECTOR]:
        fields = {field.name: adds.field(field.name) for field in ADD}
        fields["deletionVector"] = with_field_twice(fields["deletionVector"], name)
        table = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    else:
        table = with_field_twice(adds, name)
    sink = io.BytesIO()
    pq.write_table(pa.table({"add": table}), sink)
    with pytest.raises(FormatError) as e:
        read_checkpoint_parquet(io.BytesIO(sink.getvalue()))
    assert e.value.kind == "delta-checkpoint"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_good_rows_stay_columns(kind: pa.DataType) -> None:
    rows = [row(random.Random(n), n) for n in range(9)]
    array = pa.array(rows, ADD)
    fields = [array.field(i) for i in range(ADD.num_fields)]
    fields[0] = fields[0].cast(kind) if not pa.types.is_dictionary(kind) else fields[0].dictionary_encode()
    columns = AddColumns.of(pa.StructArray.from_arrays(fields, [field.name for field in ADD]))
    assert isinstance(columns, AddColumns)
    assert (
        [columns[i] for i in range(9)] == list(columns) == columns[0:9] == parse_actions({"add": r} for r in rows).adds
    )
    assert columns.counts == Counts.of(columns) == Counts(files=9, vectors=3, deleted=9)
    assert columns[-1].path == rows[-1]["path"]


@pytest.mark.parametrize("seed", range(20))
def test_live_files_are_a_dict(seed: int) -> None:
    rng = random.Random(seed)
    live, model = LiveFiles(), dict[str, AddFile]()
    live.make(["not there"])
    for part in range(3):
        columns = AddColumns.of(pa.array([row(rng, 10 * part + n) for n in range(rng.randrange(1, 10))], ADD))
        assert isinstance(columns, AddColumns)
        assert live.extend(columns) == []
        assert live.extend(columns) is None
        model |= {add.path: add for add in columns}
    before, was = live.copy(), dict(model)
    live.make(rng.sample(list(model), len(model) // 2))
    for number in range(40):
        path = rng.choice([*model, f"new-{number}"])
        if path in model and rng.random() < 0.5:
            del live[path], model[path]
        else:
            add = parse_actions([{"add": {**row(rng, rng.randrange(30)), "path": path}}]).adds[0]
            live[path] = model[path] = add
        assert live.counts == Counts.of(model.values())
    for found, expected in ((live, model), (before, was)):
        assert list(found) == list(expected)
        assert list(found.values()) == list(expected.values())
        assert list(found.items()) == list(expected.items())
        assert len(found) == len(expected)
        assert all(found[path] == add and path in found for path, add in expected.items())


def test_a_path_that_is_there_twice() -> None:
    rows = [row(random.Random(n), n) for n in (1, 2, 1)]
    columns = AddColumns.of(pa.array(rows, ADD))
    assert isinstance(columns, AddColumns)
    live = LiveFiles()
    assert live.extend(columns) is None
    assert (len(live), list(live)) == (0, [])


@pytest.mark.parametrize("length", [20, 200_000])
def test_text_of_a_dictionary_page_is_counted_for_each_row(length: int) -> None:
    """Read plainly, the long text would take 20 GB; the short one is in no more rows than fit."""
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * length]))
    fields = {"path": paths, "size": pa.array(range(100_000)), "stats": paths}
    sink = io.BytesIO()
    pq.write_table(pa.table({"add": pa.StructArray.from_arrays(list(fields.values()), list(fields))}), sink)
    if length == 20:
        _, (adds,) = read_checkpoint_parquet(io.BytesIO(sink.getvalue()))
        assert len(adds) == 100_000
        return
    with pytest.raises(FormatError) as e:
        read_checkpoint_parquet(io.BytesIO(sink.getvalue()))
    assert (e.value.kind, e.value.field) == ("delta-checkpoint", "text")


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
    actions, (adds,) = read_checkpoint_parquet(io.BytesIO(checkpoint.read_bytes()))
    assert actions.protocol is not None
    assert isinstance(adds, AddColumns)
    assert [(add.num_records, add.vector_id) for add in adds] == [(2, None)]
