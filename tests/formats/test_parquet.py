"""Parquet as Iceberg wants it: field ids, footer, sizes and offsets, and values below a NULL struct."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deletekit.formats.metrics import FIELD_ID_KEY
from deletekit.formats.parquet import ParquetOptions, ParquetStream, encode_parquet, without_hidden_nulls


def field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID_KEY: str(field_id)})


NESTED = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("s", pa.struct([field("a", pa.string(), 3), field("b", pa.int32(), 4)]), 2),
        field("l", pa.list_(field("element", pa.int32(), 6)), 5),
        field("m", pa.map_(field("key", pa.string(), 8).with_nullable(False), field("value", pa.int32(), 9)), 7),
    ]
)
ROWS = [{"id": i, "s": {"a": str(i), "b": i}, "l": [i], "m": [("k", i)]} for i in range(100)]
TABLE = pa.Table.from_pylist(ROWS, schema=NESTED)


def test_a_dictionary_is_for_values_that_repeat() -> None:
    """As parquet-java decides after the first page; few rows, and what is not a plain column, are left alone."""
    rows = np.random.default_rng(1).permutation(30_000)
    kinds = [pa.int32(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us", "UTC")]
    kinds += [pa.time64("us"), pa.string(), pa.binary(), pa.binary(16), pa.bool_()]
    for kind in kinds:
        arrays = [_values(n, kind) for n in (rows, rows % 50)]
        schema = pa.schema([field("distinct", kind, 1), field("repeated", kind, 2)])
        for count in (10_000, 30_000):
            table = pa.Table.from_arrays([a.slice(0, count) for a in arrays], schema=schema)
            sink = pa.BufferOutputStream()
            stream = ParquetStream(sink, schema, ParquetOptions(), count)
            stream.write(pa.table(table.columns, names=table.column_names))  # its fields have no ids
            stream.close({})
            data = pa.BufferReader(sink.getvalue())
            group = pq.read_metadata(data).row_group(0)
            found = [group.column(i).has_dictionary_page for i in range(2)]
            has_any = kind != pa.bool_()
            assert found == [has_any and (count == 10_000 or kind == pa.binary(16)), has_any], (kind, count)
            data.seek(0)
            assert pq.read_table(data).cast(table.schema).equals(table)


def _values(numbers: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([f"{n:016}" if pa.types.is_string(kind) else f"{n:016}".encode() for n in numbers], kind)
    plain = pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64())
    return pc.greater(plain, 9) if pa.types.is_boolean(kind) else plain.cast(kind)


def test_file_has_field_ids_and_metadata_and_no_arrow_schema() -> None:
    written = encode_parquet(TABLE, {"delete-type": "position"}, ParquetOptions())
    file = pq.ParquetFile(pa.BufferReader(written.data))
    assert file.schema_arrow.field("s").type.field("b").metadata[FIELD_ID_KEY] == b"4"
    assert file.metadata.metadata == {b"delete-type": b"position"}
    assert file.read() == TABLE


def test_column_sizes_are_those_of_the_leaves() -> None:
    written = encode_parquet(TABLE, {}, ParquetOptions(row_group_rows=30))
    footer = pq.read_metadata(pa.BufferReader(written.data))
    sizes = [
        sum(footer.row_group(g).column(c).total_compressed_size for g in range(4)) for c in range(footer.num_columns)
    ]
    assert written.column_sizes == dict(zip([1, 3, 4, 6, 8, 9], sizes, strict=True))


def test_split_offsets_are_where_the_row_groups_begin() -> None:
    written = encode_parquet(TABLE, {}, ParquetOptions(row_group_rows=30))
    footer = pq.read_metadata(pa.BufferReader(written.data))
    assert footer.num_row_groups == len(written.split_offsets) == 4
    assert written.split_offsets[0] == 4
    assert list(written.split_offsets) == sorted(set(written.split_offsets))


# --- required fields below a NULL struct get a value that no reader sees; every other NULL stays ----------------------


def struct_of(kind: pa.DataType, value: pa.Array, *, required: bool = True) -> pa.Table:
    """Give three rows of a struct of one field: the value, a NULL struct, and the value again."""
    field = pa.field("x", kind, nullable=not required)
    child = pa.concat_arrays([value, nulls(kind), value])
    structs = pa.StructArray.from_arrays([child], fields=[field], mask=pa.array([False, True, False]))
    return pa.Table.from_arrays([structs], schema=pa.schema([pa.field("s", structs.type)]))


def nulls(kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.nulls(1, kind.storage_type))
    return pa.nulls(1, kind)


def written(table: pa.Table) -> list[dict[str, Any]]:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    found: list[dict[str, Any]] = pq.read_table(io.BytesIO(sink.getvalue())).to_pylist()
    return found


INNER = pa.struct([pa.field("y", pa.int32(), nullable=False), pa.field("u", pa.uuid(), nullable=False)])
UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"u" * 16], pa.binary(16)))
VALUES: dict[str, pa.Array] = {
    "boolean": pa.array([True]),
    "int": pa.array([5], pa.int32()),
    "double": pa.array([5.5]),
    "text": pa.array(["a"]),
    "binary": pa.array([b"a"], pa.binary()),
    "fixed": pa.array([b"abcd"], pa.binary(4)),
    "date": pa.array([5], pa.date32()),
    "timestamp": pa.array([5], pa.timestamp("us", "UTC")),
    "decimal": pa.array(["1.50"]).cast(pa.decimal128(9, 2)),
    "uuid": UUIDS,
    "list": pa.array([[1, 2]], pa.list_(pa.int32())),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
    "struct": pa.StructArray.from_arrays([pa.array([5], pa.int32()), UUIDS], fields=list(INNER)),
}


@pytest.mark.parametrize("name", VALUES)
def test_hidden_null_of_a_type_can_be_written(name: str) -> None:
    value = VALUES[name]
    table = struct_of(value.type, value)
    filled = without_hidden_nulls(table)
    assert filled.schema == table.schema
    assert filled.to_pylist() == table.to_pylist() == written(filled)
    assert table.to_pylist()[1] == {"s": None}


@pytest.mark.parametrize("name", ["int", "text"])
def test_null_of_an_optional_field_stays(name: str) -> None:
    table = struct_of(VALUES[name].type, VALUES[name], required=False)
    assert without_hidden_nulls(table) is table


def test_null_that_is_not_hidden_stays() -> None:
    field = pa.field("x", pa.int32(), nullable=False)
    structs = pa.StructArray.from_arrays(
        [pa.array([None, None], pa.int32())], fields=[field], mask=pa.array([False, True])
    )
    table = pa.Table.from_arrays([structs], schema=pa.schema([pa.field("s", structs.type)]))
    assert without_hidden_nulls(table).to_pylist() == [{"s": {"x": None}}, {"s": None}]


def test_null_below_a_null_two_levels_up_can_be_written() -> None:
    inner = pa.field("inner", INNER, nullable=False)
    middle = pa.StructArray.from_arrays([nulls(INNER)], fields=[inner], mask=pa.array([True]))
    table = pa.Table.from_arrays([middle], schema=pa.schema([pa.field("s", middle.type)]))
    assert written(without_hidden_nulls(table)) == [{"s": None}]


@pytest.mark.parametrize("kind", ["list", "map"])
def test_null_inside_a_list_or_map_can_be_written(kind: str) -> None:
    structs = struct_of(pa.int32(), VALUES["int"]).column("s").combine_chunks()
    offsets = pa.array([0, 1, 3, 3], pa.int32())
    mask = pa.array([False, False, True])
    if kind == "list":
        array = pa.ListArray.from_arrays(offsets, structs, mask=mask)
    else:
        array = pa.MapArray.from_arrays(offsets, pa.array(["a", "b", "c"]), structs, mask=mask)
    table = pa.table({"x": array}).slice(1)  # a slice: its offsets do not begin at zero
    filled = without_hidden_nulls(table)
    assert filled.to_pylist() == table.to_pylist() == written(filled)


def test_several_chunks_are_filled() -> None:
    table = struct_of(pa.int32(), VALUES["int"])
    several = pa.concat_tables([table, table.slice(1, 1), table.slice(0, 0)])
    assert without_hidden_nulls(several).to_pylist() == several.to_pylist() == written(without_hidden_nulls(several))


def test_table_without_structs_is_the_same() -> None:
    table = pa.table({"x": [1, None]})
    assert without_hidden_nulls(table) is table
