"""Sync many Delta tables: read them from a TOML file, sync each once, or follow them.

    [defaults]                  # for every table that does not say otherwise
    catalog = "prod"

    [[tables]]
    source = "s3://bucket/delta/users"
    table = "demo.users"
    commits = "each"

A table that fails does not stop the others.
"""

from __future__ import annotations

import json
import signal
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import click

import deletekit as dk
from deletekit.cli.printer import one_line
from deletekit.cli.table_argument import TableArgument
from deletekit.cli.terminal import Answer, Output
from deletekit.cli.verb_command import result_fields
from deletekit.errors import DeletekitError, InvalidInputError, NotFoundError
from deletekit.text import json_ready, plain

_PLACE: dict[str, type] = {"warehouse": str, "catalog": str, "catalog_name": str, "properties": dict}
_OPTIONS: dict[str, type] = {
    "format_version": int,
    "deletion_vectors": str,
    "commits": str,
    "location": str,
    "delete_directory": str,
    "time_zone": str,
}


@dataclass(frozen=True, kw_only=True)
class SyncTarget:
    """A Delta table, the Iceberg table that follows it, and how."""

    source: str
    argument: TableArgument
    options: Mapping[str, Any]

    def sync(self) -> dk.results.DeltaSync:
        """Sync once. Raise as `sync_delta` does."""
        return dk.sync_delta(self.source, self._catalog, self.argument.table, **self.options)

    @cached_property
    def _catalog(self) -> dk.Catalog:
        return self.argument.open_catalog()


def read_targets(path: Path, asked: Mapping[str, Any]) -> Sequence[SyncTarget]:
    """Read the tables of a TOML file; options of the command line count before those of the file.

    Raises NotFoundError for a missing file; InvalidInputError for what is not TOML, for an unknown key, a value of
    another type, and a table that is named twice.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise NotFoundError("no such file", kind="sync-config", file=str(path)) from e
    except (OSError, ValueError) as e:
        raise _refused(path, "not a TOML file", "config", str(e), "TOML 1.0 in UTF-8") from e
    _check_keys(path, found, {"defaults": dict, "tables": list})
    defaults = found.get("defaults", {})
    _check_keys(path, defaults, _PLACE | _OPTIONS)
    out: list[SyncTarget] = []
    for number, table in enumerate(found.get("tables", ()), 1):
        where = f"tables[{number}]"
        if not isinstance(table, dict):
            raise _refused(path, "not a table of TOML", where, table, "[[tables]]")
        _check_keys(path, table, {"source": str, "table": str, **_PLACE, **_OPTIONS}, where)
        out.append(_target(path, where, table, defaults, asked))
    names = [(t.argument.table, t.argument.warehouse, t.argument.catalog, t.argument.catalog_name) for t in out]
    twice = [name[0] for name in names if names.count(name) > 1]
    if twice or not out:
        message = "a table is named twice" if twice else "no table is named"
        raise _refused(path, message, "tables", twice[0] if twice else None, "[[tables]], each table once")
    return out


def sync_all(targets: Sequence[SyncTarget], output: Output) -> Answer:
    """Sync each table once. The exit code is 1 if one failed."""
    documents = []
    for target in targets:
        with output.waiting(f"Syncing {plain(target.argument.table)}"):
            documents.append(_synced(target))
    failed = any("error" in document for document in documents)
    return Answer(document={"tables": documents}, text=map(one_line, documents), exit_code=int(failed))


def follow_targets(targets: Sequence[SyncTarget], output: Output, seconds: float) -> None:
    """Sync the tables again and again, with so many seconds between. Print a line for each sync that did something.

    Ctrl-C and SIGTERM end it after the sync that runs. A table that fails is tried again the next time.
    """
    last: dict[int, str] = {}
    with _until_signal() as ended:
        while not ended.is_set():
            for number, target in enumerate(targets):
                document = _synced(target)
                seen = str(document.get("error", document.get("version")))
                if last.get(number) != seen:
                    text = json.dumps(json_ready(document), allow_nan=False) if output.as_json else one_line(document)
                    click.echo(text, err="error" in document and not output.as_json)
                last[number] = seen
                if ended.is_set():
                    return
            ended.wait(seconds)


def sync_document(name: str, done: dk.results.DeltaSync) -> dict[str, Any]:
    """Return what a sync did, or would do, without the files of its commits."""
    summary = {name: value for name, value in done.commit.summary.items() if name.startswith(("added-", "removed-"))}
    return {
        "table": name,
        "previous_version": done.previous_version,
        "version": done.version,
        "snapshot_ids": [commit.snapshot_id for commit in done.commits],
        "planned": None if done.planned is None else result_fields(done.planned),
        "void_columns": done.void_columns,
        "summary": summary,
        "dry_run": done.planned is not None,
    }


def _synced(target: SyncTarget) -> dict[str, Any]:
    """Sync once, and return what it did. Whatever is raised is this table's: the others go on."""
    name = target.argument.table
    try:
        return sync_document(name, target.sync())
    except Exception as e:  # noqa: BLE001  # of whatever kind
        text, kind = (str(e), e.kind) if isinstance(e, DeletekitError) else (f"{type(e).__name__}: {e}", "internal")
        return {"table": name, "error": text, "kind": kind}


def _target(
    path: Path, where: str, table: Mapping[str, Any], defaults: Mapping[str, Any], asked: Mapping[str, Any]
) -> SyncTarget:
    for name in ("source", "table"):
        if name not in table:
            raise _refused(path, "a key is missing", f"{where}.{name}", None, "text")
    own = any(name in table for name in ("warehouse", "catalog"))
    place = {name: table.get(name, None if own else defaults.get(name)) for name in _PLACE}
    values = {**defaults, **table}
    options = {name: values[name] for name in _OPTIONS if name in values}
    try:
        argument = TableArgument(table=table["table"], **{**place, "properties": place["properties"] or {}})
    except click.UsageError as e:
        raise _refused(path, e.message, where, None, "warehouse or catalog") from e
    return SyncTarget(source=table["source"], argument=argument, options={**options, **asked})


def _check_keys(path: Path, found: Mapping[str, Any], known: Mapping[str, type], where: str = "") -> None:
    for name, value in found.items():
        field = f"{where}.{name}" if where else name
        if name not in known:
            raise _refused(path, "unknown key", field, name, ", ".join(known))
        if type(value) is not known[name]:
            raise _refused(path, "a value of another type", field, value, known[name].__name__)


@contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set while the block runs."""
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refused(path: Path, message: str, field: str, found: object, expected: str) -> InvalidInputError:
    return InvalidInputError(message, kind="sync-config", file=str(path), field=field, found=found, expected=expected)
