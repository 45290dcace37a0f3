"""The pipeline and every verb on the Spark engine: on Iceberg's REST server, with data on disk and on S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rest_server import RestServer
from tests.s3 import S3

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def rest_on_s3(java: str, rest_s3_jars: str, s3: S3, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Give the properties of a REST catalog whose server keeps its tables on S3."""
    place = {
        "CATALOG_WAREHOUSE": f"s3://{s3.bucket()}/wh",
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": s3.properties["s3.endpoint"],
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_S3_ACCESS__KEY__ID": s3.properties["s3.access-key-id"],
        "CATALOG_S3_SECRET__ACCESS__KEY": s3.properties["s3.secret-access-key"],
        "CATALOG_CLIENT_REGION": s3.properties["s3.region"],
    }
    server = RestServer(java, rest_s3_jars, tmp_path / "rest", environment=place)
    server.start()
    yield {"type": "rest", "uri": server.uri, **s3.properties}
    server.stop()


def drive(folder: Path, properties: dict[str, str]) -> Any:
    command = [sys.executable, "-m", "tests.engines.place_driver", str(folder)]
    done = subprocess.run(
        [*command, *(f"{key}={value}" for key, value in properties.items())],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def all_well(found: Any) -> None:
    assert found["wrong"] == []
    assert found["statuses"] == [["done"], ["done before"]]


@pytest.mark.long
def test_rest(own_spark: None, rest_catalog: dict[str, str], tmp_path: Path) -> None:
    all_well(drive(tmp_path, rest_catalog))


if os.environ.get("DELETEKIT_PLACES"):  # some minutes, and a large jar: by command

    def test_rest_with_tables_on_s3(own_spark: None, rest_on_s3: dict[str, str], tmp_path: Path) -> None:
        found = drive(tmp_path, rest_on_s3)
        all_well(found)
        assert found["location"].startswith("s3://")
