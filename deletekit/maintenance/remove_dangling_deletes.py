"""Remove dangling deletes: delete files that apply to no live data file.

Scope and sequence number decide. A global equality delete is judged over the whole table. (Java's action only looks at
data files of the unpartitioned spec, and removes deletes that others need.)
Spec: "Scan Planning"; Java RemoveDanglingDeletesSparkAction.
"""

from collections.abc import Mapping
from dataclasses import field

from deletekit.commit.planned_change import check_request
from deletekit.commit.swap import Commit
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.maintenance.repair import RepairReport, repair_kinds
from deletekit.notebook_html import result
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table

_KINDS = {
    "dangling-equality-delete": "equality_delete_files",
    "dangling-position-delete": "position_delete_files",
    "dangling-deletion-vector": "deletion_vectors",
}


@result
class RemovedDeletes:
    """What `remove_dangling_deletes` did; in a dry run, what it would do.

    Attributes
    ----------
    equality_delete_files, position_delete_files: paths that were removed from the table.
    deletion_vectors: paths of Puffin files, once for each removed vector.
    refused: path -> why a dangling file was left: the table is damaged there.
    commit: the commit. None if there was nothing to do, and in a dry run.
    """

    equality_delete_files: tuple[str, ...] = ()
    position_delete_files: tuple[str, ...] = ()
    deletion_vectors: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    commit: Commit | None = None
    dry_run: bool = False


def remove_dangling_deletes(
    table: Table,
    *,
    ref: str = MAIN,
    dry_run: bool = False,
    engine: Engine | None = None,
    commit_properties: Mapping[str, str] | None = None,
) -> RemovedDeletes:
    """Remove delete files that apply to no live data file, in one commit.

    Parameters
    ----------
    ref: the branch.
    dry_run: report what would be removed, write nothing.
    engine: where position delete files of a whole partition are read, to find the data files that they name.
    commit_properties: extra entries of the snapshot summary.

    An equality delete is removed if no data file in its scope is older. A position delete is removed if its data files
    are not live, are newer, or have a deletion vector; a deletion vector if its data file is not live.

    Raises InvalidInputError for a tag or a read-only table; CommitConflictError, CommitStateUnknownError as every
    commit; FormatError for manifests that cannot be read.
    """
    check_request(table.refresh(), ref, commit_properties)
    runner = engine_or_default(engine)
    done = repair_kinds(table, _KINDS, ref=ref, dry_run=dry_run, engine=runner, commit_properties=commit_properties)
    found = {name: _paths(done, kind) for kind, name in _KINDS.items()}
    refused = {a.file or "": a.refused or "" for a in done.refused}
    return RemovedDeletes(**found, refused=refused, commit=done.commit, dry_run=dry_run)


def _paths(report: RepairReport, kind: str) -> tuple[str, ...]:
    return tuple(a.file for a in report.actions if a.kind == kind and a.file is not None)
