"""Judge engines by their verdicts: what each does with a snapshot of some features, and why.

A verdict is known for cases, each with its features. A failing case tells of the table if the table has all of its
features. A feature is covered if the engine reads a case with it right. If one is not, the answer is `unknown`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from typing import Any, Literal

from deletekit.deletes.plan import plan_scan
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.notebook_html import result
from deletekit.reader_verdicts.features import DATA_FORMATS, KINDS, SEEN, Features, snapshot_features
from deletekit.reader_verdicts.known_verdicts import NO_VERSION, OTHER_ROWS, VERDICTS, Verdict
from deletekit.reader_verdicts.rows_at_stake import MIXED_UP, RowsOfKinds, rows_if_ignored
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.text import count

_VERSIONS = frozenset({"v1", "v2", "v3"})
_EXPECTED = "another mode, or make_readable before it"
_IGNORED = {
    "equality-deletes-apply": "equality-delete",
    "position-deletes-apply": "position-delete",
    "vectors-apply": "deletion-vector",
}
"""The rules that say of a kind of delete no more than that it applies."""


@result
class ReaderFinding:
    """One reason why an engine does not read the table right.

    Attributes
    ----------
    verdict: `refuses`, `crashes` or `WRONG`.
    features: what the table and the failing case have in common.
    words, source, date: what the engine said, or who reports it, and when.
    case: the case of the suite that shows it.
    breaks: the rule that a wrong answer breaks.
    rows: how many rows that would be; None if only a run could tell.
    exact: whether it is this number; else it is at most so many.
    effect: whether deleted rows come back, or live rows are lost, or both.
    """

    verdict: str
    features: tuple[str, ...]
    words: str | None = None
    source: str | None = None
    date: str | None = None
    case: str | None = None
    breaks: str | None = None
    verified: bool = True
    rows: int | None = None
    exact: bool = False
    effect: Literal["come back", "are lost", "come back or are lost"] = "come back"

    def __str__(self) -> str:
        number = f", {'' if self.exact else 'at most '}{count(self.rows, 'row')} {self.effect}"
        shown = f"{self.verdict}{number if self.rows is not None else ''}, for {', '.join(self.features)}"
        shown += f": {self.words}" if self.words else ""
        where = [f"case {self.case}"] if self.case else []
        if self.source:
            where.append(f"{self.source}, {self.date}" + (", more than a year old" if self._is_old() else ""))
        return shown + (f" [{'; '.join(where)}]" if where else "")

    def _is_old(self) -> bool:
        return self.date is not None and date.fromisoformat(self.date) < date.today() - timedelta(days=365)  # noqa: DTZ011


@result
class EngineReading:
    """What one version of an engine does with the table.

    Attributes
    ----------
    verdict: the worst of the findings; without one `right`, or `unknown` if no case covers what the table has.
    verified: whether we ran the engine; else others report it.
    findings: why it is not right.
    unknown: features of the table that no case covers which the engine reads right.
    doubts: rules that it fails. Metadata does not say whether the table needs them.
    """

    engine: str
    version: str
    verdict: str
    verified: bool = True
    findings: tuple[ReaderFinding, ...] = ()
    unknown: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The engine, its version, and whether others report it."""
        return self.named + ("" if self.verified else " (not verified by us)")

    @property
    def named(self) -> str:
        """The engine and its version."""
        return self.engine if self.version == NO_VERSION else f"{self.engine} {self.version}"


def chosen(verdicts: Sequence[Verdict], engines: Iterable[str] | None) -> Sequence[Verdict]:
    """Return the verdicts of some engines, or of versions that begin as in `duckdb 1.5`.

    Raises InvalidInputError for an engine that no verdict is about.
    """
    if engines is None:
        return verdicts
    wanted = [name.lower() for name in engines]
    for name in wanted:
        if not any(_is_named(v, name) for v in verdicts):
            kind, message = "reader-engine", "nothing is known of this engine"
            raise InvalidInputError(message, kind, "engines", name, ", ".join(sorted({v.engine for v in verdicts})))
    return [v for v in verdicts if any(_is_named(v, name) for name in wanted)]


def _is_named(verdict: Verdict, name: str) -> bool:
    full = f"{verdict.engine} {verdict.version}".lower()
    return name in (verdict.engine.lower(), full) or (" " in name and full.startswith((f"{name}.", f"{name} (")))


def in_use(verdicts: Sequence[Verdict], engines: Iterable[str]) -> Sequence[Verdict]:
    """Return the verdicts of some engines, without reports of other versions of those that we have run ourselves.

    Raises as `chosen`.
    """
    wanted = {name.lower() for name in engines}
    found = chosen(verdicts, wanted)
    run = {v.engine for v in found if v.verified}
    return [v for v in found if v.verified or v.engine not in run or f"{v.engine} {v.version}".lower() in wanted]


def judged(
    features: Features,
    verdicts: Iterable[Verdict],
    hidden: Sequence[RowsOfKinds] = (),
    lost: Mapping[str, RowsOfKinds] | None = None,
) -> Iterator[EngineReading]:
    """Yield what each engine does with a table of these features: the worst first."""
    found, at_stake = [], _AtStake(hidden, lost or {})
    for engine, group in groupby(sorted(verdicts, key=lambda v: v.engine), key=lambda v: v.engine):
        of_engine = list(group)
        for version in sorted({v.version for v in of_engine}, key=lambda name: (name != NO_VERSION, name)):
            # What is said of an engine without a version holds for all of them.
            own = [v for v in of_engine if v.version in (version, NO_VERSION)]
            found.append(_reading(engine, version, features, own, at_stake))
    yield from sorted(found, key=lambda r: -VERDICTS.index(r.verdict))


def check_readable(
    verdicts: Sequence[Verdict], metadata: TableMetadata, snapshot: Snapshot, reader: SnapshotReader, ref: str
) -> None:
    """Raise UnsupportedError, of the kind `not-readable`, if an engine does not read a snapshot right, or may not."""
    features = snapshot_features(metadata, snapshot, reader, plan_scan(metadata, snapshot, reader), ref)
    for reading in judged(features, verdicts):
        why = why_not(reading, features, verdicts)
        if why is not None:
            message = "an engine of readable_by would not read the table right after this change"
            raise UnsupportedError(message, "not-readable", "readable_by", why, _EXPECTED)


def why_not(reading: EngineReading, features: Features, verdicts: Sequence[Verdict]) -> str | None:
    """Say why an engine does not read the table right, or may not; None if it is known to.

    Without a finding about the table it may not with a feature that it reads right in no case and wrong in one, with a
    kind of delete that no case has, and with equality deletes, if it breaks a rule of them that metadata cannot show:
    other values may need the rule.
    """
    if reading.findings:
        return f"{reading.named}: {reading.findings[0]}"
    if set(reading.unknown).intersection(KINDS):
        return f"{reading.named}: unknown, for {', '.join(reading.unknown)}"
    own = (v for v in verdicts if (v.engine, v.version) == (reading.engine, reading.version))
    failed = [v for v in own if v.verdict != "right"]
    never = sorted(f for f in reading.unknown if any(f in v.features for v in failed))
    if never:
        return f"{reading.named}: reads {', '.join(never)} right in no case"
    for verdict in failed if "equality-delete" in features else ():
        more = verdict.features - features.keys() - _VERSIONS
        if verdict.verdict in ("WRONG", "crashes") and "equality-delete" in verdict.features and not more & SEEN:
            rules = ", ".join(sorted(more))
            return f"{reading.named}: {verdict.verdict} in some tables with equality deletes, for {rules}"
    return None


@dataclass(frozen=True, slots=True)
class _AtStake:
    """How many rows each kind of delete hides, and how many live ones would be lost without a rule."""

    hidden: Sequence[RowsOfKinds]
    lost: Mapping[str, RowsOfKinds]


@dataclass(frozen=True, slots=True)
class _Cases:
    """The cases of one engine, as they bear on a table."""

    brought: Features
    right: Sequence[Verdict]
    failed: Sequence[Verdict]
    verified: bool

    def relevant(self) -> list[Verdict]:
        """Return the failed cases that tell of the table.

        Those are cases whose features the table has. They may be of another format version, if the engine reads no case
        of these features right. For a feature that the engine never reads right, one case stands for it, whatever it
        has besides: a kind of delete, a format of data files, or a rule, if the engine reads such deletes without it.
        """
        found = [v for v in self.failed if v.features <= self.have or self._fails_anywhere(v.features - _VERSIONS)]
        if self.verified:
            of_kinds = {rule for rule, kinds in self.brought.items() if any(self._reads({k}) for k in kinds)}
            for feature in self.have & {*KINDS, *DATA_FORMATS} | of_kinds:
                if not self._reads({feature}) and not any(feature in v.features for v in found):
                    failed = [v for v in self.failed if feature in v.features]
                    found += sorted(failed, key=lambda v: len(v.features))[:1]
        return sorted(found, key=lambda v: (-VERDICTS.index(v.verdict), len(v.features)))

    def _fails_anywhere(self, features: frozenset[str]) -> bool:
        return bool(features) and features <= self.have and not self._reads(features)

    def _reads(self, features: Collection[str]) -> bool:
        """Tell whether the engine reads a case with these features right."""
        return any(v.features.issuperset(features) for v in self.right)

    @property
    def have(self) -> frozenset[str]:
        return frozenset(self.brought)

    def doubts(self) -> set[str]:
        """Return the rules of failed cases that would bear on the table, if metadata could say that it needs them."""
        return set().union(
            *(more for v in self.failed if (more := v.features - self.have - _VERSIONS) and not more & SEEN)
        )


def _reading(
    engine: str, version: str, features: Features, verdicts: Sequence[Verdict], at_stake: _AtStake
) -> EngineReading:
    right, failed = [v for v in verdicts if v.verdict == "right"], [v for v in verdicts if v.verdict != "right"]
    cases = _Cases(features, right, failed, any(v.verified for v in verdicts))
    covered = set().union(*(v.features for v in right))
    needed = set(features) if cases.verified else set(features).intersection(KINDS)  # others report of kinds only
    unknown = tuple(sorted(needed - covered))
    findings = tuple(_finding(verdict, cases.have, at_stake) for verdict in cases.relevant())
    return EngineReading(
        engine=engine,
        version=version,
        verdict=findings[0].verdict if findings else "unknown" if unknown else "right",
        verified=cases.verified,
        findings=findings,
        unknown=unknown,
        doubts=tuple(sorted(cases.doubts())),
    )


def _finding(verdict: Verdict, have: frozenset[str], at_stake: _AtStake) -> ReaderFinding:
    said = ("verdict", "words", "source", "date", "case", "breaks", "verified")
    shared = {name: getattr(verdict, name) for name in said}
    shared["features"] = tuple(sorted(verdict.features & have))
    if (lost := at_stake.lost.get(verdict.breaks or "")) is not None:
        effect: Any = "come back or are lost" if verdict.breaks == MIXED_UP else "are lost"
        return ReaderFinding(**shared, rows=lost.rows, exact=lost.exact, effect=effect)
    if verdict.verdict != "WRONG" or verdict.breaks == OTHER_ROWS:
        return ReaderFinding(**shared)
    ignored = _IGNORED.get(verdict.breaks or "")
    back = rows_if_ignored(at_stake.hidden, {ignored} if ignored else verdict.features.intersection(KINDS))
    is_narrow = not ignored and (bool(verdict.features.intersection(SEEN) - set(KINDS)) or bool(verdict.breaks))
    return ReaderFinding(**shared, rows=back.rows, exact=back.exact and not is_narrow)
