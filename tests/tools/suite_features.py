"""Write what each case of the conformance suite depends on: `python -m tests.tools.suite_features`.

The reader doctor compares a table with these cases, and the suite itself is not in the wheel.
"""

import json
from functools import cache
from pathlib import Path

import deletekit
from conformance.run import Case, load_suite
from deletekit.deletes.plan import plan_scan
from deletekit.reader_verdicts.features import Features, snapshot_features
from deletekit.table.snapshot import SnapshotReader

FILE = Path(deletekit.__file__).parent / "reader_verdicts" / "features.json"


@cache
def seen() -> dict[str, tuple[str, dict[str, Features]]]:
    """Return the rule of each case, and what metadata shows of each of its refs."""
    return {case.name: (case.rule, _features(case)) for case in load_suite()}


def document() -> str:
    """Return the file. The rule that a case tests is a feature of it, whether metadata shows it or not.

    A damaged table has no features: what an engine does with it says nothing of others.
    """
    found = {
        name: {
            ref: sorted({*features, *([rule] if ref == "main" and features else ())}) for ref, features in refs.items()
        }
        for name, (rule, refs) in sorted(seen().items())
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(refs)}" for name, refs in found.items())
    return f"{{\n{lines}\n}}\n"


def _features(case: Case) -> dict[str, Features]:
    if case.is_damaged:
        return {ref: {} for ref in case.refs}
    table = deletekit.from_metadata(case.folder / case.metadata)
    found: dict[str, Features] = {}
    for ref in case.refs:
        snapshot, reader = table.metadata.snapshot_of_ref(ref), SnapshotReader(table.io, table.metadata)
        tasks = plan_scan(table.metadata, snapshot, reader)
        found[ref] = snapshot_features(table.metadata, snapshot, reader, tasks, ref)
    return found


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
