"""Changes that cannot be told are refused by name, before the first row is returned."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.storage import ON_S3
from tests.tables import make

pytestmark = pytest.mark.skipif(ON_S3, reason="files are taken away on the local disk")

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def written(catalog: dk.Catalog, version: int = 3, commits: int = 4, **options: Any) -> dk.Table:
    table = make(catalog, schema=SCHEMA, format_version=version, **options)
    for i in range(commits):
        dk.append(table, [{"id": i, "v": i}])
    return table


def line(table: dk.Table, ref: str = "main") -> list[int]:
    metadata = table.refresh().metadata
    head = metadata.snapshot_of_ref(ref)
    return [s.snapshot_id for s in metadata.ancestors(head and head.snapshot_id)][::-1]


def fails(
    kind: str, ask: Callable[[], dk.results.Changes], error: type[dk.DeletekitError] = dk.InvalidInputError
) -> Any:
    """Hold that it is refused before a row is returned, however rows are asked for."""
    raised = []
    for use in (lambda c: next(iter(c)), lambda c: c.to_reader().read_next_batch(), lambda c: c.to_arrow()):
        with pytest.raises(error) as caught:
            use(ask())
        assert type(caught.value) is error
        assert caught.value.kind == kind
        raised.append(caught.value)
    return raised[0]


@pytest.mark.parametrize("mode", ["all", "net", "upsert"])
def test_unknown_and_foreign_snapshots(catalog: dk.Catalog, mode: Any) -> None:
    table, other = written(catalog), written(catalog)
    first, *_, last = line(table)
    for foreign in (12345, line(other)[1]):
        ask = lambda i=foreign: dk.changes(table, i, mode=mode, on="id")  # noqa: E731
        error = fails("snapshot-not-found", ask, dk.NotFoundError)
        assert (error.field, error.found) == ("from_snapshot", foreign)
        ask = lambda i=foreign: dk.changes(table, first, i, mode=mode, on="id")  # noqa: E731
        assert fails("snapshot-not-found", ask, dk.NotFoundError).found == foreign
    assert dk.changes(table, last, mode=mode, on="id").to_arrow().num_rows == 0


@pytest.mark.parametrize("mode", ["all", "net", "upsert"])
def test_from_after_to_and_from_on_another_branch(catalog: dk.Catalog, mode: Any) -> None:
    table = written(catalog)
    first, second, *_ = line(table)
    error = fails("snapshot-order", lambda: dk.changes(table, second, first, mode=mode, on="id"))
    assert error.field == "from_snapshot"
    assert "inverse=True" in error.expected
    dk.create_branch(table, "b", second)
    dk.append(table, [{"id": 9, "v": 9}], ref="b")
    on_branch = line(table, "b")[-1]
    error = fails("snapshot-branch", lambda: dk.changes(table, on_branch, mode=mode, on="id"))
    assert str(second) in error.found
    found = dk.changes(table, first, ref="b", mode=mode, on="id").to_arrow()
    assert sorted(found["id"].to_pylist()) == [1, 9]


def test_a_branch_without_a_snapshot(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=SCHEMA)
    assert dk.changes(table).to_arrow().num_rows == 0
    assert dk.changes(table, mode="net").count() == 0
    fails("snapshot-not-found", lambda: dk.changes(table, 1), dk.NotFoundError)
    fails("ref-not-found", lambda: dk.changes(table, ref="none"), dk.NotFoundError)


def test_expired_in_the_middle(catalog: dk.Catalog) -> None:
    table = written(catalog, commits=5)
    first, _, third, fourth, last = line(table)
    dk.create_tag(table, "kept", first)
    dk.create_branch(table, "side", fourth)
    dk.append(table, [{"id": 9, "v": 9}], ref="side")
    dk.expire_snapshots(table, older_than="2000-01-01", snapshot_ids=[line(table)[1], third])
    assert line(table) == [fourth, last]
    for start in (first, None):
        error = fails("snapshot-expired", lambda s=start: dk.changes(table, s), dk.NotFoundError)
        assert str(fourth) in error.expected
    error = fails("snapshot-not-found", lambda: dk.changes(table, third), dk.NotFoundError)
    assert str(fourth) in error.expected
    assert dk.changes(table, fourth).to_arrow()["id"].to_pylist() == [4]
    assert sorted(dk.changes(table, first, mode="net").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert sorted(dk.changes(table, mode="net").to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]
    # What is known of two branches decides: one that left behind the gap is on another branch.
    side = line(table, "side")[-1]
    for mode in ("all", "net"):
        fails("snapshot-branch", lambda m=mode: dk.changes(table, side, mode=m))  # type: ignore[misc]
    found = dk.changes(table, side, inverse=True).to_arrow().select(["id", "_change_type"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(9, "delete"), (4, "insert")]


@pytest.mark.parametrize("mode", ["all", "net", "upsert"])
def test_a_key_that_is_not_unique_is_named(catalog: dk.Catalog, mode: Any) -> None:
    table = written(catalog, commits=2)
    start = line(table)[0]
    dk.append(table, [{"id": 7, "v": 1}, {"id": 7, "v": 2}, {"id": 8, "v": 1}])
    dk.update(table, {"v": 5}, where="id > 6", mode="copy-on-write")
    if mode == "all":
        start = line(table)[1]
    error = fails("key-not-unique", lambda: dk.changes(table, start, mode=mode, on="id")) if mode != "net" else None
    if error is not None:
        assert (error.field, error.found) == ("id", "7")
    # Rows of which none left need no key, nor do those that row ids tell apart.
    assert dk.changes(table, start, mode="net", on="id").count() in (3, 4)
    kinds = dk.changes(table, line(table)[2]).to_arrow()["_change_type"].to_pylist()
    assert kinds == ["update_before"] * 3 + ["update_after"] * 3


@pytest.mark.parametrize("changes_mode", ["all", "net"])
@pytest.mark.parametrize(("version", "mode"), [(2, "position-delete"), (3, "deletion-vector"), (2, "equality-delete")])
def test_a_missing_delete_file(catalog: dk.Catalog, version: int, mode: Any, changes_mode: Any) -> None:
    table = written(catalog, version, commits=2)
    start = line(table)[0]
    dk.append(table, [{"id": 2, "v": 2}, {"id": 3, "v": 3}])
    dk.delete(table, "id = 2", mode=mode)
    (path,) = {d.file_path for task in dk.scan(table).plan() for d in task.delete_files}
    assert dk.changes(table, start).to_arrow()["id"].to_pylist() == [1, 2, 3, 2]
    Path(path.removeprefix("file://")).unlink()
    error = fails("file-not-found", lambda: dk.changes(table, start, mode=changes_mode), dk.NotFoundError)
    assert error.file == path
    # What was written before it can be read.
    assert dk.changes(table, start, line(table)[-2]).to_arrow()["id"].to_pylist() == [1, 2, 3]


def test_other_arguments(catalog: dk.Catalog) -> None:
    table = written(catalog)
    start = line(table)[0]
    fails("time-travel", lambda: dk.changes(table, start, start, ref="b"))
    fails("column-not-found", lambda: dk.changes(table, start, columns=["no"]))
    fails("column-not-found", lambda: dk.changes(table, start, on="no"))
    fails("filter", lambda: dk.changes(table, start, where="no = 1"))
    fails("equality-key", lambda: dk.changes(table, start, mode="upsert"))
    fails("no-columns", lambda: dk.changes(table, start, columns=[]), dk.UnsupportedError)
    fails("mode", lambda: dk.changes(table, start, mode="newest"))  # type: ignore[arg-type]
    dk.add_column(table, "_change_type", "string")
    fails("change-column", lambda: dk.changes(table, start), dk.UnsupportedError)
