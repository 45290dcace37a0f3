"""The command `lab`: start the course in JupyterLab."""

from __future__ import annotations

from pathlib import Path

import click

from deletekit.cli.options import Command
from deletekit.course.lessons import FIRST, LANGUAGES


@click.command(cls=Command, short_help="Take the course in JupyterLab.")
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--lang",
    "language",
    type=click.Choice(tuple(LANGUAGES), case_sensitive=False),
    default="en",
    help="Language of the lessons.",
)
@click.option("--start/--no-start", default=True, help="Start JupyterLab, or only copy the lessons.")
def lab(directory: Path | None, *, language: str, start: bool) -> None:
    """Copy the lessons into DIRECTORY, and start JupyterLab at the first one.

    DIRECTORY is deletekit-course by default, or the current one if that holds the course already. A lesson that is
    there is kept, with everything written into it; delete its file to get a new copy. The progress is kept, for all
    languages together.

    \b
    Examples:
      deletekit lab
      deletekit lab --lang ko my-course
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    from deletekit.course.lab import check_jupyterlab, copy_lessons, course_folder, run_jupyterlab  # noqa: PLC0415

    if start:
        check_jupyterlab()
    folder = (directory or course_folder()).absolute() / language
    new = copy_lessons(language, folder)
    old = len(list(folder.glob("*.ipynb"))) - new
    kept = f", {old} kept as they are" if old else ""
    click.echo(f"{new} {'lesson' if new == 1 else 'lessons'} copied to {folder}{kept}.")
    if not start:
        click.echo(f"Begin with {folder / FIRST}")
        return
    click.echo("JupyterLab starts; Ctrl-C ends it.")
    click.get_current_context().exit(run_jupyterlab(folder))
