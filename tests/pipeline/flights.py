"""A few thousand of the flights: enough for every partition and every kind of change, quick for a small machine."""

from functools import cache

import pyarrow as pa

from deletekit import datasets

DAYS = 2


@cache
def some_flights() -> pa.Table:
    """Every 40th flight, and every flight whose number the feeds choose by: late ones, and corrected ones."""
    flights = datasets.flights()
    number = flights["flight_id"].to_numpy()
    chosen = (number % 40 == 0) | (number % 997 == 0) | ((number % 331 > 0) & (number % 331 <= DAYS))
    return flights.filter(pa.array(chosen)).combine_chunks()
