"""Removing files that nothing leads to, and what may forbid it.

Law: a file that is gone already is no error; one that cannot be removed is reported, and stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import value_of

__all__ = ["check_gc_enabled", "remove_files"]


def check_gc_enabled(metadata: TableMetadata) -> None:
    """Raise InvalidInputError when `gc.enabled` says that other tables may use this one's files."""
    if not value_of(metadata.properties, "gc.enabled"):
        raise InvalidInputError(
            "files of this table may not be removed: other tables may use them",
            kind="gc-disabled",
            field="gc.enabled",
            found="false",
            expected="true",
        )


@dataclass(frozen=True, slots=True)
class _Task:
    io: FileIO
    path: str


def remove_files(io: FileIO, paths: Iterable[str], engine: Engine) -> dict[str, str]:
    """Remove files; those that could not be removed, with the reason."""
    tasks = [_Task(io, path) for path in paths]
    reasons = engine.map(_remove, tasks)
    return {task.path: reason for task, reason in zip(tasks, reasons, strict=True) if reason is not None}


def _remove(task: _Task) -> str | None:
    try:
        task.io.delete(task.path)
    except Exception as e:  # noqa: BLE001  # storages have errors of many classes, and each is the user's to hear of
        return f"{type(e).__name__}: {e}"
    return None
