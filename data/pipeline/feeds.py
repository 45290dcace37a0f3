"""Make the source system's data: the flights of each month, and the daily feeds that correct them.

The data depend only on the flights and the number of days, so that everyone's delivery is the same. As in real feeds,
some rows come late, a correction comes twice, one moves a flight to another partition, and one corrects a flight that
was cancelled or erased the day before and must not reappear.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

CORRECTIONS = "corrections"
CANCELLATIONS = "cancellations"
PRIVACY_REQUESTS = "privacy_requests"
FEEDS = {CORRECTIONS: "flight_id", CANCELLATIONS: "flight_id", PRIVACY_REQUESTS: "tailnum"}
"""Each feed and its key."""
REVISION = "revision"
"""Of two corrections of one flight, the higher revision wins."""

_LATE = 997
_CORRECTED = 331
_TWICE = 50
_MOVED = 40
_ERASED_PER_DAY = 3
_DAY_US = 86_400_000_000

Rows = npt.NDArray[np.int64]


class Feeds:
    """The feeds of `days` days made of `flights`: columns flight_id, dep_time, arr_delay, tailnum, month, time_hour."""

    def __init__(self, flights: pa.Table, days: int) -> None:
        self._flights = flights.combine_chunks()
        self._days = days
        self._id = flights["flight_id"].to_numpy()
        self._late = self._id % _LATE == 0
        self._flew = np.asarray(pc.is_valid(flights["dep_time"]).to_numpy())

    def months(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the flights that did not come late, by month, such as `2013-01`."""
        year, month = (self._flights[n].to_numpy() for n in ("year", "month"))
        for y, m in sorted(set(zip(year.tolist(), month.tolist(), strict=True))):
            yield f"{y}-{m:02d}", self._take(np.flatnonzero((year == y) & (month == m) & ~self._late))

    def feed(self, name: str, day: int) -> pa.Table:
        """Return a feed of one day; days are counted from 0."""
        if name == CORRECTIONS:
            return self._corrections(day)
        if name == CANCELLATIONS:
            return self._take(self._cancelled(day)).select(["flight_id"])
        return pa.table({"tailnum": self._erased(day)}, schema=pa.schema([self._flights.schema.field("tailnum")]))

    def _take(self, rows: Rows) -> pa.Table:
        return self._flights.take(pa.array(rows))

    def _cancelled(self, day: int) -> Rows:
        return np.flatnonzero(~self._flew & ~self._late & (self._id % self._days == day))

    def _erased(self, day: int) -> list[str]:
        aircraft = sorted(set(self._flights["tailnum"].to_pylist()) - {None})
        first = day * _ERASED_PER_DAY
        stride = max(len(aircraft) // (self._days * _ERASED_PER_DAY), 1)
        return [aircraft[(first + i) * stride % len(aircraft)] for i in range(_ERASED_PER_DAY)]

    def _corrections(self, day: int) -> pa.Table:
        late = np.flatnonzero(self._late & (self._id // _LATE % self._days == day))
        chosen = np.flatnonzero(self._flew & ~self._late & (self._id % _CORRECTED == day + 1))
        rows = np.concatenate([chosen, self._gone_yesterday(day)])
        corrected = self._corrected(np.unique(rows), minutes=7 + day)
        earlier = self._corrected(chosen[::_TWICE], minutes=100 + day)
        return pa.concat_tables(
            [_revised(corrected, 2), _revised(self._take(late), 1), _revised(earlier, 1)]
        ).combine_chunks()

    def _gone_yesterday(self, day: int) -> Rows:
        """Return a flight that was cancelled the day before, and one of each aircraft that was erased then."""
        if day == 0:
            return np.empty(0, dtype=np.int64)
        tailnum = self._flights["tailnum"]
        flights = [pc.index(tailnum, aircraft).as_py() for aircraft in self._erased(day - 1)]
        return np.asarray([*self._cancelled(day - 1)[:1], *flights], dtype=np.int64)

    def _corrected(self, rows: Rows, minutes: int) -> pa.Table:
        """Change arrival delays, and move every 40th flight to the next day, perhaps to another partition."""
        taken = self._take(rows)
        delay = pc.add(pc.fill_null(taken["arr_delay"], 0), pa.scalar(minutes, pa.int32()))
        shift = np.where(np.arange(len(rows)) % _MOVED == 0, _DAY_US, 0)
        time = taken["time_hour"]
        moved = pc.add(time.cast(pa.int64()), pa.array(shift, pa.int64())).cast(time.type)
        out = taken.set_column(taken.schema.get_field_index("arr_delay"), taken.schema.field("arr_delay"), delay)
        return out.set_column(out.schema.get_field_index("time_hour"), out.schema.field("time_hour"), moved)


def _revised(rows: pa.Table, revision: int) -> pa.Table:
    return rows.add_column(0, REVISION, pa.array(np.full(len(rows), revision), pa.int32()))
