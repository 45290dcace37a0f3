"""A pyiceberg FileIO that holds back whoever writes a data or delete file, until the test opens the gate.

Catalog property `test.gate` is the gate's path: closed while the file is there. Who waits leaves a file beside it,
named by its process, and another when it goes on.
"""

import os
import time
from pathlib import Path

from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

GATE = "test.gate"
PATIENCE = 120


class GatedIO(PyArrowFileIO):
    """Writes below `data/` wait."""

    def new_output(self, location: str) -> OutputFile:
        gate = Path(self.properties[GATE])
        if "/data/" in location and gate.exists():
            wait_at(gate)
        return super().new_output(location)


def wait_at(gate: Path) -> None:
    """Wait until the gate is open, or for as long as is sensible."""
    gate.with_name(f"waiting-{os.getpid()}").touch()
    deadline = time.monotonic() + PATIENCE
    while gate.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    gate.with_name(f"went-on-{os.getpid()}").touch()


def forget_waiting(gate: Path) -> None:
    """Forget who waited and who went on."""
    for kind in ("waiting-*", "went-on-*", "straggler"):
        for path in gate.parent.glob(kind):
            path.unlink()


def held_back(gate: Path) -> list[int]:
    """Pids of the processes that wait, or were ended while they did."""
    return [pid for pid in waiting(gate) if not gate.with_name(f"went-on-{pid}").exists()]


def waiting(gate: Path) -> list[int]:
    """Pids of the processes that waited or wait."""
    return [int(path.name.removeprefix("waiting-")) for path in gate.parent.glob("waiting-*")]
