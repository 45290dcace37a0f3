"""What a fresh process does not import: counted, because seconds differ from machine to machine."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.cli.commands import LISTED
from tests.benchmarks.planning_tables import build

ROOT = Path(__file__).parents[1]
TABLE_LIBRARIES = {"numpy", "pyarrow", "pydantic", "pyiceberg", "fastavro", "polars", "pandas", "sqlalchemy", "click"}
# Each of these takes between a hundredth and a third of a second. pyarrow itself imports pandas, where that is
# installed, as soon as it makes an array of Python values or gives one to numpy, and `numpy.unique` imports numpy.ma.
SLOW = {"numpy.ma", "polars", "pandas", "sqlalchemy", "pyarrow.dataset", "pyiceberg.table", "pyiceberg.manifest"}
SLOW |= {"pyiceberg.catalog", "pyiceberg.io.pyarrow", "pyparsing", "pyspark", "IPython"}
SLOW |= {"pyarrow.orc", "urllib.request"}


def loaded(code: str, *arguments: str) -> set[str]:
    """Run code in a fresh process, and return the modules that it has imported."""
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_deletekit_imports_nothing_else() -> None:
    assert loaded("import deletekit") & TABLE_LIBRARIES == set()


def test_help_imports_no_table_library() -> None:
    code = "from deletekit.cli import main; main(['--help'], standalone_mode=False)"
    found = loaded(code)
    assert found & (TABLE_LIBRARIES - {"click"}) == set()
    assert "rich" not in found
    commands = {name for name in found if name.startswith("deletekit.cli.")}
    assert commands == {"deletekit.cli.app", "deletekit.cli.commands"}


def test_a_command_imports_no_other_one() -> None:
    code = "from deletekit.cli import main; main(['inspect', '--help'], standalone_mode=False)"
    modules = {f"deletekit.cli.{module}" for module, _ in LISTED.values()}
    found = loaded(code)
    assert found & modules == {"deletekit.cli.inspect"}
    assert found & (TABLE_LIBRARIES - {"click"}) == set()


@pytest.mark.parametrize("mode", ["copy-on-write", "position-delete", "deletion-vector"])
def test_a_first_scan_of_a_small_table_imports_what_it_needs(tmp_path: Path, mode: str) -> None:
    schema, version = pa.schema([("id", pa.int64()), ("name", pa.string())]), 3 if mode == "deletion-vector" else 2
    table = dk.create_table(dk.local_catalog(tmp_path), "n.t", schema, format_version=version)
    dk.append(table, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    dk.delete(table, "id = 2", mode=mode)
    code = (
        "import sys, deletekit as dk\n"
        "table = dk.load_table(dk.local_catalog(sys.argv[1]), 'n.t')\n"
        "assert dk.scan(table).to_arrow()['id'].to_pylist() == [1, 3]\n"
        "assert dk.scan(table).count() == 2"
    )
    assert loaded(code, str(tmp_path)) & SLOW == set()


@pytest.mark.parametrize("vectors", [1, 3])
def test_inspect_imports_what_it_needs(tmp_path: Path, vectors: int) -> None:
    table = dk.create_table(dk.local_catalog(tmp_path), "n.t", pa.schema([("id", pa.int64())]), format_version=3)
    for number in range(vectors):
        dk.append(table, pa.table({"id": [10 * number, 10 * number + 1]}))
    dk.delete(table, "id in (0, 10, 20)", mode="deletion-vector")
    code = (
        "import sys; from deletekit.cli import main\n"
        "main(['inspect', 'n.t', '--deletes', '--warehouse', sys.argv[1]], standalone_mode=False)"
    )
    assert loaded(code, str(tmp_path)) & (SLOW | {"pyarrow.compute", "pyarrow.parquet"}) == set()


def test_a_plan_by_polars_imports_no_pandas(tmp_path: Path) -> None:
    """A third of a second and tens of megabytes of a first large plan."""
    location = build(tmp_path, 600, 2)
    code = (
        "import sys, polars, deletekit as dk\n"
        "tasks = dk.scan(dk.from_metadata(sys.argv[1])).plan()\n"
        "assert sum(len(task.delete_files) for task in tasks) == 600\n"
        "assert type(tasks._planned[0].columns.metrics).__name__ == 'DecodedMetrics'  # not by fastavro"
    )
    assert loaded(code, str(location)) & {"pandas", "pyarrow.dataset", "pyarrow.parquet", "numpy.ma"} == set()
