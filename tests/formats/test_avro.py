"""Avro container files: what others wrote, what others read, and bytes that claim more than they are."""

import io
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

from deletekit.errors import FormatError, InvalidInputError, UnsupportedError
from deletekit.formats import avro
from deletekit.formats.avro import field_ids_by_name, read_container, write_container
from tests.avro_bytes import SYNC, avro_file, block, header, long
from tests.golden_files import content

SCHEMA: Any = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "int", "field-id": 1}, {"name": "name", "type": ["null", "string"]}],
}
ROWS = [{"id": 1, "name": "a"}, {"id": -5, "name": None}]
# What fastavro calls them, and what the file then says.
CODECS = ["null", "deflate", "zstandard", "snappy"]


def one_field(kind: Any) -> Any:
    return {"type": "record", "name": "r", "fields": [{"name": "x", "type": kind}]}


def read_all(data: bytes) -> list[dict[str, Any]]:
    return list(read_container(data))


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
def test_file_of_several_blocks_is_read() -> None:
    data = content("manifests", "v3_many_blocks.avro")
    assert len(list(fastavro.block_reader(io.BytesIO(data)))) > 1
    assert [r["data_file"]["file_path"] for r in read_all(data)] == [
        r["data_file"]["file_path"]
        for r in fastavro.reader(io.BytesIO(data))  # type: ignore[index,call-overload]
    ]


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_round_trip(codec: str) -> None:
    data = write_container(SCHEMA, ROWS, {"key": "größe"}, codec)
    container = read_container(data)
    assert list(container) == ROWS
    assert container.metadata["key"] == "größe"
    assert container.metadata.get("avro.codec", "null") == codec


@pytest.mark.parametrize("codec", CODECS)
def test_fastavro_reads_ours(codec: str) -> None:
    assert list(fastavro.reader(io.BytesIO(write_container(SCHEMA, ROWS, {}, codec)))) == ROWS


@pytest.mark.parametrize("codec", CODECS)
def test_fastavro_files_are_read(codec: str) -> None:
    sink = io.BytesIO()
    fastavro.writer(sink, SCHEMA, ROWS * 3000, codec=codec)
    assert read_all(sink.getvalue()) == ROWS * 3000


def test_empty_block_between_others() -> None:
    rows = long(1) + b"\0"
    assert [r["id"] for r in read_all(avro_file(SCHEMA, block(1, rows), block(0, b""), block(1, rows)))] == [1, 1]


def test_writer_schema_keeps_what_iceberg_adds() -> None:
    container = read_container(write_container(SCHEMA, ROWS, {}))
    assert field_ids_by_name(container.schema) == {"id": 1}


def test_stored_values_come_back_and_not_pythons_idea_of_them() -> None:
    logical = {
        "date": {"type": "int", "logicalType": "date"},
        "time": {"type": "long", "logicalType": "time-micros"},
        "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
        "decimal": {"type": "fixed", "name": "d", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
        "uuid": {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"},
    }
    schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in logical.items()]}
    row = {"date": -(2**31), "time": -1, "timestamp": 2**63 - 1, "decimal": b"\0\0\5\x8c", "uuid": bytes(16)}
    data = write_container(schema, [row], {})
    assert read_all(data) == [row]


def test_default_that_avro_forbids_is_no_matter() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "x", "type": ["string", "null"], "default": None}],
    }
    assert read_all(avro_file(schema, block(1, b"\0\2a"))) == [{"x": "a"}]


def test_metadata_that_is_not_utf8_is_read_as_far_as_it_can_be() -> None:
    data = avro_file(SCHEMA, metadata={"odd": b"a\xff"})
    assert read_container(data).metadata["odd"] == "a\N{REPLACEMENT CHARACTER}"


def test_fields_without_a_field_id_are_left_out() -> None:
    assert field_ids_by_name(
        {"fields": [{"name": "a", "field-id": 7}, {"name": "b"}, {"name": "c", "field-id": "9"}]}
    ) == {"a": 7}
    assert field_ids_by_name("string") == {}


# --- fixed, as Java writes it -----------------------------------------------------------------------------------------

FIXED = {"type": "fixed", "name": "fixed_4", "size": 4}
TWO_FIXED: Any = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "fixed_4", "type": ["null", FIXED]}, {"name": "b", "type": ["null", "fixed_4"]}],
}
TWO_FIXED_ROW = b"\2" + long(4) + b"abcd" + b"\2" + long(4) + b"efgh"


def test_fixed_with_a_length_in_front_where_asked() -> None:
    data = avro_file(TWO_FIXED, block(1, TWO_FIXED_ROW))
    assert list(read_container(data, fixed_as_bytes=True)) == [{"fixed_4": b"abcd", "b": b"efgh"}]


def test_fixed_as_avro_says_otherwise() -> None:
    data = avro_file(TWO_FIXED, block(1, b"\2abcd\2efgh"))
    assert list(read_container(data)) == [{"fixed_4": b"abcd", "b": b"efgh"}]


def test_fixed_with_a_logical_type_is_never_read_with_a_length() -> None:
    kind = {"type": "fixed", "name": "u", "size": 2, "logicalType": "uuid"}
    data = avro_file(one_field(kind), block(1, b"ab"))
    assert list(read_container(data, fixed_as_bytes=True)) == [{"x": b"ab"}]


def test_fixed_read_the_wrong_way_leaves_bytes_behind_and_is_refused() -> None:
    data = avro_file(TWO_FIXED, block(1, TWO_FIXED_ROW))
    with pytest.raises(FormatError):
        read_all(data)


# --- damage: each case breaks one rule and keeps every other ----------------------------------------------------------

ROW = long(1) + b"\0"


def meta_header(**metadata: bytes) -> bytes:
    return (
        b"Obj\1"
        + long(len(metadata))
        + b"".join(long(len(k)) + k.encode() + long(len(v)) + v for k, v in metadata.items())
        + b"\0"
        + SYNC
    )


DAMAGE: dict[str, tuple[bytes, str, str | None]] = {
    "nothing": (b"", "avro-magic", "magic"),
    "Parquet": (b"PAR1" + bytes(50), "avro-magic", "magic"),
    "version 2": (b"Obj\2" + header(SCHEMA)[4:], "avro-magic", "magic"),
    "magic alone": (b"Obj\1", "avro", None),
    "metadata of 2^60 keys": (b"Obj\1" + long(1 << 60), "avro", None),
    "metadata key of 2^60 bytes": (b"Obj\1" + long(1) + long(1 << 60), "avro", None),
    "metadata key of -1 bytes": (b"Obj\1" + long(1) + long(-1) + bytes(40), "avro", None),
    "no schema": (meta_header(**{"avro.codec": b"null"}), "avro", None),
    "schema is not JSON": (meta_header(**{"avro.schema": b"{"}), "avro", None),
    "schema is not UTF-8": (meta_header(**{"avro.schema": b'"\xff"'}), "avro", None),
    "schema is nested beyond reason": (meta_header(**{"avro.schema": b"[" * 100_000}), "avro", None),
    "schema is not a record": (header("int"), "avro-schema", "avro.schema"),
    "schema is a union of records": (header([SCHEMA]), "avro-schema", "avro.schema"),
    "record with a number for fields": (header({"type": "record", "name": "r", "fields": 5}), "avro", None),
    "field without a type": (header({"type": "record", "name": "r", "fields": [{"name": "x"}]}), "avro", None),
    "field of an unknown type": (header(one_field("tree")), "avro", None),
    "union without a type": (header(one_field([])), "avro-schema", "avro.schema"),
    "fixed of negative size": (
        header(one_field({"type": "fixed", "name": "f", "size": -1})),
        "avro-schema",
        "avro.schema",
    ),
    "record in itself": (header(one_field("r")), "avro-schema", "avro.schema"),
    "record in itself, optional": (header(one_field(["null", "r"])), "avro-schema", "avro.schema"),
    "record in itself, in a list": (header(one_field({"type": "array", "items": "r"})), "avro-schema", "avro.schema"),
    "record in itself, in a map": (header(one_field({"type": "map", "values": "r"})), "avro-schema", "avro.schema"),
    "codec unknown": (avro_file(SCHEMA, metadata={"avro.codec": b"lzma"}), "avro-codec", "avro.codec"),
    "block count cut off": (avro_file(SCHEMA) + b"\x80", "avro", "block count"),
    "block size missing": (avro_file(SCHEMA) + long(1), "avro", "block size"),
    "block count over 64 bits": (avro_file(SCHEMA) + b"\xff" * 12, "avro", "block count"),
    "block count negative": (avro_file(SCHEMA, block(-1, ROW)), "avro", "block size"),
    "block size negative": (avro_file(SCHEMA) + long(1) + long(-2) + ROW + SYNC, "avro", "block size"),
    "block over the file": (avro_file(SCHEMA) + long(1) + long(1 << 60) + ROW + SYNC, "avro", "block size"),
    "block cut off": (avro_file(SCHEMA, block(1, ROW))[:-1], "avro", "block size"),
    "sync marker": (avro_file(SCHEMA, block(1, ROW))[:-1] + b"x", "avro", "sync"),
    "block of 2^60 records": (avro_file(SCHEMA, block(1 << 60, ROW)), "avro", "block count"),
    "block of one record more": (avro_file(SCHEMA, block(2, ROW)), "avro", "block count"),
    "block of one record less": (avro_file(SCHEMA, block(1, ROW + ROW)), "avro", "block"),
    "string of 2^60 bytes": (avro_file(one_field("string"), block(1, long(1 << 60) + b"abc")), "avro", None),
    "string of -3 bytes": (avro_file(one_field("string"), block(1, long(-3) + b"abc")), "avro", None),
    "string is not UTF-8": (avro_file(one_field("string"), block(1, long(1) + b"\xff")), "avro", None),
    "union of no branch": (avro_file(one_field(["null", "int"]), block(1, long(2))), "avro", None),
    "union of a branch below none": (avro_file(one_field(["null", "int"]), block(1, long(-5) + b"\0")), "avro", None),
    "enum of no symbol": (
        avro_file(one_field({"type": "enum", "name": "e", "symbols": ["A"]}), block(1, long(3))),
        "avro",
        None,
    ),
    "array of 2^60 items": (
        avro_file(one_field({"type": "array", "items": "int"}), block(1, long(1 << 60) + b"\0")),
        "avro",
        None,
    ),
    "fixed of 2^40 bytes": (
        avro_file(one_field({"type": "fixed", "name": "f", "size": 1 << 40}), block(1, b"abc")),
        "avro",
        "block count",
    ),
    "deflate that is none": (avro_file(SCHEMA, block(1, b"\xff" * 9), codec="deflate"), "avro-codec", "block"),
    "zstd that is none": (avro_file(SCHEMA, block(1, b"\xff" * 9), codec="zstandard"), "avro-codec", "block"),
    "snappy that is none": (avro_file(SCHEMA, block(1, b"\xff" * 9), codec="snappy"), "avro-codec", "block"),
    "snappy without a checksum": (avro_file(SCHEMA, block(1, b"\2"), codec="snappy"), "avro-codec", "block"),
    "snappy checksum": (avro_file(SCHEMA, block(1, b"\2\4" + ROW + b"abcd"), codec="snappy"), "avro-codec", "block"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str) -> None:
    data, kind, field = DAMAGE[name]
    with pytest.raises(FormatError) as error:
        read_all(data)
    assert (error.value.kind, error.value.field) == (kind, field)
    assert error.value.found is not None or kind == "avro"


def nested(depth: int) -> Any:
    kind: Any = "int"
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return one_field(kind)


UNSUPPORTED: dict[str, tuple[bytes, str]] = {
    "bzip2": (avro_file(SCHEMA, metadata={"avro.codec": b"bzip2"}), "avro-codec"),
    "xz": (avro_file(SCHEMA, metadata={"avro.codec": b"xz"}), "avro-codec"),
    "records without bytes": (
        avro_file({"type": "record", "name": "r", "fields": []}, block(1 << 60, b"")),
        "avro-empty",
    ),
    "records of null": (avro_file(one_field("null"), block(1 << 60, b"")), "avro-empty"),
    "list of null": (
        avro_file(one_field({"type": "array", "items": "null"}), block(1, long(1 << 60) + b"\0")),
        "avro-empty",
    ),
    "list of empty structs": (
        header(one_field({"type": "array", "items": {"type": "record", "name": "e", "fields": []}})),
        "avro-empty",
    ),
    "structs of structs of nothing": (
        header(
            {
                "type": "record",
                "name": "r",
                "fields": [
                    {
                        "name": f"f{i}",
                        "type": {
                            "type": "record",
                            "name": f"r{i}",
                            "fields": [{"name": n, "type": f"r{i - 1}" if i else "null"} for n in "abcdefgh"],
                        },
                    }
                    for i in range(20)
                ]
                + [{"name": "x", "type": "int"}],
            }
        ),
        "avro-empty",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_legal_and_not_read_is_refused_by_name(name: str) -> None:
    data, kind = UNSUPPORTED[name]
    with pytest.raises(UnsupportedError) as error:
        read_all(data)
    assert error.value.kind == kind


def test_types_nested_too_deeply_are_refused() -> None:
    assert read_all(avro_file(nested(100), block(1, b"\0"))) == [{"x": []}]
    with pytest.raises(FormatError) as error:
        read_all(header(nested(300)))
    assert error.value.kind == "avro-schema"


def test_block_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": 1, "name": "a" * 10_000}]
    data = write_container(SCHEMA, rows, {})
    monkeypatch.setattr(avro, "_MAX_BLOCK_BYTES", 10_005)
    assert read_all(data) == rows
    monkeypatch.setattr(avro, "_MAX_BLOCK_BYTES", 10_004)
    with pytest.raises(FormatError, match="over the limit") as error:
        read_all(data)
    assert (error.value.kind, error.value.field) == ("avro-codec", "block")


def test_file_may_not_grow_beyond_what_deflate_could_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "_MAX_FREE_BYTES", 0)
    monkeypatch.setattr(avro, "_MAX_RATIO", 2)
    stream = zlib.compressobj(wbits=-15)
    bomb = block(1, stream.compress(long(1 << 20) + b"a" * (1 << 20)) + stream.flush())
    with pytest.raises(FormatError, match="over the limit"):
        read_all(avro_file(one_field("string"), bomb, codec="deflate"))


def test_more_distinct_records_than_bytes_are_refused() -> None:
    stream = zlib.compressobj(wbits=-15)
    data = avro_file(one_field("int"), block(9000, stream.compress(bytes(9000)) + stream.flush()), codec="deflate")
    assert len(list(read_container(data))) == 9000
    with pytest.raises(FormatError) as error:
        list(read_container(data, distinct=True))
    assert (error.value.kind, error.value.field) == ("avro", "block count")
    assert error.value.expected == f"<= {len(data)} records"


@pytest.mark.parametrize("codec", CODECS)
def test_file_cut_off_anywhere_but_between_blocks_is_refused(codec: str) -> None:
    data = write_container(SCHEMA, ROWS, {}, codec)
    start = data.index(read_container(data)._sync) + 16
    for end in range(len(data)):
        if end == start:  # a header is a file without records
            continue
        with pytest.raises(FormatError):
            read_all(data[:end])


# --- writing ----------------------------------------------------------------------------------------------------------

WRONG: dict[str, Callable[[], bytes]] = {
    "another type": lambda: write_container(SCHEMA, [{"id": "1", "name": "a"}], {}),
    "no branch of the union": lambda: write_container(SCHEMA, [{"id": 1, "name": 5}], {}),
    "missing": lambda: write_container(SCHEMA, [{"name": "a"}], {}),
    "over 64 bits": lambda: write_container(SCHEMA, [{"id": 2**64, "name": "a"}], {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_value_that_the_schema_has_not_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        WRONG[name]()
    assert error.value.kind == "avro-value"


def test_error_of_the_records_themselves_passes() -> None:
    def records() -> Any:
        raise FormatError("own", kind="own")
        yield

    with pytest.raises(FormatError) as error:
        write_container(SCHEMA, records(), {})
    assert error.value.kind == "own"


@pytest.mark.parametrize("codec", ["gzip", "bzip2"])
def test_codec_that_is_not_written_is_refused(codec: str) -> None:
    with pytest.raises((FormatError, UnsupportedError)) as error:
        write_container(SCHEMA, ROWS, {}, codec)
    assert error.value.kind == "avro-codec"
