"""The classes of results: what the functions of deletekit return, for annotations and `isinstance`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers: the same names as in the table below
    from deletekit.commit.swap import Commit as Commit
    from deletekit.delta.clean_up import DeltaCleanUp as DeltaCleanUp
    from deletekit.delta.export import DeltaExport as DeltaExport
    from deletekit.delta.repack import RepackedVectors as RepackedVectors
    from deletekit.delta.sync import DeltaPlan as DeltaPlan
    from deletekit.delta.sync import DeltaSync as DeltaSync
    from deletekit.maintenance.cherry_pick import CherryPick as CherryPick
    from deletekit.maintenance.compact import CompactedFiles as CompactedFiles
    from deletekit.maintenance.convert_equality_deletes import ConvertedEqualityDeletes as ConvertedEqualityDeletes
    from deletekit.maintenance.drop_table import DroppedTable as DroppedTable
    from deletekit.maintenance.erase import Erasure as Erasure
    from deletekit.maintenance.expire_snapshots import ExpiredSnapshots as ExpiredSnapshots
    from deletekit.maintenance.make_readable import MadeReadable as MadeReadable
    from deletekit.maintenance.make_readable import ReadableStep as ReadableStep
    from deletekit.maintenance.remove_dangling_deletes import RemovedDeletes as RemovedDeletes
    from deletekit.maintenance.remove_orphan_files import OrphanFiles as OrphanFiles
    from deletekit.maintenance.repair import RepairAction as RepairAction
    from deletekit.maintenance.repair import RepairReport as RepairReport
    from deletekit.maintenance.rewrite_manifests import RewrittenManifests as RewrittenManifests
    from deletekit.maintenance.rewrite_position_deletes import RewrittenPositionDeletes as RewrittenPositionDeletes
    from deletekit.maintenance.verify import Finding as Finding
    from deletekit.maintenance.verify import VerifyReport as VerifyReport
    from deletekit.reader_verdicts.judgement import EngineReading as EngineReading
    from deletekit.reader_verdicts.judgement import ReaderFinding as ReaderFinding
    from deletekit.tools.changes import Changes as Changes
    from deletekit.tools.explain import Explanation as Explanation
    from deletekit.tools.readers import Readers as Readers
    from deletekit.tools.refs import MovedRef as MovedRef
    from deletekit.tools.revert import RevertedSnapshot as RevertedSnapshot
    from deletekit.verbs.scan import Scan as Scan

_NAMES = {
    "deletekit.commit.swap": ("Commit",),
    "deletekit.maintenance.make_readable": ("MadeReadable", "ReadableStep"),
    "deletekit.tools.readers": ("Readers",),
    "deletekit.delta.clean_up": ("DeltaCleanUp",),
    "deletekit.delta.export": ("DeltaExport",),
    "deletekit.delta.repack": ("RepackedVectors",),
    "deletekit.delta.sync": ("DeltaPlan", "DeltaSync"),
    "deletekit.maintenance.cherry_pick": ("CherryPick",),
    "deletekit.maintenance.compact": ("CompactedFiles",),
    "deletekit.maintenance.convert_equality_deletes": ("ConvertedEqualityDeletes",),
    "deletekit.maintenance.drop_table": ("DroppedTable",),
    "deletekit.maintenance.erase": ("Erasure",),
    "deletekit.maintenance.expire_snapshots": ("ExpiredSnapshots",),
    "deletekit.maintenance.remove_dangling_deletes": ("RemovedDeletes",),
    "deletekit.maintenance.remove_orphan_files": ("OrphanFiles",),
    "deletekit.maintenance.repair": ("RepairAction", "RepairReport"),
    "deletekit.maintenance.rewrite_manifests": ("RewrittenManifests",),
    "deletekit.maintenance.rewrite_position_deletes": ("RewrittenPositionDeletes",),
    "deletekit.maintenance.verify": ("Finding", "VerifyReport"),
    "deletekit.tools.changes": ("Changes",),
    "deletekit.tools.explain": ("Explanation",),
    "deletekit.tools.refs": ("MovedRef",),
    "deletekit.tools.revert": ("RevertedSnapshot",),
    "deletekit.verbs.scan": ("Scan",),
    "deletekit.reader_verdicts.judgement": ("EngineReading", "ReaderFinding"),
}
"""The classes by the modules that they are in."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605  # sorted() makes a list


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'deletekit.results' has no attribute {name!r}")
    from deletekit.public import load  # noqa: PLC0415  # only when a name is used

    return load(_MODULE_OF[name], name)
