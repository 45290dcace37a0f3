"""VERIFY of a table that names places which do not answer: each is a finding, and asked once for a few seconds."""

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.maintenance.verify import other_places
from tests.maintenance.damage import edit_manifest
from tests.tables import ITEMS, items


def test_other_places_that_do_not_answer_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes requests and never answers, and a storage whose library is missing."""
    monkeypatch.setattr(other_places, "_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        properties = {
            "s3.endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "s3.access-key-id": "a",
            "s3.secret-access-key": "b",
            "s3.region": "us-east-1",
        }
        uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", str(tmp_path / "wh")
        catalog = dk.load_catalog("p", type="sql", uri=uri, warehouse=warehouse, **properties)
        table = dk.create_table(catalog, "a.t", ITEMS)
        for n in range(4):
            dk.append(table, items((n, "a", 1.0)))
        dk.rewrite_manifests(table)
        paths = ["s3://silent/a.parquet", "s3://silent/b.parquet", "hdfs://nowhere:1/c.parquet"]

        def change(entries: list[dict[str, Any]]) -> None:
            for entry, path in zip(entries, paths, strict=False):
                entry["data_file"]["file_path"] = path

        edit_manifest(table, change)
        start = time.monotonic()
        report = dk.verify(dk.load_table(catalog, "a.t"), level="data")
        assert time.monotonic() - start < 15
        found = {f.file: f for f in report.errors if f.kind == "unreadable-file"}
        assert set(found) >= set(paths)
        assert {f.message for path, f in found.items() if path in paths} == {"storage of this path does not answer"}
        assert "1 seconds" in str(found[paths[0]].found)
        assert sum(t.name == "verify s3://silent" for t in threading.enumerate()) <= 1
        assert report.checked["data_files"] >= 1


def test_the_tables_own_storage_is_not_a_finding(tmp_path: Path) -> None:
    class Away:
        def size(self, path: str) -> int:
            raise dk.StorageError("storage cannot be reached", file=path)

    own = other_places.OtherPlaces(Away(), "s3://own/table")  # type: ignore[arg-type]
    with pytest.raises(dk.StorageError) as error:
        own.size("s3://own/table/data/x")
    assert type(error.value) is dk.StorageError
    for _ in range(2):
        with pytest.raises(other_places.OtherPlaceError):
            own.size("s3://other/x")
