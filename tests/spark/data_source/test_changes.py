"""Changes that Spark reads are those of `dk.changes`, in a batch and as a stream that dies at every step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.tables import make, new_catalog
from tests.verbs.test_changes_replay import bag, history, replayed

pytest.importorskip("pyspark.sql.datasource", reason="pyspark 4 is not installed: pip install 'deletekit[spark]'")

from pyspark.sql import datasource as ds

from tests.spark.data_source.micro_batches import Died, Query, Row, loaded, read, rows_of

SCHEMA = pa.schema([("id", pa.int64()), ("grp", pa.string()), ("v", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dk.Catalog]:
    """Give a catalog that is the session's, as the data source sees it."""
    from deletekit.spark import session_catalogs

    listed = tmp_path / "catalogs.json"
    listed.write_text('{"local": {"warehouse": "%s"}}' % tmp_path)
    monkeypatch.setenv(session_catalogs.VARIABLE, str(listed))
    with new_catalog(tmp_path) as catalog:
        yield catalog


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    table = make(catalog, schema=SCHEMA, format_version=2)
    dk.append(table, [{"id": i, "grp": "ab"[i % 2], "v": i} for i in range(6)])
    return table


def line(table: dk.Table) -> list[int]:
    metadata = table.refresh().metadata
    return [s.snapshot_id for s in metadata.ancestors(metadata.current_snapshot.snapshot_id)][::-1]


def same(found: list[Row], wanted: Any, *, ordinals: bool = True) -> None:
    """Compare rows in any order."""
    left = () if ordinals else ("_change_ordinal",)
    a, b = ([repr([(k, v) for k, v in row.items() if k not in left]) for row in rows] for rows in (found, wanted))
    assert Counter(a) == Counter(b)


@pytest.mark.parametrize(("version", "seed"), [(1, 3), (2, 1), (3, 2)])
def test_a_batch_has_the_changes_of_the_driver(catalog: dk.Catalog, version: int, seed: int) -> None:
    choose = random.Random(seed)
    table = make(catalog, schema=SCHEMA, format_version=version, partition_by=["grp"] if seed % 2 else [])
    dk.append(table, [{"id": i, "grp": "ab"[i % 2], "v": i % 3} for i in range(8)])
    history(table, choose, 8)
    ids: list[Any] = ["start", *line(table)]
    for mode, key in (("all", None), ("net", "id"), ("upsert", "id")):
        for _ in range(4):
            start, end = sorted(choose.sample(range(len(ids)), 2))
            given = {"changes_from": str(ids[start]), "changes_to": str(ids[end]), "changes_mode": mode}
            given |= {} if key is None else {"changes_key": key}
            before = None if start == 0 else ids[start]
            wanted = dk.changes(table, before, ids[end], mode=mode, key=key)  # type: ignore[arg-type]
            same(read(table.name, **given), wanted.to_arrow().to_pylist())


@pytest.mark.parametrize("starting", ["full", "now", "start", "id"])
@pytest.mark.parametrize("limit", [None, "2"])
def test_a_stream_dies_between_any_two_steps(catalog: dk.Catalog, starting: str, limit: str | None) -> None:
    version = 2 if limit else 3
    choose = random.Random(f"{starting} {limit}")
    table = make(catalog, schema=SCHEMA, format_version=version)
    dk.append(table, [{"id": i, "grp": "a", "v": 0} for i in range(6)])
    dk.delete(table, "id = 5")
    before = line(table)[0]
    given = {} if limit is None else {"max_snapshots_per_trigger": limit}
    columns = {"columns": "id,grp,v", "changes_key": "id"}
    query = Query(table.name, starting=str(before) if starting == "id" else starting, **columns, **given)
    steps = 0

    def alive() -> None:
        nonlocal steps
        steps += 1
        if choose.random() < 0.2:
            raise Died

    first = line(table)[-1]
    seen: list[str] = []
    while len(line(table)) < 14 or query.committed == 0 or seen != query.offsets:
        seen = list(query.offsets)
        try:
            query.run(alive)
        except Died:
            seen = []
        if len(line(table)) < 14:
            kept_version(table, choose)
    assert steps > 20
    rows, end = query.rows, line(table)[-1]
    old = {"full": [], "now": None, "start": [], "id": at(table, before)}[starting]
    if starting == "now":  # the head of the first batch
        first = int(eval(query.offsets[0].replace("null", "None"))["snapshot"])
        old = at(table, first)
    assert replayed(bag(old or []), rows) == bag(at(table, end))
    if starting != "full":
        start = {"now": first, "start": None, "id": before}[starting]
        wanted = dk.changes(table, start, end, key="id", columns=["id", "grp", "v"]).to_arrow().to_pylist()
        same(rows, wanted, ordinals=False)
    if limit is not None:
        commits = [len({r["_commit_snapshot_id"] for r in batch}) for batch in query.sink.values()]
        assert max(commits) <= int(limit)


def kept_version(table: dk.Table, choose: random.Random) -> None:
    """Write a commit of any kind, without the upgrade that a stream refuses."""
    version = table.metadata.format_version
    while True:
        history(table, choose, 1) if version == 3 else dk.append(table, [{"id": 100 + len(line(table)), "grp": "b", "v": 1}])
        return


def at(table: dk.Table, snapshot_id: int) -> list[Row]:
    rows: list[Row] = dk.scan(table, columns=["id", "grp", "v"], snapshot_id=snapshot_id).to_arrow().to_pylist()
    return rows
