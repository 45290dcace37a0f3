"""The golden files and what their indexes say of them (see golden/PROVENANCE.md)."""

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deletekit.formats.deletion_vector import PositionBitmap

GOLDEN = Path(__file__).parent / "golden"
KINDS = ("deletion_vectors", "delta_deletion_vectors", "puffin", "manifests", "delete_files", "metadata")

Entry = dict[str, Any]


@cache
def index(kind: str) -> dict[str, Entry]:
    """Give the index of one kind by file name."""
    entries = json.loads((GOLDEN / kind / "index.json").read_text(encoding="utf-8"))
    return {entry["file"]: entry for entry in entries}


def content(kind: str, file: str) -> bytes:
    return (GOLDEN / kind / file).read_bytes()


def cases(kind: str, where: Callable[[Entry], object] = bool) -> Iterable[Any]:
    """Give the entries of one kind that `where` accepts as parameters, named by file."""
    found = [pytest.param(entry, id=file) for file, entry in index(kind).items() if where(entry)]
    assert found, f"no golden file of {kind} is like that"
    return found


def positions(entry: Entry) -> PositionBitmap:
    """Build the positions that an index describes, from `positions` or `formulas`."""
    found = PositionBitmap()
    for start, end in entry.get("positions") or ():
        found = found | PositionBitmap.from_range(start, end)
    for formula in entry.get("formulas") or ():
        found = found | PositionBitmap(formula_positions(formula))
    return found


def formula_positions(formula: Entry) -> np.ndarray:
    starts = (np.arange(formula["count"], dtype=np.int64) * formula["multiplier"] + formula["increment"]) % formula[
        "modulus"
    ]
    return (starts[:, None] + np.arange(formula["run_length"], dtype=np.int64)).reshape(-1)
