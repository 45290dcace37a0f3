"""Changes that Spark reads are those of `dk.changes`, in a batch and as a stream that dies at every step."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import deletekit as dk
from deletekit.spark import session_catalogs
from tests.spark.data_source.micro_batches import DiedError, Query, Row, loaded, read, rows_of
from tests.spark.data_source.table_history import history
from tests.tables import make, new_catalog
from tests.tools.test_changes_replay import bag, replayed

SCHEMA = pa.schema([("id", pa.int64()), ("grp", pa.string()), ("v", pa.int64())])
COLUMNS = {"columns": "id,grp,v", "changes_on": "id"}


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dk.Catalog]:
    """Give a catalog that is the session's, as the data source sees it."""
    listed = tmp_path / "catalogs.json"
    listed.write_text(json.dumps({"local": {"warehouse": str(tmp_path)}}))
    monkeypatch.setenv(session_catalogs.VARIABLE, str(listed))
    with new_catalog(tmp_path) as catalog:
        yield catalog


def filled(catalog: dk.Catalog, version: int, **options: Any) -> dk.Table:
    table = make(catalog, schema=SCHEMA, format_version=version, **options)
    dk.append(table, [{"id": i, "grp": "ab"[i % 2], "v": i % 3} for i in range(8)])
    return table


def line(table: dk.Table) -> list[int]:
    """Return the snapshots of `main`, oldest first."""
    metadata = table.refresh().metadata
    head = metadata.current_snapshot
    return [] if head is None else [s.snapshot_id for s in metadata.ancestors(head.snapshot_id)][::-1]


def at(table: dk.Table, snapshot_id: int) -> list[Row]:
    rows: list[Row] = dk.scan(table, columns=["id", "grp", "v"], snapshot_id=snapshot_id).to_arrow().to_pylist()
    return rows


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(repr([(k, v) for k, v in row.items() if k != "_change_ordinal"]) for row in rows)


def of_driver(table: dk.Table, start: Any, end: Any = None, **options: Any) -> Counter[str]:
    return counted(dk.changes(table, start, end, **options).to_arrow().to_pylist())


@pytest.mark.parametrize(("version", "seed"), [(1, 3), (2, 1), (3, 2)])
def test_a_batch_has_the_changes_of_the_driver(catalog: dk.Catalog, version: int, seed: int) -> None:
    choose = random.Random(seed)
    table = filled(catalog, version, partition_by=["grp"] if seed % 2 else [])
    history(table, choose, 8)
    ids: list[Any] = [None, *line(table)]
    modes: list[tuple[Any, str | None]] = [("all", None), ("net", "id"), ("upsert", "id")]
    for mode, key in modes:
        for _ in range(4):
            start, end = (ids[i] for i in sorted(choose.sample(range(len(ids)), 2)))
            given = {"changes_from": str(start or "start"), "changes_to": str(end), "changes_mode": mode}
            given |= {} if key is None else {"changes_on": key}
            assert counted(read(table.name, **given)) == of_driver(table, start, end, mode=mode, on=key)


@pytest.mark.parametrize("starting", ["full", "now", "start", "id"])
@pytest.mark.parametrize(("limit", "mode"), [(None, "all"), (2, "all"), (3, "net")])
def test_a_stream_dies_between_any_two_steps(catalog: dk.Catalog, starting: str, limit: int | None, mode: str) -> None:
    choose = random.Random(f"{starting} {limit} {mode}")
    table = filled(catalog, 3)
    dk.delete(table, "id = 5")
    before = line(table)[0]
    named = str(before) if starting == "id" else starting
    limited = {} if limit is None else {"max_snapshots_per_trigger": str(limit)}
    query = Query(table.name, starting=named, changes_mode=mode, **COLUMNS, **limited)
    deaths = 0

    def alive() -> None:
        if choose.random() < 0.15:
            raise DiedError

    while len(line(table)) < 12 or query.committed == 0 or json.loads(query.offsets[-1])["snapshot"] != line(table)[-1]:
        try:
            query.run(alive)
        except DiedError:
            deaths += 1
        if len(line(table)) < 12:
            history(table, choose, 1)
    query.run()
    assert deaths > 2

    ends = [json.loads(offset)["snapshot"] for offset in query.offsets]
    first = {"full": [], "start": [], "id": at(table, before), "now": at(table, ends[0])}[starting]
    assert replayed(bag(first), query.rows) == bag(at(table, ends[-1]))
    starts = [{"full": None, "start": None, "id": before, "now": ends[0]}[starting], *ends]
    ids = line(table)
    for number, (start, end) in enumerate(zip(starts, ends, strict=False)):
        of_batch: Any = "net" if starting == "full" and number == 0 else mode
        wanted = of_driver(table, start, end, mode=of_batch, on="id", columns=["id", "grp", "v"])
        assert counted(query.sink[number]) == wanted
        if limit is not None and not (starting in ("full", "now") and number == 0):
            assert ids.index(end) - (-1 if start is None else ids.index(start)) <= limit


def test_a_stream_of_an_empty_table(catalog: dk.Catalog) -> None:
    for starting in ("full", "now", "start"):
        table = make(catalog, schema=SCHEMA, format_version=2)
        query = Query(table.name, starting=starting)
        query.run()
        assert query.rows == []
        dk.append(table, [{"id": 1, "grp": "a", "v": 0}])
        query.run()
        assert [(r["id"], r["_change_type"]) for r in query.rows] == [(1, "insert")]
    uuid, snapshot = table.metadata.table_uuid, line(table)[0]
    assert query.offsets == [
        f'{{"table": "{uuid}", "snapshot": null}}',
        f'{{"table": "{uuid}", "snapshot": {snapshot}}}',
    ], "checkpoints are kept for years"


def test_a_stream_of_a_branch(catalog: dk.Catalog) -> None:
    table = filled(catalog, 2)
    dk.create_branch(table, "b")
    query = Query(table.name, starting="now", branch="b")
    query.run()
    dk.delete(table, "id = 1")
    dk.delete(table, "id = 2", ref="b")
    query.run()
    assert [(r["id"], r["_change_type"]) for r in query.rows] == [(2, "delete")]


def rolled_back(table: dk.Table) -> None:
    dk.rollback(table, line(table)[0])


def written_anew(table: dk.Table) -> None:
    first = line(table)[0]
    dk.rollback(table, first)
    dk.delete(table, "id = 7")


def expired(table: dk.Table) -> None:
    dk.delete(table, "id = 6")
    dk.expire_snapshots(table, retain_last=1, older_than="2100-01-01")


def expired_in_the_middle(table: dk.Table) -> None:
    dk.create_tag(table, "kept")
    dk.delete(table, "id = 2")
    expired(table)


def remade(table: dk.Table) -> None:
    assert table.catalog is not None
    dk.drop_table(table.catalog, table.name)
    dk.create_table(table.catalog, table.name, SCHEMA)


@pytest.mark.parametrize(
    ("happened", "message"),
    [
        (rolled_back, "from_snapshot is after to_snapshot"),
        (written_anew, "from_snapshot is not an ancestor of to_snapshot"),
        (expired, "no such snapshot"),
        (expired_in_the_middle, "a snapshot between the two has expired"),
        (remade, "the table was replaced by another of its name"),
        (lambda t: dk.drop_column(t, "v"), "a column of the stream has changed in the table"),
        (lambda t: dk.upgrade_format_version(t, 3), "a column of the stream has changed in the table"),
    ],
)
def test_what_a_stream_cannot_go_on_with(
    catalog: dk.Catalog, happened: Callable[[dk.Table], None], message: str
) -> None:
    table = filled(catalog, 2)
    dk.delete(table, "id = 1")
    source, schema = loaded(table.name, {"starting": "full"})
    reader = source.streamReader(schema)
    end = reader.latestOffset()
    planned = reader.partitions(reader.initialOffset(), end)
    wanted = rows_of(reader, planned)
    happened(table)
    with pytest.raises(dk.DeletekitError, match=message):
        reader.latestOffset()
    if happened in (rolled_back, written_anew):  # what was planned before is the same still
        assert rows_of(reader, reader.partitions(reader.initialOffset(), end)) == wanted


def test_a_reader_that_sees_more_columns_goes_on(catalog: dk.Catalog) -> None:
    table = filled(catalog, 2)
    source, schema = loaded(table.name, {"starting": "now"})
    reader = source.streamReader(schema)
    start = reader.latestOffset()
    reader.partitions(reader.initialOffset(), start)
    dk.add_column(table, "extra", "int")
    dk.rename_column(table, "v", "w")
    dk.append(table, [{"id": 9, "grp": "a", "w": 4, "extra": 1}])
    (row,) = rows_of(reader, reader.partitions(start, reader.latestOffset()))
    assert (list(row)[:3], row["v"]) == (["id", "grp", "v"], 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changes-to": "1"}, "changes since when?"),
        ({"changes-from": "yesterday"}, "field: changes-from"),
        ({"changes-from": "1"}, "no such snapshot"),
        ({"changes-from": "start", "changes-mode": "some"}, "all or net or upsert"),
        ({"changes-from": "start", "changes-mode": "upsert"}, "names no identifier fields"),
        ({"changes-from": "start", "changes-on": "none"}, "none"),
        ({"changes-from": "start", "changes-inverse": "yes"}, "true or false"),
        ({"changes-from": "start", "snapshot-id": "1"}, "unknown option"),
        ({"changes-from": "start", "columns": "id,id"}, "bad list of columns"),
        ({"changes-from": "start", "columns": "_file"}, "_file"),
        ({"changes-from": "start", "tag": "main"}, "not a tag"),
        ({"starting": "yesterday"}, "field: starting"),
        ({"starting": "now", "max-snapshots-per-trigger": "0"}, "a positive number"),
        ({"starting": "now", "changes-from": "start"}, "unknown option"),
        ({"starting": "now", "branch": "none"}, "no such branch or tag"),
    ],
)
def test_refused_options(catalog: dk.Catalog, options: dict[str, str], message: str) -> None:
    table = filled(catalog, 2)
    with pytest.raises(dk.DeletekitError) as caught:
        loaded(table.name, options)
    assert re.search(re.escape(message.removeprefix("field: ")), str(caught.value)), caught.value


def test_what_is_read_is_told_by_the_options(catalog: dk.Catalog) -> None:
    table = filled(catalog, 2)
    source, schema = loaded(table.name, {"starting": "now"})
    with pytest.raises(dk.InvalidInputError, match="only a stream has this option"):
        source.reader(schema)
    source, schema = loaded(table.name, {})
    with pytest.raises(dk.InvalidInputError, match=r"a stream starts where\?"):
        source.streamReader(schema)
    source, schema = loaded(table.name, {"changes-from": "start"})
    with pytest.raises(dk.InvalidInputError, match="changes have columns of their own"):
        source.reader(StructType(schema.fields[:1]))
    source, schema = loaded(table.name, {"starting": "now"})
    stream = source.streamReader(schema)
    with pytest.raises(dk.InvalidInputError, match="the checkpoint is of another source"):
        stream.partitions({"topic": {"0": 1}}, {"topic": {"0": 2}})
