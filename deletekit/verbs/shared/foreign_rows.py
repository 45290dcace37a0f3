"""Rows that stay in another system: a Spark DataFrame as what a verb takes. The system's bridge works on them there."""

from collections.abc import Sequence
from importlib import import_module
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

    def delete_keys(
        self, base: Base, equality_fields: str | Sequence[str] | None, scope: Scope | None
    ) -> list[DeleteFile]:
        """Write the rows as the keys of equality deletes. Raises as `delete_keys`."""

    def merge(
        self, base: Base, on: str | Sequence[str], when_matched: str | None, *, inserts: bool, options: ChangeOptions
    ) -> RowDelta:
        """Change the rows of the table that match a row, and insert the others if asked to. Raises as `merge`."""

    def upsert(self, base: Base, fields: Sequence[NestedField], options: ChangeOptions) -> RowDelta:
        """Insert the rows, and delete those of the table with the same keys. Raises as `upsert`."""


def foreign_rows(rows: Any, engine: Engine | None = None) -> ForeignRows | None:
    """Return a Spark DataFrame as ForeignRows, on the engine of the call if it is Spark's; None for other rows."""
    if type(rows).__name__ != "DataFrame" or not type(rows).__module__.startswith("pyspark.sql."):
        return None
    # By name: the library stands without its bridges, and pyspark is an extra.
    made: ForeignRows = import_module("deletekit.spark.data_frames").SparkRows(rows, engine_or_default(engine))
    return made
