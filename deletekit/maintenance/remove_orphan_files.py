"""Remove orphan files: files in a table's folders that nothing in its metadata leads to.

Storage is listed first and metadata is read afterwards, so that commits in between are known. The files of a commit
that is still running look like orphans; only their age protects them.
Spec: none; Java DeleteOrphanFilesSparkAction and the procedure `remove_orphan_files`.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, get_args

from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import UNREADABLE, InvalidInputError
from deletekit.maintenance.reachable import Reachability, check_gc_enabled, check_not_needed, read_latest, remove_files
from deletekit.notebook_html import result
from deletekit.table.locations import KnownFiles, SpellingRules, is_below, mismatches
from deletekit.table.metadata import TableMetadata, parse_metadata
from deletekit.table.metadata_file import METADATA_SUFFIXES, logged_files
from deletekit.table.own_places import OwnPlaces, check_own_metadata
from deletekit.table.sinks.files import FOLDER, is_sink_file
from deletekit.table.table import Table
from deletekit.verbs.shared.read_options import milliseconds

_HOUR_MS = 60 * 60 * 1000
_DEFAULT_AGE_MS = 3 * 24 * _HOUR_MS
_LEAST_AGE_MS = 24 * _HOUR_MS

PrefixMismatchMode = Literal["error", "ignore", "delete"]
_MODES = get_args(PrefixMismatchMode)


@result
class OrphanFiles:
    """What `remove_orphan_files` did; in a dry run, what it would do.

    Attributes
    ----------
    orphan_files: paths removed from storage, spelled as storage lists them.
    failed_files: path -> reason, of orphans that could not be removed.
    listed_files: how many files were checked.
    """

    location: str
    orphan_files: tuple[str, ...] = ()
    failed_files: Mapping[str, str] = field(default_factory=dict)
    listed_files: int = 0
    dry_run: bool = False


def remove_orphan_files(
    table: Table,
    *,
    older_than: int | str | datetime | None = None,
    location: str | None = None,
    dry_run: bool = False,
    prefix_mismatch_mode: PrefixMismatchMode = "error",
    equal_schemes: Mapping[str, str] | None = None,
    equal_authorities: Mapping[str, str] | None = None,
    force: bool = False,
    engine: Engine | None = None,
) -> OrphanFiles:
    """Remove files below the table's location that no snapshot, statistic or logged metadata file leads to.

    Parameters
    ----------
    older_than: only files last written before this time (milliseconds, a datetime or ISO 8601). Default: 3 days ago.
        A running commit has files that nothing leads to yet, so less than 24 hours ago is refused without `force`.
    location: the folder to look in: the table's location or below it, or one that a `write.*.path` property names.
        Default: the table's location, if its metadata file lies below it. Other tables must not write there.
    dry_run: list, remove nothing.
    prefix_mismatch_mode: for files whose path is known under another scheme or authority: `error` refuses, `ignore`
        keeps the file, `delete` treats it as an orphan.
    equal_schemes, equal_authorities: names that mean the same, for example `{"s3a,s3n": "s3"}` (the default).
    force: allow a cut-off of less than 24 hours. Use it only if nothing writes to the table.
    engine: where manifests are read and files removed.

    Raises InvalidInputError if `gc.enabled` is false, for a cut-off that is too recent, a location that is not the
    table's, another table inside it, a table whose metadata file is not where its location says, a location that
    readers understand differently, a read-only table, and paths that differ only by scheme or authority; FormatError
    or NotFoundError if metadata cannot be read; UnsupportedError if storage cannot be listed. Then nothing is removed.
    """
    table.require_catalog()
    metadata = table.refresh().metadata
    check_gc_enabled(metadata)
    rules = SpellingRules(equal_schemes, equal_authorities)
    places = check_own_metadata(metadata, table.metadata_location, rules=rules)
    mode = str(prefix_mismatch_mode).lower()
    if mode not in _MODES:
        raise _refused("unknown mode", "mode", "prefix_mismatch_mode", mode, ", ".join(_MODES))
    before_ms = _cut_off(older_than, force)
    root = _location(table, location, places)
    everything = list(table.io.list(root))
    _check_seen(table, root, (f.path for f in everything), rules)
    listed = [f for f in everything if not _is_hidden(f.path, root, metadata)]
    runner = engine_or_default(engine)
    _check_alone(table.refresh(), [f.path for f in listed], rules)
    reachability = Reachability(table.io, runner)
    known = read_latest(table, lambda now: {*reachability.files(now), *logged_files(now), table.metadata_location})
    old = (f.path for f in listed if f.modified_ms < before_ms)
    orphans = sorted(_orphans(old, known, mode, rules))
    check_not_needed(orphans, known)
    failed = {} if dry_run else remove_files(table.io, table.metadata, orphans, runner)
    return OrphanFiles(
        location=root,
        orphan_files=tuple(path for path in orphans if path not in failed),
        failed_files=failed,
        listed_files=len(listed),
        dry_run=dry_run,
    )


def _cut_off(older_than: int | str | datetime | None, force: bool) -> int:
    now = time.time_ns() // 1_000_000
    before = now - _DEFAULT_AGE_MS if older_than is None else milliseconds(older_than, "older_than")
    if not force and before > now - _LEAST_AGE_MS:
        found = f"{max(now - before, 0) / _HOUR_MS:.1f} hours ago"
        expected = "24 hours ago or more, or force if nothing writes to the table"
        raise _refused("files of a running commit could be removed", "orphan-age", "older_than", found, expected)
    return before


def _location(table: Table, wanted: str | None, places: OwnPlaces) -> str:
    metadata, rules = table.metadata, places.rules
    if wanted is None:
        # If `write.metadata.path` names another folder, only the metadata says that the location is the table's.
        if not is_below(rules.key(table.metadata_location), rules.folder(metadata.location)):
            message = "the table's metadata file does not lie below its location: name the location to look in"
            file, expected = table.metadata_location, metadata.location
            raise _refused(message, "orphan-location", "location", None, expected, file)
        return metadata.location
    if not places.hold(wanted):
        raise _refused("not a directory of this table", "orphan-location", "location", wanted, list(places.folders))
    return wanted.rstrip("/")


def _check_seen(table: Table, root: str, listed: Iterable[str], rules: SpellingRules) -> None:
    """Refuse a listing without the table's own metadata file: it names files differently from the table."""
    current = table.metadata_location
    wanted = rules.names(current)
    here = any(is_below(place._replace(scheme=place.scheme or "file"), rules.folder(root)) for place in wanted)
    if here and rules.key(current) not in map(rules.key, listed) and table.io.exists(current):
        message = "storage does not list the table's own metadata file: no file may be removed"
        raise _refused(message, "listing-mismatch", "location", root, None, current)


def _is_hidden(path: str, root: str, metadata: TableMetadata) -> bool:
    """Tell whether a name begins with `_` or `.` and is not a partition (Java's HiddenPathFilter). Such files stay.

    Files of sinks are not hidden here.
    """
    if is_sink_file(path):
        path = path.removesuffix(f"/{path.rpartition('/')[2]}").removesuffix(f"/{FOLDER}")
    fields = tuple(f"{f.name}=" for s in metadata.specs.values() for f in s.fields if f.name.startswith(("_", ".")))
    names = path.removeprefix(root).split("/")
    return any(n.startswith(("_", ".")) and not (fields and n.startswith(fields)) for n in names)


def _check_alone(table: Table, listed: Iterable[str], rules: SpellingRules) -> None:
    """Refuse a location with another table below it: all files of that table would be orphans."""
    known = {rules.key(path).path for path in (table.metadata_location, *logged_files(table.metadata))}
    own = {path.rpartition("/")[0] for path in known} | {rules.folder(table.location).path + "/metadata"}
    for path in listed:
        if path.endswith(METADATA_SUFFIXES):
            folder = rules.key(path).path.rpartition("/")[0]
            if folder not in own and not _is_of(table, path):
                message = "another table has its metadata below this location"
                expected = "a directory that is this table's alone"
                raise _refused(message, "nested-table", "location", table.location, expected, path)
            own.add(folder)


def _is_of(table: Table, path: str) -> bool:
    """Tell whether a metadata file is an older one of this table, from another `write.metadata.path`."""
    try:
        uuid = parse_metadata(table.io.read(path), path).table_uuid
    except UNREADABLE:
        return False
    return uuid is not None and uuid == table.metadata.table_uuid


def _orphans(paths: Iterable[str], known: Iterable[str], mode: str, rules: SpellingRules) -> Iterator[str]:
    files = KnownFiles(rules, known)
    conflicts: set[tuple[str, str, str]] = set()
    for path in paths:
        location = rules.key(path)
        # Hadoop's catalog finds its tables by this file. Nothing refers to it.
        if location.path.endswith("/metadata/version-hint.text"):
            continue
        differences = [mismatches(reference, location) for reference in files.at(path)]
        if not differences or (mode == "delete" and all(differences)):
            yield path
        elif all(differences):
            conflicts.update(*differences)
    if conflicts and mode == "error":
        kind, reference_name, listed_name = min(conflicts)
        message = f"metadata names files of storage by another {kind}"
        field = "equal_schemes" if kind == "scheme" else "equal_authorities"
        found = f"{listed_name} in storage, {reference_name} in metadata"
        expected = "both named equal, or prefix_mismatch_mode ignore or delete"
        raise _refused(message, "prefix-mismatch", field, found, expected)


def _refused(
    message: str, kind: str, field: str, found: Any, expected: Any, file: str | None = None
) -> InvalidInputError:
    return InvalidInputError(message, kind=kind, file=file, field=field, found=found, expected=expected)
