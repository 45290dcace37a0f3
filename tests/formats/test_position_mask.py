"""Masks against numpy's membership test, over every kind of container and across the 32-bit keys."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.position_mask import position_mask
from deletekit.formats.roaring import containers

ROWS = 3 << 16
RANDOM = np.random.default_rng(11)
SETS = {
    "array": RANDOM.choice(ROWS, 900, replace=False),
    "bitmap": np.flatnonzero(RANDOM.random(ROWS) < 0.4),
    "run": np.concatenate([np.arange(5, 70_000), np.arange(70_002, 131_072), [131_073]]),
    "whole": np.arange(ROWS),
    "edges": np.array([0, 65_535, 65_536, 131_071, ROWS - 1]),
}


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("base", [0, (1 << 32) - (1 << 16) - 3, 5 << 32])
@pytest.mark.parametrize("start", [0, 1, 65_535, 65_536, 100_001])
@pytest.mark.parametrize("length", [0, 1, 7, 65_536, 131_080])
def test_masks(kind: str, base: int, start: int, length: int) -> None:
    positions = SETS[kind] + base
    bitmap = PositionBitmap(positions)
    expected = np.isin(np.arange(base + start, base + start + length), positions)
    assert (bitmap.mask(base + start, length) == expected).all()
    arrow = bitmap.to_arrow(base + start, length)
    arrow.validate(full=True)
    assert len(arrow) == length
    assert arrow.null_count == 0
    assert bitmap.count_in(base + start, base + start + length) == expected.sum()


def test_each_kind_of_container_is_met() -> None:
    kinds = set()
    for positions in SETS.values():
        bitmap = BitMap(positions.astype(np.uint32))
        bitmap.run_optimize()
        kinds |= {c.kind for c in containers(bitmap.serialize())}
        mask = position_mask({0: bitmap}, 0, ROWS).to_numpy(zero_copy_only=False)
        assert (np.flatnonzero(mask) == np.sort(positions)).all()
    assert kinds == {"array", "bitmap", "run"}
