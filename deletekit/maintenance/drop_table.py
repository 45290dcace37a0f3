"""Drop a table with its files: Iceberg's DROP TABLE ... PURGE.

The catalog forgets the table first: a reader finds either the whole table or none. Only files in the table's own
folders are removed; a table may refer to files of others.
Spec: none; Java CatalogUtil.dropTableData.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.maintenance.reachable import Reachability, check_gc_enabled, read_latest, remove_files
from deletekit.table.catalog import Catalog
from deletekit.table.metadata_file import logged_files
from deletekit.table.own_places import check_own_metadata
from deletekit.table.table import load_table


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """What `drop_table` removed.

    Attributes
    ----------
    removed_files: paths; empty without `purge`.
    kept_files: paths outside the table's own folders.
    failed_files: path -> reason, of files that could not be removed.
    """

    removed_files: tuple[str, ...] = ()
    kept_files: tuple[str, ...] = ()
    failed_files: Mapping[str, str] = field(default_factory=dict)


def drop_table(
    catalog: Catalog, identifier: str | Sequence[str], *, purge: bool = False, engine: Engine | None = None
) -> DroppedTable:
    """Remove a table from its catalog; with `purge` also the files of all its snapshots. There is no way back.

    Parameters
    ----------
    purge: remove the files too. Without it they stay, and `Catalog.register_table` makes a table of them again.
    engine: where files are looked for and removed.

    Raises NotFoundError without the table. With `purge`, before anything is dropped: InvalidInputError if `gc.enabled`
    is false or the table's metadata file does not lie where the metadata says; FormatError, NotFoundError,
    UnsupportedError for a table that cannot be read.
    """
    if not purge:
        catalog.drop_table(identifier)
        return DroppedTable()
    table, runner = load_table(catalog, identifier), engine_or_default(engine)
    check_gc_enabled(table.metadata)
    places = check_own_metadata(table.metadata, table.metadata_location)
    reachability = Reachability(table.io, runner)
    files = read_latest(table, lambda now: [*reachability.files(now), *logged_files(now), table.metadata_location])
    own = dict.fromkeys(path for path in files if places.hold(path))
    catalog.drop_table(identifier)
    failed = remove_files(table.io, table.metadata, own, runner)
    return DroppedTable(
        removed_files=tuple(path for path in own if path not in failed),
        kept_files=tuple(path for path in files if path not in own),
        failed_files=failed,
    )
