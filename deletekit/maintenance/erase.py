"""Erase rows from storage, and not only from what a scan returns.

Each branch that the call names is rewritten without the rows, hidden rows too. Old snapshots of these branches with
the rows expire. Then every file that any snapshot still leads to is searched, and what holds the rows is listed.
Nothing is reported as erased without looking for it.
Spec: "Row-level Deletes", "Snapshot Retention Policy".
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit, commit_metadata
from deletekit.deletes.rewrite import rewrite_data_files
from deletekit.deletes.which_apply import scope_of
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.filters.filter import Filter, parse_filter
from deletekit.formats.content_file import FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.maintenance.certificate import NEVER_SEARCHED, SEARCHED_FORMS, Certificate, SearchedFile
from deletekit.maintenance.convert_equality_deletes import convert_equality_deletes
from deletekit.maintenance.expire_snapshots import ExpiredSnapshots, expire_only
from deletekit.maintenance.files_with_values import Holding, HoldingFiles
from deletekit.maintenance.head_files import Head
from deletekit.maintenance.reachable import Reachability, check_gc_enabled, read_latest, remove_files
from deletekit.maintenance.rewrite_position_deletes import position_delete_rewrite
from deletekit.notebook_html import result
from deletekit.rows.write_context import check_parquet_only
from deletekit.table.any_catalog import Catalog
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.own_places import OwnPlaces, check_own_metadata
from deletekit.table.sinks.files import DELETES, ROOT, RUN, STAGED_ROWS, is_sink_file, sink_folder
from deletekit.table.table import Table, load_table

_INSPECTED = (
    "rows of live data files, hidden rows too",
    "keys of live equality delete files",
    "rows stored in live position delete files",
    "bounds of removed files that manifests still name",
    "identity partition values of live delete files and of removed files",
)
_NOT_INSPECTED = (
    "bounds of live files: those of their rows, unless their writer made them wider",
    "partition values of other transforms, and names of files and directories",
    "snapshot summaries and table properties, in older metadata files too",
    "statistics files of snapshots that stay",
    "files that no snapshot leads to: see remove_orphan_files",
    "copies elsewhere: versions of objects, backups, caches, tables that share files",
)


@result
class Erasure:
    """What `erase` did, and the proof.

    Attributes
    ----------
    refs: the branches to clean.
    dropped_tags: tags that held the rows, and were dropped.
    commits: the commits that rewrote files.
    expired: the expired snapshots and the files removed from storage. None if no snapshot expired.
    remaining: ref -> files that hold the rows, or may. Under "" are those of snapshots that no ref leads to (staged for
        write-audit-publish, or rolled back from). A snapshot that is the head of another ref is listed under that ref.
    files_read: how many data and delete files were read.
    removed_sink_files: key indexes, remembered deletes and staged rows of sinks. All are removed, for they may hold
        keys of the rows. A sink makes its index again; one with `sequence_by` refuses, until `allow_rewind` is set.
    failed_sink_files: path -> reason, of those that could not be removed.
    inspected, not_inspected: places of values that were searched, and places that were not.
    found, possible, unsearched: only with a certificate: path -> places of the values after the erasure (in a dry run,
        now); path -> places that may be of other values; path -> why it was not searched, or not for all values.
    certificate, salt: the file of the certificate; the key, in hex, of the HMACs of the values in it.
    tables: of a catalog, what was done to each table. The fields above are then of the catalog's own file.
    """

    refs: tuple[str, ...] = ()
    dropped_tags: tuple[str, ...] = ()
    commits: tuple[Commit, ...] = ()
    expired: ExpiredSnapshots | None = None
    remaining: Mapping[str, tuple[Holding, ...]] = field(default_factory=dict)
    files_read: int = 0
    removed_sink_files: tuple[str, ...] = ()
    failed_sink_files: Mapping[str, str] = field(default_factory=dict)
    inspected: tuple[str, ...] = _INSPECTED
    not_inspected: tuple[str, ...] = _NOT_INSPECTED
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    possible: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unsearched: Mapping[str, str] = field(default_factory=dict)
    certificate: str | None = None
    salt: str | None = None
    tables: "Mapping[str, Erasure]" = field(default_factory=dict)
    dry_run: bool = False

    @property
    def is_erased(self) -> bool:
        """Tell whether no file of any ref or snapshot holds the rows, and every file to remove was removed.

        With a certificate, also whether every file of the tables was searched, and none has the values.
        """
        left = (self.expired.failed_files or self.expired.kept_files) if self.expired else ()
        is_left = left or self.failed_sink_files or any(self.remaining.values()) or self.found or self.unsearched
        return not self.dry_run and not is_left and all(t.is_erased for t in self.tables.values())


def erase(
    table: Table | Catalog,
    where: Filter | Mapping[str, Filter],
    *,
    refs: Sequence[str] = (MAIN,),
    all_refs: bool = False,
    unreferenced: bool = False,
    other_locations: Sequence[str] = (),
    dry_run: bool = False,
    engine: Engine | None = None,
    commit_properties: Mapping[str, str] | None = None,
    certificate: str | Path | None = None,
    key: Any = None,
) -> Erasure:
    """Remove rows from every file that some branches lead to, and from storage. Then check that they are gone.

    Parameters
    ----------
    where: the rows, by columns of the current schema. `"true"` is every row. Of a catalog: table name -> filter.
    refs: branches to clean. While another branch or a tag holds the rows, they are not erased; `remaining` names it.
    all_refs: clean every branch, whatever `refs` says, and drop tags that hold the rows: a tag cannot be rewritten.
    unreferenced: also expire snapshots that no ref leads to, if they hold the rows. Otherwise they are only listed,
        because they may be staged.
    other_locations: as in `expire_snapshots`. A file that stays because it lies elsewhere is not erased.
    dry_run: report which files hold the rows of each ref, and change nothing.
    engine: where files are read, rewritten and removed.
    commit_properties: extra entries of the snapshot summaries.
    certificate: a new JSON file. Every file of the tables, whatever leads to it, and a catalog's SQLite file are
        searched for the values that the filters name by `=` or IN, before and after; what was found is signed.
    key: signs the certificate: an Ed25519 private key of the package `cryptography`, or the path of its PEM file.

    Hidden rows are erased too. Equality deletes whose keys may be those of the rows become deletes by position. Rows
    stored in position deletes are removed, and so are bounds of removed files in manifests. All data files are read,
    whatever their metrics say. In the history of the branches, snapshots that hold the rows expire, even if the history
    of another ref shares them. Heads of other refs stay. No snapshot or ref expires for its age.
    `inspected` lists what is searched, and `not_inspected` what is not.

    Raises InvalidInputError for no filter, a bad filter, a tag in `refs`, a certificate without a key or with a filter
    that names no value, or as `expire_snapshots`; EnvironmentMissingError without the packages of the extra
    `certificate`. Nothing has changed then. Raises as every commit. Earlier commits stay; calling again continues.
    """
    engine, options = engine_or_default(engine), (refs, all_refs, unreferenced, other_locations)
    works = [
        _Erasing(t, HoldingFiles(t.io, _checked(t, w, refs, commit_properties), engine), commit_properties, *options)
        for t, w in _tables(table, where)
    ]
    proof = None
    if certificate is not None or key is not None:
        wanted = [(work.table, work.holding.bound) for work in works]
        proof = Certificate(wanted, other_locations, engine, Path(certificate or ""), key)
    done = {work.table.name: work.look(dry_run=True) if dry_run else work.run() for work in works}
    looks = {} if proof is None else proof.before if dry_run else proof.look()
    done |= {name: _searched(done[name], files) for name, files in looks.items() if name}
    whole = Erasure(tables=done, dry_run=dry_run) if isinstance(table, Catalog) else done[table.name]
    if proof is not None:
        whole = _searched(whole, looks[""])
    if proof is not None and not dry_run:
        proof.write(looks, is_erased=whole.is_erased)
        whole = replace(whole, certificate=str(certificate), salt=proof.salt.hex())
    return whole


def _searched(done: Erasure, files: Sequence[SearchedFile]) -> Erasure:
    """Add what the search for a certificate found in files."""
    told: dict[str, Any] = {"inspected": SEARCHED_FORMS, "not_inspected": NEVER_SEARCHED}
    for name in ("found", "possible", "unsearched"):
        told[name] = getattr(done, name) | {f.path: what for f in files if (what := getattr(f, name))}
    return replace(done, **told)


def _tables(table: Table | Catalog, where: Any) -> list[tuple[Table, Filter]]:
    """Return the tables and the filter of each. Raises InvalidInputError, and NotFoundError for a table."""
    if isinstance(table, Catalog) != isinstance(where, Mapping) or where == {}:
        message, expected = "a table has one filter, and a catalog one for each table", "table name -> filter"
        raise InvalidInputError(message, kind="filter", field="where", found=type(where).__name__, expected=expected)
    return [(load_table(table, n), w) for n, w in where.items()] if isinstance(table, Catalog) else [(table, where)]


def _checked(
    table: Table, where: Filter, refs: Sequence[str], properties: Mapping[str, str] | None
) -> BooleanExpression:
    if isinstance(refs, str) or not refs:
        raise InvalidInputError("refs are names of branches", kind="ref", field="refs", found=refs)
    table.refresh()
    for ref in refs:
        check_request(table, ref, properties)
    check_gc_enabled(table.metadata)
    check_own_metadata(table.metadata, table.metadata_location)
    check_parquet_only(table.metadata, "write.format.default", "write.delete.format.default")
    if where is None or (isinstance(where, str) and not where.strip()):
        raise InvalidInputError("an erasure needs a filter", kind="filter", field="where", found=where)
    return parse_filter(where, table.schema)


@dataclass
class _Erasing:
    """Rewrites branches without the rows."""

    table: Table
    holding: HoldingFiles
    properties: Mapping[str, str] | None
    refs: Sequence[str]
    all_refs: bool
    unreferenced: bool
    other_locations: Sequence[str]
    commits: list[Commit] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.all_refs:
            self.refs = [name for name, ref in self.table.metadata.refs.items() if ref.get("type") != "tag"]

    def look(self, *, dry_run: bool = False) -> Erasure:
        """Tell which files hold the rows."""
        remaining, files_read = read_latest(self.table, lambda now: _by_ref(now, self.holding)), len(self.holding.rows)
        return Erasure(refs=tuple(self.refs), remaining=remaining, files_read=files_read, dry_run=dry_run)

    def run(self) -> Erasure:
        """Erase."""
        for ref in self.refs:
            self.clean(ref)
        tags = _drop_tags(self.table, self.holding) if self.all_refs else {}
        expired = self.expire(("", *self.refs) if self.unreferenced else self.refs, tags, self.other_locations)
        return replace(
            self.look(),
            dropped_tags=tuple(sorted(tags)),
            commits=tuple(self.commits),
            expired=expired,
            **remove_sink_files(self.table, self.holding.engine),
        )

    def clean(self, ref: str) -> None:
        """Rewrite the head of a branch until none of its files holds the rows."""
        if "equality-delete" in read_latest(self.table, lambda now: self._contents(now, ref)):
            converted = convert_equality_deletes(
                self.table, ref=ref, engine=self.holding.engine, commit_properties=self.properties
            )
            self.commits += [converted.commit] if converted.commit else []
        for build in (self._without_stored_rows, self._without_rows, _without_removed):
            done = commit(plan_change(self.table, build, ref=ref, properties=self.properties))
            self.commits += [done] if done.snapshot_id is not None else []

    def expire(
        self, refs: Sequence[str], tags: Mapping[str, set[int]], other_locations: Sequence[str]
    ) -> ExpiredSnapshots | None:
        """Expire snapshots with the rows, of these refs ("" is not a ref) and of dropped tags. Heads stay."""
        found = read_latest(self.table, lambda now: _by_ref(now, self.holding))
        held = {h.snapshot_id for ref in refs for h in found.get(ref, ())}
        ids = held.union(*tags.values()) - {int(ref["snapshot-id"]) for ref in self.table.metadata.refs.values()}
        return expire_only(self.table, sorted(ids), self.holding.engine, other_locations) if ids else None

    def _contents(self, metadata: TableMetadata, ref: str) -> set[str]:
        snapshot = metadata.snapshot_of_ref(ref)
        return {h.content for h in self.holding.of(metadata, [snapshot] if snapshot else [])}

    def _without_stored_rows(self, base: Base) -> RowDelta:
        head = Head(base)
        entries = [e for e, _ in head.deletes(FileContent.POSITION_DELETES)]
        rows = self.holding.rows_in(base.metadata, entries)
        groups = [(e,) for e, n in zip(entries, rows, strict=True) if n != 0]
        return position_delete_rewrite(base, head, groups, None, self.holding.engine) if groups else RowDelta()

    def _without_rows(self, base: Base) -> RowDelta:
        if base.snapshot is None:
            return RowDelta()
        head = Head(base)
        context, write = head.context, base.write
        entries = list(base.reader.live_entries(base.snapshot, ManifestContent.DATA))
        rows = self.holding.rows_in(base.metadata, entries)
        paths = [e.data_file.file_path for e, n in zip(entries, rows, strict=True) if n != 0]
        left = {scope_of(e.data_file) for e, n in zip(entries, rows, strict=True) if n == 0}
        tasks, drop = head.tasks(paths), self.holding.bound
        rewritten = [] if isinstance(drop, AlwaysTrue) else tasks
        new = self.holding.engine.map(lambda t: rewrite_data_files(context, write, [t], drop=drop), rewritten)
        removed = (*head.own_deletes(paths), *self._empty_places(head, left))
        return RowDelta(
            added_data_files=tuple(f for files in new for f in files),
            removed_data_files=tuple(t.data for t in tasks),
            removed_delete_files=tuple({e.data_file.identity: e for e in removed}.values()),
        )

    def _empty_places(self, head: Head, left: Collection[object]) -> Iterator[ManifestEntry]:
        """Find deletes in partitions that only such rows can be in, and that have no other data file left."""
        for content in (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES):
            for entry, delete in head.deletes(content):
                if scope_of(delete) not in left and self.holding.is_placed(head.context, entry):
                    yield entry


def _without_removed(base: Base) -> RowDelta:
    """Rewrite manifests without the entries of removed files: their bounds are values of rows."""
    listed = base.reader.manifests(base.snapshot) if base.snapshot else ()
    old = [m for m in listed if any(not e.is_live for e in base.reader.entries(m))]
    live = [tuple(e for e in base.reader.entries(m) if e.is_live) for m in old]
    manifests = tuple(entries for entries in live if entries)
    return RowDelta(operation="replace", replaced_manifests=tuple(old), manifests=manifests)


def _drop_tags(table: Table, holding: HoldingFiles) -> dict[str, set[int]]:
    """Drop tags whose history holds the rows. Return the snapshots that hold them, by tag."""
    dropped: dict[str, set[int]] = {}

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        dropped.clear()
        for name, held in _by_ref(metadata, holding).items():
            if metadata.refs.get(name, {}).get("type") == "tag":
                dropped[name] = {h.snapshot_id for h in held}
        return [{"action": "remove-snapshot-ref", "ref-name": name} for name in dropped]

    commit_metadata(table, build, unchanged_refs=None)
    return dropped


def _by_ref(metadata: TableMetadata, holding: HoldingFiles) -> dict[str, tuple[Holding, ...]]:
    """Return what holds the rows, by ref whose history leads to it. A head of a ref is listed under that ref only."""
    heads = {name: int(ref["snapshot-id"]) for name, ref in metadata.refs.items()}
    others = {name: set(heads.values()) - {head} for name, head in heads.items()}
    whole = {name: list(metadata.ancestors(head)) for name, head in heads.items()}
    lines = {name: [s for s in line if s.snapshot_id not in others[name]] for name, line in whole.items()}
    known = {s.snapshot_id for line in whole.values() for s in line}
    lines[""] = [s for i, s in metadata.snapshots.items() if i not in known]
    found: dict[int, list[Holding]] = {}
    for held in holding.of(metadata, list(metadata.snapshots.values())):
        found.setdefault(held.snapshot_id, []).append(held)
    out = {name: tuple(h for s in line for h in found.get(s.snapshot_id, ())) for name, line in lines.items()}
    return {name: holdings for name, holdings in out.items() if holdings}


def remove_sink_files(table: Table, engine: Engine) -> Mapping[str, Any]:
    """Remove all key indexes, remembered deletes and staged rows.

    Return the fields of an `Erasure`: the removed files, and the reason for each that is left.

    Storage that cannot be listed leaves those that no snapshot leads to.
    """
    reachability = Reachability(table.io, engine)
    found = read_latest(table, lambda now: reachability.indexes(now, now.snapshots.values()))
    try:
        listed = [file.path for file in table.io.list(sink_folder(table.metadata))]
    except UnsupportedError:
        listed = []
    found |= {path for path in listed if is_sink_file(path) and path.endswith((ROOT, RUN, STAGED_ROWS, DELETES))}
    places = OwnPlaces(table.metadata)
    failed = dict.fromkeys((path for path in found if not places.hold(path)), "outside of the table's folders")
    failed |= remove_files(table.io, table.metadata, sorted(found - failed.keys()), engine)
    return {"removed_sink_files": tuple(sorted(found - failed.keys())), "failed_sink_files": failed}
