"""Which engines read this table right: what the snapshot depends on, compared with what engines do with it.

`reader_verdicts/judgement.py` judges; this asks the table, counts rows, and runs engines on it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.manifest_list import ManifestContent
from deletekit.notebook_html import result
from deletekit.reader_verdicts.features import Features, snapshot_features
from deletekit.reader_verdicts.judgement import EngineReading, chosen, judged
from deletekit.reader_verdicts.known_verdicts import known_verdicts
from deletekit.reader_verdicts.rows_at_stake import (
    BROKEN,
    MIXED_UP,
    RowsOfKinds,
    rows_at_stake,
    rows_lost,
    rows_mixed_up,
)
from deletekit.table.metadata import MAIN
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.verbs.shared.read_options import resolve_snapshot

_MOST_SHOWN = 3


@result
class Readers:
    """What `readers` returns: iterate over the engines, or print it.

    Attributes
    ----------
    features: what the snapshot depends on, and what brings it: kinds of deletes, or the table.
    hidden: how many rows each kind of delete hides, alone or together with others.
    engines: what each version of each engine does with the table.
    """

    table: str
    ref: str
    snapshot_id: int | None
    features: Features
    hidden: tuple[RowsOfKinds, ...]
    engines: tuple[EngineReading, ...]

    def __iter__(self) -> Iterator[EngineReading]:
        return iter(self.engines)

    def __len__(self) -> int:
        return len(self.engines)

    def named(self, verdict: str) -> str:
        """Return the engines of one verdict in one line; those last that others report of."""
        own = [r.name for r in self.engines if r.verdict == verdict and r.verified]
        told = [r.named for r in self.engines if r.verdict == verdict and not r.verified]
        return "; ".join(
            [*filter(None, [", ".join(own)]), *([f"not verified by us: {', '.join(told)}"] if told else [])]
        )

    def __str__(self) -> str:
        lines = [f"{self.table}, {self.ref}: depends on {', '.join(sorted(self.features))}"]
        lines += [f"  {h}" for h in self.hidden]
        for reading in self.engines:
            if reading.findings:
                lines.append(f"{reading.verdict:8} {reading.name}")
                lines += [f"         {finding}" for finding in reading.findings[:_MOST_SHOWN]]
        lines += [f"{verdict:8} {names}" for verdict in ("unknown", "right") if (names := self.named(verdict))]
        return "\n".join(lines)


def readers(
    table: Table,
    *,
    ref: str = MAIN,
    engines: Iterable[str] | None = None,
    exact: bool = True,
    verdicts: str | Path | None = None,
    engine: Engine | None = None,
) -> Readers:
    """Tell which engines read the deletes of a table right, which refuse it, and which give wrong rows.

    Parameters
    ----------
    ref: the branch or tag.
    engines: only these, by name.
    exact: count the rows that each kind of delete hides. It reads delete files and key columns. False: from metadata,
        which may say too many.
    verdicts: a file with your own verdicts, as `conformance/run.py --json` writes it, in place of deletekit's.
    engine: where files are read to count.

    Raises InvalidInputError for an unknown engine; NotFoundError for an unknown ref or file; FormatError for files that
    cannot be read.
    """
    snapshot, _ = resolve_snapshot(table.metadata, ref=ref)
    known = chosen(known_verdicts(verdicts), engines)
    reader = SnapshotReader(table.io, table.metadata)
    tasks = plan_scan(table.metadata, snapshot, reader)
    features = snapshot_features(table.metadata, snapshot, reader, tasks, ref)
    context, runner = ReadContext(table.io, table.metadata), engine_or_default(engine)
    hidden = rows_at_stake(context, [t for t in tasks if t.deletes], runner, exact=exact)
    live = list(reader.live_entries(snapshot, ManifestContent.DELETES)) if snapshot else []
    lost = {r: rows_lost(context, tasks, live, runner, r, exact=exact) for r in sorted(BROKEN & features.keys())}
    if MIXED_UP in features:
        lost[MIXED_UP] = rows_mixed_up(e.data_file for e in live if isinstance(e.data_file, DeleteFile))
    return Readers(
        table=table.name,
        ref=ref,
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        features=features,
        hidden=hidden,
        engines=tuple(judged(features, known, hidden, lost)),
    )
