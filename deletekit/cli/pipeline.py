"""`deletekit pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
from rich.text import Text

from deletekit.cli.options import key_values, output_options
from deletekit.cli.terminal import Output, show, show_json
from deletekit.cli.text import plain

__all__ = ["pipeline"]


@click.command(short_help="Run a restartable pipeline on Spark.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--master", metavar="URL", help="Spark's master.  [default: local[2], or spark-submit's]")
@click.option(
    "--days", type=click.IntRange(1, 30), default=7, show_default=True, metavar="N", help="Days of changes, 1 to 30."
)
@click.option(
    "--format-version",
    type=click.Choice(["2", "3"]),
    default="3",
    show_default=True,
    metavar="2|3",
    help="2 deletes rows by position delete files, 3 by deletion vectors.",
)
@click.option("--table", default="pipeline.flights", show_default=True, metavar="NAME", help="namespace.table to make.")
@click.option(
    "--catalog", metavar="NAME", help="pyiceberg catalog for the table.  [default: an embedded one in DIRECTORY]"
)
@click.option(
    "-p",
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Property of --catalog (uri=..., type=rest). Repeatable.",
)
@output_options
def pipeline(
    directory: Path,
    *,
    master: str | None,
    days: int,
    format_version: str,
    table: str,
    catalog: str | None,
    properties: Mapping[str, str],
    output: Output,
) -> None:
    """Load raw flights into a partitioned table, apply daily corrections, cancellations and privacy deletes, compact
    it, and check the result against the raw files, by Spark with Iceberg's own reader too.

    DIRECTORY gets the raw files and the reports. A run that was stopped, in whatever way, is continued by the same
    command: what the table's history has is not done again. The exit code is 1 when a check finds something wrong.

    On a cluster, its machines share DIRECTORY and have deletekit installed. `spark-submit --master URL SCRIPT` takes
    a script of one line: `from deletekit.cli import main; main(["pipeline", "DIRECTORY"])`.

    \b
    Examples:
      deletekit pipeline my-pipeline
      deletekit pipeline my-pipeline --days 3 --format-version 2
      deletekit pipeline /shared/run --master spark://host:7077
      deletekit pipeline run --catalog prod -p type=rest -p uri=http://host:8181
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    # Imports everything, and no help does.
    from deletekit.spark.pipeline import opening, run_pipeline  # noqa: PLC0415

    if properties and catalog is None:
        raise click.UsageError("the embedded catalog has no properties to set; give --catalog NAME too.")
    with opening(directory, master=master, catalog_name=catalog, properties=properties) as open_session:
        report = run_pipeline(
            directory,
            open_session,
            table=table,
            days=days,
            format_version=int(format_version),
            say=output.progress,
        )
    if output.as_json:
        show_json(report.as_json())
    else:
        show(*(Text(plain(line)) for line in report.as_text().splitlines()))
    click.get_current_context().exit(0 if report.ok else 1)
