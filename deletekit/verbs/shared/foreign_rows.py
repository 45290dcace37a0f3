"""Rows that stay in another system, such as a Spark DataFrame. The bridge of the system works on them there.

A bridge registers itself as an entry point of the group `deletekit.rows`. Its name is the package of the rows.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from pyiceberg.types import NestedField

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.delete_modes import ChangeOptions
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.verbs.shared.equality_keys import Scope


class ForeignRows(Protocol):
    """What verbs do with such rows. No row comes to this process; each value is checked as those of Arrow rows are."""

    def empty(self, argument: str = "rows") -> Any:
        """Return no rows, as an Arrow table of the same columns. Raises InvalidInputError for types that Arrow lacks.

        Parameters
        ----------
        argument: its name, for errors.
        """

    def append(self, base: Base) -> list[DataFile]:
        """Write the rows as data files. Raises as `append`."""

    def delete_keys(self, base: Base, on: str | Sequence[str] | None, scope: Scope | None) -> list[DeleteFile]:
        """Write the rows as the keys of equality deletes. Raises as `delete_keys`."""

    def merge(
        self, base: Base, on: str | Sequence[str], when_matched: str | None, *, inserts: bool, options: ChangeOptions
    ) -> RowDelta:
        """Change the rows of the table that match a row, and insert the others if asked to. Raises as `merge`."""

    def upsert(self, base: Base, fields: Sequence[NestedField], options: ChangeOptions) -> RowDelta:
        """Insert the rows, and delete those of the table with the same keys. Raises as `upsert`."""


def foreign_rows(rows: Any, engine: Engine | None = None) -> ForeignRows | None:
    """Return a DataFrame of another system as ForeignRows, on the engine of the call; None for other rows."""
    bridge = _bridge(type(rows).__module__.partition(".")[0]) if type(rows).__name__ == "DataFrame" else None
    if bridge is None:
        return None
    made: ForeignRows = bridge.load()(rows, engine_or_default(engine))
    return made


@cache
def _bridge(package: str) -> EntryPoint | None:
    if package in {"pandas", "polars"}:  # they have their rows here; to look at all installed packages takes time
        return None
    return next(iter(entry_points(group="deletekit.rows", name=package)), None)
