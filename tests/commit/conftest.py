"""The catalog that the tests of this folder make their tables in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import deletekit as dk
from tests.tables import new_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dk.Catalog]:
    """Give an empty catalog on disk."""
    with new_catalog(tmp_path / "warehouse") as catalog:
        yield catalog
