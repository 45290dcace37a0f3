"""Ask engines for the rows of the suite's tables: `python -m conformance`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from conformance import page as pages
from conformance import runner, verdicts
from deletekit.cli.commands import SETTINGS
from deletekit.cli.options import Program, check_new, number_option, repeated_option
from deletekit.cli.printer import grid, heading
from deletekit.cli.terminal import Answer, Output
from deletekit.conformance.engines import BUILT_IN, engine_of
from deletekit.text import count, plain

_FILE: Any = click.Path(dir_okay=False, path_type=Path)
_FOLDER: Any = click.Path(file_okay=False, path_type=Path)
_SUITE = "The suite of tables.  [default: the folder of this program]"
_OWN = "An engine of your own: the command that answers for it. Repeatable."


@click.command(cls=Program, context_settings=SETTINGS)
@click.argument("names", metavar="[ENGINE]...", nargs=-1, type=click.Choice(BUILT_IN))
@repeated_option("--engine", "commands", "NAME=COMMAND", _OWN)
@click.option("--suite", type=_FOLDER, metavar="DIR", help=_SUITE)
@click.option("--case", "pattern", default="*", metavar="GLOB", help="Cases whose names match.")
@number_option("--timeout", "Seconds that one answer may take.  [default: 120]", float, "SECONDS")
@number_option("--times", "Ask so often, and keep the worst verdict.  [default: 1]", click.IntRange(min=1))
@click.option("--page", type=_FILE, metavar="FILE", help="Also write the verdicts as one HTML page.")
@click.option("--write-verdicts", type=_FILE, metavar="FILE", help="Also put the verdicts into this JSON file.")
@click.option("--overwrite", is_flag=True, help="Replace the page where it exists.")
def conformance(
    output: Output,
    *,
    pattern: str,
    overwrite: bool,
    names: Sequence[str] = (),
    commands: Sequence[str] = (),
    suite: Path | None = None,
    timeout: float | None = None,
    times: int = 1,
    page: Path | None = None,
    write_verdicts: Path | None = None,
) -> Answer:
    """Ask engines for the rows of each table of the conformance suite, and judge what they answer.

    \b
    right    the rows that the specification demands
    refuses  an error with words: nothing wrong is believed
    WRONG    other rows and no error, with the rule that is broken, if known
    crashes  the process ends, is late, or fails by its own bug

    Without an engine, all that deletekit knows are asked. The exit code is 1 if an engine is WRONG or crashes, or if an
    engine that you name cannot be asked; else 0.

    \b
    Examples:
      python -m conformance polars duckdb
      python -m conformance --case 'equality_*' --page verdicts.html
      python -m conformance --engine mine='node my_reader.mjs' --json
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if page is not None:
        check_new(page, overwrite=overwrite)
    asked = [engine_of(text) for text in (*names, *commands) or BUILT_IN]
    folder = suite or runner.suite_folder()
    cases = runner.chosen_cases(folder, pattern)
    stored = verdicts.read_verdicts(write_verdicts) if write_verdicts is not None else None
    seconds = timeout or runner.SECONDS
    runs = []
    for engine in asked:
        with output.waiting(f"Asking {plain(engine.name)}"):
            runs.append(runner.run_engine(engine, cases, seconds=seconds, times=times))
    document = verdicts.document_of(runs)
    collected = verdicts.document_of(runs, stored, runner.chosen_cases(folder))
    if write_verdicts is not None:
        verdicts.write_verdicts(write_verdicts, collected)
    if page is not None:
        page.write_text(pages.verdicts_page(collected, cases, runs), encoding="utf-8")
    document["unavailable"] = {run.engine: run.unavailable for run in runs if run.unavailable is not None}
    by_name = bool(names or commands)
    ok = any(run.ok for run in runs) and all(run.ok or (run.unavailable and not by_name) for run in runs)
    return Answer(document=document, text=_text(document), exit_code=0 if ok else 1)


def _text(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    results = document["results"]
    for engine, version in verdicts.engines_of(results):
        own = [r for r in results if (r["engine"], r["version"]) == (engine, version)]
        failed = [r for r in own if r["verdict"] in ("WRONG", "crashes")]
        rows = [(verdicts.case_name(r["case"], r["ref"]), verdicts.said(r), r["words"]) for r in failed]
        refused = verdicts.spoken(r for r in own if r["verdict"] == "refuses")
        rows += [(count(number, "case"), verdict, words) for _, verdict, number, words in refused]
        if rows:
            yield heading(f"{engine} {version}")
            yield grid(("case", "verdict", "words"), rows)
    if results:
        yield heading("Verdicts")
        yield grid(("engine", "version", *(f"#{kind}" for kind in runner.KINDS)), verdicts.summary(results))
    for engine, why in document["unavailable"].items():
        yield Text(f"\n{plain(engine)} is not available: {plain(why)}")


if __name__ == "__main__":
    conformance(prog_name="python -m conformance")
