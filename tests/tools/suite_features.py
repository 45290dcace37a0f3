"""Write what each case of the conformance suite depends on: `python -m tests.tools.suite_features`.

The reader doctor compares a table with these cases, and the suite itself is not in the wheel.
"""

import json
from functools import cache
from pathlib import Path

import deletekit
from conformance.runner import suite_folder
from conformance.suite import Case, load_suite
from deletekit.deletes.plan import plan_scan
from deletekit.reader_verdicts.features import Features, snapshot_features
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.metadata import parse_metadata
from deletekit.table.snapshot import SnapshotReader

FILE = Path(deletekit.__file__).parent / "reader_verdicts" / "features.json"


@cache
def seen() -> dict[str, tuple[str, dict[str, Features]]]:
    """Return the rule of each case, and what metadata shows of each of its refs."""
    return {case.name: (case.rule, _features(case)) for case in load_suite(suite_folder())}


def document() -> str:
    """Return the file. The rule that a case tests is a feature of it, whether metadata shows it or not."""
    found = {
        name: {ref: sorted({*features, *([rule] if ref == "main" else ())}) for ref, features in refs.items()}
        for name, (rule, refs) in sorted(seen().items())
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(refs)}" for name, refs in found.items())
    return f"{{\n{lines}\n}}\n"


class _InPlace(PyIcebergIO):
    """Reads the table of a case where it lies; its paths begin with the sentinel root."""

    def __init__(self, case: Case) -> None:
        super().__init__({}, case.root)
        self._case = case

    def read(self, location: str, offset: int = 0, length: int | None = None) -> bytes:
        assert (offset, length) == (0, None), "manifests are read whole"
        return (self._case.folder / "table" / location.removeprefix(self._case.root).lstrip("/")).read_bytes()


def _features(case: Case) -> dict[str, Features]:
    metadata, io = parse_metadata((case.folder / case.metadata).read_bytes()), _InPlace(case)
    found: dict[str, Features] = {}
    for ref in case.refs:
        snapshot, reader = metadata.snapshot_of_ref(ref), SnapshotReader(io, metadata)
        tasks = plan_scan(metadata, snapshot, reader)
        found[ref] = snapshot_features(metadata, snapshot, reader, tasks, ref)
    return found


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
