"""`deletekit lab`: the course in a folder of the learner's own, and JupyterLab at its first lesson."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

from deletekit.cli.options import traceback_option
from deletekit.course.lessons import FIRST, LANGUAGES, lessons_folder
from deletekit.errors import EnvironmentMissingError, InvalidInputError

__all__ = ["lab"]

_OURS = "deletekit-course"


@click.command(short_help="Take the course in JupyterLab.")
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--lang",
    "language",
    type=click.Choice(tuple(LANGUAGES), case_sensitive=False),
    default="en",
    show_default=True,
    help="Language of the lessons.",
)
@click.option("--start/--no-start", default=True, show_default=True, help="Start JupyterLab, or only copy the lessons.")
@traceback_option
def lab(directory: Path | None, *, language: str, start: bool) -> None:
    """Copy the lessons into DIRECTORY, and start JupyterLab at the first one.

    DIRECTORY is deletekit-course unless it is given, or the current one when that holds the course already. A lesson
    that is there is left as it is, with all that was written into it; delete its file to get it anew. The progress is
    kept, for all languages together.

    \b
    Examples:
      deletekit lab
      deletekit lab --lang ko my-course
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if start and importlib.util.find_spec("jupyterlab") is None:
        raise EnvironmentMissingError("JupyterLab is not installed: pip install 'deletekit[course]'", kind="jupyterlab")
    folder = (directory or _default()).absolute() / language
    new = _copy(lessons_folder(language), folder)
    there = len(list(folder.glob("*.ipynb"))) - new
    kept = f", {there} kept as they are" if there else ""
    click.echo(f"{new} {'lesson' if new == 1 else 'lessons'} copied to {folder}{kept}.")
    if not start:
        click.echo(f"Begin with {folder / FIRST}")
        return
    click.echo("JupyterLab starts; Ctrl-C ends it.")
    # A server of its own, at the folder above the language, where the progress is.
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.parent}"]
    command.append(f"--LabApp.default_url=/lab/tree/{language}/{FIRST}")
    if getattr(os, "geteuid", lambda: None)() == 0:
        command.append("--allow-root")  # in containers one is root; the server listens on loopback, with a token
    click.get_current_context().exit(_run(command))


def _default() -> Path:
    here = Path()
    return here if any((here / language / FIRST).is_file() for language in LANGUAGES) else Path(_OURS)


def _run(command: list[str]) -> int:
    """Run until it ends by itself: Ctrl-C goes to JupyterLab too, which asks, and stops its kernels."""
    process = subprocess.Popen(command)  # noqa: S603
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code  # as shells say by which signal a program ended
        except KeyboardInterrupt:
            continue


def _copy(source: Path, folder: Path) -> int:
    """Copy each lesson that is not there yet; how many were."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as e:
        raise InvalidInputError(
            "the lessons need a folder, and this is a file", kind="lessons", field="DIRECTORY", found=str(folder)
        ) from e
    missing = [file for file in sorted(source.glob("*.ipynb")) if not (folder / file.name).exists()]
    for file in missing:
        shutil.copyfile(file, folder / file.name)
    return len(missing)
