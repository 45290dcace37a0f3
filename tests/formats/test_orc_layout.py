"""The numbers of an ORC file's tail: right ones pass, and each false one is refused before Arrow sees it.

Without these checks Arrow 26 ends the process on most of the files made here.
"""

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats import orc_layout
from deletekit.formats.orc_layout import check_orc
from deletekit.formats.tabular import open_tabular, read_all
from tests.golden_files import Entry, cases, content
from tests.orc_bytes import Change, Message, decode, drop, encode, get, nothing, number, put, rebuilt, within

TABLE = pa.table(
    {
        "id": pa.array(range(50), pa.int64()),
        "name": pa.array([f"name {i % 3}" for i in range(50)], pa.string()),
        "price": pa.array([None] * 50, pa.decimal128(38, 10)),
        "at": pa.array([1_000_000_000] * 50, pa.timestamp("us")),
    }
)
ID, NAME, PRICE = 1, 2, 3  # of their types and encodings


def orc_file(table: pa.Table = TABLE, **options: Any) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table, sink, **{"compression": "uncompressed", **options})
    return sink.getvalue()


WHOLE = orc_file()


def check(data: bytes) -> None:
    source = io.BytesIO(data)
    check_orc(source)
    assert source.tell() == 0


# --- right files ------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("entry", cases("delete_files", lambda e: e["format"] == "orc"))
def test_java_files_pass(entry: Entry) -> None:
    check(content("delete_files", entry["file"]))


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("rows", [0, 1, 50, 200_000])
def test_arrow_files_pass(codec: str, rows: int) -> None:
    table = pa.concat_tables([TABLE] * (rows // 50 + 1)).slice(0, rows)
    check(orc_file(table, compression=codec, stripe_size=1 << 16))


def test_file_taken_apart_and_put_together_is_the_same() -> None:
    assert rebuilt(WHOLE) == WHOLE


def test_nested_types_pass() -> None:
    kind = pa.int32()
    for _ in range(30):
        kind = pa.struct([("x", kind)])
    columns = {
        "structs": pa.array([None], kind),
        "map": pa.array([[("a", [1])]], pa.map_(pa.string(), pa.list_(pa.int32()))),
    }
    check(orc_file(pa.table(columns)))


def test_type_whose_children_are_not_packed_passes() -> None:
    def unpacked(kind: Message) -> None:
        children = get(kind, 2)
        kind[:] = [pair for pair in kind if pair[0] != 2] + [[2, child] for child in children]

    check(rebuilt(WHOLE, footer=within(4, unpacked)))


def test_numbers_of_a_fixed_width_are_stepped_over() -> None:
    message = orc_layout._message(b"\x09" + bytes(8) + b"\x15" + bytes(4) + b"\x18\x05")
    assert message == {1: [bytes(8)], 2: [bytes(4)], 3: [5]}


def test_field_that_nobody_knows_passes() -> None:
    check(rebuilt(WHOLE, footer=put(99, b"\xff"), postscript=put(99, 5), stripe_footer=put(99, 5)))


# --- false files: each case changes one number and keeps every other --------------------------------------------------


def both(first: Change, second: Change) -> Change:
    def change(message: Message) -> None:
        first(message)
        second(message)

    return change


def nested_types(count: int) -> Change:
    """Add types that hold one another: structs (kind 12) of the next, and an int (kind 3) at the end."""

    def change(message: Message) -> None:
        types = [pair for pair in message if pair[0] == 4]
        at = message.index(types[-1]) + 1
        children = [number(len(types) + i + 1) for i in range(count - 1)]
        structs = [[4, encode([[1, 12], [2, child]])] for child in children]
        message[at:at] = [*structs, [4, encode([[1, 3]])]]

    return change


FALSE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "postscript"),
    "magic alone": (b"ORC", "postscript"),
    "no postscript": (WHOLE[:-1] + b"\0", "postscript"),
    "postscript over the file": (b"ORC" + b"\xff", "postscript"),
    "postscript's magic": (rebuilt(WHOLE, postscript=put(8000, b"ORD")), "magic"),
    "no magic": (rebuilt(WHOLE, postscript=drop(8000)), "magic"),
    "magic is a number": (rebuilt(WHOLE, postscript=put(8000, 5)), "magic"),
    "footer over the file": (rebuilt(WHOLE, postscript=put(1, len(WHOLE))), "footerLength"),
    "footer of 2^63 bytes": (rebuilt(WHOLE, postscript=put(1, 1 << 63)), "footerLength"),
    "metadata of 2^63 bytes": (rebuilt(WHOLE, postscript=put(5, 1 << 63)), "footerLength"),
    "compression unknown": (rebuilt(WHOLE, postscript=put(2, 9)), "compression"),
    "compressed by blocks of 2^30 bytes": (
        rebuilt(WHOLE, postscript=both(put(2, 1), put(3, 1 << 30))),
        "compressionBlockSize",
    ),
    "compressed by blocks of no bytes": (
        rebuilt(WHOLE, postscript=both(put(2, 1), put(3, 0))),
        "compressionBlockSize",
    ),
    "footer is not a message": (rebuilt(WHOLE, footer=lambda m: m.clear()), "types"),
    "footer is cut off": (rebuilt(WHOLE, footer=lambda m: m.append([3, b"\x08\xff"])), "protobuf"),
    "stripe of 2^63 rows": (rebuilt(WHOLE, stripe=put(5, 1 << 63)), "numberOfRows"),
    "stripe of -1 rows": (rebuilt(WHOLE, stripe=put(5, -1)), "numberOfRows"),
    "stripe of one row more": (rebuilt(WHOLE, stripe=put(5, 51)), "numberOfRows"),
    "file of one row more": (rebuilt(WHOLE, footer=put(6, 51)), "numberOfRows"),
    "stripe behind the file": (rebuilt(WHOLE, stripe=put(1, 1 << 40)), "stripes"),
    "stripe inside the magic": (rebuilt(WHOLE, stripe=put(1, 2)), "stripes"),
    "index over the file": (rebuilt(WHOLE, stripe=put(2, 1 << 62)), "stripes"),
    "data over the file": (rebuilt(WHOLE, stripe=put(3, 1 << 62)), "stripes"),
    "stripe footer over the file": (rebuilt(WHOLE, stripe=put(4, 1 << 62)), "stripes"),
    "decimal of 39 digits": (rebuilt(WHOLE, footer=within(4, put(5, 39), PRICE)), "precision"),
    "decimal of 2^32 + 39 digits": (rebuilt(WHOLE, footer=within(4, put(5, (1 << 32) + 39), PRICE)), "precision"),
    "decimal of scale 39": (rebuilt(WHOLE, footer=within(4, put(6, 39), PRICE)), "precision"),
    "decimal of scale -1": (rebuilt(WHOLE, footer=within(4, put(6, -1), PRICE)), "precision"),
    "type of itself": (rebuilt(WHOLE, footer=within(4, put(2, b"\x00\x02\x03\x04"))), "subtypes"),
    "type that is not there": (rebuilt(WHOLE, footer=within(4, put(2, b"\x01\x02\x03\x7f"))), "subtypes"),
    "type twice": (rebuilt(WHOLE, footer=within(4, put(2, b"\x01\x02\x02\x04"))), "subtypes"),
    "types nested too deeply": (rebuilt(WHOLE, footer=nested_types(150)), "types"),
    "stream over its stripe": (rebuilt(WHOLE, stripe_footer=within(1, put(3, 1 << 31), 5)), "streams"),
    "stream of -1 bytes": (rebuilt(WHOLE, stripe_footer=within(1, put(3, -1), 5)), "streams"),
    "stream of no column": (rebuilt(WHOLE, stripe_footer=within(1, put(2, 50), 5)), "streams"),
    "stream twice": (
        rebuilt(WHOLE, stripe_footer=lambda m: m.insert(0, [1, encode([*decode(m[0][1])[:2], [3, 0]])])),
        "streams",
    ),
    "encoding missing": (rebuilt(WHOLE, stripe_footer=drop(2)), "columns"),
    "encoding too many": (rebuilt(WHOLE, stripe_footer=lambda m: m.append([2, b"\x08\x02"])), "columns"),
    "dictionary of 2^31 words": (rebuilt(WHOLE, stripe_footer=within(2, put(2, 1 << 31), NAME)), "dictionarySize"),
    "dictionary of -1 words": (rebuilt(WHOLE, stripe_footer=within(2, put(2, -1), NAME)), "dictionarySize"),
    "time zone is a path": (rebuilt(WHOLE, stripe_footer=put(3, b"../../etc/passwd")), "writerTimezone"),
    "time zone is absolute": (rebuilt(WHOLE, stripe_footer=put(3, b"/etc/passwd")), "writerTimezone"),
}


@pytest.mark.parametrize("name", FALSE)
def test_false_number_is_named(name: str) -> None:
    data, field = FALSE[name]
    with pytest.raises(FormatError) as error:
        read_all(open_tabular(io.BytesIO(data), "orc"))
    assert (error.value.kind, error.value.field) == ("orc", field)
    assert error.value.found is not None
    assert error.value.expected is not None


def test_lzo_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError) as error:
        check(rebuilt(WHOLE, postscript=put(2, 3)))
    assert (error.value.kind, error.value.found) == ("orc", "LZO")


def test_stripe_of_more_rows_than_arrow_can_be_asked_for_is_refused() -> None:
    rows = (1 << 27) + 1
    with pytest.raises(UnsupportedError) as error:
        check(rebuilt(WHOLE, stripe=put(5, rows), footer=put(6, rows)))
    assert (error.value.kind, error.value.field, error.value.found) == ("orc", "numberOfRows", rows)


def compressed(codec: str, postscript: Change = nothing, footer: Callable[[bytes], bytes] = bytes) -> bytes:
    """Give a compressed file with another footer chunk or postscript."""
    data = orc_file(compression=codec)
    last = decode(data[-1 - data[-1] : -1])
    end = len(data) - 1 - data[-1]
    start = end - get(last, 1)
    tail = footer(data[start:end])
    put(1, len(tail))(last)
    postscript(last)
    ending = encode(last)
    return data[:start] + tail + ending + bytes([len(ending)])


CHUNKS = {
    "cut off": lambda chunk: chunk[:-1],
    "header cut off": lambda chunk: chunk[:2],
    "of another length": lambda chunk: bytes([chunk[0] ^ 8]) + chunk[1:],
    "of noise": lambda chunk: chunk[:3] + b"\xff" * (len(chunk) - 3),
}


@pytest.mark.parametrize("codec", ["zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("name", CHUNKS)
def test_damaged_chunk_is_refused(codec: str, name: str) -> None:
    check(compressed(codec))
    with pytest.raises(FormatError) as error:
        check(compressed(codec, footer=CHUNKS[name]))
    assert error.value.kind == "orc"


def test_footer_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc_layout, "_MAX_FOOTER_BYTES", 100)
    with pytest.raises(FormatError, match="too large") as error:
        check(compressed("zlib"))
    assert (error.value.kind, error.value.field) == ("orc", "footer")


def test_source_that_gives_less_than_it_says_is_refused() -> None:
    class Short(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(size)[:-1]

    with pytest.raises(FormatError) as error:
        check_orc(Short(WHOLE))
    assert (error.value.kind, error.value.field) == ("orc", "length")


@pytest.mark.parametrize("codec", ["zlib", "snappy", "lz4", "zstd"])
def test_chunk_that_grows_beyond_the_block_is_refused(codec: str) -> None:
    with pytest.raises(FormatError) as error:
        check(compressed(codec, postscript=put(3, 10)))
    assert (error.value.kind, error.value.field) == ("orc", "chunk")
