"""The names of a stream's files, and which of them comes first.

Law: natural order: numbers in names count as numbers, so that `2.parquet` comes before `10.parquet`; folder by folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import PurePath

__all__ = ["highest_name", "name_total", "natural_key"]

NaturalKey = tuple[tuple[tuple[int, int, str], ...], ...]


def natural_key(path: str) -> NaturalKey:
    """What to sort paths by."""
    return tuple(tuple(map(_piece, re.findall(r"[0-9]+|[^0-9]+", part))) for part in PurePath(path).parts)


def highest_name(*paths: str | None) -> str | None:
    """The path that comes last."""
    return max((p for p in paths if p is not None), key=natural_key, default=None)


def name_total(paths: Iterable[str], start: int = 0) -> int:
    """A number that tells sets of paths apart: the sum of their hashes, to which paths can be added one by one."""
    hashes = (hashlib.sha256(p.encode("utf-8", "surrogateescape")).digest()[:16] for p in paths)
    return (start + sum(int.from_bytes(h, "big") for h in hashes)) % 2**128


def _piece(text: str) -> tuple[int, int, str]:
    return (0, int(text), text) if text[0] in "0123456789" else (1, 0, text)
