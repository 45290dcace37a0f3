"""Write and read the pipeline's raw files, as a source system delivers them: monthly flights, then daily changes.

A delivery is complete or absent. Its note lists every file with its size, rows and sha256, and is read first; a file
that differs is refused by name. Nothing here knows a table.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from data.pipeline.feeds import CORRECTIONS, FEEDS, REVISION, Feeds
from deletekit.errors import FormatError, InvalidInputError

MOST_DAYS = 30
NULL = "NA"
"""The text of a missing value in CSV files, as in the source of the flights."""

UNFINISHED = ".unfinished-"
"""Names of unfinished files begin so, those of a killed run too."""

_NOTE = "delivery.json"
_KIND = "deletekit pipeline delivery 1"
_FIRST_DAY = date(2014, 1, 1)
_LAST_CSV_MONTH = 6
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_LOCK = ".lock"
_OURS = frozenset({"raw", "warehouse", "report.json", "report.txt", _LOCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """A file of a delivery: `path` is below the delivery's folder."""

    path: str
    rows: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The raw files in `folder`.

    Attributes
    ----------
    schema: of the flights; corrections have `revision` before it.
    flights: the monthly files, CSV up to June and Parquet from July.
    feeds: the three files of each day (`2014-01-01`), by `corrections`, `cancellations` and `privacy_requests`.
    """

    folder: Path
    schema: pa.Schema
    flights: tuple[RawFile, ...]
    feeds: Mapping[str, Mapping[str, RawFile]]

    @property
    def days(self) -> tuple[str, ...]:
        return tuple(sorted(self.feeds))

    @property
    def files(self) -> Iterator[RawFile]:
        yield from self.flights
        for day in self.days:
            yield from self.feeds[day].values()

    @property
    def identity(self) -> str:
        """Return a digest of every file's path and bytes: deliveries with the same identity make the same table."""
        lines = sorted(f"{file.sha256} {file.path}" for file in self.files)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def path(self, file: RawFile) -> str:
        return str(self.folder / file.path)


@contextmanager
def only_run_in(directory: Path) -> Iterator[None]:
    """Lock the directory for this run, and remove unfinished files of killed runs.

    Raises InvalidInputError if it holds files of something else, or if another run works in it.
    """
    import fcntl  # noqa: PLC0415  # Windows has none; the pipeline does not run there

    _check_directory(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the process ends, however it ends
        except BlockingIOError:
            raise _refused(directory, "another run of the pipeline works in this directory") from None
        for left in directory.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield


def deliver(directory: Path, days: int, flights: pa.Table) -> Delivery:
    """Return the delivery in `directory`/raw; make it from `flights` if there is none.

    Parameters
    ----------
    days: how many days of feeds, 1 to 30.

    Raises InvalidInputError if the delivery that is there has another number of days; FormatError for a file that
    differs from the delivery note.
    """
    if not 1 <= days <= MOST_DAYS:
        raise InvalidInputError(
            "no such number of days", kind="pipeline-days", field="days", found=days, expected=f"1 to {MOST_DAYS}"
        )
    raw = directory / "raw"
    if not raw.exists():
        _write(directory, raw, days, flights)
    found = _read(raw)
    if len(found.days) != days:
        raise InvalidInputError(
            "this directory's delivery has another number of days",
            kind="pipeline-days",
            field="days",
            found=days,
            expected=len(found.days),
        )
    return found


def raw_schema(delivery: Delivery, feed: str) -> pa.Schema:
    """Return the columns of a raw file of `flights` or of a feed; a file does not say which are required."""
    flights = pa.schema([(field.name, field.type) for field in delivery.schema])
    if feed == CORRECTIONS:
        return flights.insert(0, pa.field(REVISION, pa.int32()))
    return flights if feed == "flights" else pa.schema([flights.field(FEEDS[feed])])


def _refused(directory: Path, message: str, **details: str) -> InvalidInputError:
    return InvalidInputError(message, kind="pipeline-directory", file=str(directory), **details)


def _damaged(message: str, path: Path, **details: str) -> FormatError:
    return FormatError(message, kind="pipeline-delivery", file=str(path), **details)


def _check_directory(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise _refused(directory, "not a directory")
    names = {path.name for path in directory.iterdir()} if directory.exists() else set()
    others = sorted(n for n in names if n not in _OURS and not n.startswith(UNFINISHED))
    if not others and names & _OURS - {_LOCK} and not (directory / "raw" / _NOTE).is_file():
        others = sorted(names & _OURS)
    if others:
        expected = "an empty or new directory, or that of an earlier pipeline"
        message = "the directory holds something else than a pipeline"
        raise _refused(directory, message, found=", ".join(others[:10]), expected=expected)


def _write(directory: Path, raw: Path, days: int, flights: pa.Table) -> None:
    """Write everything aside, the note last, then rename it: so no delivery is ever incomplete."""
    aside = directory / f"{UNFINISHED}{os.getpid()}"
    (aside / "flights").mkdir(parents=True)
    source = Feeds(flights, days)
    files = [_write_month(aside, month, rows) for month, rows in source.months()]
    feeds: dict[str, dict[str, RawFile]] = {}
    for number in range(days):
        day = (_FIRST_DAY + timedelta(days=number)).isoformat()
        (aside / day).mkdir()
        feeds[day] = {name: _write_csv(aside, f"{day}/{name}.csv", source.feed(name, number)) for name in FEEDS}
    note = {
        "kind": _KIND,
        "schema": flights.schema.serialize().to_pybytes().hex(),
        "flights": [asdict(f) for f in files],
        "feeds": {day: {name: asdict(f) for name, f in by_name.items()} for day, by_name in feeds.items()},
    }
    (aside / _NOTE).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
    aside.rename(raw)


def _write_month(folder: Path, month: str, rows: pa.Table) -> RawFile:
    if int(month[-2:]) <= _LAST_CSV_MONTH:
        return _write_csv(folder, f"flights/{month}.csv", rows)
    path = f"flights/{month}.parquet"
    pq.write_table(rows, folder / path, compression="zstd")
    return _file(folder, path, len(rows))


def _write_csv(folder: Path, path: str, rows: pa.Table) -> RawFile:
    columns = [
        pc.strftime(pc.cast(c, pa.timestamp("s", "UTC")), format=_TIME_FORMAT)
        if pa.types.is_timestamp(c.type)
        else pc.cast(c, pa.string())
        for c in rows.columns
    ]
    text = pa.table([pc.fill_null(c, NULL) for c in columns], names=rows.column_names)
    pyarrow.csv.write_csv(text, folder / path, pyarrow.csv.WriteOptions(quoting_style="none", quoting_header="none"))
    return _file(folder, path, len(rows))


def _file(folder: Path, path: str, rows: int) -> RawFile:
    data = (folder / path).read_bytes()
    return RawFile(path=path, rows=rows, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _read(raw: Path) -> Delivery:
    note = raw / _NOTE
    try:
        stored: Any = json.loads(note.read_text(encoding="utf-8"))
        if stored["kind"] != _KIND:
            raise ValueError(f"kind {stored['kind']}")
        delivery = Delivery(
            folder=raw,
            schema=pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(stored["schema"]))),
            flights=tuple(RawFile(**f) for f in stored["flights"]),
            feeds={day: {name: RawFile(**files[name]) for name in FEEDS} for day, files in stored["feeds"].items()},
        )
        days = [date.fromisoformat(day) for day in delivery.days]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as e:
        raise _damaged("not a delivery note", note, found=str(e)) from e
    if not days:
        raise _damaged("a delivery without a day", note)
    for file in delivery.files:
        _check(raw, file)
    return delivery


def _check(raw: Path, file: RawFile) -> None:
    path = (raw / file.path).resolve()
    if not path.is_relative_to(raw.resolve()):
        raise FormatError("a path that leaves the delivery", kind="pipeline-delivery", field="path", found=file.path)
    try:
        there = _file(raw, file.path, file.rows)
    except OSError as e:
        raise _damaged("a raw file cannot be read", path, found=str(e)) from e
    if there != file:
        found, expected = (f"{f.size} bytes, sha256 {f.sha256}" for f in (there, file))
        raise _damaged("a raw file is not the one that was delivered", path, found=found, expected=expected)
