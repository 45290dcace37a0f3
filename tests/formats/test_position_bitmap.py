"""PositionBitmap behaves as a Python set of the same numbers does, below and above 2^32."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from deletekit.formats.deletion_vector import (
    PositionBitmap,
    decode_blob,
    encode_blob,
)
from deletekit.formats.roaring import unpacked

patient = settings(deadline=None)  # a busy machine is not a failure
BORDERS = [0, 1, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33 - 1, 3 * 2**32, 2**40]

near_border = st.builds(lambda border, step: max(border + step, 0), st.sampled_from(BORDERS), st.integers(-3, 3))
position = st.integers(0, 2000) | near_border | st.integers(0, 2**35)
positions = st.frozensets(position, max_size=60)
spans = st.builds(lambda start, length: (start, start + length), position, st.integers(0, 70_000))


@patient
@given(positions)
def test_holds_what_was_put_in(numbers: frozenset[int]) -> None:
    found = PositionBitmap(numbers)
    assert list(found) == sorted(numbers)
    assert len(found) == len(numbers)
    assert bool(found) == bool(numbers)


@patient
@given(st.lists(position, max_size=40))
def test_order_and_duplicates_do_not_matter(numbers: list[int]) -> None:
    assert PositionBitmap(numbers) == PositionBitmap(sorted(numbers) * 2)


@patient
@given(positions, st.sampled_from([np.int64, np.uint64]))
def test_arrays_are_as_good_as_lists(numbers: frozenset[int], kind: type[np.integer]) -> None:
    assert PositionBitmap(np.array(sorted(numbers), dtype=kind)) == PositionBitmap(numbers)


@patient
@given(
    start=st.integers(0, 200_000) | st.sampled_from([2**32 - 70_000, 2**32 - 1, 2**33]),
    rows=st.integers(0, 200_000),
    share=st.sampled_from([0, 1e-4, 0.03, 0.5, 1]),
    offset=st.integers(0, 9),
)
def test_a_mask_is_as_good_as_positions(start: int, rows: int, share: float, offset: int) -> None:
    mask = np.random.default_rng(rows).random(rows) < share
    assert np.array_equal(unpacked(pa.array(np.r_[np.ones(offset, np.bool_), mask]).slice(offset)), mask)
    found, expected = PositionBitmap.from_mask(mask, start), BitMap64((np.flatnonzero(mask) + start).tolist())
    assert np.array_equal(found.to_numpy(), np.array(expected.to_array(), np.int64))
    assert encode_blob(found) == encode_blob(PositionBitmap(found.to_numpy())), "whatever it was built of"
    assert np.array_equal(found.mask(start, rows), mask)


def test_booleans_with_nulls_are_not_mistaken() -> None:
    assert list(unpacked(pa.array([True, None, False]))) == [True, None, False]


@patient
@given(st.lists(positions, max_size=4))
def test_union_of_many(sets: list[frozenset[int]]) -> None:
    assert PositionBitmap.union(map(PositionBitmap, sets)) == PositionBitmap(frozenset().union(*sets))


@patient
@given(positions, positions)
def test_union_difference_and_equality(left: frozenset[int], right: frozenset[int]) -> None:
    a, b = PositionBitmap(left), PositionBitmap(right)
    assert a | b == PositionBitmap(left | right)
    assert a - b == PositionBitmap(left - right)
    assert (a == b) == (left == right)
    assert list(a) == sorted(left), "an operand was changed"
    assert list(b) == sorted(right), "an operand was changed"


@patient
@given(positions, position)
def test_membership(numbers: frozenset[int], probe: int) -> None:
    found = PositionBitmap(numbers)
    assert (probe in found) == (probe in numbers)
    assert all(number in found for number in numbers)
    assert all(number in found for number in found.to_numpy())


@patient
@given(positions, spans)
def test_count_in_and_mask_of_a_span(numbers: frozenset[int], span: tuple[int, int]) -> None:
    start, stop = span
    found = PositionBitmap(numbers)
    inside = sorted(number - start for number in numbers if start <= number < stop)
    mask = found.mask(start, stop - start)
    assert found.count_in(start, stop) == len(inside)
    assert mask.dtype == np.bool_
    assert len(mask) == stop - start
    assert np.flatnonzero(mask).tolist() == inside


@patient
@given(spans)
def test_range(span: tuple[int, int]) -> None:
    found = PositionBitmap.from_range(*span)
    assert found == PositionBitmap(range(*span))
    assert len(found) == span[1] - span[0]


@given(st.lists(spans, max_size=4), positions)
@settings(max_examples=30, deadline=None)
def test_runs_and_single_positions_mix(ranges: list[tuple[int, int]], numbers: frozenset[int]) -> None:
    found = PositionBitmap(numbers)
    expected = set(numbers)
    for start, stop in ranges:
        found = found | PositionBitmap.from_range(start, stop)
        expected |= set(range(start, stop))
    assert found.to_numpy().tolist() == sorted(expected)
    assert decode_blob(encode_blob(found), cardinality=len(expected)) == found


short_spans = st.lists(
    st.builds(lambda start, length: (start, start + length), position, st.integers(1, 6)), max_size=8
)


@patient
@given(short_spans)
def test_equal_sets_have_equal_bytes_however_they_were_made(ranges: list[tuple[int, int]]) -> None:
    once = PositionBitmap({number for start, stop in ranges for number in range(start, stop)})
    grown = PositionBitmap()
    for start, stop in ranges:
        grown = grown | PositionBitmap.from_range(start, stop)
    shrunk = (grown | PositionBitmap.from_range(0, 70_000)) - (PositionBitmap.from_range(0, 70_000) - once)
    assert once == grown == shrunk
    assert encode_blob(once) == encode_blob(grown) == encode_blob(shrunk) == encode_blob(decode_blob(encode_blob(once)))


def test_full_bitmap_of_four_billion_positions() -> None:
    found = PositionBitmap.from_range(0, 2**32 + 2)
    assert len(found) == 2**32 + 2
    assert found.count_in(2**32 - 1, 2**32 + 9) == 3
    assert found - PositionBitmap.from_range(1, 2**32 + 1) == PositionBitmap([0, 2**32 + 1])


@pytest.mark.parametrize("other", [-1, 1.0, "1", None])
def test_what_is_no_position_is_not_in(other: object) -> None:
    assert other not in PositionBitmap([0, 1])


def test_numpy_integer_is_in() -> None:
    assert np.int32(5) in PositionBitmap([5])


def test_empty() -> None:
    empty = PositionBitmap()
    assert not empty
    assert len(empty) == 0
    assert empty == PositionBitmap(np.array([])) == PositionBitmap.from_range(5, 5) == PositionBitmap.from_range(5, 2)
    assert empty.to_numpy().tolist() == []
    assert empty.mask(0, 3).tolist() == [False] * 3
    assert empty.count_in(0, 10) == 0


def test_repr_shows_the_first_positions_and_the_cardinality() -> None:
    assert repr(PositionBitmap([3, 1])) == "PositionBitmap({1, 3}, cardinality=2)"
    assert repr(PositionBitmap(range(9))) == "PositionBitmap({0, 1, 2, 3, 4, 5, ...}, cardinality=9)"


def test_travels_to_a_worker() -> None:
    found = PositionBitmap([1, 2**40])
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301  # our own bytes
