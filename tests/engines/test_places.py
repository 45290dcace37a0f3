"""The pipeline and every verb on the Spark engine: on Iceberg's REST server, with data on disk and on S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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
