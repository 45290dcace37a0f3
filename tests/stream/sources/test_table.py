"""A table as a source: each snapshot is a batch, and what is lost or went back is refused by name."""

import json
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.table.sinks.batches import POSITION
from tests.interop.rows import same_rows
from tests.tables import ITEMS, ids, items, make, new_catalog, raises, refused, set_by_another_writer


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dk.Catalog]:
    with new_catalog(tmp_path) as opened:
        yield opened


@pytest.fixture
def source(catalog: dk.Catalog) -> dk.Table:
    return make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), items((3, "c", 3.0)), format_version=3)


@pytest.fixture
def copy(catalog: dk.Catalog) -> dk.Table:
    return make(catalog, format_version=3)


def follow(source: dk.Table, copy: dk.Table, **options: Any) -> list[dk.stream.BatchProgress]:
    options = {"on": "id", **options}
    with dk.stream.sink(copy, "copy", on="id", evolve="add") as sink:
        return list(sink.run_source(dk.stream.table_changes(source, **options)))


def same(source: dk.Table, copy: dk.Table, **options: Any) -> None:
    found = (dk.scan(t.refresh(), **o).to_arrow().to_pylist() for t, o in ((copy, {}), (source, options)))
    same_rows(*found)


def head(table: dk.Table) -> int:
    found = table.refresh().current_snapshot
    assert found is not None
    return found.snapshot_id


def test_each_snapshot_is_a_batch(source: dk.Table, copy: dk.Table) -> None:
    dk.update(source, {"value": 9.0}, where="id = 1")
    done = follow(source, copy)
    assert [(p.status, p.rows, p.behind) for p in done] == [
        ("committed", 2, 2),
        ("committed", 1, 1),
        ("committed", 2, 0),
    ]
    assert follow(source, copy) == []
    same(source, copy)


def test_a_compaction_moves_the_position(source: dk.Table, copy: dk.Table) -> None:
    follow(source, copy)
    dk.compact(source, rewrite_all=True)
    assert [p.status for p in follow(source, copy)] == ["empty"]
    summary = copy.refresh().current_snapshot.summary
    assert json.loads(summary[POSITION])["snapshot"] == head(source)
    dk.expire_snapshots(source, older_than=2**62, retain_last=1)
    dk.delete(source, "id = 2")
    assert [p.status for p in follow(source, copy)] == ["committed"]
    same(source, copy)


def test_it_begins_where_it_is_told(source: dk.Table, copy: dk.Table, catalog: dk.Catalog) -> None:
    first, last = (s.snapshot_id for s in list(source.metadata.ancestors(head(source)))[::-1])
    assert len(follow(source, copy, from_snapshot=first)) == 1
    assert ids(copy) == [3]
    # Without a start, the oldest snapshot that is left is the first batch.
    dk.expire_snapshots(source, older_than=2**62, retain_last=1)
    other = make(catalog, format_version=2)
    assert [p.rows for p in follow(source, other)] == [3]
    same(source, other)
    with refused(make(catalog), dk.InvalidInputError, "source-lost", field="from_snapshot", found=first) as refusal:
        follow(source, make(catalog), from_snapshot=first)
    assert str(last) in str(refusal.error.expected)


def test_what_expired_before_it_was_read_is_lost(source: dk.Table, copy: dk.Table) -> None:
    follow(source, copy)
    dk.append(source, items((4, "d", 4.0)))
    dk.append(source, items((5, "e", 5.0)))
    dk.expire_snapshots(source, older_than=2**62, retain_last=1)
    with refused(copy, dk.InvalidInputError, "source-lost"):
        follow(source, copy)


def test_a_branch_that_went_back(source: dk.Table, copy: dk.Table) -> None:
    kept = head(source)
    dk.delete(source, "id = 1")
    dk.update(source, {"category": "gone"}, where="id = 2")
    follow(source, copy)
    dk.rollback(source, kept)
    dk.append(source, items((7, "g", 7.0)))
    with refused(copy, dk.InvalidInputError, "snapshot-branch"):
        follow(source, copy)
    assert len(follow(source, copy, inverse=True)) == 3  # two undone, one new
    same(source, copy)
    assert follow(source, copy, inverse=True) == []


def test_a_view_of_another_branch(source: dk.Table, catalog: dk.Catalog) -> None:
    dk.create_branch(source, "aside")
    dk.update(source, {"value": 30.0}, where="id = 3", ref="aside")
    copy = dk.create_table(catalog, "test.view", ITEMS)
    follow(source, copy, ref="aside", columns=["id", "value"], where="value > 1.5")
    assert sorted((r["id"], r["value"]) for r in dk.scan(copy).to_arrow().to_pylist()) == [(2, 2.0), (3, 30.0)]
    dk.update(source, {"value": 0.0}, where="id = 2", ref="aside")
    follow(source, copy, ref="aside", columns=["id", "value"], where="value > 1.5")
    assert ids(copy) == [3]


def test_columns_come_with_the_snapshot_that_has_them(source: dk.Table, copy: dk.Table) -> None:
    dk.add_column(source, "extra", "int")
    dk.update(source, {"extra": 5}, where="id = 1")
    follow(source, copy)
    same(source, copy)
    assert "extra" in copy.schema.column_names


def test_a_key_that_is_not_unique(source: dk.Table, copy: dk.Table, catalog: dk.Catalog) -> None:
    dk.append(source, items((8, "h", 1.0), (8, "i", 2.0)))
    fresh = make(catalog)
    with raises(dk.InvalidInputError, "key-not-unique", field="id", found="8"):
        follow(source, fresh)
    assert ids(fresh) == [1, 2, 3]  # the batches before it


def test_another_table(source: dk.Table, copy: dk.Table, catalog: dk.Catalog) -> None:
    follow(source, copy)
    other = make(catalog, items((1, "a", 1.0)))
    with refused(copy, dk.InvalidInputError, "source-changed", field="table"):
        follow(other, copy)
    with pytest.raises(dk.NotFoundError, match="no such branch"):
        follow(source, make(catalog), ref="nowhere")
    with pytest.raises(dk.InvalidInputError, match="not below 0"):
        dk.stream.table_changes(source, poll_seconds=-1)
    assert follow(make(catalog), make(catalog)) == []  # neither has a snapshot


def test_it_waits_for_more(source: dk.Table, copy: dk.Table) -> None:
    following = dk.stream.table_changes(dk.load_table(source.catalog, source.name), on="id", poll_seconds=0.05)
    writer = threading.Timer(0.3, lambda: dk.append(source, items((4, "d", 4.0))))
    with dk.stream.sink(copy, "copy", on="id") as sink:
        writer.start()
        done = list(islice(sink.run_source(following, until=None), 3))
        writer.join()
    assert [p.rows for p in done] == [2, 1, 1]
    same(source, copy)


def test_v1_tables_too(catalog: dk.Catalog, copy: dk.Table) -> None:
    source = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), format_version=1)
    set_by_another_writer(source, {"write.delete.mode": "copy-on-write"})
    dk.delete(source, "id = 1")
    follow(source, copy)
    same(source, copy)
