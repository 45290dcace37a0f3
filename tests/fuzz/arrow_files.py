"""ORC and Parquet files whose footers and page headers lie: the numbers are changed, and everything is laid out anew.

Run as a program it makes and reads them one by one, so that a crash of Arrow ends this process and no other:

    python -m tests.fuzz.arrow_files orc 1000
"""

import io
import random
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from deletekit.errors import DeletekitError
from deletekit.formats.delete_file import read_position_deletes
from deletekit.formats.tabular import open_tabular, read_all
from tests import orc_bytes, thrift_bytes

ODD = [0, 1, 2, 3, 7, 38, 39, 63, 64, 127, 128, 255, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32]
ODD += [1 << 40, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1]
MEMORY = 6 << 30

# --- whole files ------------------------------------------------------------------------------------------------------


def tables() -> list[pa.Table]:
    rows = 60
    deletes = {
        "file_path": pa.array([f"s3://b/{i % 3}.parquet" for i in range(rows)]),
        "pos": pa.array(range(rows), pa.int64()),
    }
    types = {
        "i": pa.array([None if i % 5 == 0 else i for i in range(rows)], pa.int32()),
        "d": pa.array([None if i % 7 == 0 else i for i in range(rows)], pa.int32()).cast(pa.decimal128(20, 2)),
        "f": pa.array([i / 3 for i in range(rows)]),
        "b": pa.array([i % 2 == 0 for i in range(rows)]),
        "t": pa.array(range(rows), pa.timestamp("us")),
        "s": pa.array([None if i % 9 == 0 else {"x": i, "y": str(i)} for i in range(rows)]),
        "x": pa.array([bytes([i]) * i for i in range(rows)]),
    }
    return [pa.table(deletes), pa.table(types)]


def orc_files() -> list[bytes]:
    sinks = []
    for table in tables():
        for threshold in (0.0, 1.0):  # plain text and dictionaries
            sinks.append(io.BytesIO())
            orc.write_table(table, sinks[-1], compression="uncompressed", dictionary_key_size_threshold=threshold)
    return [sink.getvalue() for sink in sinks]


def parquet_files() -> list[bytes]:
    sinks = []
    for table in tables():
        for options in ({}, {"use_dictionary": False, "data_page_version": "2.0"}):
            sinks.append(io.BytesIO())
            pq.write_table(table, sinks[-1], compression="none", store_schema=False, row_group_size=40, **options)
    return [sink.getvalue() for sink in sinks]


# --- lies -------------------------------------------------------------------------------------------------------------


def change_message(message: orc_bytes.Message, chance: random.Random, depth: int = 0) -> None:
    """Change one number somewhere in a protobuf message, or drop, repeat or empty one of its parts."""
    pair = chance.choice(message)
    if isinstance(pair[1], bytes) and depth < 4 and chance.random() < 0.8:
        try:
            part = orc_bytes.decode(pair[1])
        except (AssertionError, IndexError):
            part = []
        if part and orc_bytes.encode(part) == pair[1]:
            change_message(part, chance, depth + 1)
            pair[1] = orc_bytes.encode(part)
            return
    how = chance.random()
    if isinstance(pair[1], int) and how < 0.8:
        pair[1] = chance.choice([*ODD, pair[1] + 1, max(pair[1] - 1, 0)])
    elif how < 0.9:
        message.remove(pair)
    else:
        message.insert(chance.randrange(len(message) + 1), list(pair))


def lying_orc(data: bytes, chance: random.Random) -> bytes:
    part = chance.choice(["stripe_footer", "stripe", "footer", "footer", "footer", "postscript"])
    return orc_bytes.rebuilt(data, **{part: lambda message: change_message(message, chance)})


def values_of(fields: thrift_bytes.Struct) -> Iterator[tuple[thrift_bytes.Struct, list[Any]]]:
    for entry in fields:
        yield fields, entry
        if entry[1] == thrift_bytes.STRUCT:
            yield from values_of(entry[2])
        elif entry[1] in (thrift_bytes.LIST, thrift_bytes.SET):
            yield from values_of(entry[2][1])


def change_struct(fields: thrift_bytes.Struct, chance: random.Random) -> None:
    """Change one number or length somewhere in a Thrift struct, or drop or repeat one of its parts."""
    found = list(values_of(fields))
    holder, entry = chance.choice(found)
    numbers = [e for _, e in found if e[1] in thrift_bytes.NUMBERS]
    lists = [e for _, e in found if e[1] == thrift_bytes.LIST]
    how = chance.random()
    if how < 0.65 and numbers:
        entry = chance.choice(numbers)
        entry[2] = chance.choice([*ODD, entry[2] + 2, max(entry[2] - 2, 0)])
    elif how < 0.75 and lists:
        chance.choice(lists)[2][2] = chance.choice([0, 1, 5, 1 << 20, (1 << 31) - 1])
    elif how < 0.85:
        holder.remove(entry)
    elif how < 0.95:
        holder.insert(chance.randrange(len(holder) + 1), list(entry))
    elif entry[1] == thrift_bytes.TEXT:
        entry[2] = chance.choice([b"", b"\xff\xfe", b"x" * 70_000])


def lying_parquet(data: bytes, chance: random.Random) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = thrift_bytes.decode(data[-8 - length : -8])
    body = data[: -8 - length]
    if chance.random() < 0.6:
        change_struct(footer, chance)
    else:
        body = with_another_page(body, footer, chance)
    stored = thrift_bytes.encode(footer)
    return body + stored + struct.pack("<I", len(stored)) + b"PAR1"


def with_another_page(body: bytes, footer: thrift_bytes.Struct, chance: random.Random) -> bytes:
    """Append a page with a changed header, and let a column chunk begin there."""
    chunks = [e[2] for _, e in values_of(footer) if e[0] == 3 and e[1] == thrift_bytes.STRUCT]
    offsets = [f for chunk in chunks for f in chunk if f[0] in (9, 11) and f[1] == thrift_bytes.LONG]
    offset = chance.choice(offsets)  # data_page_offset or dictionary_page_offset, zigzag
    header, end = thrift_bytes.decode(body, offset[2] >> 1)
    change_struct(header, chance)
    offset[2] = len(body) << 1
    return body + thrift_bytes.encode(header) + body[end:]


FORMATS: dict[str, tuple[Callable[[], list[bytes]], Callable[[bytes, random.Random], bytes]]] = {
    "orc": (orc_files, lying_orc),
    "parquet": (parquet_files, lying_parquet),
}


# --- the program ------------------------------------------------------------------------------------------------------


def read(data: bytes, file_format: str) -> None:
    file = open_tabular(io.BytesIO(data), file_format)
    read_all(file)
    read_position_deletes(file)


def main(file_format: str, rounds: int) -> None:
    import resource  # noqa: PLC0415  # not there on Windows

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    make, lie = FORMATS[file_format]
    files = make()
    for whole in files:
        read_all(open_tabular(io.BytesIO(whole), file_format))
    for number in range(rounds):
        chance = random.Random(f"{file_format}-{number}")
        data = lie(chance.choice(files), chance)
        print("round", number, flush=True)
        try:
            read(data, file_format)
        except DeletekitError:
            continue
        except BaseException as e:
            e.add_note(f"round {number}: {data.hex()}")
            raise
    print("done", rounds)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
