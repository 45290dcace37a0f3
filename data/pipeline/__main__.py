"""Run the data pipeline on Spark: `python -m data.pipeline DIRECTORY`."""

from pathlib import Path
from typing import Any

import click
from rich.text import Text

from data.pipeline.run import run_pipeline, session_opener
from deletekit.cli.commands import SETTINGS
from deletekit.cli.options import Program, catalog_property_option, choice_option
from deletekit.cli.terminal import Answer, Output
from deletekit.text import plain

_FORMAT_VERSION = "Format version: 2 deletes rows by position delete files, 3 by deletion vectors."
_CATALOG = "pyiceberg catalog for the table.  [default: an embedded one in DIRECTORY]"


@click.command(cls=Program, context_settings=SETTINGS)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--master", metavar="URL", help="Spark's master.  [default: local[2], or spark-submit's]")
@click.option("--days", type=click.IntRange(1, 30), default=7, metavar="N", help="Days of changes, 1 to 30.")
@choice_option("--format-version", ("2", "3"), _FORMAT_VERSION, default="3", metavar="2|3")
@click.option("--table", default="pipeline.flights", metavar="NAME", help="namespace.table to create.")
@click.option("--catalog", metavar="NAME", help=_CATALOG)
@catalog_property_option
def pipeline(
    output: Output,
    directory: Path,
    *,
    format_version: str,
    properties: dict[str, str],
    master: str | None = None,
    catalog: str | None = None,
    **options: Any,
) -> Answer:
    """Load raw flights into a partitioned table, apply daily corrections, cancellations and privacy deletes, compact
    it, and check the result against the raw files, by Spark with Iceberg's own reader too.

    DIRECTORY gets the raw files and the reports. If a run stops, for whatever reason, the same command continues it:
    steps that are in the table's history are not repeated. The exit code is 1 if a check finds something wrong.

    On a cluster, all machines share DIRECTORY and have deletekit installed. In the checkout, the program is submitted
    by `PYTHONPATH=. spark-submit --master URL data/pipeline/__main__.py DIRECTORY`.

    \b
    Examples:
      python -m data.pipeline my-pipeline
      python -m data.pipeline my-pipeline --days 3 --format-version 2
      python -m data.pipeline /shared/run --master spark://host:7077
      python -m data.pipeline run --catalog prod -p type=rest -p uri=http://host:8181
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if properties and catalog is None:
        raise click.UsageError("the embedded catalog has no properties to set; give --catalog NAME too.")
    with session_opener(directory, master=master, catalog_name=catalog, properties=properties) as open_session:
        report = run_pipeline(
            directory, open_session, format_version=int(format_version), say=output.progress, **options
        )
    text = [Text(plain(line)) for line in report.as_text().splitlines()]
    return Answer(document=report.as_json(), text=text, exit_code=0 if report.ok else 1)


if __name__ == "__main__":
    pipeline()
