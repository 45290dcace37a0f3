"""Measure deletes: the same rows deleted in each mode that a table's format version has, by dry runs.

Nothing is modelled: each verb plans its files as it would write them, and counts their bytes. Nothing is written.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import index_by_id

from deletekit.commit.swap import Commit
from deletekit.course.recordings.temporary_table import temporary_table
from deletekit.course.views.cost_meter import Costs, ModeCost
from deletekit.course.views.table_view import TableView
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.current import local
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.formats.content_file import ContentFile, DeleteFile
from deletekit.formats.parquet import column_sizes
from deletekit.rows.projection import with_field_ids
from deletekit.table.any_catalog import TableState
from deletekit.table.catalog import Catalog
from deletekit.table.properties import NAME_MAPPING
from deletekit.table.table import Table
from deletekit.text import brief
from deletekit.verbs.append import append, create_table
from deletekit.verbs.delete import delete
from deletekit.verbs.scan import scan

MOST_ROWS = 1_000_000
"""Rows of the data files that a filter may choose from: copy-on-write encodes them all."""


def measure_costs(view: TableView, where: str) -> Costs:
    """Return what deleting some rows of a table would cost in each mode.

    Raises InvalidInputError for a bad filter, UnsupportedError if the rows may be in files of too many rows.
    """
    # The view's metadata, whatever was committed since; without a catalog nothing can be committed.
    table = Table(view.table.identifier, TableState(view.metadata, view.table.metadata_location, view.table.io))
    touched = [task.data_file.record_count for task in scan(table, where=where).plan()]
    if sum(touched) > MOST_ROWS:
        raise UnsupportedError(
            f"the rows may be in {len(touched):,} data files, with too many rows to try every mode",
            kind="costs",
            field="where",
            found=sum(touched),
            expected=f"a filter that leaves files of at most {MOST_ROWS:,} rows",
        )
    tasks = list(scan(table).plan())
    costs, refused = [], list[str]()
    with local(threads=1):  # each task writes one file, and there are as many tasks as threads
        for mode in ("copy-on-write", *view.metadata.version.delete_kinds):
            try:
                costs.append(_cost(table, mode, delete(table, where, mode=mode, dry_run=True), tasks))
            except (InvalidInputError, UnsupportedError) as e:
                refused.append(f"{mode}: {brief(e.message)}")
    return Costs(modes=tuple(costs), refused=tuple(refused), table=view.name)


def measure_trial(rows: int, files: int, percent: int, format_version: int) -> Costs:
    """Return what deleting some rows of a table made for this costs.

    Parameters
    ----------
    rows: of the table, spread over `files` data files.
    percent: how many of a hundred rows are deleted, spread over the table.

    Raises InvalidInputError if a number is out of range.
    """
    numbers = (("rows", rows, 1, MOST_ROWS), ("files", files, 1, 100), ("percent", percent, 1, 100))
    for name, value, least, most in (*numbers, ("format_version", format_version, 2, 3)):
        if not least <= value <= most:
            raise InvalidInputError("out of range", "costs", name, value, f"{least} .. {most}")
    ids, chance = np.arange(rows, dtype=np.int64), np.random.default_rng(7)  # in a pattern, gaps could cost more bytes
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.float64()), ("name", pa.string())])

    def make(catalog: Catalog) -> Table:
        table = create_table(catalog, "costs.trial", schema, format_version=format_version)
        with local(threads=1):
            for part in np.array_split(ids, min(files, rows)):
                names = [f"name-{i}" for i in chance.integers(0, 100, len(part))]
                append(table, pa.table([part, chance.random(len(part)), names], schema=schema))
        return table

    doomed = ids[(ids * 61) % 100 < percent]
    return measure_costs(TableView(temporary_table(make)), f"id in ({', '.join(map(str, doomed))})")


def _cost(table: Table, mode: str, change: Commit, tasks: Sequence[ScanTask]) -> ModeCost:
    gone = {f.identity for f in (*change.removed_data_files, *change.removed_delete_files)}
    added = (*change.added_data_files, *change.added_delete_files)
    # No older delete applies to a new data file, so a delete whose data files are all gone is read no more.
    kept = [f for task in tasks if task.data_file.identity not in gone for f in (task.data_file, *task.delete_files)]
    left = {f.identity: f for f in (*kept, *added) if f.identity not in gone}
    columns = index_by_id(table.metadata.schema)
    return ModeCost(
        mode=mode,
        files_written=len(added),
        bytes_written=sum(map(_whole, added)),
        files_read=len(left),
        bytes_read=sum(_read_bytes(table, f, columns) for f in left.values()),
    )


def _read_bytes(table: Table, file: ContentFile, columns: Collection[int]) -> int:
    """Return the bytes of a file that a scan of all columns reads: of a data file the columns that the schema has."""
    sizes = file.column_sizes
    if isinstance(file, DeleteFile) or file.file_format != "PARQUET":
        return _whole(file)
    if sizes is None:  # its writer left out of the manifest what the footer has
        with table.io.open(file.file_path) as source, pq.ParquetFile(source) as opened:
            schema = with_field_ids(opened.schema_arrow, table.metadata.properties.get(NAME_MAPPING))
            sizes = column_sizes(opened.metadata, schema)
    return sum(size for field_id, size in sizes.items() if field_id in columns)


def _whole(file: ContentFile) -> int:
    return file.content_bytes if isinstance(file, DeleteFile) else file.file_size_in_bytes
