"""The data source finds itself, in a session that has no jar of Iceberg and no setting for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from tests.invariants import check_table
from tests.spark.data_source.plain_session import HALF
from tests.tables import expected, live, new_catalog

ROOT = Path(__file__).parents[3]
WORDS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("word", pa.string())])


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_without_a_jar(own_spark: None, tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        read = dk.create_table(catalog, "test.read", WORDS, format_version=3)
        dk.append(read, [{"id": i, "word": f"w{i}"} for i in range(6)])
        dk.delete(read, "id = 3", mode="deletion-vector")
        # Tasks write a file for each batch, so that one has landed when the task is killed.
        written = dk.create_table(catalog, "test.written", WORDS, properties={"write.target-file-size-bytes": "1"})
        command = [sys.executable, "-m", "tests.spark.data_source.plain_session", str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["jars"] == ""
        assert found["read"] == [2, 4, 5]
        rows = [{"id": i, "word": "old"} for i in range(2 * HALF)]
        assert live(written.refresh()) == expected(rows)
        assert found["landed"], "the file that the killed attempt had written"
        assert found["written"] == list(range(2, 2 * HALF))
        assert len(written.metadata.snapshots) == 1
        assert dk.verify(written).ok
        removed = dk.remove_orphan_files(written, older_than="2999-01-01", force=True)
        orphans = {Path(path).name for path in removed.orphan_files}
        assert Path((tmp_path / "killed").read_text()).name in orphans
        check_table(written)
        assert live(written.refresh()) == expected(rows)
        assert "without Iceberg's jar" in found["session"]


def test_importing_it_never_fails() -> None:
    # Spark imports it whenever any data source in Python is used, also where deletekit cannot be imported.
    code = (
        "import sys; sys.modules['pyspark'] = None; import pyspark_deletekit as p; print(hasattr(p, 'DefaultSource'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_importing_it_is_cheap() -> None:
    code = "import sys, pyspark_deletekit as p; p.DefaultSource; print({'pyiceberg', 'polars'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
