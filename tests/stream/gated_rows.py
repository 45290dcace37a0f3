"""A pyiceberg FileIO that holds back who writes a file of a kind, until the test opens the gate.

The gate is a file; its text is a part of the paths that wait, and `first` after a space if only the first write waits.
"""

from pathlib import Path

from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.engines.gated_io import GATE, wait_at


class PlaceIO(PyArrowFileIO):
    """Writes to paths that the gate names wait."""

    def new_output(self, location: str) -> OutputFile:
        gate = Path(self.properties[GATE])
        place, _, which = _text(gate).partition(" ")
        if place and place in location and (not which or self._is_first(gate)):
            wait_at(gate)
        return super().new_output(location)

    def _is_first(self, gate: Path) -> bool:
        try:
            gate.with_name("straggler").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _text(gate: Path) -> str:
    try:
        return gate.read_text()
    except FileNotFoundError:
        return ""
