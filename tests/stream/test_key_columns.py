"""Copies of keys on the local disk: every damaged byte is found, and nothing stays behind, whoever is killed."""

from __future__ import annotations

import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deletekit.errors import FormatError
from deletekit.stream import key_columns
from deletekit.stream.key_columns import PREFIX, DamagedCopyError, KeyColumns, ScratchFolder

ROWS = 300
TABLE = pa.table(
    {
        "0": pa.array([None if i % 7 == 0 else f"key-{i}-ü" for i in range(ROWS)]),
        "1": pa.array([bytes([i % 256]) * (i % 5) for i in range(ROWS)]),
        "2": pa.array([Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(9, 2)),
        "_row_id": pa.array([1000 + i for i in range(ROWS)], pa.int64()),
    }
)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of temporary files, which is this test's alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def columns(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give copies that are all on disk."""
    del temporary
    monkeypatch.setattr(key_columns, "_SMALL_BYTES", 0)
    found = KeyColumns()
    yield found
    found.close()


def file_of(folder: Path) -> Path:
    (path,) = folder.glob(f"{PREFIX}*/*.arrow")
    return path


def test_rows_come_back_as_they_were(columns: KeyColumns) -> None:
    columns.put(3, TABLE)
    for positions in ([], [0], [7, 7, 0, 299, 5], list(range(ROWS))[::-1]):
        assert columns.take(3, np.array(positions, np.int64)).equals(TABLE.take(pa.array(positions, pa.int64())))


@pytest.mark.parametrize("seed", range(3))
def test_a_changed_byte_is_found_wherever_it_is(columns: KeyColumns, temporary: Path, seed: int) -> None:
    """A row is given out right or not at all: what the byte belongs to, if to anything, is all the same."""
    columns.put(0, TABLE)
    path, chance = file_of(temporary), random.Random(seed)
    whole = path.read_bytes()
    found: list[DamagedCopyError] = []
    for at in chance.sample(range(len(whole)), 400):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
        try:
            assert columns.take(0, np.arange(ROWS)).equals(TABLE)
        except DamagedCopyError as error:
            found.append(error)
    assert len(found) > 200
    assert all(isinstance(error, FormatError) and error.file == str(path) for error in found)
    for length in (0, 1, 8, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedCopyError):
            columns.take(0, np.array([1]))


def test_a_folder_that_is_gone_is_found(columns: KeyColumns, temporary: Path) -> None:
    columns.put(0, TABLE)
    shutil.rmtree(file_of(temporary).parent)
    with pytest.raises(DamagedCopyError):
        columns.take(0, np.array([1]))
    with pytest.raises(DamagedCopyError):
        columns.put(1, TABLE)
    columns.drop(0)


def test_a_folder_is_private_and_goes_with_its_object(temporary: Path) -> None:
    folder = ScratchFolder()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert folder.path.parent == temporary
    folder.close()
    folder.close()
    assert list(temporary.iterdir()) == []
    left = ScratchFolder()
    path = left.path
    del left
    assert not path.exists()


KILLED = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from deletekit.stream.key_columns import ScratchFolder
folder = ScratchFolder()
(folder.path / "0.arrow").write_bytes(b"x")
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_leaves_goes_with_the_next_sink(temporary: Path) -> None:
    other = temporary / "deletekit-other"
    other.mkdir()
    live = ScratchFolder()
    command = [sys.executable, "-c", KILLED, str(temporary)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        of_process = next(p for p in temporary.glob(f"{PREFIX}*") if p != live.path)
        ScratchFolder().close()
        assert of_process.exists(), "its process lives"
        assert live.path.exists()
        process.send_signal(signal.SIGKILL)
    assert of_process.exists()
    ScratchFolder().close()
    assert sorted(temporary.iterdir()) == sorted([live.path, other])
    live.close()


FORKED = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from deletekit.stream.key_columns import ScratchFolder
folder = ScratchFolder()
child = os.fork()
if child == 0:
    folder.close()
    os._exit(0)
os.waitpid(child, 0)
print(folder.path.exists())
"""


def test_a_forked_process_leaves_its_parents_folder_alone(temporary: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(temporary)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert list(temporary.iterdir()) == []
