"""What work costs in counts, because seconds differ from machine to machine: files opened and written, Python's calls.

Requests to S3 are counted in tests/table/test_s3_requests.py, bytes of a planned file in tests/deletes/test_plan.py.
"""

import gc
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from deletekit.table import snapshot as snapshot_module
from tests.benchmarks.planning_tables import build
from tests.counting_io import FilesUsed
from tests.tables import make

SCHEMA = pa.schema([("id", pa.int64()), ("grp", pa.int32()), ("text", pa.string())])
ONE = LocalEngine(1)
KINDS = ("metadata.json", "avro", "puffin", "parquet")
FEW, MANY = 1_000, 30_000
SPREAD = 100
"""Calls that may come and go: a digit more in a number is one."""


def rows(count: int, start: int = 0) -> pa.Table:
    ids = np.arange(start, start + count)
    text = [f"text {i}" for i in ids.tolist()]
    return pa.table({"id": ids, "grp": (ids % 10).astype(np.int32), "text": text}, schema=SCHEMA)


def calls_of(work: Callable[[], Any]) -> int:
    """How many Python functions are called, in all threads; the same from run to run."""
    number = itertools.count()

    def note(_frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            next(number)

    gc.collect()  # what other tests left would be finalised meanwhile, by Python functions
    gc.disable()
    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
        gc.enable()
    return next(number)


VERBS: dict[str, tuple[int, Callable[[dk.Table, int], Any]]] = {
    "append": (3, lambda t, n: dk.append(t, rows(n, n))),
    "delete, copy-on-write": (2, lambda t, _: dk.delete(t, "grp < 3", mode="copy-on-write", engine=ONE)),
    "delete, position-delete": (2, lambda t, _: dk.delete(t, "grp < 3", mode="position-delete", engine=ONE)),
    "delete, deletion-vector": (3, lambda t, _: dk.delete(t, "grp < 3", mode="deletion-vector", engine=ONE)),
    "again, deletion-vector": (3, lambda t, _: dk.delete(t, "grp < 3", mode="deletion-vector", engine=ONE)),
    "delete_keys": (2, lambda t, n: dk.delete_keys(t, rows(n // 2).select(["id"]))),
    "update": (3, lambda t, _: dk.update(t, {"text": "x"}, where="grp < 3", mode="deletion-vector", engine=ONE)),
    "upsert": (3, lambda t, n: dk.upsert(t, rows(n // 2, n // 4), on="id", mode="merge-on-read", engine=ONE)),
    "merge": (3, lambda t, n: dk.merge(t, rows(n // 2, n // 4), on="id", mode="merge-on-read", engine=ONE)),
    "compact": (3, lambda t, _: dk.compact(t, delete_file_threshold=1, engine=ONE)),
    "scan": (3, lambda t, _: dk.scan(t).to_arrow()),
    "scan, filtered": (3, lambda t, _: dk.scan(t, "grp = 4").to_arrow()),
    "scan of a row": (3, lambda t, _: dk.scan(t, "id = 7").to_arrow()),
    "count": (3, lambda t, _: dk.scan(t).count()),
}
"""By name: the format version, and what is done to a table of so many rows. Those that read it find a vector there."""


def prepared(catalog: dk.Catalog, verb: str, *parts: pa.Table) -> dk.Table:
    table = make(catalog, *parts, schema=SCHEMA, format_version=VERBS[verb][0])
    if verb.startswith(("scan", "count", "compact", "again")):
        dk.delete(table, "grp = 2", mode="deletion-vector", engine=ONE)
    return table.refresh()


@pytest.mark.parametrize("verb", VERBS)
def test_calls_do_not_grow_with_rows(catalog: dk.Catalog, verb: str) -> None:
    found = []
    for count in (FEW, FEW, MANY):  # the first run imports what is imported late
        table = prepared(catalog, verb, rows(count))
        found.append(calls_of(lambda table=table, count=count: VERBS[verb][1](table, count)))  # type: ignore[misc]
    assert found[2] <= found[1] + SPREAD, found


OPENED = {
    "append": ((1, 1, 0, 0), (1, 2, 0, 1)),
    "delete, copy-on-write": ((1, 7, 0, 6), (1, 8, 0, 6)),
    "delete, position-delete": ((1, 7, 0, 6), (1, 2, 0, 1)),
    "delete, deletion-vector": ((1, 7, 0, 6), (1, 2, 1, 0)),
    "again, deletion-vector": ((1, 8, 1, 6), (1, 3, 1, 0)),
    "delete_keys": ((1, 1, 0, 0), (1, 2, 0, 1)),
    "update": ((1, 7, 0, 6), (1, 3, 1, 1)),
    "upsert": ((1, 7, 0, 3), (1, 4, 1, 1)),
    "merge": ((1, 7, 0, 3), (1, 4, 1, 1)),
    "compact": ((3, 16, 1, 6), (1, 9, 0, 1)),
    "scan": ((0, 8, 1, 6), (0, 0, 0, 0)),
    "scan, filtered": ((0, 8, 1, 6), (0, 0, 0, 0)),
    "scan of a row": ((0, 8, 1, 1), (0, 0, 0, 0)),
    "count": ((0, 8, 0, 0), (0, 0, 0, 0)),
}
"""Of six data files, each with a manifest of its own: how many files of each kind are opened at most, and written."""


@pytest.mark.parametrize("verb", VERBS)
def test_files_opened_and_written(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    table = prepared(catalog, verb, *(rows(100, 100 * i) for i in range(6)))
    used = FilesUsed(monkeypatch)
    VERBS[verb][1](table, 300)
    for found, most in zip((of_kinds(used.opened), of_kinds(used.written)), OPENED[verb], strict=True):
        assert all(a <= b for a, b in zip(found, most, strict=True)), (found, most)


def of_kinds(paths: Counter[str]) -> tuple[int, ...]:
    return tuple(sum(n for path, n in paths.items() if path.endswith(kind)) for kind in KINDS)


@pytest.mark.parametrize(
    ("worth", "planned", "looked_at"), [(0, 1, 12), (1 << 60, 18, 29)], ids=["as columns", "entry by entry"]
)
def test_calls_for_a_planned_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth: int, planned: int, looked_at: int
) -> None:
    """A data file and its vector. A plan from columns makes no object for a file until somebody looks at it."""
    for name in ("_WORTH_POLARS_BYTES", "_WORTH_COLUMNS_BYTES"):
        monkeypatch.setattr(snapshot_module, name, worth)
    few, many = (build(tmp_path / f"{files}", files, 8) for files in (200, 1_000))

    def a_file(look: Callable[[Any], Any]) -> float:
        first, last = (
            calls_of(lambda place=place: look(dk.scan(dk.from_metadata(place)).plan())) for place in (few, many)
        )  # type: ignore[misc]
        return (last - first) / 800

    len(dk.scan(dk.from_metadata(few)).plan())  # imports what is imported late
    assert a_file(len) <= planned
    assert a_file(lambda tasks: [(task.data_file.file_path, task.delete_files) for task in tasks]) <= looked_at


@pytest.mark.parametrize(
    ("verb", "most"),
    [
        ("delete, deletion-vector", 1_400),
        ("delete, position-delete", 1_150),
        ("delete, copy-on-write", 2_300),
        ("scan", 1_070),
    ],
)
def test_calls_for_a_file_with_a_manifest_of_its_own(catalog: dk.Catalog, verb: str, most: int) -> None:
    few, more = 4, 12
    found = []
    for files in (few, few, more):
        table = prepared(catalog, verb, *(rows(10, 10 * i) for i in range(files)))
        found.append(calls_of(lambda table=table: VERBS[verb][1](table, 10)))  # type: ignore[misc]
    assert found[2] - found[1] <= (more - few) * most, found
