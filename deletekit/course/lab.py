"""Find the notebooks of the lessons, copy them into a learner's folder, and run JupyterLab there."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from deletekit.course.translations import LANGUAGES
from deletekit.errors import EnvironmentMissingError, InvalidInputError, NotFoundError

FIRST = "00_start_here.ipynb"
"""The first lesson's file, in every language."""

_NEW_FOLDER = "deletekit-course"
_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "_notebooks", _PACKAGE.parent / "notebooks")
"""Where the lessons are: in a wheel, and in the checkout of an editable installation. So are the sample tables."""


def lessons_folder(language: str) -> Path:
    """Return the folder of a language's notebooks. Raise NotFoundError if the installation has none."""
    for folder in _FOLDERS:
        if (folder / language / FIRST).is_file():
            return folder / language
    raise NotFoundError(
        "the lessons are missing from this installation of deletekit", kind="lessons", file=f"{language}/{FIRST}"
    )


def check_jupyterlab() -> None:
    """Raise EnvironmentMissingError if JupyterLab is not installed."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise EnvironmentMissingError("JupyterLab is not installed: pip install 'deletekit[course]'", kind="jupyterlab")


def course_folder() -> Path:
    """Return the current folder if it holds the course, else the folder for a new copy."""
    here = Path()
    return here if any((here / language / FIRST).is_file() for language in LANGUAGES) else Path(_NEW_FOLDER)


def copy_lessons(language: str, folder: Path) -> int:
    """Copy each lesson that the folder does not have. Return how many were copied."""
    source = lessons_folder(language)
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


def run_jupyterlab(folder: Path) -> int:
    """Run JupyterLab at the first lesson of a language's folder, until it ends. Return its exit code.

    It is a server of its own for the folder above, where the progress is. Ctrl-C goes to JupyterLab too, which asks,
    and stops its kernels.
    """
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.parent}"]
    command.append(f"--LabApp.default_url=/lab/tree/{folder.name}/{FIRST}")
    if getattr(os, "geteuid", lambda: None)() == 0:
        command.append("--allow-root")  # in containers the user is root; the server listens on loopback, with a token
    process = subprocess.Popen(command)  # noqa: S603
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code  # as a shell reports the signal that ended a program
        except KeyboardInterrupt:
            continue
