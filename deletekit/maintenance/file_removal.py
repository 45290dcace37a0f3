"""Removing files that nothing leads to, what may forbid it, and the folders that are empty afterwards.

Law: a file is compared once more with all that is needed before it goes, by what it is on disk. One that is gone
already is no error; one that cannot be removed is reported, and stops nothing.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.table.file_io import FileIO, remove_empty_folder
from deletekit.table.locations import WRITE_PATHS, SpellingRules, is_ambiguous, local_path
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_file import metadata_folder
from deletekit.table.own_places import is_below
from deletekit.table.properties import value_of

__all__ = ["check_gc_enabled", "check_not_needed", "remove_files"]


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


def check_not_needed(paths: Iterable[str], needed: Iterable[str]) -> None:
    """Raise InvalidInputError when a file that is to be removed is one that the table needs, by whatever name.

    This decides nothing. It compares what is on disk, so that no mistake about names removes a file that is needed.
    """
    rules = SpellingRules()
    chosen = {identity: path for path in paths for identity in _identities(path, rules, link_itself=True)}
    for path in needed if chosen else ():
        found = next((chosen[i] for i in _identities(path, rules, link_itself=False) if i in chosen), None)
        if found is not None or is_ambiguous(path):
            raise InvalidInputError(
                "a file that the table needs would be removed" if found else "path may be of two files",
                kind="needed-file",
                file=found or path,
                found=path,
                expected="files that nothing needs; nothing was removed",
            )


def _identities(path: str, rules: SpellingRules, *, link_itself: bool) -> Iterator[Any]:
    """What tells files apart: the name, and what the system numbers them by, unless a file has several names."""
    yield rules.key(path)
    local = local_path(path)
    for stat in (os.lstat,) if link_itself else (os.lstat, os.stat):
        try:
            status = stat(local) if local is not None else None
        except (OSError, ValueError):
            continue
        if status is not None and status.st_nlink == 1:
            yield status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class _Task:
    io: FileIO
    path: str


def remove_files(io: FileIO, metadata: TableMetadata, paths: Iterable[str], engine: Engine) -> dict[str, str]:
    """Remove files of a table, and folders that are empty then; files that could not be removed, with the reason."""
    tasks = [_Task(io, path) for path in paths]
    reasons = engine.map(_remove, tasks)
    failed = {task.path: reason for task, reason in zip(tasks, reasons, strict=True) if reason is not None}
    _remove_folders(metadata, [task.path for task in tasks if task.path not in failed])
    return failed


def _remove(task: _Task) -> str | None:
    try:
        task.io.delete(task.path)
    except Exception as e:  # noqa: BLE001  # storages have errors of many classes, and each is the user's to hear of
        return f"{type(e).__name__}: {e}"
    return None


def _remove_folders(metadata: TableMetadata, files: Iterable[str]) -> None:
    """Remove empty folders that held these files on a local disk: a partition's name is a value of its rows.

    Only within the table's location, and never that, nor where the table's writers put files.
    """
    rules = SpellingRules()
    home = rules.folder(metadata.location)
    named = [metadata.properties[name] for name in WRITE_PATHS if metadata.properties.get(name)]
    kept = {home, *map(rules.folder, (f"{metadata.location}/data", metadata_folder(metadata), *named))}
    local = (posixpath.normpath(path) for file in files if (path := local_path(file)) is not None)
    for folder in {posixpath.dirname(path) for path in local}:
        at = folder
        while (place := rules.folder(at)) not in kept and is_below(place, home) and remove_empty_folder(at):
            at = posixpath.dirname(at)
