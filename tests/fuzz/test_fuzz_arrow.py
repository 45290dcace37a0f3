"""Arrow decodes Parquet and ORC in C++, where a false number can end the process: they are read in another one."""

import io
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from deletekit.formats.tabular import open_tabular, read_all
from tests.fuzz.arrow_files import FORMATS, lying_orc, orc_files, parquet_files

ROUNDS = int(os.environ.get("DELETEKIT_FUZZ_ROUNDS", "200"))
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_footer_that_lies_does_not_end_the_process(file_format: str) -> None:
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.arrow_files", file_format, str(ROUNDS)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120 + ROUNDS,
    )
    assert result.returncode == 0, f"{result.stdout[-100:]}\n{result.stderr[-3000:]}"
    assert result.stdout.split()[-2:] == ["done", str(ROUNDS)]


def test_files_that_the_lies_start_from_are_whole() -> None:
    for file_format, files in (("orc", orc_files()), ("parquet", parquet_files())):
        assert {read_all(open_tabular(io.BytesIO(data), file_format)).num_rows for data in files} == {60}


def test_lies_are_the_same_each_time() -> None:
    whole = orc_files()[0]
    assert lying_orc(whole, random.Random("1")) == lying_orc(whole, random.Random("1"))
