"""Find the notebooks of the lessons, copy them into a learner's folder, and run JupyterLab there."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path

from deletekit.course.translations import LANGUAGES
from deletekit.errors import EnvironmentMissingError, InvalidInputError, NotFoundError

FIRST = "00_start_here.ipynb"
"""The first lesson's file, in every language."""

SERVER_SETTINGS = {
    # Longer than a lunch or a meeting: after that a learner goes on. An idle kernel takes memory from other lessons.
    "MappingKernelManager.cull_idle_timeout": 4 * 3600,
    "MappingKernelManager.cull_interval": 300,
    "MappingKernelManager.cull_connected": True,  # an open notebook counts as connected
}
"""How Jupyter's server ends idle kernels, for `deletekit lab` and Binder."""

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


@cache
def titles(language: str) -> dict[str, str]:
    """Return the titles of the lessons, such as `06 · Deletion vectors`, by their number; none without the lessons."""
    found = {}
    try:
        files = sorted(lessons_folder(language).glob("*.ipynb"))
    except NotFoundError:
        return {}
    for file in files:
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        heading = re.match(r"# (.+)", "".join(cells[0]["source"]))
        found[file.name[:2]] = heading[1] if heading else file.name[:2]
    return found


def check_jupyterlab() -> None:
    """Raise EnvironmentMissingError if JupyterLab is not installed."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise EnvironmentMissingError("JupyterLab is not installed: pip install 'deletekit[course]'", kind="jupyterlab")


def course_folder() -> Path:
    """Return the current folder if it holds the course, else the folder for a new copy."""
    here = Path()
    return here if any((here / language / FIRST).is_file() for language in LANGUAGES) else Path(_NEW_FOLDER)


def copy_lessons(language: str, folder: Path, numbers: Collection[str]) -> int:
    """Copy each of the lessons with these numbers that the folder does not have. Return how many were copied."""
    source = lessons_folder(language)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as e:
        raise InvalidInputError(
            "the lessons need a folder, and this is a file", kind="lessons", field="DIRECTORY", found=str(folder)
        ) from e
    wanted = (file for file in sorted(source.glob("*.ipynb")) if file.name[:2] in numbers)
    missing = [file for file in wanted if not (folder / file.name).exists()]
    for file in missing:
        copy_unrun(file, folder / file.name)
    return len(missing)


def copy_unrun(source: str | Path, target: str | Path) -> None:
    """Copy a notebook without its outputs, as a learner gets it who is to predict them."""
    notebook = json.loads(Path(source).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    Path(target).write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_server_settings(folder: Path) -> Path:
    """Write the settings into a folder of Jupyter's configuration, for a server that somebody else starts."""
    file = folder / "jupyter_server_config.d" / "deletekit.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    sections: dict[str, dict[str, object]] = {}
    for name, value in SERVER_SETTINGS.items():
        section, _, setting = name.partition(".")
        sections.setdefault(section, {})[setting] = value
    file.write_text(json.dumps(sections, indent=1) + "\n", encoding="utf-8")
    return file


def run_jupyterlab(folder: Path) -> int:
    """Run JupyterLab at the first lesson of a language's folder, until it ends. Return its exit code.

    It is a server of its own for the folder above, where the progress is. Ctrl-C goes to JupyterLab too, which asks,
    and stops its kernels.
    """
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.parent}"]
    command.append(f"--LabApp.default_url=/lab/tree/{folder.name}/{FIRST}")
    command += [f"--{name}={value}" for name, value in SERVER_SETTINGS.items()]
    if getattr(os, "geteuid", lambda: None)() == 0:
        command.append("--allow-root")  # in containers the user is root; the server listens on loopback, with a token
    process = subprocess.Popen(command)  # noqa: S603
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code  # as a shell reports the signal that ended a program
        except KeyboardInterrupt:
            continue
