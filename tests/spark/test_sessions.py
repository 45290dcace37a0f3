"""deletekit.spark.session: what it refuses in one sentence, and that Spark and deletekit see the same tables."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.spark import sessions
from deletekit.spark.catalogs import spark_catalog
from tests.optional_types import SparkSession
from tests.s3 import S3

ROOT = Path(__file__).parents[2]


def test_one_catalog_is_named(tmp_path: Path) -> None:
    for warehouse, catalog in ((None, None), (tmp_path, {"uri": "http://host"})):
        with pytest.raises(dk.InvalidInputError, match="needs one catalog"):
            dk.spark.session(warehouse, catalog=catalog)


def test_missing_jars_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_spark: None) -> None:
    monkeypatch.setattr(sessions, "running_session", lambda: None)
    monkeypatch.setenv("DELETEKIT_JARS", str(tmp_path))
    (tmp_path / "org.xerial_sqlite-jdbc-3.50.3.0.jar").touch()  # as Ivy names what it fetched
    with pytest.raises(dk.EnvironmentMissingError) as caught:
        dk.spark.session(tmp_path / "w")
    assert caught.value.expected == "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
    with pytest.raises(dk.EnvironmentMissingError, match=r"iceberg-aws-bundle-1\.12\.0\.jar"):
        dk.spark.session(catalog={"uri": "http://host", "warehouse": "s3://b/w"})


def test_a_running_session_is_reused(spark: SparkSession, tmp_path: Path) -> None:
    here = spark.conf.get("spark.sql.catalog.local.warehouse")
    assert dk.spark.session(here) is spark
    with pytest.raises(dk.InvalidInputError, match="at another place") as caught:
        dk.spark.session(tmp_path)
    assert caught.value.field == "spark.sql.catalog.local.warehouse"
    assert dk.spark.session(tmp_path, catalog_name="beside") is spark
    catalog = dk.local_catalog(tmp_path, "beside")
    dk.append(dk.create_table(catalog, "db.t", pa.schema([("id", pa.int32())])), [{"id": 7}])
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]
    assert [r.id for r in spark.sql("select id from beside.db.t").collect()] == [7]
    read = spark.read.format("deletekit")
    assert [r.id for r in read.option("catalog", "beside").load("db.t").collect()] == [7]
    with pytest.raises(Exception, match="no such table"):  # the catalog that the session was started with
        spark.read.format("deletekit").load("db.t")


def test_another_catalogs_secrets_are_not_shown(spark: SparkSession, tmp_path: Path) -> None:
    place = {"uri": "http://127.0.0.1:9", "token": "first-secret"}
    for key, value in spark_catalog("guarded", place).settings.items():
        spark.conf.set(key, value)
    with pytest.raises(dk.InvalidInputError, match=r"guarded\.token") as caught:
        dk.spark.session(catalog={**place, "token": "second-secret"}, catalog_name="guarded")
    assert "secret" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_and_deletekit_on_servers(own_spark: None, rest_catalog: dict[str, str], s3: S3, tmp_path: Path) -> None:
    place = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"s3://{s3.bucket()}/wh"}
    given = {"objects": {**place, **s3.properties}, "served": rest_catalog}
    command = [sys.executable, "-m", "tests.session_on_servers", json.dumps(given)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    wanted = [0, 1, 2, 3, 4, 6, 7, 8, 9, 100, 102, 1100]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen == dict.fromkeys(given, dict.fromkeys(["deletekit", "iceberg", "source"], wanted))


LACKING = """
import sys
sys.path.insert(0, sys.argv[1])
import deletekit as dk
catalog = dk.local_catalog("w")
for master in ("local[1]", "local-cluster[1,1,1024]"):
    session = dk.spark.session("w", master=master, driver_memory="512m")
    for call in (lambda: dk.engine.spark(session), lambda: dk.spark.register(session, catalog)):
        try:
            call()
        except dk.EnvironmentMissingError as e:
            print(e)
    session.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("found", ["none", "No such file or directory"])
def test_executors_without_the_package(own_spark: None, tmp_path: Path, found: str) -> None:
    """Their Python is a new environment, or no file: one sentence, before a verb or a query starts a job."""
    if found == "none":
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PYSPARK_PYTHON"] = str(tmp_path / "bare" / "bin" / "python")
    command = [sys.executable, "-c", LACKING, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    sentence = (
        rf"the executors' Python lacks this deletekit; field PYSPARK_PYTHON; found .*{found}; expected deletekit .*"
    )
    assert [bool(re.fullmatch(sentence, line)) for line in done.stdout.splitlines()] == [True] * 4, done.stdout
