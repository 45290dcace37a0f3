"""What nothing leads to goes, what anything leads to stays, and what might still be needed stays too."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from deletekit.maintenance.remove_orphan_files import _orphans
from deletekit.table.locations import Location, SpellingRules
from tests.maintenance.model import FAR, edit_metadata, history, needed, now_ms, other, snapshot_ids, staged
from tests.s3 import S3
from tests.storage import stored_at
from tests.tables import MODES, files_of, ids, items, make, raises, refused, unchanged

HOUR = 60 * 60 * 1000
DAY = 24 * HOUR
ROWS = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0), (4, "b", 4.0))


def age(table: dk.Table, days: float) -> None:
    """Make every file of the table older."""
    then = (now_ms() - days * DAY) / 1000
    for path in Path(table.location).rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)


def stray(table: dk.Table, name: str, days: float = 10) -> str:
    """Leave a file that nothing leads to."""
    path = Path(table.location) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"stray")
    os.utime(path, ((now_ms() - days * DAY) / 1000,) * 2)
    return str(path)


@pytest.fixture
def table(request: pytest.FixtureRequest, catalog: dk.Catalog) -> dk.Table:
    """Give an old table with deletes, a branch, a tag, a staged snapshot and one that was rolled back."""
    version = getattr(request, "param", 3)
    table = make(catalog, ROWS[:2], ROWS[2:], format_version=version, partition_by=["category"])
    mode = MODES[version][-1]
    dk.create_tag(table, "t")
    dk.delete(table, "id = 1", mode=MODES[version][1] if version > 1 else mode)
    dk.create_branch(table, "dev")
    dk.delete(table, "id = 3", mode=mode, ref="dev")
    staged(table, items((9, "z", 9.0)))
    dk.append(table, items((8, "c", 8.0)))
    dk.rollback(table, snapshot_ids(table)[2])
    stats = f"{table.location}/metadata/some.stats"
    stored_at(stats).write_bytes(b"statistics")
    size = {"file-size-in-bytes": 10, "file-footer-size-in-bytes": 1, "blob-metadata": []}

    def add(metadata: dict[str, Any]) -> None:
        first = metadata["snapshots"][0]["snapshot-id"]
        metadata["statistics"] = [{"snapshot-id": first, "statistics-path": stats, **size}]

    edit_metadata(table, add)
    age(table, 30)
    return table


@pytest.mark.parametrize("table", [1, 2, 3], indirect=True)
def test_nothing_that_is_needed_goes(table: dk.Table) -> None:
    past = history(table)
    with unchanged(table):
        done = dk.remove_orphan_files(table)
    assert done == dk.results.OrphanFiles(location=table.location, listed_files=len(files_of(table)))
    assert files_of(table) == needed(table)
    assert history(table) == past


def test_strays_go_wherever_they_lie(table: dk.Table) -> None:
    kept = files_of(table)
    strays = {
        stray(table, name)
        for name in (
            "data/category=a/x.parquet", "data/x.puffin", "metadata/x-m0.avro", "metadata/snap-1.avro", "top",
            "metadata/00009-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json", "other/deep/er/é ü.parquet",
        )
    }  # fmt: skip
    with unchanged(table):
        tried = dk.remove_orphan_files(table, dry_run=True)
    done = dk.remove_orphan_files(table, engine=LocalEngine(3))
    assert set(tried.orphan_files) == set(done.orphan_files) == strays
    assert (tried.dry_run, done.dry_run) == (True, False)
    assert files_of(table) == kept == needed(table)
    with unchanged(table):
        assert dk.remove_orphan_files(table).orphan_files == ()


def test_every_file_that_is_needed_is_a_stray_without_its_table(table: dk.Table) -> None:
    """The proof can fail: what protects files is the metadata that leads to them, not their names."""
    before = files_of(table)
    dk.expire_snapshots(table, older_than=FAR)
    gone = before - files_of(table)
    assert gone
    for path in gone:
        stray(table, str(stored_at(path).relative_to(table.location)))
    assert set(dk.remove_orphan_files(table).orphan_files) == gone
    assert files_of(table) == needed(table)


def test_what_lies_hidden_or_is_a_hint_stays(table: dk.Table) -> None:
    kept = {
        stray(table, name)
        for name in ("metadata/version-hint.text", "_temporary/x", ".hidden", "data/_SUCCESS", "metadata/.x.avro.crc")
    }
    gone = stray(table, "data/version-hint.text")
    assert dk.remove_orphan_files(table).orphan_files == (gone,)
    assert kept <= files_of(table)


def test_a_partition_may_begin_with_an_underscore(catalog: dk.Catalog) -> None:
    import pyarrow as pa  # noqa: PLC0415

    table = make(catalog, schema=pa.schema([("_part", pa.string()), ("id", pa.int64())]), partition_by=["_part"])
    dk.append(table, [{"_part": "a", "id": 1}])
    age(table, 30)
    assert any("_part=a" in path for path in files_of(table))
    gone = stray(table, "data/_part=a/x.parquet")
    assert dk.remove_orphan_files(table).orphan_files == (gone,)
    assert files_of(table) == needed(table)


# --- age --------------------------------------------------------------------------------------------------------------


def test_young_files_stay(table: dk.Table) -> None:
    young, old = stray(table, "young", days=2.9), stray(table, "old", days=3.1)
    fresh = stray(table, "fresh", days=0)
    assert dk.remove_orphan_files(table).orphan_files == (old,)
    assert dk.remove_orphan_files(table, older_than=datetime.now(UTC) - timedelta(hours=25)).orphan_files == (young,)
    assert dk.remove_orphan_files(table, older_than=FAR, force=True).orphan_files == (fresh,)


@pytest.mark.parametrize("hours", [0, 1, 23.9, -5])
def test_less_than_a_day_is_refused(table: dk.Table, hours: float) -> None:
    stray(table, "old")
    limit = int(now_ms() - hours * HOUR)
    for dry_run in (True, False):
        with refused(table, dk.InvalidInputError, "orphan-age", field="older_than"):
            dk.remove_orphan_files(table, older_than=limit, dry_run=dry_run)


def test_what_is_committed_while_storage_is_listed_stays(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    # The most unlucky case: no age protects the new files.
    table = make(catalog, ROWS, format_version=2)
    them = other(table)
    real = type(table.io).list

    def listing(io: Any, prefix: str) -> Iterator[Any]:
        before = list(real(io, prefix))
        dk.append(them, items((9, "z", 9.0)))
        yield from before
        yield from (f for f in real(io, prefix) if f not in before)

    monkeypatch.setattr(type(table.io), "list", listing)
    assert dk.remove_orphan_files(table, older_than=FAR, force=True).orphan_files == ()
    assert ids(table) == [1, 2, 3, 4, 9]


# --- places -----------------------------------------------------------------------------------------------------------


def test_another_table_inside_is_not_touched(catalog: dk.Catalog, table: dk.Table) -> None:
    inner = make(catalog, ROWS, location=f"{table.location}/data/inner")
    age(table, 30)
    with refused(table, dk.InvalidInputError, "nested-table"):
        dk.remove_orphan_files(table)
    gone = stray(table, "metadata/x.avro")
    assert dk.remove_orphan_files(table, location=f"{table.location}/metadata").orphan_files == (gone,)
    assert ids(inner) == [1, 2, 3, 4]


def test_metadata_that_moved_is_no_other_table(table: dk.Table) -> None:
    dk.set_properties(table, {"write.metadata.path": f"{table.location}/elsewhere", })  # fmt: skip
    dk.append(table, items((9, "z", 9.0)))
    old = stray(table, "before/00000-x.metadata.json")
    shutil.copy(table.metadata_location, old)
    os.utime(old, (0, 0))
    assert dk.remove_orphan_files(table).orphan_files == (old,)
    assert files_of(table) == needed(table)


def test_other_places_are_refused(table: dk.Table, tmp_path: Path) -> None:
    beside = table.location + "-beside"
    for place in (beside, str(Path(table.location).parent), f"{table.location}/../x", "s3://bucket/t", "/"):
        with refused(table, dk.InvalidInputError, "orphan-location", field="location", found=place):
            dk.remove_orphan_files(table, location=place)
    # A write.data.path is the table's own.
    dk.set_properties(table, {"write.data.path": beside})
    dk.append(table, items((9, "z", 9.0)))
    gone = Path(beside) / "x.parquet"
    gone.write_bytes(b"x")
    os.utime(gone, (0, 0))
    assert dk.remove_orphan_files(table, location=beside).orphan_files == (str(gone),)
    assert dk.remove_orphan_files(table, location=f"file://{table.location}").orphan_files == ()
    assert 9 in ids(table)


def test_links_lead_nowhere(table: dk.Table, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    os.utime(outside / "precious", (0, 0))
    (Path(table.location) / "data" / "link").symlink_to(outside)
    assert dk.remove_orphan_files(table).orphan_files == ()
    assert (outside / "precious").exists()


def test_refusals(table: dk.Table) -> None:
    stray(table, "old")
    with refused(table, dk.InvalidInputError, "mode", field="prefix_mismatch_mode"):
        dk.remove_orphan_files(table, prefix_mismatch_mode="perhaps")  # type: ignore[arg-type]
    reader = dk.from_metadata(table.metadata_location)
    with refused(reader, dk.InvalidInputError, "read-only"):
        dk.remove_orphan_files(reader)
    dk.set_properties(table, {"gc.enabled": "false"})
    with refused(table, dk.InvalidInputError, "gc-disabled"):
        dk.remove_orphan_files(table)


def test_metadata_that_cannot_be_read_protects_everything(table: dk.Table) -> None:
    stray(table, "old")
    snapshot = table.metadata.snapshots[snapshot_ids(table)[-1]]
    assert snapshot.manifest_list is not None
    stored_at(snapshot.manifest_list).write_bytes(b"damaged")
    with refused(table, dk.FormatError, "avro-magic"):
        dk.remove_orphan_files(table)
    stored_at(snapshot.manifest_list).unlink()
    with refused(table, dk.NotFoundError, "file-not-found"):
        dk.remove_orphan_files(table)


def test_what_cannot_be_removed_is_said(table: dk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = stray(table, "bad"), stray(table, "good")
    real = type(table.io).delete

    def delete(io: Any, path: str) -> None:
        if path == bad:
            raise PermissionError("not yours")
        real(io, path)

    monkeypatch.setattr(type(table.io), "delete", delete)
    done = dk.remove_orphan_files(table)
    assert done.orphan_files == (good,)
    assert done.failed_files == {bad: "PermissionError: not yours"}


# --- spelling ---------------------------------------------------------------------------------------------------------

KNOWN = ["s3://bucket/t/data/a", "/t/b", "file:/t/c", "hdfs://nn1:8020/t/d"]


@pytest.mark.parametrize(
    ("listed", "options", "expected"),
    [
        ("s3://bucket/t/data/a", {}, "known"),
        ("s3a://bucket/t/data/a", {}, "known"),
        ("s3n://bucket/t//data///a", {}, "known"),
        ("S3A://bucket/t/data/a", {}, "known"),
        ("s3://bucket/t/data/A", {}, "orphan"),
        ("s3://other/t/data/a", {}, "mismatch"),
        ("s3://other/t/data/a", {"equal_authorities": {"other, more": "bucket"}}, "known"),
        ("gs://bucket/t/data/a", {}, "mismatch"),
        ("gs://bucket/t/data/a", {"equal_schemes": {"gs": "s3"}}, "known"),
        ("file:/t/b", {}, "known"),
        ("file:///t/b", {}, "known"),
        ("/t/c", {}, "known"),
        ("file:///t/c", {}, "known"),
        ("file://localhost/t/c", {}, "known"),
        ("s3://bucket/t/b", {}, "known"),  # metadata that names no scheme means any, as in Java
        ("hdfs://nn2:8020/t/d", {}, "mismatch"),
        ("hdfs://nn2:8020/t/d", {"equal_authorities": {"nn2:8020": "nn1:8020"}}, "known"),
        ("hdfs://NN1:8020/t/d", {}, "known"),
        ("/t/e", {}, "orphan"),
    ],
)
def test_one_file_by_two_names(listed: str, options: dict[str, Any], expected: str) -> None:
    rules = SpellingRules(**options)
    found = {mode: list(_orphans([listed], KNOWN, mode, rules)) for mode in ("ignore", "delete")}
    assert found == {
        "ignore": [listed] if expected == "orphan" else [],
        "delete": [] if expected == "known" else [listed],
    }
    if expected == "mismatch":
        with raises(dk.InvalidInputError, "prefix-mismatch"):
            list(_orphans([listed], KNOWN, "error", rules))
    else:
        assert list(_orphans([listed], KNOWN, "error", rules)) == found["delete"]


def test_one_right_name_is_enough() -> None:
    known = ["s3://one/t/a", "s3://two/t/a"]
    assert list(_orphans(["s3://two/t/a"], known, "error", SpellingRules())) == []


def test_locations() -> None:
    rules = SpellingRules()
    assert rules.parse("s3a://b/x/y") == Location("s3", "b", "/x/y")
    assert rules.parse("/x//y") == Location("", "", "/x/y")
    assert rules.key("/x/y") == rules.key("file:/x/y") == rules.key("file:///x/y")
    assert rules.key("/a:b/c") == Location("file", "", "/a:b/c")


# --- S3 ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_s3(s3: S3, tmp_path: Path) -> Iterator[tuple[dk.Catalog, str]]:
    """Give a catalog whose tables are on S3, and their bucket."""
    bucket = s3.bucket()
    uri = f"sqlite:///{tmp_path / 'catalog.db'}"
    catalog = dk.load_catalog("s3", type="sql", uri=uri, warehouse=f"s3://{bucket}/wh", **s3.properties)
    yield catalog, bucket
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("spelled", ["s3", "s3a"])
def test_on_s3(s3: S3, on_s3: tuple[dk.Catalog, str], spelled: str) -> None:
    catalog, bucket = on_s3
    table = make(catalog, ROWS[:2], ROWS[2:], format_version=3, partition_by=["category"])
    dk.delete(table, "id = 1", mode="deletion-vector")
    dk.delete(table, "id = 2", mode="deletion-vector")
    key = table.location.removeprefix(f"s3://{bucket}/")
    for name in ("data/stray.parquet", "metadata/stray%20one.avro", "_hidden"):
        s3.request("PUT", f"{bucket}/{key}/{name}", b"stray")
    s3.request("PUT", f"{bucket}/{key}-beside/x", b"beside")
    place = f"{spelled}://{bucket}/{key}"
    tried = dk.remove_orphan_files(table, older_than=FAR, force=True, dry_run=True, location=place)
    done = dk.remove_orphan_files(table, older_than=FAR, force=True, location=place)
    assert tried.orphan_files == done.orphan_files
    assert set(done.orphan_files) == {f"{place}/data/stray.parquet", f"{place}/metadata/stray one.avro"}
    assert dk.remove_orphan_files(table).orphan_files == ()
    assert ids(table) == [3, 4]
    expired = dk.expire_snapshots(table, older_than=FAR)
    assert expired.deleted_data_files
    assert expired.failed_files == {}
    listed = {f.path for f in table.io.list(table.location)}
    assert not {*expired.deleted_data_files, *expired.deleted_manifest_lists} & listed
    assert dk.remove_orphan_files(table, older_than=FAR, force=True).orphan_files == ()
    assert ids(table) == [3, 4]
    assert table.io.read(f"s3://{bucket}/{key}-beside/x") == b"beside"
    dk.rewrite_manifests(table)
    assert ids(table) == [3, 4]


def test_a_bucket_by_another_name_on_s3(s3: S3, on_s3: tuple[dk.Catalog, str]) -> None:
    catalog, bucket = on_s3
    table = make(catalog, ROWS, format_version=2, location=f"s3a://{bucket}/t")
    s3.request("PUT", f"{bucket}/t/stray", b"stray")
    for options in ({}, {"prefix_mismatch_mode": "delete"}):
        done = dk.remove_orphan_files(table, older_than=FAR, force=True, **options)  # type: ignore[arg-type]
        assert set(done.orphan_files) <= {f"s3a://{bucket}/t/stray"}
    assert ids(table) == [1, 2, 3, 4]
