"""Drop a table with its files: Iceberg's DROP TABLE ... PURGE.

The catalog forgets the table first: a reader finds either the whole table or none. It forgets it only as the files were
found: a table that was changed or renamed meanwhile is looked up again. Only files in the table's own folders are
removed; a table may refer to files of others.
Spec: none; Java CatalogUtil.dropTableData.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

from deletekit.commit.planned_change import check_same_table
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.maintenance.reachable import Reachability, check_gc_enabled, read_latest, remove_files
from deletekit.notebook_html import result
from deletekit.table.back_off import BackOff, retry
from deletekit.table.catalog import Catalog
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_file import logged_files
from deletekit.table.own_places import OwnPlaces, check_own_metadata
from deletekit.table.table import load_table


@result
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
    UnsupportedError for a table that cannot be read; CommitConflictError for one that others keep changing.
    """
    if not purge:
        catalog.drop_table(identifier)
        return DroppedTable()
    table, runner = load_table(catalog, identifier), engine_or_default(engine)
    uuid = table.metadata.table_uuid

    def read(now: TableMetadata) -> tuple[OwnPlaces, list[str]]:
        check_same_table(table, uuid)
        check_gc_enabled(now)
        places = check_own_metadata(now, table.metadata_location)
        return places, [*Reachability(table.io, runner).files(now), *logged_files(now), table.metadata_location]

    def attempt() -> tuple[OwnPlaces, list[str]]:
        found = read_latest(table, read)
        catalog.drop_unchanged(table.identifier, table.metadata_location)
        return found

    places, files = retry(attempt, BackOff(table.properties, name=table.name))
    own = dict.fromkeys(path for path in files if places.hold(path))
    failed = remove_files(table.io, table.metadata, own, runner)
    return DroppedTable(
        removed_files=tuple(path for path in own if path not in failed),
        kept_files=tuple(path for path in files if path not in own),
        failed_files=failed,
    )
