"""Measure deletes: the same rows deleted in each mode, and what each mode wrote and has to read afterwards.

Nothing is modelled. The tables are in a temporary directory, which is removed. Every mode must leave the same rows.
"""

import tempfile
import time

import numpy as np
import pyarrow as pa

from deletekit.course.views.cost_meter import ModeCost
from deletekit.engines.current import local
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DeleteFile
from deletekit.table.catalog import Catalog
from deletekit.table.open_catalog import local_catalog
from deletekit.table.table import Table
from deletekit.verbs.append import append, create_table
from deletekit.verbs.delete import delete, delete_keys
from deletekit.verbs.scan import scan

MOST_ROWS = 1_000_000
_FOLDER_LENGTH = 80
_MODES = (
    (3, "copy-on-write"),
    (2, "position-delete"),
    (3, "deletion-vector"),
    (3, "equality-delete"),
)


def measure_costs(rows: int = 20_000, files: int = 4, percent: int = 1) -> tuple[ModeCost, ...]:
    """Delete the same rows in each mode and return what each cost.

    Parameters
    ----------
    rows: of the table, spread over `files` data files.
    percent: how many of a hundred rows are deleted, spread over the table.

    Raises InvalidInputError if a number is out of range.
    """
    for name, value, most in (("rows", rows, MOST_ROWS), ("files", files, 100), ("percent", percent, 100)):
        if not 1 <= value <= most:
            raise InvalidInputError("out of range", kind="costs", field=name, found=value, expected=f"1 .. {most}")
    ids = np.arange(rows, dtype=np.int64)
    doomed = ids[(ids * 61) % 100 < percent]
    # Position delete files hold paths. Paths of one length on every machine cost the same on each.
    prefix = "deletekit-costs-".ljust(_FOLDER_LENGTH - len(tempfile.gettempdir()), "-")
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        catalog = local_catalog(folder)
        try:
            with local(threads=1):  # each task writes one file, and there are as many tasks as threads
                return tuple(_measure(catalog, mode, version, ids, doomed, files) for version, mode in _MODES)
        finally:
            catalog.pyiceberg.close()


def _measure(catalog: Catalog, mode: str, version: int, ids: np.ndarray, doomed: np.ndarray, files: int) -> ModeCost:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.float64()), ("name", pa.string())])
    table = create_table(catalog, f"costs.{mode.replace('-', '_')}", schema, format_version=version)
    for part in np.array_split(ids, min(files, len(ids))):
        names = pa.array([f"name-{i % 1000}" for i in part])
        append(table, pa.table([pa.array(part), pa.array(part / 7), names], schema=schema))
    before = _content(table)
    start = time.perf_counter()
    if mode == "equality-delete":
        delete_keys(table, pa.table({"id": doomed}))
    else:
        delete(table, f"id in ({', '.join(map(str, doomed))})", mode=mode)
    delete_seconds = time.perf_counter() - start
    after = _content(table)
    written = [size for identity, size in after.items() if identity not in before]
    start = time.perf_counter()
    left = len(scan(table).to_arrow())
    read_seconds = time.perf_counter() - start
    return ModeCost(
        mode=mode,
        format_version=version,
        files_written=len(written),
        bytes_written=sum(written),
        files_read=len(after),
        bytes_read=sum(after.values()),
        delete_seconds=delete_seconds,
        read_seconds=read_seconds,
        rows_left=left,
    )


def _content(table: Table) -> dict[tuple[object, ...], int]:
    """Return the bytes that a full scan opens, by file or vector."""
    files = [file for task in scan(table).plan() for file in (task.data_file, *task.delete_files)]
    return {f.identity: f.content_bytes if isinstance(f, DeleteFile) else f.file_size_in_bytes for f in files}
