"""The benchmark command: `python -m tests.benchmarks --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from tests.benchmarks.readers import PEERS
from tests.benchmarks.report import machine, write_report

DEFAULT_WORK = Path(tempfile.gettempdir()) / "deletekit-benchmarks"
PARTS = {
    "scan": "Scan to Arrow",
    "count": "count()",
    "lazy": "A query of polars: scan_polars beside to_arrow",
    "stream": "Sums by streaming batches",
    "delete": "DELETE",
    "plan": "Planning",
    "merge": "Merging deletion vectors",
    "maintain": "Actions that write",
    "changes": "Streams of changes",
    "changelog": "Changes of a table",
    "oracle": "A stream of changes, folded by DuckDB",
    "ladder": "A stream's costs by keys and batches",
    "executors": "A stream on Spark executors",
    "rows": "Streams of rows",
    "delta": "sync_delta",
    "delta_ladder": "sync_delta by the size of the table",
    "delta_log": "The log of a Delta table",
    "delta_xtable": "sync_delta beside Apache XTable",
    "requests": "Requests to S3",
    "start": "Imports, and first processes",
    "spark": "On Spark",
}


def main(arguments: Sequence[str] | None = None) -> int:
    # Workers import this module anew, and what they hold from the start should be little.
    from tests.benchmarks.settings import Settings  # noqa: PLC0415

    options = parser().parse_args(arguments)
    rows = options.rows or (200_000 if options.small else 20_000_000)
    settings = Settings(
        work=options.work.absolute(),
        rows=rows,
        runs=options.runs,
        peers=tuple(options.peers),
        only_tables=tuple(options.tables),
        seconds=options.seconds,
        small=options.small,
        gigabytes=options.gigabytes or (0.1 if options.small else 5),
        keys=tuple(options.keys or ([20_000] if options.small else [1_000_000, 10_000_000, 100_000_000])),
        batch_rows=tuple(options.batch_rows or ([200] if options.small else [2_000, 10_000, 100_000])),
        batches=options.batches or (20 if options.small else 50),
    )
    sections: dict[str, str] = {}
    failed = False
    for part in options.only or PARTS:
        try:
            measure: Callable[..., str] = import_module(f"tests.benchmarks.{part}").run
            sections[part] = measure(settings)
        except Exception as e:  # noqa: BLE001  # hours of other parts are not lost with it
            traceback.print_exc()
            sections[part], failed = f"failed: {type(e).__name__}: {e}", True
        report = "\n".join([f"{machine()}\n", *(f"### {PARTS[name]}\n\n{text}\n" for name, text in sections.items())])
        if options.out:
            write_report(options.out, report)
    print(report)
    return int(failed)


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure deletekit beside its peers.")
    out.add_argument("--rows", type=int, help="rows of the tables (20,000,000)")
    out.add_argument("--gigabytes", type=float, help="what part `rows` appends (5)")
    out.add_argument("--keys", type=int, nargs="+", help="parts `ladder`, `executors`: keys (1, 10, 100 million)")
    out.add_argument("--batch-rows", type=int, nargs="+", help="and changes a batch (2,000 10,000 100,000)")
    out.add_argument("--batches", type=int, help="part `ladder`: how many batches (50)")
    out.add_argument("--small", action="store_true", help="200,000 rows and small counts: does it run at all?")
    out.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    out.add_argument("--tables", nargs="+", default=[], metavar="NAME", help="only these: none 'dv_*' eq_id_1")
    out.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS), help="none when none is named")
    out.add_argument("--runs", type=int, default=5, help="runs after the warm-up (5)")
    out.add_argument("--seconds", type=float, default=60, help="a run that takes longer ends its engine's cell (60)")
    out.add_argument("--work", type=Path, default=DEFAULT_WORK, help="where tables are built and kept")
    out.add_argument("--out", type=Path, help="also write the report here, as .json, and drawn as .html")
    return out


if __name__ == "__main__":
    sys.exit(main())
