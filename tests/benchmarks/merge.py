"""Part `merge`: new positions into a vector that is there already, as bytes: decode, unite, encode."""

# ruff: noqa: PLC0415  # imported in the worker alone

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from tests.benchmarks.measure import Worker, in_turns
from tests.benchmarks.readers import Facts, Job
from tests.benchmarks.report import ms, table_of
from tests.benchmarks.settings import Settings

__all__ = ["open_merge", "run"]

SIZES = (1_000_000, 10_000_000)
NEW = 100_000
SPREAD = 10
"""Rows of the data file for each position in its vector."""
CONTAINER_ROWS = 1 << 16
LINES_A_CONTAINER = 64
"""A loop over the containers of a bitmap is none over its positions, of which a container here has thousands."""


def run(settings: Settings) -> str:
    """Time of one merge, pyroaring's own beside it, and the lines of Python it takes."""
    rows, within = [], True
    for size in SIZES:
        size = size // 100 if settings.small else size  # noqa: PLW2901  # the same sizes, smaller
        workers: dict[str, Callable[[], Worker]] = {
            how: partial(Worker, "tests.benchmarks.merge:open_merge", how, size) for how in ("deletekit", "pyroaring")
        }
        cells = in_turns(workers, {}, runs=settings.runs)
        counted = workers["deletekit"]()
        lines = counted.run({"count_lines": True})[1]["lines"]
        counted.stop()
        ours, theirs = cells["deletekit"], cells["pyroaring"]
        ratio = f"**{ours.median / theirs.median:.2f}**" if ours.median and theirs.median else ""
        shown = [cell.verdict or ms(cell.median) for cell in (theirs, ours)]
        containers = -(-size * SPREAD // CONTAINER_ROWS)
        within = within and lines <= LINES_A_CONTAINER * (containers + 10)
        figures = [ratio, f"{lines:,}", f"{containers:,}"]
        rows.append([f"{size:,} positions and {NEW:,} new", *shown, *figures])
        settings.say(f"merge {rows[-1]}")
    header = ["vector", "pyroaring alone", "deletekit", "ratio", "lines of Python run", "containers"]
    about = (
        f"No Python loop over positions (at most {LINES_A_CONTAINER} lines for a container of {CONTAINER_ROWS:,} rows)"
    )
    return f"{table_of(header, rows)}\n\n{about}: {'met' if within else 'MISSED'}."


def open_merge(how: str, size: int) -> Callable[[Job], Facts]:
    """In the worker: the merge of random positions, by deletekit or by pyroaring's BitMap64 as it is."""
    import numpy as np
    from pyroaring import BitMap64

    from deletekit.formats.deletion_vector import PositionBitmap, decode_blob, encode_blob

    rng = np.random.default_rng(size)
    old = np.flatnonzero(rng.random(size * SPREAD) < 1 / SPREAD)
    new = rng.integers(0, size * SPREAD, NEW)
    blob, vector = encode_blob(PositionBitmap(old)), BitMap64(old).serialize()

    def ours() -> int:
        return len(encode_blob(decode_blob(blob) | PositionBitmap(new)))

    def theirs() -> int:
        united = BitMap64.deserialize(vector) | BitMap64(new)
        united.run_optimize()
        return len(united.serialize())

    def merge(job: Job) -> Facts:
        if job.get("count_lines"):
            return {"lines": lines_of(ours)}
        return {"bytes": ours() if how == "deletekit" else theirs()}

    return merge


def lines_of(call: Callable[[], Any]) -> int:
    """How many lines of Python a call runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return count
