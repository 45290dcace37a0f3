"""What a built corpus is made of: a `Case` is one table with the reads recorded from it."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

ReadKind = Literal["current", "snapshot", "ref", "as_of", "columns", "filter", "lineage", "deleted"]


@dataclasses.dataclass(frozen=True)
class Read:
    """One recorded read.

    `args` by kind: snapshot `{"snapshot_id": int}`, ref `{"ref": str}`, as_of `{"as_of_ms": int}`,
    columns `{"columns": [str]}`, filter `{"where": str}`; the others take none.
    `spark_wrong` says why the rows are a person's and not Spark's; None where Spark's own answer was recorded.
    """

    kind: ReadKind
    args: dict[str, Any]
    rows_file: str
    spark_wrong: str | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """One table of the corpus. `description` ends with the mistake that it catches in a reader."""

    name: str
    table: str
    metadata_location: str
    format_version: int
    features: tuple[str, ...]
    description: str
    reads: tuple[Read, ...]
    directory: Path

    def rows(self, read: Read) -> pa.Table:
        """The rows that a right reader answers, in no particular order."""
        return pq.read_table(self.directory / read.rows_file)

    def save(self) -> None:
        values = {k: v for k, v in dataclasses.asdict(self).items() if k != "directory"}
        text = json.dumps(values, indent=2, ensure_ascii=False)
        (self.directory / "case.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> "Case":
        values = json.loads((directory / "case.json").read_text(encoding="utf-8"))
        values["features"] = tuple(values["features"])
        values["reads"] = tuple(Read(**read) for read in values["reads"])
        return cls(**values, directory=directory)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How one case is made: `make` is given a `Scene` with nothing in it."""

    name: str
    format_version: int
    features: tuple[str, ...]
    description: str
    make: Callable[[Any], None]


class Recipes(list[Recipe]):
    """The recipes of one module, in the order they are written."""

    def add(self, *features: str, versions: tuple[int, ...] = (2, 3)) -> Callable[..., Callable[[Any], None]]:
        """Decorate the function that makes a case; its docstring is the case's description."""

        def register(make: Callable[[Any], None]) -> Callable[[Any], None]:
            description = " ".join((make.__doc__ or "").split())
            for version in versions:
                name = f"{make.__name__}_v{version}" if len(versions) > 1 else make.__name__
                self.append(Recipe(name, version, features, description, make))
            return make

        return register
