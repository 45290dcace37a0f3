"""deletekit writes and reads every row-level delete of Apache Iceberg: copy-on-write, equality deletes, v2 position
deletes and v3 deletion vectors.

A name is imported when it is first used: importing deletekit starts no Spark, no Jupyter and no catalog. Every function
comes through `deletekit.public`, which checks its arguments and raises only errors of deletekit. The classes of results
are in `deletekit.results`.
"""

from typing import TYPE_CHECKING, Any

from deletekit.version import __version__ as __version__

if TYPE_CHECKING:  # for type checkers: the same names as in the table below
    from deletekit import engine as engine
    from deletekit import results as results
    from deletekit import spark as spark
    from deletekit import stream as stream
    from deletekit.course import datasets as datasets
    from deletekit.course import widgets as widgets
    from deletekit.delta.clean_up import clean_up_delta as clean_up_delta
    from deletekit.delta.export import export_delta as export_delta
    from deletekit.delta.repack import repack as repack
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
    from deletekit.maintenance.cherry_pick import cherry_pick as cherry_pick
    from deletekit.maintenance.compact import compact as compact
    from deletekit.maintenance.convert_equality_deletes import convert_equality_deletes as convert_equality_deletes
    from deletekit.maintenance.drop_table import drop_table as drop_table
    from deletekit.maintenance.erase import erase as erase
    from deletekit.maintenance.expire_snapshots import expire_snapshots as expire_snapshots
    from deletekit.maintenance.make_readable import make_readable as make_readable
    from deletekit.maintenance.remove_dangling_deletes import remove_dangling_deletes as remove_dangling_deletes
    from deletekit.maintenance.remove_orphan_files import remove_orphan_files as remove_orphan_files
    from deletekit.maintenance.repair import repair as repair
    from deletekit.maintenance.rewrite_manifests import rewrite_manifests as rewrite_manifests
    from deletekit.maintenance.rewrite_position_deletes import rewrite_position_deletes as rewrite_position_deletes
    from deletekit.maintenance.verify import verify as verify
    from deletekit.table.catalog import Catalog as Catalog
    from deletekit.table.open_catalog import load_catalog as load_catalog
    from deletekit.table.open_catalog import local_catalog as local_catalog
    from deletekit.table.table import Table as Table
    from deletekit.table.table import from_metadata as from_metadata
    from deletekit.table.table import from_pyiceberg as from_pyiceberg
    from deletekit.table.table import load_table as load_table
    from deletekit.tools.add_files import add_files as add_files
    from deletekit.tools.changes import changes as changes
    from deletekit.tools.explain import explain as explain
    from deletekit.tools.inspect import inspect as inspect
    from deletekit.tools.readers import readers as readers
    from deletekit.tools.refs import create_branch as create_branch
    from deletekit.tools.refs import create_tag as create_tag
    from deletekit.tools.refs import drop_ref as drop_ref
    from deletekit.tools.refs import fast_forward as fast_forward
    from deletekit.tools.refs import rollback as rollback
    from deletekit.tools.refs import set_current_snapshot as set_current_snapshot
    from deletekit.tools.revert import revert as revert
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
    from deletekit.verbs.scan import scan as scan
    from deletekit.verbs.shared.assignments import expr as expr
    from deletekit.verbs.shared.merge_clauses import Clause as Clause
    from deletekit.verbs.update import update as update
    from deletekit.verbs.upsert import upsert as upsert

_NAMES = {
    "deletekit": ("engine", "results", "spark", "stream"),
    "deletekit.maintenance.make_readable": ("make_readable",),
    "deletekit.tools.readers": ("readers",),
    "deletekit.course": ("datasets", "widgets"),
    "deletekit.delta.clean_up": ("clean_up_delta",),
    "deletekit.delta.export": ("export_delta",),
    "deletekit.delta.repack": ("repack",),
    "deletekit.delta.sync": ("sync_delta",),
    "deletekit.errors": (
        "CommitConflictError",
        "CommitStateUnknownError",
        "DeletekitError",
        "EnvironmentMissingError",
        "FormatError",
        "InvalidInputError",
        "NotFoundError",
        "StorageError",
        "UnsupportedError",
    ),
    "deletekit.maintenance.cherry_pick": ("cherry_pick",),
    "deletekit.maintenance.compact": ("compact",),
    "deletekit.maintenance.convert_equality_deletes": ("convert_equality_deletes",),
    "deletekit.maintenance.drop_table": ("drop_table",),
    "deletekit.maintenance.erase": ("erase",),
    "deletekit.maintenance.expire_snapshots": ("expire_snapshots",),
    "deletekit.maintenance.remove_dangling_deletes": ("remove_dangling_deletes",),
    "deletekit.maintenance.remove_orphan_files": ("remove_orphan_files",),
    "deletekit.maintenance.repair": ("repair",),
    "deletekit.maintenance.rewrite_manifests": ("rewrite_manifests",),
    "deletekit.maintenance.rewrite_position_deletes": ("rewrite_position_deletes",),
    "deletekit.maintenance.verify": ("verify",),
    "deletekit.table.catalog": ("Catalog",),
    "deletekit.table.open_catalog": ("load_catalog", "local_catalog"),
    "deletekit.table.table": ("Table", "from_metadata", "from_pyiceberg", "load_table"),
    "deletekit.tools.add_files": ("add_files",),
    "deletekit.tools.changes": ("changes",),
    "deletekit.tools.explain": ("explain",),
    "deletekit.tools.inspect": ("inspect",),
    "deletekit.tools.refs": (
        "create_branch",
        "create_tag",
        "drop_ref",
        "fast_forward",
        "rollback",
        "set_current_snapshot",
    ),
    "deletekit.tools.revert": ("revert",),
    "deletekit.tools.scan_polars": ("scan_polars",),
    "deletekit.tools.schema": (
        "add_column",
        "add_partition_field",
        "drop_column",
        "drop_partition_field",
        "rename_column",
        "set_properties",
        "set_sort_order",
        "update_column",
        "upgrade_format_version",
    ),
    "deletekit.verbs.append": ("append", "create_table"),
    "deletekit.verbs.delete": ("delete", "delete_keys"),
    "deletekit.verbs.merge": ("merge",),
    "deletekit.verbs.overwrite": ("overwrite", "overwrite_partitions"),
    "deletekit.verbs.scan": ("scan",),
    "deletekit.verbs.shared.assignments": ("expr",),
    "deletekit.verbs.shared.merge_clauses": ("Clause",),
    "deletekit.verbs.update": ("update",),
    "deletekit.verbs.upsert": ("upsert",),
}
"""The public names by the modules that they are in."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605  # sorted() makes a list


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'deletekit' has no attribute {name!r}")
    from deletekit.public import load  # noqa: PLC0415  # only when a name is used

    return load(_MODULE_OF[name], name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
