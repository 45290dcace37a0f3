"""The benchmark command: `python -m tests.benchmarks --help`.

python -m tests.benchmarks --publish                          # measure every part, write the figures
python -m tests.benchmarks --only scan plan --publish         # measure these; the figures of other parts stay
python -m tests.benchmarks --publish one.json other.json      # measure nothing: publish what `--out` wrote
"""

import argparse
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from tests.benchmarks.readers import PEERS
from tests.benchmarks.report import FAILED, PARTS, Part, block_of, failed, part_of, write_report

DEFAULT_WORK = Path(tempfile.gettempdir()) / "deletekit-benchmarks"


def main(arguments: Sequence[str] | None = None) -> int:
    # Workers import this module anew, and what they hold from the start should be little.
    from tests.benchmarks.publish import publish  # noqa: PLC0415
    from tests.benchmarks.settings import Settings  # noqa: PLC0415

    options = parser().parse_args(arguments)
    if options.publish:
        return publish(*options.publish)
    rows = options.rows or (200_000 if options.small else 20_000_000)
    settings = Settings(
        work=options.work.absolute(),
        rows=rows,
        runs=options.runs,
        peers=tuple(options.peers),
        only_tables=tuple(options.tables),
        seconds=options.seconds,
        small=options.small,
        keys=tuple(options.keys or ([20_000] if options.small else [1_000_000, 10_000_000, 100_000_000])),
        batch_rows=tuple(options.batch_rows or ([200] if options.small else [2_000, 10_000, 100_000])),
        batches=options.batches or (20 if options.small else 50),
    )
    parts: dict[str, Part] = {}
    for name in options.only or PARTS:
        try:
            measure: Callable[[Settings], str] = import_module(f"tests.benchmarks.{name}").run
            text = measure(settings)
        except Exception as e:  # noqa: BLE001  # hours of other parts are not lost with it
            traceback.print_exc()
            text = f"{FAILED} {type(e).__name__}: {e}"
        parts[name] = part_of(text, command_of(name, options))
        if options.out:
            write_report(options.out, parts)
        if options.publish is not None:
            publish({name: parts[name]})
        print(block_of(name, parts[name]))
    return int(any(map(failed, parts.values())))


def command_of(part: str, options: argparse.Namespace) -> str:
    """The command that measures this part alone in the same way."""
    words = ["python", "-m", "tests.benchmarks", "--only", part, *(["--small"] if options.small else [])]
    for name in ("rows", "keys", "batch_rows", "batches", "tables", "peers", "runs", "seconds"):
        given = getattr(options, name)
        if given != parser().get_default(name):
            words += [f"--{name.replace('_', '-')}", *map(str, given if isinstance(given, list) else [given])]
    return shlex.join(words)


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure deletekit beside its peers.")
    out.add_argument("--rows", type=int, help="rows of the tables (20,000,000)")
    out.add_argument("--keys", type=int, nargs="+", help="part `ladder`: keys (1, 10, 100 million)")
    out.add_argument("--batch-rows", type=int, nargs="+", help="and changes a batch (2,000 10,000 100,000)")
    out.add_argument("--batches", type=int, help="part `ladder`: how many batches (50)")
    out.add_argument("--small", action="store_true", help="200,000 rows and small counts: does it run at all?")
    out.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    out.add_argument("--tables", nargs="+", default=[], metavar="NAME", help="only these: none 'dv_*' eq_id_1")
    out.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS), help="none when none is named")
    out.add_argument("--runs", type=int, default=5, help="runs after the warm-up (5)")
    out.add_argument("--seconds", type=float, default=60, help="a run that takes longer ends its engine's cell (60)")
    out.add_argument("--work", type=Path, default=DEFAULT_WORK, help="where tables are built and kept")
    out.add_argument("--out", type=Path, help="also write the report here, and as .json")
    out.add_argument(
        "--publish",
        type=Path,
        nargs="*",
        metavar="JSON",
        help="write the figures into the pages: those just measured, or of these reports",
    )
    return out


if __name__ == "__main__":
    sys.exit(main())
