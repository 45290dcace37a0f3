"""Write what each case of the conformance suite depends on: `python -m tests.tools.suite_features`.

The reader doctor compares a table with these cases, and the suite itself is not in the wheel.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import deletekit as dk
from deletekit.conformance.features import snapshot_features
from deletekit.conformance.runner import suite_folder
from deletekit.conformance.suite import Case, load_suite, relocate
from deletekit.deletes.plan import plan_scan
from deletekit.table.snapshot import SnapshotReader

FILE = Path(dk.__file__).parent / "conformance" / "features.json"


def seen() -> dict[str, tuple[str, dict[str, list[str]]]]:
    """Return the rule of each case, and what metadata shows of each of its refs."""
    with TemporaryDirectory() as folder:
        return {case.name: (case.rule, _features(case, Path(folder))) for case in load_suite(suite_folder())}


def document() -> str:
    """Return the file. The rule that a case tests is a feature of it, whether metadata shows it or not."""
    found = {
        name: {ref: sorted({*features, *([rule] if ref == "main" else ())}) for ref, features in refs.items()}
        for name, (rule, refs) in sorted(seen().items())
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(refs)}" for name, refs in found.items())
    return f"{{\n{lines}\n}}\n"


def _features(case: Case, folder: Path) -> dict[str, list[str]]:
    table = dk.from_metadata(relocate(case, folder / case.name))
    found = {}
    for ref in case.refs:
        snapshot, reader = table.metadata.snapshot_of_ref(ref), SnapshotReader(table.io, table.metadata)
        tasks = plan_scan(table.metadata, snapshot, reader)
        found[ref] = sorted(snapshot_features(table.metadata, snapshot, reader, tasks))
    return found


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
