"""The rows of the part `ladder`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

Job = dict[str, Any]
FILE_ROWS = 1_000_000


def base(job: Job) -> Iterator[pa.Table]:
    """The table before the stream, by parts."""
    for start in range(0, job["keys"], FILE_ROWS):
        ids = np.arange(start, min(start + FILE_ROWS, job["keys"]), dtype=np.int64)
        yield _rows(ids, ids * 7 % 1_000_003)


def new_keys(job: Job) -> int:
    """How many rows of each batch have new keys."""
    return int(job["rows"]) // 5


def batch_of(job: Job, number: int) -> pa.Table:
    """Upserts, each key once: eight of ten have a key of the table, anywhere in it."""
    random = np.random.default_rng(number)
    fresh = new_keys(job)
    known = job["rows"] - fresh
    # A random sample without repetition of many keys takes memory: draw more, and keep the first of each.
    drawn = np.unique(random.integers(0, job["keys"], known * 2))
    old = random.permutation(drawn)[:known]
    start = job["keys"] + number * fresh
    ids = np.concatenate([old, np.arange(start, start + fresh)])
    return _rows(ids, random.integers(0, 1_000_003, len(ids)))


def _rows(ids: Any, amounts: Any) -> pa.Table:
    names = pa.array([f"name {number:04d}" for number in range(1000)])
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "name": names.take(pa.array(ids % 1000)), "amount": pa.array(amounts)}
    )
