"""Each bridge can be deleted: the library stands without it, and so do the bridges that do not build on it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "deletekit"

BUILT_ON = {
    "cli": set[str](),
    "course": {"cli"},
    "delta": {"cli", "course"},
    "stream": {"cli", "course"},
    "spark": {"cli", "course", "stream", "engine"},
}
"""For each bridge, what imports it. The data source of Spark and the sink's part on executors are examples."""

REST = """
import importlib, pkgutil, sys
import deletekit as dk

assert dk.__path__ == [sys.argv[1]], dk.__path__
for module in pkgutil.walk_packages(dk.__path__, "deletekit."):
    if module.name.split(".")[1] not in sys.argv[2:]:
        importlib.import_module(module.name)

import pyarrow as pa

catalog = dk.local_catalog("warehouse")
rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
for version in (2, 3):
    table = dk.create_table(catalog, f"t.v{version}", rows.schema, format_version=version)
    dk.append(table, rows)
    dk.delete(table, "id = 1", mode="merge-on-read")
    dk.delete_keys(table, pa.table({"id": [2]}))
    dk.upsert(table, pa.table({"id": [3, 4], "name": ["new", "d"]}), on="id")
    dk.compact(table)
    assert sorted(dk.scan(table).to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 3, "name": "new"},
        {"id": 4, "name": "d"},
    ]
    assert dk.verify(table, level="data").ok
"""


@pytest.mark.slow
@pytest.mark.parametrize("bridge", BUILT_ON)
def test_the_rest_stands_without(bridge: str, tmp_path: Path) -> None:
    copy = tmp_path / "deletekit"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    gone = copy / bridge
    shutil.rmtree(gone)
    arguments = [sys.executable, "-c", REST, str(copy), bridge, *BUILT_ON[bridge]]
    done = subprocess.run(
        arguments,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
