"""The packed index against a dict of lists, and keys that share a hash."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.types import BinaryType, DateType, DecimalType, LongType, NestedField, StringType

import deletekit as dk
from deletekit.stream.key_columns import KeyColumns
from deletekit.stream.key_index import KeyHasher, KeyIndex, pack, same_keys, unpack


@pytest.mark.parametrize("seed", range(5))
def test_it_is_a_dict_of_lists(seed: int) -> None:
    random = np.random.default_rng(seed)
    index, model, gone = KeyIndex(), {}, set()
    for number in range(30):
        hashes = random.integers(0, 200, random.integers(0, 100)).astype(np.uint64)
        index.add(hashes, pack(number, np.arange(len(hashes))))
        for position, value in enumerate(hashes.tolist()):
            model.setdefault(value, []).append((number, position))
        if number % 7 == 6:
            gone.add(int(random.integers(0, number)))
            index.keep(lambda places: ~np.isin(unpack(places)[0], list(gone)))
        asked = random.integers(0, 250, 40).astype(np.uint64)
        rows, places = index.find(asked)
        files, positions = unpack(places)
        found = sorted(zip(rows.tolist(), files.tolist(), positions.tolist(), strict=True))
        live = {key: [place for place in model.get(key, []) if place[0] not in gone] for key in asked.tolist()}
        assert found == sorted((row, *place) for row, key in enumerate(asked.tolist()) for place in live[key])
    assert index.nbytes == 16 * len(index)


def test_a_place_is_packed_or_refused() -> None:
    positions = np.array([0, 2**40 - 1])
    assert [part.tolist() for part in unpack(pack(2**24 - 1, positions))] == [[2**24 - 1] * 2, positions.tolist()]
    for number, position in ((2**24, 0), (0, 2**40)):
        with pytest.raises(dk.UnsupportedError):
            pack(number, np.array([position]))


def test_a_whole_number_is_its_own_hash_and_null_has_none() -> None:
    hasher = KeyHasher([NestedField(1, "id", LongType(), required=False)])
    assert hasher.exact
    hashes = hasher([pa.chunked_array([[0, None, -1, 2**63 - 1]])])
    assert hashes.is_null.tolist() == [False, True, False, False]
    assert hashes.values.view(np.int64)[[0, 2, 3]].tolist() == [0, -1, 2**63 - 1]
    assert KeyHasher([NestedField(1, "day", DateType(), required=False)]).exact


@pytest.mark.parametrize("kind", [StringType(), BinaryType(), DecimalType(10, 2)])
def test_other_keys_are_compared(kind: object) -> None:
    assert not KeyHasher([NestedField(1, "key", kind, required=False)]).exact


def test_keys_are_equal_as_equality_deletes_have_it() -> None:
    left = [pa.array(["a", None, "b", None]), pa.array([1, 2, None, None])]
    right = [pa.array(["a", None, "b", "c"]), pa.array([1, 2, None, None])]
    assert same_keys(left, right).tolist() == [True, True, True, False]


@pytest.mark.parametrize("rows", [3, 2_500_000], ids=["in memory", "on disk"])
def test_columns_by_position(rows: int) -> None:
    columns = KeyColumns()
    columns.put(7, pa.table({"a": np.arange(rows), "b": pa.array(np.arange(rows).astype(str))}))
    positions = np.array([rows - 1, 0, rows // 2, 0])
    taken = columns.take(7, positions)
    assert taken.column("a").to_pylist() == positions.tolist()
    assert taken.column("b").to_pylist() == [str(p) for p in positions]
    columns.drop(7)
    columns.close()
