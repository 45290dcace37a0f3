"""Damaged files: every decoder answers with a value or a DeletekitError, and with nothing else."""

import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deletekit.delta.actions import parse_commit
from deletekit.delta.deletion_vector import DeletionVectorDescriptor, blob_of_frame, decode_body
from deletekit.errors import DeletekitError
from deletekit.formats.avro import read_container
from deletekit.formats.avro_table import read_avro_table
from deletekit.formats.delete_file import read_position_deletes
from deletekit.formats.deletion_vector import decode_blob, decode_vector
from deletekit.formats.manifest_list import ManifestFile, read_manifest_list
from deletekit.formats.manifests import inherit, read_manifest
from deletekit.formats.puffin import read_footer, read_puffin
from deletekit.formats.roaring import serialized_size
from deletekit.formats.tabular import open_tabular, read_all
from deletekit.table.metadata import parse_metadata, serialise_metadata
from tests.golden_files import content, index

ROUNDS = int(os.environ.get("DELETEKIT_FUZZ_ROUNDS", "150"))
ARROW_ROUNDS = int(os.environ.get("DELETEKIT_FUZZ_ROUNDS", "120"))
ROOT = Path(__file__).parents[2]
LARGEST = 20_000  # larger golden files make a round slow and hit the same code

LISTED = ManifestFile(manifest_path="m", manifest_length=1, partition_spec_id=0, added_snapshot_id=1, sequence_number=3)

Decoder = Callable[[bytes], Any]


def table(file_format: str) -> Decoder:
    return lambda data: read_all(open_tabular(io.BytesIO(data), file_format))


def deletes(file_format: str) -> Decoder:
    return lambda data: read_position_deletes(open_tabular(io.BytesIO(data), file_format))


def manifest_both_ways(data: bytes) -> Any:
    """polars must say nothing of what fastavro refuses, and nothing else than it of the rest."""
    results = []
    for by_polars in (False, True):
        try:
            results.append(repr(inherit(read_manifest(data, spec_id=0, by_polars=by_polars), LISTED).all_entries()))
        except DeletekitError as e:
            results.append(repr(e))
            error = e
    assert results[0] == results[1]
    if results[0].startswith("("):
        return results[0]
    raise error


def delta_frame(data: bytes) -> Any:
    """The frame behind the version byte, whatever its length says."""
    frame = data[1 : 1 + 8 + int.from_bytes(data[1:5], "big")]
    descriptor = DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv="x" * 20, size_in_bytes=max(len(frame) - 8, 4), cardinality=5
    )
    return blob_of_frame(frame, descriptor, 200), decode_body(frame[4:-4])


def delta_commit(data: bytes) -> Any:
    """The index of the golden files is not a commit; each of its vectors, put into an add action, is one."""
    try:
        vectors = [v for entry in json.loads(data) for v in entry["vectors"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return parse_commit(data)
    adds = [{"add": {"path": "x", "partitionValues": {}, "size": 1, "deletionVector": v}} for v in vectors]
    return [parse_commit(json.dumps(add).encode()) for add in adds]


DECODERS: dict[str, tuple[str, str, Decoder]] = {
    "decode_blob": ("deletion_vectors", ".bin", decode_blob),
    "decode_vector": ("deletion_vectors", ".bin", lambda d: decode_vector(d[8:-4])),
    "delta_frame": ("delta_deletion_vectors", ".bin", delta_frame),
    "delta_commit": ("delta_deletion_vectors", ".json", delta_commit),
    "serialized_size": ("deletion_vectors", ".bin", lambda d: serialized_size(d, 20)),
    "read_puffin": ("puffin", ".puffin", read_puffin),
    "read_footer": (
        "puffin",
        ".puffin",
        lambda d: read_footer(lambda at, n: d[4:][max(at - 4, 0) : at - 4 + n], len(d)),
    ),
    "read_container": ("manifests", ".avro", lambda d: list(read_container(d))),
    "read_manifest": ("manifests", ".avro", read_manifest),
    "read_manifest by polars": ("manifests", ".avro", manifest_both_ways),
    "read_manifest_list": ("manifests", ".avro", read_manifest_list),
    "read_avro_table": ("delete_files", ".avro", read_avro_table),
    "read_avro_table_of_manifests": ("manifests", ".avro", read_avro_table),
    "open_tabular": ("delete_files", ".avro", table("avro")),
    "read_position_deletes": ("delete_files", ".avro", deletes("avro")),
    "parse_metadata": ("metadata", "", lambda d: serialise_metadata(parse_metadata(d))),
}
ARROW: dict[str, tuple[str, Decoder]] = {
    "parquet": (".parquet", table("parquet")),
    "parquet-deletes": (".parquet", deletes("parquet")),
    "orc": (".orc", table("orc")),
    "orc-deletes": (".orc", deletes("orc")),
}


def seeds(kind: str, suffix: str) -> list[bytes]:
    files = ["index.json"] if suffix == ".json" else sorted(index(kind))
    found = [content(kind, file) for file in files if file.endswith(suffix)]
    found = [data for data in found if len(data) <= LARGEST]
    assert found, f"no golden file of {kind} ends with {suffix}"
    return found


# --- damage -----------------------------------------------------------------------------------------------------------


def truncate(data: bytes, _: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def flip(data: bytes, _: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    start, source = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    length = rng.randrange(64)
    return data[:start] + other[source : source + length] + data[start + rng.randrange(64) :]


def zero(data: bytes, _: bytes, rng: random.Random) -> bytes:
    start, length = rng.randrange(len(data)), rng.randrange(1, 32)
    return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]


def extremes(data: bytes, _: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + rng.choice((b"\xff", b"\x7f", b"\x80")) * rng.randrange(1, 9) + data[start + 8 :]


def noise(_: bytes, other: bytes, rng: random.Random) -> bytes:
    return other[: rng.choice((0, 4, 8))] + rng.randbytes(rng.randrange(200))


DAMAGE = (truncate, flip, flip, splice, zero, extremes, noise)


def damaged(found: list[bytes], name: str, rounds: int) -> Iterator[tuple[int, bytes]]:
    """Give numbered damaged files, the same for the same name each time."""
    for number in range(rounds):
        rng = random.Random(f"{name}-{number}")
        yield number, rng.choice(DAMAGE)(rng.choice(found), rng.choice(found), rng)


def check(decode: Decoder, name: str, number: int, data: bytes) -> None:
    try:
        decode(data)
    except DeletekitError:
        return
    except BaseException as e:
        e.add_note(f"{name}, round {number}: {len(data)} bytes, {data[:200].hex()}")
        raise


# --- tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DECODERS)
def test_whole_files_are_decoded(name: str) -> None:
    kind, suffix, decode = DECODERS[name]
    for data in seeds(kind, suffix):
        check(decode, name, -1, data)


@pytest.mark.parametrize("name", DECODERS)
def test_a_damaged_file_is_a_value_or_a_deletekit_error(name: str) -> None:
    kind, suffix, decode = DECODERS[name]
    for number, data in damaged(seeds(kind, suffix), name, ROUNDS):
        check(decode, name, number, data)


@pytest.mark.parametrize("name", DECODERS)
def test_random_bytes_are_a_value_or_a_deletekit_error(name: str) -> None:
    decode = DECODERS[name][2]
    for number in range(ROUNDS):
        rng = random.Random(f"random-{name}-{number}")
        check(decode, name, number, rng.randbytes(rng.randrange(300)))


@pytest.mark.parametrize("name", ARROW)
def test_a_damaged_arrow_file_does_not_end_the_process(name: str) -> None:
    """Arrow decodes these in C++: where that crashes, the subprocess ends by a signal."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "-m", "tests.fuzz.test_fuzz_formats", name],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60 + ARROW_ROUNDS,
    )
    assert result.returncode == 0, f"{result.stdout[-300:]}\n{result.stderr[-3000:]}"
    assert result.stdout.split()[-1] == str(ARROW_ROUNDS)


def main(name: str) -> None:
    """Run the rounds of one Arrow format; the last number printed is how many."""
    suffix, decode = ARROW[name]
    done = 0
    for number, data in damaged(seeds("delete_files", suffix), name, ARROW_ROUNDS):
        print("round", number, flush=True)
        check(decode, name, number, data)
        done += 1
    print(done)


if __name__ == "__main__":
    main(sys.argv[1])
