"""`deletekit lab`: the course in a folder of the learner's own, and JupyterLab at its first lesson."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import click

from deletekit.cli.options import traceback_option
from deletekit.errors import EnvironmentMissingError, InvalidInputError, NotFoundError

__all__ = ["lab"]

LANGUAGES = ("en", "ko", "ja", "zh-CN", "es")
_FIRST = "00_start_here.ipynb"
_OURS = "deletekit-course"


@click.command(short_help="Take the course in JupyterLab.")
@click.argument("directory", required=False, default=_OURS, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--lang", "language", type=click.Choice(LANGUAGES), default="en", show_default=True, help="Language of the lessons."
)
@click.option("--start/--no-start", default=True, show_default=True, help="Start JupyterLab, or only copy the lessons.")
@traceback_option
def lab(directory: Path, *, language: str, start: bool) -> None:
    """Copy the lessons into DIRECTORY, by default deletekit-course, and start JupyterLab at the first one.

    A lesson that is there already is left as it is, with all that was written into it; the progress is kept.

    \b
    Examples:
      deletekit lab
      deletekit lab --lang ko my-course
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if start and importlib.util.find_spec("jupyterlab") is None:
        raise EnvironmentMissingError("JupyterLab is not installed: pip install 'deletekit[course]'", kind="jupyterlab")
    folder = directory.absolute() / language
    new = _copy(_lessons(language), folder)
    there = len(list(folder.glob("*.ipynb"))) - new
    kept = f", {there} kept as they are" if there else ""
    click.echo(f"{new} lessons copied to {folder}{kept}.")
    if not start:
        click.echo(f"Begin with {folder / _FIRST}")
        return
    # A server of its own, at the folder above the language, where the progress is.
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.parent}"]
    code = subprocess.run([*command, f"--LabApp.default_url=/lab/tree/{language}/{_FIRST}"], check=False).returncode  # noqa: S603
    click.get_current_context().exit(code)


def _lessons(language: str) -> Path:
    """Where the notebooks are: in the wheel, or in the checkout that this is an editable install of."""
    package = Path(str(files("deletekit")))
    for folder in (package / "_notebooks", package.parent / "notebooks"):
        if (folder / language / _FIRST).is_file():
            return folder / language
    raise NotFoundError(
        "the lessons are missing from this installation of deletekit", kind="lessons", file=f"{language}/{_FIRST}"
    )


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
