"""The tables that tests of widgets look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import deletekit as dk
from tests.delta.handmade import HandMade, remove, with_vector
from tests.tables import ITEMS, items, new_catalog

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
ODD = '"><svg onload=alert(3)>\x1b[31m\u202e{lang}'


@contextmanager
def sample_table(folder: Path, version: int = 3) -> Iterator[dk.Table]:
    """Five commits: rows, a deletion vector, equality deletes, a row put back, another vector."""
    folder.mkdir(exist_ok=True, parents=True)
    with new_catalog(folder) as catalog:
        table = dk.create_table(catalog, "test.sample", ITEMS, format_version=version)
        dk.append(table, items(*((i, "abc"[i % 3], i * 1.5) for i in range(8))))
        dk.delete(table, "id in (1, 3)", mode="merge-on-read")
        dk.delete_keys(table, [{"id": 4}, {"id": 6}])
        dk.append(table, items((4, "back", 9.0), (20, "x", 1.0)))
        dk.delete(table, "id = 20", mode="merge-on-read")
        yield table


@contextmanager
def hostile_table(folder: Path) -> Iterator[dk.Table]:
    """Names, values and properties that are markup, and would act if they were taken for it."""
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), (ODD, pa.string())])
    with new_catalog(folder) as catalog:
        table = dk.create_table(catalog, "test.hostile", schema, format_version=3, properties={EVIL: ODD})
        dk.append(table, [{"id": 1, ODD: EVIL}, {"id": 2, ODD: ODD}], commit_properties={EVIL: EVIL})
        dk.delete(table, "id = 2", mode="deletion-vector")
        dk.create_branch(table, EVIL)
        yield table


def delta_table(folder: Path) -> Path:
    """A Delta table of two data files, a vector on one of them: made by hand, after the protocol's text."""
    if not folder.exists():
        made = HandMade(folder)
        one, two = made.data(range(8), "a.parquet"), made.data(range(8, 16), "b.parquet")
        made.commit(one, two)
        made.commit(remove(one), with_vector(one, made.vector([1, 3])))
    return folder
