"""The commands `tour`, `lab` and `workshop-bundle`: start the course, or pack it."""

import importlib.util
import sys
from pathlib import Path

import click
from rich.console import Console

from deletekit.cli.options import Command, repeated_option
from deletekit.course.lab import FIRST, check_jupyterlab, copy_lessons, course_folder, run_jupyterlab
from deletekit.course.tracks import TRACKS, WHOLE_COURSE, plan_of
from deletekit.course.translations import LANGUAGES
from deletekit.errors import EnvironmentMissingError

# The same as in deletekit.course.workshop, which is imported only when it is used.
_PLATFORMS = ("linux-x86_64", "linux-aarch64", "macos-arm64", "macos-x86_64", "windows-x86_64")
_NEEDED = ("jupyterlab", "nbconvert", "packaging", "pip")
_PLATFORM = f"Machine to pack for: {', '.join(_PLATFORMS)}; repeatable.  [default: this one]"


@click.command(cls=Command)
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--keep/--no-keep", default=True, help="Keep the tables to look at.")
def tour(directory: Path | None, *, keep: bool) -> None:
    """Walk through every kind of delete on real rows, in tables created in DIRECTORY or in a temporary directory.

    \b
    Examples:
      deletekit tour
      deletekit tour my-tour --no-keep
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if not keep and directory is not None and directory.is_dir() and any(directory.iterdir()):
        raise click.UsageError(
            f"--no-keep would remove what is in {directory} already; give a directory that is empty."
        )
    from deletekit.course.tour import run_tour  # noqa: PLC0415  # it imports everything

    run_tour(directory, console=Console(highlight=False), keep=keep)


@click.command(cls=Command)
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--lang",
    "language",
    type=click.Choice(tuple(LANGUAGES), case_sensitive=False),
    default="en",
    help="Language of the lessons.",
)
@click.option(
    "--track",
    type=click.Choice((*TRACKS, WHOLE_COURSE)),
    help="Plan to follow: its lessons are copied, and progress() shows them in its order.  [default: the one before]",
)
@click.option("--start/--no-start", default=True, help="Start JupyterLab, or only copy the lessons.")
def lab(directory: Path | None, *, language: str, track: str | None, start: bool) -> None:
    """Copy the lessons into DIRECTORY, and start JupyterLab at the first one.

    DIRECTORY is deletekit-course by default, or the current one if that holds the course already. A lesson that is
    there is kept, with everything written into it; delete its file to get a new copy. Copies have no outputs: predict
    them, then run. The progress is kept, for all languages together. A track is kept too; `--track course` ends it.

    \b
    Examples:
      deletekit lab
      deletekit lab --lang ko my-course
      deletekit lab --track half-day
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    from deletekit.course.learner_record import record_track, recorded_track  # noqa: PLC0415  # it reads all exercises

    if start:
        check_jupyterlab()
    folder = (directory or course_folder()).absolute() / language
    plan = plan_of(track or recorded_track(folder.parent))
    new = copy_lessons(language, folder, plan)
    if track:
        record_track(folder.parent, track)
    old = len(list(folder.glob("*.ipynb"))) - new
    kept = f", {old} kept as they are" if old else ""
    click.echo(f"{new} {'lesson' if new == 1 else 'lessons'} copied to {folder}{kept}.")
    if track in TRACKS:
        click.echo(f"The track {track}: lessons {', '.join(plan)}.")
    if not start:
        click.echo(f"Begin with {folder / FIRST}")
        return
    click.echo("JupyterLab starts; Ctrl-C ends it.")
    click.get_current_context().exit(run_jupyterlab(folder))


@click.command(cls=Command)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--spark/--no-spark", default=False, help="Pack Spark and its jars too, some 500 MB.")
@repeated_option("--platform", "platforms", "MACHINE", _PLATFORM, type=click.Choice(_PLATFORMS))
@repeated_option("--python", "pythons", "3.N", "Version of Python to pack for; repeatable.  [default: this one]")
def workshop_bundle(directory: Path, *, spark: bool, platforms: tuple[str, ...], pythons: tuple[str, ...]) -> None:
    """Pack the course into DIRECTORY: packages, lessons in every language, sample tables, pages, and install.py.

    A learner with a copy opens START_HERE.html and installs with `python3 install.py`, without a network. Packing needs
    the network. Packages have the versions that are installed here; Java is not packed.

    \b
    Examples:
      deletekit workshop-bundle workshop
      deletekit workshop-bundle workshop --spark
      deletekit workshop-bundle workshop --platform windows-x86_64
          --platform macos-arm64 --python 3.11 --python 3.12
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentMissingError(
            "packing the course needs its packages here: pip install 'deletekit[course]'",
            kind="workshop",
            found=f"without {', '.join(missing)}",
        )
    from deletekit.course.workshop import Target, make_bundle  # noqa: PLC0415  # imports the extra `course`

    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    places = platforms or ((Target.here().platform,) if pythons else ())
    targets = [Target(place, python) for place in places for python in pythons or (here,)]
    made = make_bundle(directory, targets=targets, spark=spark, report=click.echo)
    jars = f", {made.jars} jars" if made.jars else ""
    click.echo(f"{made.folder}: {made.lessons} lessons, {made.wheels} wheels{jars}, {made.size / 1e6:,.0f} MB.")
    click.echo("Give the whole folder away; START_HERE.html says how to begin.")
