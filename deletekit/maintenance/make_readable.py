"""Make a table readable for some engines, by the least change of its deletes that is known to be enough.

Deletes change their kind, or go with the rows that they hide. No row that a right reader sees changes. Each step is a
verb of maintenance with its own commit, so a step that fails undoes none before it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deletekit.commit.planned_change import check_request
from deletekit.commit.swap import Commit
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.manifest_list import ManifestContent
from deletekit.maintenance.compact import compact
from deletekit.maintenance.convert_equality_deletes import convert_equality_deletes
from deletekit.maintenance.remove_dangling_deletes import remove_dangling_deletes
from deletekit.maintenance.rewrite_position_deletes import rewrite_position_deletes, rewrite_vectors
from deletekit.notebook_html import result
from deletekit.reader_verdicts.features import DATA_FORMATS, KINDS, TABLE, Features, snapshot_features
from deletekit.reader_verdicts.judgement import EngineReading, in_use, judged, why_not
from deletekit.reader_verdicts.known_verdicts import Verdict, known_verdicts
from deletekit.reader_verdicts.rows_at_stake import MIXED_UP, mixed_up_vectors
from deletekit.rows.write_context import check_parquet_only
from deletekit.table.format_version import FormatVersion
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.tools.schema import upgrade_format_version

_V3 = FormatVersion(3)
_CONVERT, _REWRITE = "convert-equality-deletes", "rewrite-position-deletes"
_COMPACT, _COMPACT_ALL = "compact", "compact-all"
_DANGLING, _UPGRADE, _VECTORS = "remove-dangling-deletes", "upgrade-format-version", "rewrite-vectors"
_WAYS = (
    (),
    (_DANGLING,),
    (_VECTORS,),
    (_CONVERT,),
    (_REWRITE,),
    (_CONVERT, _REWRITE),
    (_CONVERT, _REWRITE, _VECTORS),
    (_UPGRADE, _CONVERT, _REWRITE),
    (_COMPACT,),
    (_COMPACT_ALL,),
)
"""From the least change to the largest. Compactions remove every delete, the last one data in Avro and ORC too."""
_CHANGES = {_CONVERT: KINDS[:1], _REWRITE: KINDS[1:2], _VECTORS: KINDS[2:]} | dict.fromkeys(
    (_COMPACT, _COMPACT_ALL, _DANGLING), KINDS
)
"""The kinds of deletes that a step replaces or removes."""


@result
class ReadableStep:
    """One step of a plan, and at most what it costs.

    Attributes
    ----------
    action: the verb: `convert-equality-deletes`, `rewrite-position-deletes`, `upgrade-format-version`,
        `rewrite-vectors`, `remove-dangling-deletes`, `compact` (data files with deletes), or `compact-all`. After a
        compaction the deletes that are left without effect are removed.
    files: how many data files it is about; of `remove-dangling-deletes` how many delete files.
    rows: how many rows these data files hold.
    bytes_read, bytes_written: of data and delete files.
    """

    action: str
    files: int = 0
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@result
class MadeReadable:
    """What `make_readable` did; in a dry run, what it would do.

    Attributes
    ----------
    steps: in their order; empty if nothing has to be changed.
    commits: of the steps that found something to do.
    engines: what the engines do with the table afterwards; in a dry run, what is expected.
    """

    steps: tuple[ReadableStep, ...]
    commits: tuple[Commit, ...] = ()
    engines: tuple[EngineReading, ...] = ()
    dry_run: bool = False


def make_readable(
    table: Table,
    engines: Iterable[str],
    *,
    ref: str = MAIN,
    upgrade: bool = False,
    verdicts: str | Path | None = None,
    dry_run: bool = False,
    engine: Engine | None = None,
    commit_properties: Mapping[str, str] | None = None,
) -> MadeReadable:
    """Change the deletes of a table so that all of these engines read it right.

    Parameters
    ----------
    engines: by name, as `readers` lists them: all versions that we have run, else all that others report of; or one
        version, as `"duckdb 1.5.5"`.
    ref: the branch.
    upgrade: allow the upgrade of a v2 table to v3, for deletion vectors. There is no way back.
    verdicts: a file with your own verdicts, as `conformance/run.py --json` writes it, in place of deletekit's.
    dry_run: return the plan, and change nothing.
    engine: where files are read and written.
    commit_properties: extra entries of the snapshot summaries.

    Equality deletes become deletion vectors (v3) or position deletes (v2); position delete files of a v3 table become
    vectors. Vectors that an engine takes for others of their Puffin file go to new files. If an engine reads no such
    deletes, the data files with deletes are rewritten without the hidden rows. Equality deletes are converted too where
    an engine breaks a rule of them that metadata cannot show.

    Raises UnsupportedError, before anything is written, if no step makes the table right for an engine;
    InvalidInputError for an unknown engine, a tag, a read-only table, or a property that asks for a file format that
    deletekit does not write; what the verbs of the steps raise.
    """
    check_request(table.refresh(), ref, commit_properties, dry_run=dry_run)
    names = list(engines)
    if not names:
        raise InvalidInputError("name an engine", kind="reader-engine", field="engines", found=names)
    known = in_use(known_verdicts(verdicts), names)
    state = _State.of(table, ref)
    way, expected = _enough(state, known, upgrade=upgrade)
    steps = _steps(state, way)
    if dry_run:
        return MadeReadable(steps=steps, engines=expected, dry_run=True)
    shared: dict[str, Any] = {"ref": ref, "engine": engine, "commit_properties": commit_properties}
    commits = tuple(commit for step in steps for commit in _run(step.action, table, shared))
    after = tuple(judged(_State.of(table, ref).features, known))
    return MadeReadable(steps=steps, commits=commits, engines=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The table before the change: what it depends on, and its files."""

    metadata: TableMetadata
    features: Features
    tasks: Sequence[ScanTask]
    deletes: Sequence[DeleteFile]

    @classmethod
    def of(cls, table: Table, ref: str) -> "_State":
        metadata, snapshot = table.metadata, table.metadata.snapshot_of_ref(ref)
        reader = SnapshotReader(table.io, metadata)
        tasks = plan_scan(metadata, snapshot, reader)
        live = reader.live_entries(snapshot, ManifestContent.DELETES) if snapshot else ()
        return cls(
            metadata=metadata,
            features=snapshot_features(metadata, snapshot, reader, tasks, ref),
            tasks=list(tasks),
            deletes=[e.data_file for e in live if isinstance(e.data_file, DeleteFile)],
        )

    @property
    def mixed_up(self) -> set[str]:
        """The Puffin files that have vectors which a reader takes for others."""
        return {vector.file_path for vector, _ in mixed_up_vectors(self.deletes)}

    @property
    def dangling(self) -> list[DeleteFile]:
        """Deletes that no data file needs, by scope, age and bounds."""
        needed = {d.identity for task in self.tasks for d in task.delete_files}
        return [d for d in self.deletes if d.identity not in needed]

    def with_kind(self, kind: str) -> list[ScanTask]:
        return [task for task in self.tasks if any(d.kind == kind for d in task.delete_files)]


def _enough(
    state: _State, verdicts: Sequence[Verdict], *, upgrade: bool
) -> tuple[Sequence[str], tuple[EngineReading, ...]]:
    """Return the least change after which no engine is known to fail, and what they do after it."""
    is_v2 = state.metadata.version.has_deletes and not state.metadata.version.has_deletion_vectors
    reason: str | None = None
    refusal: InvalidInputError | None = None
    for way in _WAYS:
        if _UPGRADE not in way or (upgrade and is_v2):
            features, version = state.features, state.metadata.version
            for action in way:
                version = _V3 if action == _UPGRADE else version
                features = _after(action, features, state, version)
            readings = tuple(judged(features, verdicts))
            reason = next((why for r in readings if (why := why_not(r, features, verdicts)) is not None), None)
            if reason is None:
                try:
                    _check_formats(state.metadata, way)
                except InvalidInputError as e:
                    refusal = refusal or e
                else:
                    return way, readings
    if refusal is not None:
        raise refusal
    message = "no change of its deletes makes the table right for this engine"
    expected = "an engine that reads the table without deletes right"
    raise UnsupportedError(message, kind="not-readable", field="engines", found=reason, expected=expected)


def _check_formats(metadata: TableMetadata, way: Iterable[str]) -> None:
    """Raise InvalidInputError if a property asks for files that a step cannot write."""
    if {_COMPACT, _COMPACT_ALL}.intersection(way):
        check_parquet_only(metadata, "write.format.default")
    if {_CONVERT, _REWRITE}.intersection(way) and _UPGRADE not in way and not metadata.version.has_deletion_vectors:
        check_parquet_only(metadata, "write.delete.format.default")


def _steps(state: _State, way: Iterable[str]) -> tuple[ReadableStep, ...]:
    return tuple(step for action in way if (step := _step(action, state)) is not None)


def _after(action: str, features: Features, state: _State, version: FormatVersion) -> Features:
    """Return what a table depends on after a step, as far as it can be told before."""
    kind = version.position_delete_kind
    if action == _UPGRADE:
        return {**_without(features, "v2"), "v3": frozenset({TABLE})}
    if action == _VECTORS:
        return _without(features, MIXED_UP)
    if action == _DANGLING:
        applied = {d.kind for task in state.tasks for d in task.delete_files}
        return _of(features, {TABLE, *applied}) if state.dangling else features
    if action in (_COMPACT, _COMPACT_ALL):
        left = _of(features, {TABLE})
        return _without(left, *DATA_FORMATS, "identity-partition-value") if action == _COMPACT_ALL else left
    gone = "equality-delete" if action == _CONVERT else "position-delete"
    if gone not in features:
        return features
    left = dict(_of(features, {TABLE, *KINDS} - {gone}))
    if action == _REWRITE and kind == gone:  # a v2 table keeps them, in Parquet and in other files
        left = dict(_without(features, "avro-deletes", "orc-deletes", "several-delete-files-union"))
    if state.with_kind(gone):
        brought = {kind: frozenset({kind}), "removed-deletes-do-not-apply": frozenset({kind})}
        left = brought | left
        if kind == "deletion-vector" and len(state.with_kind(gone)) > 1:
            left["several-blobs-one-puffin"] = frozenset({kind})
    return left


def _of(features: Features, carriers: Iterable[str]) -> Features:
    """Return the features that something brings which is still there."""
    kept = set(carriers)
    return {name: brought & kept for name, brought in features.items() if brought & kept}


def _without(features: Features, *names: str) -> Features:
    return {name: brought for name, brought in features.items() if name not in names}


# --- the steps --------------------------------------------------------------------------------------------------------


def _step(action: str, state: _State) -> ReadableStep | None:
    """Return what a step costs; None if there is nothing for it to do."""
    if action == _UPGRADE:
        return ReadableStep(action=action)
    kinds = _CHANGES[action]
    deletes = [d for d in (state.dangling if action == _DANGLING else state.deletes) if d.kind in kinds]
    if action == _DANGLING and deletes:
        return ReadableStep(action=action, files=len(deletes))
    if action == _VECTORS:
        mixed_up = state.mixed_up
        deletes = [d for d in deletes if d.file_path in mixed_up]
    chosen = {d.identity for d in deletes}
    of_kinds = [task for task in state.tasks if any(d.identity in chosen for d in task.delete_files)]
    tasks = state.tasks if action == _COMPACT_ALL else of_kinds
    if not deletes and not (action == _COMPACT_ALL and tasks):
        return None
    sizes = [task.data_file.file_size_in_bytes for task in tasks]
    compacts = action in (_COMPACT, _COMPACT_ALL)
    read = sum(sizes if compacts else map(_key_bytes, tasks) if action == _CONVERT else ())
    return ReadableStep(
        action=action,
        files=len(tasks),
        rows=sum(task.data_file.record_count for task in tasks),
        bytes_read=read + sum(d.content_bytes for d in deletes),
        bytes_written=sum(sizes if compacts else map(_largest_delete, tasks)),
    )


def _key_bytes(task: ScanTask) -> int:
    """Return how many bytes the key columns of a data file take; all of it if the manifest does not say."""
    ids = {i for d in task.delete_files for i in d.equality_ids or ()}
    sizes = task.data_file.column_sizes or {}
    return sum(sizes[i] for i in ids) if ids <= sizes.keys() else task.data_file.file_size_in_bytes


def _largest_delete(task: ScanTask) -> int:
    """Return the largest deletion vector of a data file: 8 KiB for each 65,536 rows, and what is around it."""
    return -(-task.data_file.record_count // 65_536) * 8_200 + 1_000


def _run(action: str, table: Table, shared: Mapping[str, Any]) -> Iterator[Commit]:
    """Do a step. Yield its commits."""
    if action == _UPGRADE:
        upgrade_format_version(table, _V3.number)
        return
    done: list[Commit | None] = []
    if action in (_COMPACT, _COMPACT_ALL):
        # Without `compact-all`: the data files with deletes, and no other, whatever its size.
        with_deletes = {"delete_file_threshold": 1, "min_file_size_bytes": 0, "max_file_size_bytes": 2**62}
        which: Any = {"rewrite_all": True} if action == _COMPACT_ALL else with_deletes
        done += compact(table, **which, **shared).commits
    if action in (
        _COMPACT,
        _COMPACT_ALL,
        _CONVERT,
    ):  # after a compaction: keys that only bounds keep from older data files
        done.append(convert_equality_deletes(table, **shared).commit)
    if action == _VECTORS:
        done.append(
            rewrite_vectors(
                table,
                _State.of(table, shared["ref"]).mixed_up,
                ref=shared["ref"],
                commit_properties=shared["commit_properties"],
            )
        )
    if action == _REWRITE:
        done.append(rewrite_position_deletes(table, rewrite_all=True, **shared).commit)
    if action in (_COMPACT, _COMPACT_ALL, _DANGLING):
        done.append(remove_dangling_deletes(table, **shared).commit)
    yield from (commit for commit in done if commit is not None)
