"""Exports to object stores: Delta's readers find the rows, one writer of a version wins, a fault changes nothing."""

from collections.abc import Iterator
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.delta.data_files import DataFiles
from deletekit.table.create_if_absent import CreateIfAbsent
from tests.s3 import S3
from tests.storage import catalog_on

PARTS = ["a b/c%=é", None]


@pytest.fixture
def s3_catalog(s3: S3, obstore: None, tmp_path: Path) -> Iterator[dk.Catalog]:
    with catalog_on(tmp_path / "catalog", s3) as catalog:
        yield catalog


@pytest.fixture
def table(s3_catalog: dk.Catalog) -> dk.Table:
    made = dk.create_table(
        s3_catalog, "t.x", pa.schema([("id", pa.int64()), ("p", pa.string())]), format_version=3, partition_by=["p"]
    )
    dk.append(made, [{"id": i, "p": PARTS[i % 2]} for i in range(20)])
    return made


def live(table: dk.Table) -> list[int]:
    return sorted(dk.scan(table).to_arrow()["id"].to_pylist())


def by_deltalake(s3: S3, uri: str) -> list[int]:
    from deltalake import DeltaTable  # noqa: PLC0415  # a peer

    names = {"endpoint": "AWS_ENDPOINT_URL", "access-key-id": "AWS_ACCESS_KEY_ID", "region": "AWS_REGION"}
    names["secret-access-key"] = "AWS_SECRET_ACCESS_KEY"
    options = {names[k.removeprefix("s3.")]: v for k, v in s3.properties.items()}
    found = pa.table(DeltaTable(uri, storage_options={**options, "AWS_ALLOW_HTTP": "true"}).scan())
    return sorted(found["id"].to_pylist())


def beside(table: dk.Table, name: str = "delta") -> str:
    return table.location.rpartition("/wh/")[0] + "/" + name


@pytest.mark.peers
@pytest.mark.parametrize("scheme", ["s3", pytest.param("s3a", marks=pytest.mark.slow)])
def test_deltalake_reads_each_export(s3: S3, table: dk.Table, scheme: str) -> None:
    uri = beside(table).replace("s3:", f"{scheme}:")
    for version, condition in enumerate(["id < 3", "id in (3, 4)", "p is null"]):
        dk.delete(table, condition, mode="deletion-vector")
        assert dk.export_delta(table, uri).version == version
        assert by_deltalake(s3, uri) == live(table)
    again = dk.export_delta(table, uri)
    assert (again.version, again.added_files) == (2, 0)


@pytest.mark.peers
def test_deltalake_reads_one_bucket(s3: S3, table: dk.Table) -> None:
    """A release of deltalake that reads more makes the sentence in docs/delta.md wrong."""
    uri = f"s3://{s3.bucket()}/delta"
    dk.export_delta(table, uri)
    with pytest.raises(Exception, match="No suitable object store"):
        by_deltalake(s3, uri)


def test_the_slower_of_two_writers_gets_a_conflict(s3: S3, table: dk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faster one writes the version between the plan of the other and its commit."""
    uri, check = beside(table), CreateIfAbsent.check
    dk.export_delta(table, uri)
    dk.delete(table, "id = 0", mode="deletion-vector")
    other = dk.load_table(table.catalog, "t.x")

    def faster(files: CreateIfAbsent) -> None:
        monkeypatch.setattr(CreateIfAbsent, "check", check)
        dk.delete(other, "id = 1", mode="deletion-vector")
        assert dk.export_delta(other, uri).version == 1
        check(files)

    monkeypatch.setattr(CreateIfAbsent, "check", faster)
    before = live(table)
    with pytest.raises(dk.CommitConflictError):
        dk.export_delta(table, uri)
    assert by_deltalake(s3, uri) == live(other) != before
    assert dk.export_delta(table, uri).added_files == 0, "the winner wrote what the table has now"


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_a_fault_leaves_the_old_version_or_the_new(
    s3: S3, table: dk.Table, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    uri, create = beside(table), CreateIfAbsent.create
    old = live(table)
    dk.export_delta(table, uri)
    dk.delete(table, "id in (2, 3)", mode="deletion-vector")

    def broken(files: CreateIfAbsent, path: str, data: bytes) -> None:
        if when == "after" or not path.endswith(suffix):
            create(files, path, data)
        if path.endswith(suffix):
            raise dk.StorageError("the network is away", kind="storage", file=path)

    monkeypatch.setattr(CreateIfAbsent, "create", broken)
    for suffix in (".tmp", ".bin", ".json"):
        with pytest.raises(dk.StorageError):
            dk.export_delta(table, uri)
        assert by_deltalake(s3, uri) == (live(table) if (suffix, when) == (".json", "after") else old)
    monkeypatch.undo()
    assert dk.export_delta(table, uri).version == 1
    assert by_deltalake(s3, uri) == live(table)
    assert all(file.path.endswith((".bin", ".json")) for file in table.io.list(uri)), "no probe stays"


def test_footers_on_s3_are_read_many_at_a_time(
    s3: S3, table: dk.Table, s3_catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of eight footers waits until all eight are asked for."""
    for start in (20, 40, 60):
        dk.append(table, [{"id": start + i, "p": PARTS[i % 2]} for i in range(2)])
    uri, waiting, entry = beside(table), Barrier(8, timeout=30), DataFiles.entry
    dk.export_delta(table, uri)

    def together(self: DataFiles, *arguments: Any) -> Any:
        waiting.wait()
        return entry(self, *arguments)

    monkeypatch.setattr(DataFiles, "entry", together)
    assert live(dk.sync_delta(uri, s3_catalog, "t.again").table) == live(table)
