"""Runs against a dict of lists, in memory and in files, and hashes that are the same everywhere."""

from datetime import date
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.types import DateType, IcebergType, IntegerType, LongType, NestedField, StringType

import deletekit as dk
from deletekit.rows.keys import key_bytes, same_keys
from deletekit.stream.key_hashes import KeyHasher, KeyHashes, splitmix64
from deletekit.stream.key_index import Run, columns_of, merged, new_run, open_run, pack, unpack, with_run
from deletekit.stream.saved_index import find_in_runs
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.sinks.index_files import IndexedFile

IO = PyIcebergIO({})


def field(kind: IcebergType) -> NestedField:
    return NestedField(1, "key", kind, required=False)


def hashes(values: Any, *, wide: bool) -> KeyHashes:
    low = np.asarray(values, np.uint64) << np.uint64(56)
    return KeyHashes(low, np.asarray(values, np.uint64) % 3 if wide else None, np.zeros(len(low), np.bool_))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "in files"])
@pytest.mark.parametrize("seed", range(2))
def test_runs_are_a_dict_of_lists(tmp_path: Path, seed: int, *, saved: bool, wide: bool) -> None:
    random = np.random.default_rng(seed)
    runs: list[Run] = []
    model: dict[int, list[tuple[int, int, int]]] = {}
    live = np.ones(30, np.bool_)
    for number in range(30):
        values = random.integers(0, 200, random.integers(0, 3000 if number % 10 == 0 else 60))
        ids = random.integers(0, 9, len(values)) if number % 4 == 0 else None
        places = pack(number, np.arange(len(values)), np.zeros(len(values), bool))
        rows = columns_of(hashes(values, wide=wide), places) | ({} if ids is None else {"id": ids})
        runs = with_run(runs, new_run([rows], [indexed(number, len(values))]), live)
        for position, value in enumerate(values.tolist()):
            model.setdefault(value, []).append((number, position, -1 if ids is None else int(ids[position])))
        if number % 7 == 6:
            live[random.integers(0, number)] = False
            runs = [merged(runs, live)]
        if saved:
            runs = [reopened(tmp_path, run) for run in runs]
        asked = random.integers(0, 250, random.choice([1, 40]))
        hits = find_in_runs(runs, hashes(asked, wide=wide))
        found = zip(*(part.tolist() for part in (hits.keys, hits.files, hits.positions, hits.row_ids)), strict=True)
        expected = [(row, *place) for row, key in enumerate(asked.tolist()) for place in model.get(key, [])]
        assert sorted(h for h in found if live[h[1]]) == sorted(h for h in expected if live[h[1]])
    assert [len(a) >= 2 * len(b) for a, b in pairwise(runs)] == [True] * (len(runs) - 1)


def indexed(number: int, rows: int) -> IndexedFile:
    return IndexedFile(number=number, path=f"file-{number}", rows=rows, size=rows)


def reopened(folder: Path, run: Run) -> Run:
    if run.saved is None:
        run.save(IO, f"{folder}/{id(run)}-{len(list(folder.iterdir()))}.run")
    assert run.saved is not None
    again = open_run(IO, f"{folder}/{run.saved.name}", run.saved)
    assert sorted(f.number for f in again.files) == sorted(f.number for f in run.files)
    return again


def test_only_the_blocks_that_are_asked_for_are_read(tmp_path: Path) -> None:
    rows = 100_000
    keys = splitmix64(np.arange(rows, dtype=np.uint64))
    of_keys = KeyHashes(keys, None, np.zeros(rows, np.bool_))
    run = new_run([columns_of(of_keys, pack(3, np.arange(rows), of_keys.is_null))], [indexed(3, rows)])
    assert run.nbytes == 16 * rows
    lazy = reopened(tmp_path, run)
    assert (len(lazy), lazy.nbytes) == (rows, 0)
    for wanted in ([7], [7, 8], range(200), range(0, rows, 3)):
        found = find_in_runs([lazy], of_keys.take(np.array(wanted)))
        assert sorted(found.positions.tolist()) == sorted(wanted)
        if len(wanted) < 3:
            assert lazy.nbytes < 50_000
    assert lazy.nbytes == 16 * rows
    assert (tmp_path / lazy.saved.name).stat().st_size < 17 * rows


def test_a_place_is_packed_or_refused() -> None:
    positions = np.array([0, 2**36 - 1])
    for null in (False, True):
        packed = pack(2**27 - 1, positions, np.array([null, False]))
        assert [part.tolist() for part in unpack(packed)] == [[2**27 - 1] * 2, positions.tolist()]
    for number, position in ((2**27, 0), (0, 2**36)):
        with pytest.raises(dk.UnsupportedError):
            pack(number, np.array([position]), np.zeros(1, np.bool_))


# --- hashes -----------------------------------------------------------------------------------------------------------


def test_splitmix64_is_the_published_one() -> None:
    """The first numbers of the generator with seed 1234567, from its author's page, are the hashes of its states."""
    states = [1234567 + i * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for i in range(5)]
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert splitmix64(np.array(states, np.uint64)).tolist() == expected


def test_a_whole_number_is_exact_and_null_is_no_number() -> None:
    hasher = KeyHasher([field(LongType())])
    assert hasher.exact
    assert KeyHasher([field(DateType())]).exact
    found = hasher([pa.chunked_array([[0, None, -1, 2**63 - 1]])])
    assert found.is_null.tolist() == [False, True, False, False]
    assert len(set(found.low[[0, 2, 3]].tolist())) == 3
    small = KeyHasher([field(IntegerType())])([pa.array([0, -1], pa.int32())])
    assert small.low.tolist() == found.low[[0, 2]].tolist(), "a column that is widened keeps its hashes"
    rows = columns_of(found, pack(0, np.arange(4), found.is_null))
    run = new_run([rows], [indexed(0, 4)])
    hits = find_in_runs([run], hasher([pa.array([None, 0], pa.int64())]))
    assert dict(zip(hits.keys.tolist(), hits.positions.tolist(), strict=True)) == {0: 1, 1: 0}


def test_keys_have_equal_bytes_where_they_are_equal() -> None:
    random = np.random.default_rng(3)
    texts, numbers = ["", "a", "b", "1:", "-", None], [0, 1, -1, None]
    floats = [0.0, -0.0, float("nan"), 1.5, None]
    rows = [(texts[random.integers(6)], numbers[random.integers(4)], floats[random.integers(5)]) for _ in range(300)]
    columns = [
        pa.array(c, t) for c, t in zip(zip(*rows, strict=True), (pa.string(), pa.int64(), pa.float64()), strict=True)
    ]
    bytes_ = key_bytes(columns).to_pylist()
    first = [pa.array([c[0].as_py()] * 300, c.type) for c in columns]
    for shift in range(1, 40):
        other = [pa.concat_arrays([c[shift:], c[:shift]]) for c in columns]
        same = [a == b for a, b in zip(bytes_, bytes_[shift:] + bytes_[:shift], strict=True)]
        assert same == same_keys(columns, other).tolist()
    assert [b == key_bytes(first)[0].as_py() for b in bytes_] == same_keys(columns, first).tolist()


def test_hashes_never_change() -> None:
    """Files on disk hold them."""
    here = KeyHasher([field(StringType()), field(DateType())])(
        [pa.array(["x", None]), pa.array([date(1970, 1, 5), None])]
    )
    expected = [blake2b(key, digest_size=16).digest() for key in (b"1:x8:\4\0\0\0\0\0\0\0", b"-:-:")]
    assert here.low.tolist() == [int.from_bytes(d[:8], "little") for d in expected]
    assert here.high is not None
    assert here.high.tolist() == [int.from_bytes(d[8:], "little") for d in expected]
