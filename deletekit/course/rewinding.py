"""Set tables of a lesson back to what they were before a step, so that the cell of the step can be run again.

The first run of a step copies the files and rows of the catalog into `.steps` of the lesson's folder; a later run puts
them back. A step that was interrupted is set back in the same way.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMESPACE = "course"
"""The namespace of all tables of a lesson, and the folder that they are in."""

_STEPS = ".steps"
_ROWS = "rows.json"
_ROW = "FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewinder:
    """The steps of one lesson. A table is called by its name; another folder by its path in the lesson's folder."""

    folder: Path

    def begin(self, step: str, tables: Sequence[str], folders: Sequence[Path] = ()) -> None:
        """Remember the state before a step; if the step has begun before, set everything back to it."""
        places = [Path(NAMESPACE, name) for name in tables] + [path.relative_to(self.folder) for path in folders]
        steps = list(self._steps())
        mine = next((at for at, taken in enumerate(steps) if taken.name.partition(" ")[2] == step), None)
        if mine is None:
            number = int(steps[-1].name.partition(" ")[0]) + 1 if steps else 0
            self._take(f"{number:03} {step}", tables, places)
            return
        for place in places:
            _copy(steps[mine] / place, self.folder / place)
        rows: dict[str, Any] = json.loads((steps[mine] / _ROWS).read_text(encoding="utf-8"))
        self._put_rows({name: rows.get(name) for name in tables})
        self._forget(places, steps[mine + 1 :])

    def forget(self, table: str) -> None:
        """Forget the steps of a table that is built again."""
        self._forget([Path(NAMESPACE, table)], list(self._steps()))

    def _steps(self) -> Iterator[Path]:
        """Yield the folders of the steps, in their order."""
        root = self.folder / _STEPS
        yield from sorted(path for path in root.iterdir() if path.name[0].isdigit()) if root.is_dir() else ()

    def _forget(self, places: Iterable[Path], steps: Iterable[Path]) -> None:
        names = [place.name for place in places]
        for step in steps:
            rows = json.loads((step / _ROWS).read_text(encoding="utf-8"))
            if any(name in rows for name in names):
                shutil.rmtree(step)

    def _take(self, name: str, tables: Sequence[str], places: Sequence[Path]) -> None:
        """Copy everything, and give the copy its name when it is complete."""
        unfinished = self.folder / _STEPS / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        for place in places:
            _copy(self.folder / place, unfinished / place)
        unfinished.mkdir(parents=True, exist_ok=True)
        (unfinished / _ROWS).write_text(json.dumps({name: self._row(name) for name in tables}), encoding="utf-8")
        unfinished.rename(unfinished.with_name(name))

    def _row(self, table: str) -> dict[str, Any] | None:
        """Return the catalog's row of a table; None if there is no such table."""
        with closing(sqlite3.connect(self.folder / "catalog.db")) as catalog:
            catalog.row_factory = sqlite3.Row
            row = catalog.execute(f"SELECT * {_ROW}", (NAMESPACE, table)).fetchone()  # no value of a table is in it
        return dict(row) if row else None

    def _put_rows(self, rows: Mapping[str, Mapping[str, Any] | None]) -> None:
        with closing(sqlite3.connect(self.folder / "catalog.db")) as catalog, catalog:
            for name, row in rows.items():
                catalog.execute(f"DELETE {_ROW}", (NAMESPACE, name))
                if row is not None:
                    columns, marks = ", ".join(row), ", ".join("?" for _ in row)
                    statement = f"INSERT INTO iceberg_tables ({columns}) VALUES ({marks})"  # noqa: S608
                    catalog.execute(statement, tuple(row.values()))


def _copy(source: Path, target: Path) -> None:
    """Make a folder the copy of another; remove it if there is no other."""
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target)
