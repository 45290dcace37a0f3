"""`at_most`, `expect` and `readable_by`: a change that does not keep to them is refused, and leaves nothing behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import deletekit as dk
from conformance.engines import rows_of
from conformance.run import EngineProcess, counted, engine_of
from tests.commit.racing import racing
from tests.tables import MODES, VERSION_AND_MODE, Row, expected, items, live, make, raises, refused

ROWS = items(*((i, "abcd"[i % 4], float(i)) for i in range(20)))
Call = Callable[..., dk.results.Commit]
E = "equality-delete"


def filled(catalog: dk.Catalog, version: int = 3, **options: Any) -> dk.Table:
    """Twenty rows in two files, of which two are deleted in each mode that leaves deletes."""
    table = make(catalog, ROWS[:10], ROWS[10:], format_version=version, **options)
    for number, mode in enumerate(MODES[version][1:]):
        dk.delete(table, f"id in ({number}, {number + 10})", mode=mode)
    return table


def calls(table: dk.Table, mode: str) -> dict[str, Call]:
    """Each verb that hides or changes rows."""
    by = {"on": "id"} if mode == E else {}
    new = items((7, "a", 0.5), (12, "b", 0.5), (99, "c", 0.5))
    found: dict[str, Call] = {
        "delete": partial(dk.delete, table, "value >= 15", mode=mode, **by),
        "delete of listed keys": partial(dk.delete, table, "id in (0, 7, 12, 99)", mode=mode, **by),
        "update": partial(dk.update, table, {"value": 0.5}, where="value < 6", mode=mode, **by),
        "merge": partial(dk.merge, table, new, on="id", mode=mode),
        "upsert": partial(dk.upsert, table, new, on="id", mode=mode),
        "overwrite": partial(dk.overwrite, table, new, "id in (7, 12, 15, 99)", mode=mode),
    }
    if table.format_version > 1 and mode == E:
        found["delete_keys"] = partial(dk.delete_keys, table, [{"id": 1}, {"id": 7}, {"id": 12}, {"id": 99}])
    if table.metadata.spec.fields:
        found["partitions"] = partial(dk.overwrite_partitions, table, items((50, "a", 5.0)))
    return found


def gone(before: list[Row], after: list[Row]) -> int:
    """How many rows are not there any more as they were."""
    return sum((Counter(map(repr, before)) - Counter(map(repr, after))).values())


@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=["whole", "by category"])
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_limits_of_rows(catalog: dk.Catalog, version: int, mode: str, partition_by: list[str]) -> None:
    """The count of each verb is that of a scan before and after, and only this or a larger limit lets it pass."""
    for name in calls(filled(catalog, version, partition_by=partition_by), mode):
        table = filled(catalog, version, partition_by=partition_by)
        call, before = calls(table, mode)[name], live(table)
        rows = call(dry_run=True).matched_rows
        assert rows, name
        share = f"{100 * rows / len(before) - 0.001:.6f} %"
        for limit in ({"at_most": rows - 1}, {"at_most": share}, {"expect": rows + 1, "dry_run": True}):
            with refused(table, dk.InvalidInputError, "row-limit", field=next(iter(limit))):
                call(**limit)
        done = call(at_most="100 %", expect=rows)
        assert done.matched_rows == rows == gone(before, live(table)), name


@pytest.mark.parametrize(
    ("version", "mode"), [(2, "position-delete"), (3, "deletion-vector"), (3, E), (1, "copy-on-write")]
)
def test_rows_that_land_between_plan_and_commit_count(catalog: dk.Catalog, version: int, mode: str) -> None:
    """Serializable, so what lands meanwhile is deleted too: with it the change is too large, and leaves nothing."""
    landed = items(*((i, "a", 50.0) for i in (7, 12, 99)))
    for name in calls(filled(catalog, version), mode):
        table = filled(catalog, version)
        most = calls(table, mode)[name](dry_run=True).matched_rows
        seen = racing(catalog, table, lambda other: dk.append(other, landed))
        rows = sorted([*map(repr, live(table)), *map(repr, landed)])
        call = partial(calls(seen, mode)[name], at_most=most)
        if name == "update":  # none of the new rows is among its own
            assert call().attempts == 2
            continue
        with pytest.raises(dk.InvalidInputError) as caught:
            call()
        # Of `delete`, the key of a row that the filter chooses is one of a new row then that it does not choose.
        assert caught.value.kind == ("equality-key-not-unique" if (mode, name) == (E, "delete") else "row-limit"), name
        assert sorted(map(repr, live(table.refresh()))) == rows, name
        assert dk.verify(table.refresh()).ok


def test_what_is_no_limit(catalog: dk.Catalog) -> None:
    table = filled(catalog)
    wrong: list[tuple[str, Any]] = [("at_most", bad) for bad in (-1, "1", "101 %", "x %", "-1 %")]
    of_type: list[tuple[str, Any]] = [("at_most", True), ("at_most", 0.5), ("expect", "1 %"), ("expect", 1.5)]
    for name, bad in [*wrong, ("expect", -1), *of_type]:
        kind = "argument" if (name, bad) in of_type else "row-limit"
        with refused(table, dk.InvalidInputError, kind, field=name):
            dk.delete(table, "id = 3", **{name: bad})
    assert dk.delete(table, "id = 333", at_most=0, expect=0).operation is None
    assert dk.delete(make(catalog, format_version=3), "id = 3", at_most="0 %").operation is None


def test_the_mode_is_one_that_the_engines_read(catalog: dk.Catalog) -> None:
    """Snowflake is reported to read no equality deletes, Databricks none of v2, BigQuery no v3."""
    for version, engine, mode, unread, kinds in (
        (2, "snowflake", E, E, ["position-delete"]),
        (2, "databricks", E, "position-delete", []),
        (2, "trino", E, None, [E]),
        (3, "snowflake", E, E, ["deletion-vector"]),
        (3, "athena", "deletion-vector", "deletion-vector", []),
    ):
        table = make(catalog, ROWS[:10], ROWS[10:], format_version=version)
        dk.set_properties(table, {"write.delete.mode": mode})
        tried = dk.delete(table, "id in (3, 4, 13)", readable_by=[engine], dry_run=True)
        dk.set_properties(table, {"deletekit.readable-by": engine})
        done = dk.delete(table, "id in (3, 4, 13)")
        for commit in (tried, done):
            assert sorted({d.kind for d in commit.added_delete_files}) == kinds, (version, engine)
        assert live(table) == expected([row for row in ROWS if row["id"] not in (3, 4, 13)])
        if unread:
            with refused(table, dk.UnsupportedError, "not-readable"):
                dk.delete(table, "id = 5", mode=unread)
            assert dk.delete(table, "id = 5", mode=unread, readable_by=[]).added_delete_files
        if unread == E:
            with refused(table, dk.UnsupportedError, "not-readable"):
                dk.delete_keys(table, [{"id": 6}])


def test_engines_that_cannot_be_served(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    with refused(table, dk.UnsupportedError, "not-readable", field="readable_by"):
        dk.append(table, ROWS, readable_by="bigquery")
    with refused(table, dk.InvalidInputError, "reader-engine"):
        dk.append(table, ROWS, readable_by=["nobody"])
    with raises(dk.InvalidInputError, "property"):
        dk.set_properties(table, {"deletekit.readable-by": "snowflake,,"})
    dk.delete_keys(table, [{"id": 5}])
    with refused(table, dk.UnsupportedError, "not-readable"):  # what is there already counts too
        dk.append(table, ROWS, readable_by=["snowflake"])
    dk.make_readable(table, ["snowflake"])
    assert dk.append(table, ROWS[:1], readable_by=["snowflake"]).added_data_files


def test_what_metadata_cannot_tell_is_refused(catalog: dk.Catalog) -> None:
    """DuckDB loses a row whose key is NULL beside a key that is none; DataFusion reads no name mapping right."""
    table = make(catalog, [*ROWS[:3], {**ROWS[3], "category": None}], format_version=3)
    for engine in ("duckdb", "duckdb 1.5", "DuckDB 1.5.5"):
        with refused(table, dk.UnsupportedError, "not-readable"):
            dk.delete(table, "category = 'a'", mode=E, readable_by=engine)
    with refused(table, dk.InvalidInputError, "reader-engine"):
        dk.delete(table, "id = 1", readable_by="duckdb 1.4.9")
    dk.set_properties(table, {"schema.name-mapping.default": "[]"})
    with refused(table, dk.UnsupportedError, "not-readable"):
        dk.append(table, ROWS, readable_by="datafusion")


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize(
    "engine",
    ["duckdb", "pysail", *(pytest.param(name, marks=pytest.mark.long) for name in ("polars", "pyiceberg", "chdb"))],
)
def test_engines_read_what_is_written_for_them(catalog: dk.Catalog, engine: str) -> None:
    """In each mode and version: what is written is read right, and what is refused is refused or wrong there."""
    columns = [{"name": f.name, "type": str(f.field_type)} for f in make(catalog).schema.fields]
    with EngineProcess(engine_of(engine)) as process:
        for version, mode in VERSION_AND_MODE:
            for name in calls(filled(catalog, version), mode):
                table = make(catalog, ROWS[:10], ROWS[10:], format_version=version)
                call, refusal = calls(table, mode)[name], None
                try:
                    call(readable_by=[engine])
                except dk.UnsupportedError as e:
                    refusal = e.found
                    call()
                snapshot_id = table.metadata.refs["main"]["snapshot-id"]
                location = table.metadata_location.removeprefix("file://")
                asked = {"metadata": location, "ref": "main", "snapshot_id": snapshot_id, "columns": columns}
                answer, rows = process.ask(asked), rows_of(dk.scan(table).to_arrow())
                is_right = answer.kind == "rows" and counted(answer.rows, columns) == counted(rows, columns)
                # Of some rules nobody can tell from metadata whether rows need them: there it is refused beforehand.
                assert is_right == (refusal is None or "in some tables" in refusal), (
                    version,
                    mode,
                    name,
                    refusal,
                    answer,
                )


def test_a_sink_writes_what_the_engines_read(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[:10], format_version=2, properties={"deletekit.readable-by": "snowflake"})
    changes = [{**ROWS[3], "value": 0.5, "_change_type": "UPDATE_AFTER"}]
    with dk.stream.sink(table, "by-position", on="id", maintain=None) as sink:
        done = sink.write(changes, 0).commit
        assert done is not None
        assert [d.kind for d in done.added_delete_files] == ["position-delete"]
    with (
        dk.stream.sink(table, "by-value", on="id", mode="eq-only") as sink,
        refused(table, dk.UnsupportedError, "not-readable"),
    ):
        sink.write(changes, 0)
    with dk.stream.sink(table, "for-others", on="id", mode="eq-only", readable_by=["trino"]) as sink:
        assert sink.write(changes, 0).status == "committed"
    with refused(table, dk.InvalidInputError, "reader-engine"):
        dk.stream.sink(table, "for-nobody", on="id", readable_by="nobody")


def test_whatever_adds_rows_is_judged(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, ROWS[:10], format_version=2, properties={"deletekit.readable-by": "snowflake"})
    dk.create_branch(table, "side")
    dk.append(table, ROWS[10:], ref="side")
    dk.delete_keys(table, [{"id": 5}], readable_by=[])
    pq.write_table(dk.scan(table).to_arrow(), tmp_path / "more.parquet")
    head = table.metadata.refs["side"]["snapshot-id"]
    for call in (
        lambda: dk.add_files(table, [tmp_path / "more.parquet"]),
        lambda: dk.stream.promote(table, "side", on="id"),
        lambda: dk.cherry_pick(table, head),
        lambda: dk.revert(table, next(iter(table.metadata.snapshots)), on_conflict="skip"),
    ):
        with refused(table, dk.UnsupportedError, "not-readable"):
            call()
