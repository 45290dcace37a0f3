"""The widgets, as the tests that test all of them use each, and the tables that they look at."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import deletekit as dk
from deletekit.course import widgets
from deletekit.course.widgets.base import PageWidget
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
def big_table(folder: Path, rows: int = 6_000, files: int = 60) -> Iterator[dk.Table]:
    """More than fits on a screen: files, snapshots, hostile columns, deletes of all kinds; a vector on one large file.

    With `rows=3_000_000, files=300` it is a table as people have them: 301 data files, 357 snapshots, 56 deletes.
    """
    names = [ODD, EVIL, *(f"column_{i}" for i in range(18))]
    schema = pa.schema([pa.field("id", pa.int64()), ("gone", pa.bool_()), *((name, pa.string()) for name in names)])
    with new_catalog(folder) as catalog:
        table = dk.create_table(catalog, "test.big", schema, format_version=2)
        ids = np.arange(rows)
        gone = np.random.default_rng(5).random(rows) < ids / rows * 2 / 3  # ever more of them
        dk.append(table, pa.table({"id": ids, "gone": gone, ODD: pa.repeat(EVIL, rows)}))
        for n in range(files):
            dk.append(table, [{"id": rows + n * 100 + i, "gone": False, ODD: ODD} for i in range(100)])
        for n in range(20):
            dk.delete(table, f"id = {rows + n * 100}", mode="position-delete")
        for n in range(20):
            dk.delete_keys(table, [{"id": rows + n * 300 % (files * 100) + 7}, {"id": n}])
        dk.upgrade_format_version(table, 3)
        dk.delete(table, "gone", mode="deletion-vector")
        for n in range(15):
            dk.delete(table, f"id = {rows + (files - 1 - n) * 100 + 50}", mode="deletion-vector")
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


def _delta_bridge(table: dk.Table, **state: Any) -> PageWidget:
    return widgets.DeltaBridge(delta_beside(table), **state)


def delta_beside(table: dk.Table) -> Path:
    """A small Delta table in the same folder."""
    return delta_table(Path(table.location.removeprefix("file://")).parent.parent / "delta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One widget.

    Attributes
    ----------
    make: makes it of a table, or of nothing, or of what is beside the table.
    of_table: it shows any table, which may be given in several ways.
    cell, code: the name and the line of Python of its cell in a notebook, where `w` is the module, `t` the sample table
        and `delta` the folder of a Delta table.
    state: some of its traits, and values to try.
    wrong: a value of a trait that cannot be shown.
    before, change, after: what is chosen, what is chosen then, and what has no meaning any more.
    """

    make: Callable[..., PageWidget]
    of_table: bool = True
    cell: str
    code: str
    state: Mapping[str, Any]
    wrong: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=dict)
    change: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


SCENES = {
    "TableTree": Scene(
        make=widgets.TableTree,
        cell="tree",
        code="w.TableTree(t)",
        state={"node": "snapshots/S2/manifest-list/2", "raw": True},
        wrong={"snapshot": "S99"},
    ),
    "RowFate": Scene(
        make=widgets.RowFate,
        cell="fate",
        code="w.RowFate(t, data_file='D1')",
        state={"data_file": "D1", "row": 3, "sequence_rule": False},
        wrong={"snapshot": "S99"},
        before={"data_file": "D1", "row": 7},
        change={"data_file": "D2"},
        after={"row": None},
    ),
    "BitmapBytes": Scene(
        make=widgets.BitmapBytes,
        cell="bitmap",
        code="w.BitmapBytes(t)",
        state={"delete_file": "V1", "byte": 30, "position": 1, "edits": [2]},
        wrong={"snapshot": "S99"},
        before={"delete_file": "V1", "byte": 30, "edits": [2]},
        change={"delete_file": "V2"},
        after={"byte": None, "edits": []},
    ),
    "SnapshotDiff": Scene(
        make=widgets.SnapshotDiff,
        cell="diff",
        code="w.SnapshotDiff(t)",
        state={"before": "S1", "after": "S4"},
        wrong={"after": "S99"},
    ),
    "SequenceTimeline": Scene(
        make=widgets.SequenceTimeline,
        cell="line",
        code="w.SequenceTimeline(t)",
        state={"data_file": "D1", "moved": "E1", "moved_to": 1},
        wrong={"snapshot": "S99"},
    ),
    "CostMeter": Scene(
        make=lambda _, **state: widgets.CostMeter(**{"rows": 1_000, **state}),
        of_table=False,
        cell="costs",
        code="w.CostMeter(rows=1_000)",
        state={"percent": 5, "files": 2, "format_version": 2},
        wrong={"rows": 0},
    ),
    "StreamStepper": Scene(
        make=lambda _, **state: widgets.StreamStepper(**state),
        of_table=False,
        cell="stream",
        code="w.StreamStepper()",
        state={"step": 3, "mode": "flink", "format_version": 2, "crash": "before-commit", "resumed": True},
        wrong={"step": 99},
        before={"step": 2, "crash": "before-commit", "resumed": True},
        change={"crash": "after-commit"},
        after={"resumed": False},
    ),
    "DeltaBridge": Scene(
        make=_delta_bridge,
        of_table=False,
        cell="delta",
        code="w.DeltaBridge(delta)",
        state={"vector": "V1", "version": 1, "start": 0},
        wrong={"version": 99},
        before={"vector": "V1"},
        change={"version": 0},
        after={"vector": None},
    ),
}
