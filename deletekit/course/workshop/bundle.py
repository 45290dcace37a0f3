"""A workshop's bundle: wheels, jars, lessons, sample tables, pages, and what installs them, in one folder.

Law: the folder is there whole, or not at all.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deletekit import datasets
from deletekit.course.lessons import LANGUAGES, lessons_folder
from deletekit.course.workshop.pages import write_pages
from deletekit.course.workshop.start_here import start_here
from deletekit.course.workshop.target import Target
from deletekit.course.workshop.wheels import collect_wheels, own_wheel
from deletekit.errors import InvalidInputError
from deletekit.spark import fetch_jars
from deletekit.version import __version__

__all__ = ["Bundle", "make_bundle"]

_INSTALLER = Path(__file__).with_name("install.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What was made.

    Attributes
    ----------
    wheels, jars, lessons: how many there are; `lessons` in each language.
    size: bytes.
    """

    folder: Path
    targets: tuple[Target, ...]
    wheels: int
    jars: int
    lessons: int
    size: int


def make_bundle(
    folder: str | Path,
    *,
    targets: Sequence[Target] = (),
    spark: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> Bundle:
    """Make a folder from which the course is installed and taken without a network.

    Parameters
    ----------
    folder: must not exist, or be empty.
    targets: the machines it is for; this one, unless others are named.
    spark: with Spark's packages and jars, some 500 MB more. Java is never in it.
    report: is told what is done next.

    Packages have the versions that are installed here. Raises InvalidInputError for a folder in which something is, and
    EnvironmentMissingError where pip finds no wheel or Spark's jars cannot be fetched.
    """
    place = Path(folder).absolute()
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise InvalidInputError(
            "a bundle needs a folder that is new or empty", kind="workshop", field="folder", found=str(place)
        )
    wanted = tuple(sorted(set(targets))) or (Target.here(),)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as temporary:
        work = Path(temporary, "bundle")
        work.mkdir()
        lessons = _fill(work, wanted, spark, report)
        _sums(work)
        if place.exists():
            place.rmdir()
        work.rename(place)
    return Bundle(
        folder=place,
        targets=wanted,
        wheels=len(list((place / "wheels").iterdir())),
        jars=len(list(place.glob("jars/*"))),
        lessons=lessons,
        size=sum(file.stat().st_size for file in place.rglob("*") if file.is_file()),
    )


def _fill(work: Path, targets: Sequence[Target], spark: bool, report: Callable[[str], None]) -> int:
    extras = ("course", "spark") if spark else ("course",)
    report("The wheel of deletekit")
    (work / "wheels").mkdir()
    own_wheel(work / "wheels")
    first_releases = {}
    for target in targets:
        report(f"Wheels for {target.platform}, Python {target.python}")
        first_releases[target] = collect_wheels(work / "wheels", target, extras)
    if spark:
        report("Spark's jars")
        fetch_jars(work / "jars")
    report("The lessons, and their pages")
    for language in LANGUAGES:
        shutil.copytree(
            lessons_folder(language), work / "notebooks" / language, ignore=lambda _, names: _not_lessons(names)
        )
    (work / "data").mkdir()
    for name in ("animals", "flights", "users"):
        shutil.copy(datasets.path(name), work / "data")
    titles = write_pages(work / "html")
    (work / "START_HERE.html").write_text(start_here(first_releases, titles, spark=spark), encoding="utf-8")
    shutil.copy(_INSTALLER, work / "install.py")
    machines = [[target.platform, target.python, first] for target, first in first_releases.items()]
    described = {"deletekit": __version__, "extras": extras, "targets": machines}
    (work / "bundle.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    return len(titles["en"])


def _not_lessons(names: Sequence[str]) -> set[str]:
    return {name for name in names if not name.endswith(".ipynb")}


def _sums(work: Path) -> None:
    """Write the SHA-256 of every file, as `sha256sum --check` reads them."""
    lines = []
    for file in sorted(file for file in work.rglob("*") if file.is_file()):
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        lines.append(f"{digest}  {file.relative_to(work).as_posix()}\n")
    (work / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
