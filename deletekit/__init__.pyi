# The one list of public names: `__init__.py` reads it to find a name's module, type checkers to find its type.
from deletekit import datasets as datasets
from deletekit import engine as engine
from deletekit import spark as spark
from deletekit import stream as stream
from deletekit.commit.swap import Commit as Commit
from deletekit.conformance.make_readable import MadeReadable as MadeReadable
from deletekit.conformance.make_readable import ReadableStep as ReadableStep
from deletekit.conformance.make_readable import make_readable as make_readable
from deletekit.conformance.readers import EngineReading as EngineReading
from deletekit.conformance.readers import ReaderFinding as ReaderFinding
from deletekit.conformance.readers import Readers as Readers
from deletekit.conformance.readers import readers as readers
from deletekit.course import widgets as widgets
from deletekit.course.widgets import explore as explore
from deletekit.delta.clean_up import DeltaCleanUp as DeltaCleanUp
from deletekit.delta.clean_up import clean_up_delta as clean_up_delta
from deletekit.delta.export import DeltaExport as DeltaExport
from deletekit.delta.export import export_delta as export_delta
from deletekit.delta.repack import RepackedVectors as RepackedVectors
from deletekit.delta.repack import repack as repack
from deletekit.delta.sync import DeltaPlan as DeltaPlan
from deletekit.delta.sync import DeltaSync as DeltaSync
from deletekit.delta.sync import sync_delta as sync_delta
from deletekit.errors import CommitConflictError as CommitConflictError
from deletekit.errors import CommitStateUnknownError as CommitStateUnknownError
from deletekit.errors import DeletekitError as DeletekitError
from deletekit.errors import EnvironmentMissingError as EnvironmentMissingError
from deletekit.errors import FormatError as FormatError
from deletekit.errors import InvalidInputError as InvalidInputError
from deletekit.errors import NotFoundError as NotFoundError
from deletekit.errors import StorageError as StorageError
from deletekit.errors import UnsupportedError as UnsupportedError
from deletekit.maintenance.cherry_pick import CherryPick as CherryPick
from deletekit.maintenance.cherry_pick import cherry_pick as cherry_pick
from deletekit.maintenance.compact import CompactedFiles as CompactedFiles
from deletekit.maintenance.compact import compact as compact
from deletekit.maintenance.convert_equality_deletes import (
    ConvertedEqualityDeletes as ConvertedEqualityDeletes,
)
from deletekit.maintenance.convert_equality_deletes import (
    convert_equality_deletes as convert_equality_deletes,
)
from deletekit.maintenance.drop_table import DroppedTable as DroppedTable
from deletekit.maintenance.drop_table import drop_table as drop_table
from deletekit.maintenance.erase import Erasure as Erasure
from deletekit.maintenance.erase import erase as erase
from deletekit.maintenance.expire_snapshots import ExpiredSnapshots as ExpiredSnapshots
from deletekit.maintenance.expire_snapshots import expire_snapshots as expire_snapshots
from deletekit.maintenance.remove_dangling_deletes import RemovedDeletes as RemovedDeletes
from deletekit.maintenance.remove_dangling_deletes import (
    remove_dangling_deletes as remove_dangling_deletes,
)
from deletekit.maintenance.remove_orphan_files import OrphanFiles as OrphanFiles
from deletekit.maintenance.remove_orphan_files import remove_orphan_files as remove_orphan_files
from deletekit.maintenance.repair import RepairAction as RepairAction
from deletekit.maintenance.repair import RepairReport as RepairReport
from deletekit.maintenance.repair import repair as repair
from deletekit.maintenance.rewrite_manifests import RewrittenManifests as RewrittenManifests
from deletekit.maintenance.rewrite_manifests import rewrite_manifests as rewrite_manifests
from deletekit.maintenance.rewrite_position_deletes import (
    RewrittenPositionDeletes as RewrittenPositionDeletes,
)
from deletekit.maintenance.rewrite_position_deletes import (
    rewrite_position_deletes as rewrite_position_deletes,
)
from deletekit.maintenance.verify import Finding as Finding
from deletekit.maintenance.verify import VerifyReport as VerifyReport
from deletekit.maintenance.verify import verify as verify
from deletekit.table.catalog import Catalog as Catalog
from deletekit.table.open_catalog import load_catalog as load_catalog
from deletekit.table.open_catalog import local_catalog as local_catalog
from deletekit.table.table import Table as Table
from deletekit.table.table import from_metadata as from_metadata
from deletekit.table.table import from_pyiceberg as from_pyiceberg
from deletekit.table.table import load_table as load_table
from deletekit.tools.add_files import add_files as add_files
from deletekit.tools.changes import Changes as Changes
from deletekit.tools.changes import changes as changes
from deletekit.tools.explain import Explanation as Explanation
from deletekit.tools.explain import explain as explain
from deletekit.tools.inspect import inspect as inspect
from deletekit.tools.refs import MovedRef as MovedRef
from deletekit.tools.refs import create_branch as create_branch
from deletekit.tools.refs import create_tag as create_tag
from deletekit.tools.refs import drop_ref as drop_ref
from deletekit.tools.refs import fast_forward as fast_forward
from deletekit.tools.refs import rollback as rollback
from deletekit.tools.refs import set_current_snapshot as set_current_snapshot
from deletekit.tools.scan_polars import scan_polars as scan_polars
from deletekit.tools.schema import add_column as add_column
from deletekit.tools.schema import add_partition_field as add_partition_field
from deletekit.tools.schema import drop_column as drop_column
from deletekit.tools.schema import drop_partition_field as drop_partition_field
from deletekit.tools.schema import rename_column as rename_column
from deletekit.tools.schema import set_properties as set_properties
from deletekit.tools.schema import set_sort_order as set_sort_order
from deletekit.tools.schema import update_column as update_column
from deletekit.tools.schema import upgrade_format_version as upgrade_format_version
from deletekit.verbs.append import append as append
from deletekit.verbs.append import create_table as create_table
from deletekit.verbs.delete import delete as delete
from deletekit.verbs.delete import delete_keys as delete_keys
from deletekit.verbs.merge import merge as merge
from deletekit.verbs.overwrite import overwrite as overwrite
from deletekit.verbs.overwrite import overwrite_partitions as overwrite_partitions
from deletekit.verbs.scan import Scan as Scan
from deletekit.verbs.scan import scan as scan
from deletekit.verbs.shared.merge_clauses import Clause as Clause
from deletekit.verbs.update import update as update
from deletekit.verbs.upsert import upsert as upsert
from deletekit.version import __version__ as __version__
