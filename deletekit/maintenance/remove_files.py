"""Remove files that nothing leads to, and folders that are empty afterwards, after the last checks.

Before a file is removed it is compared once more with all needed files, by what it is on disk. A file that is already
gone is no error. A file that cannot be removed is reported, and the others are still removed.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.table.file_io import FileIO, remove_empty_folder
from deletekit.table.locations import SpellingRules, is_ambiguous, is_below, local_path
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_file import metadata_folder
from deletekit.table.own_places import own_folders
from deletekit.table.properties import value_of


def check_gc_enabled(metadata: TableMetadata) -> None:
    """Raise InvalidInputError if `gc.enabled` is false: other tables may use this table's files."""
    if not value_of(metadata.properties, "gc.enabled"):
        raise InvalidInputError(
            "files of this table may not be removed: other tables may use them",
            kind="gc-disabled",
            field="gc.enabled",
            found="false",
            expected="true",
        )


def check_not_needed(paths: Iterable[str], needed: Iterable[str]) -> None:
    """Raise InvalidInputError if a file to be removed is one that the table needs, whatever its name.

    This chooses no files. It compares what is on disk, so that no mistake about names removes a needed file.
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
    """Yield what identifies a file: its name and, unless the file has several names, its number on the disk."""
    yield rules.key(path)
    local = local_path(path)
    for stat in (os.lstat,) if link_itself else (os.lstat, os.stat):
        try:
            status = stat(local) if local is not None else None
        except (OSError, ValueError):
            continue
        if status is not None and status.st_nlink == 1:
            yield status.st_dev, status.st_ino


def remove_files(io: FileIO, metadata: TableMetadata, paths: Iterable[str], engine: Engine) -> dict[str, str]:
    """Remove files of a table and the folders that become empty. Return the reason for each file that is left."""
    chosen = list(paths)
    reasons = engine.map(partial(_remove, io), chosen)
    failed = {path: reason for path, reason in zip(chosen, reasons, strict=True) if reason is not None}
    _remove_folders(metadata, [path for path in chosen if path not in failed])
    return failed


def _remove(io: FileIO, path: str) -> str | None:
    try:
        io.delete(path)
    except Exception as e:  # noqa: BLE001  # storages raise errors of many classes, and all are reported
        return f"{type(e).__name__}: {e}"
    return None


def _remove_folders(metadata: TableMetadata, files: Iterable[str]) -> None:
    """Remove folders on a local disk that held these files and are empty. A partition's folder names a value of rows.

    The table's location itself stays, and so do the folders that its writers use.
    """
    rules = SpellingRules()
    home = rules.folder(metadata.location)
    kept = set(map(rules.folder, (f"{metadata.location}/data", metadata_folder(metadata), *own_folders(metadata))))
    local = (posixpath.normpath(path) for file in files if (path := local_path(file)) is not None)
    for folder in {posixpath.dirname(path) for path in local}:
        at = folder
        while (place := rules.folder(at)) not in kept and is_below(place, home) and remove_empty_folder(at):
            at = posixpath.dirname(at)
