"""A table of format version 4 is refused by name, everywhere a table is opened, and nothing of it is changed."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course.views.table_view import TableView
from deletekit.spark.data_source.options import SourceOptions
from tests.tables import new_catalog, raises

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[dk.Table]:
    """Give a table that was opened before another writer upgraded it, to a version that has no location of its own."""
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, "n.t", ROWS.schema, format_version=3)
        dk.append(table, ROWS)
        file = Path(table.metadata_location)
        metadata = json.loads(file.read_text())
        del metadata["location"]
        file.write_text(json.dumps({**metadata, "format-version": 4}))
        yield table


def refused(action: Callable[[], Any]) -> dk.UnsupportedError:
    with pytest.raises(dk.UnsupportedError) as caught:
        action()
    error = caught.value
    assert (error.kind, error.field, error.found, error.expected) == (
        "format-version", "format-version", 4, "1, 2 or 3",
    )  # fmt: skip
    return error


OPENING: dict[str, Callable[[dk.Table], Any]] = {
    "load_table": lambda t: dk.load_table(t.require_catalog(), t.name),
    "refresh": lambda t: t.refresh(),
    "from_metadata, a file": lambda t: dk.from_metadata(t.metadata_location),
    "from_metadata, a folder": lambda t: dk.from_metadata(Path(t.metadata_location).parent.parent),
    "the data source": lambda t: SourceOptions({"path": t.metadata_location}, frozenset()).open_table(),
    "widgets and explore": lambda t: TableView(t.metadata_location),
    "append": lambda t: dk.append(t, ROWS),
    "delete": lambda t: dk.delete(t, "id = 1"),
    "delete_keys": lambda t: dk.delete_keys(t, [{"id": 1}]),
    "update": lambda t: dk.update(t, {"id": 9}, where="id = 1"),
    "upsert": lambda t: dk.upsert(t, ROWS, on="id"),
    "compact": lambda t: dk.compact(t, rewrite_all=True),
    "expire_snapshots": dk.expire_snapshots,
    "create_branch": lambda t: dk.create_branch(t, "b"),
}


@pytest.mark.parametrize("way", OPENING)
def test_wherever_a_table_is_opened(opened: dk.Table, way: str) -> None:
    file = Path(opened.metadata_location)
    before = {f: f.read_bytes() for f in file.parent.parent.rglob("*.metadata.json")}
    assert refused(lambda: OPENING[way](opened)).file == str(file)
    assert {f: f.read_bytes() for f in file.parent.parent.rglob("*.metadata.json")} == before


class Answers(BaseHTTPRequestHandler):
    """A REST catalog with one table."""

    metadata: dict[str, Any]

    def do_GET(self) -> None:
        table = {"metadata-location": "file:///nowhere/v1.metadata.json", "metadata": self.metadata, "config": {}}
        body = json.dumps({"defaults": {}, "overrides": {}} if self.path.startswith("/v1/config") else table).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_a_rest_catalog_has_one(opened: dk.Table) -> None:
    metadata = json.loads(Path(opened.metadata_location).read_text())
    server = HTTPServer(("127.0.0.1", 0), type("Mine", (Answers,), {"metadata": metadata}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        catalog = dk.load_catalog("rest", type="rest", uri=f"http://127.0.0.1:{server.server_port}")
        refused(lambda: dk.load_table(catalog, "n.t"))
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("format_version", [4, 5])
def test_none_is_made(tmp_path: Path, format_version: int) -> None:
    with new_catalog(tmp_path) as catalog:
        with raises(dk.InvalidInputError, "format-version", found=format_version):
            dk.create_table(catalog, "n.t", ROWS.schema, format_version=format_version)
        table = dk.create_table(catalog, "n.u", ROWS.schema, format_version=3)
        with raises(dk.InvalidInputError, "format-version"):
            dk.upgrade_format_version(table, format_version)
        assert table.refresh().format_version == 3
