"""The command `workshop-bundle`: pack the course into one folder, for rooms without a network."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import click

from deletekit.cli.options import Command
from deletekit.errors import EnvironmentMissingError

# The same as in deletekit.course.workshop, which is imported only when it is used.
_PLATFORMS = ("linux-x86_64", "linux-aarch64", "macos-arm64", "macos-x86_64", "windows-x86_64")
_NEEDED = ("jupyterlab", "nbconvert", "packaging", "pip")


@click.command(cls=Command, short_help="Pack the course for a room without a network.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--spark/--no-spark", default=False, help="Pack Spark and its jars too, some 500 MB.")
@click.option(
    "platforms",
    "--platform",
    type=click.Choice(_PLATFORMS),
    metavar="MACHINE",
    multiple=True,
    help=f"Machine to pack for: {', '.join(_PLATFORMS)}; repeatable.  [default: this one]",
)
@click.option(
    "pythons",
    "--python",
    metavar="3.N",
    multiple=True,
    help="Version of Python to pack for; repeatable.  [default: this one]",
)
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
