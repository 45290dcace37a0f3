"""Make a workshop's bundle: one folder with wheels, jars, lessons, sample tables, pages and an installer.

The folder is complete or does not exist.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deletekit.course import datasets
from deletekit.course.lab import copy_unrun, lessons_folder
from deletekit.course.translations import LANGUAGES
from deletekit.course.workshop.pages import start_here, write_instructor_pages, write_pages
from deletekit.course.workshop.target import Target
from deletekit.course.workshop.wheels import collect_wheels, own_wheel
from deletekit.errors import InvalidInputError
from deletekit.spark import fetch_jars
from deletekit.version import __version__

_INSTALLER = Path(__file__).with_name("install.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle that was made.

    Attributes
    ----------
    wheels, jars: how many.
    lessons: how many, in each language.
    size: in bytes.
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
    folder: must be empty or not exist.
    targets: the machines that the bundle is for; none means this machine.
    spark: include Spark's packages and jars, some 500 MB. Java is never included.
    report: gets a line of text before each step.

    Packages have the versions that are installed here. Raises InvalidInputError if the folder is not empty, and
    EnvironmentMissingError if pip finds no wheel or Spark's jars cannot be fetched.
    """
    final = Path(folder).absolute()
    if final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise InvalidInputError("a bundle needs a folder that is new or empty", "workshop", "folder", str(final))
    wanted = tuple(sorted(set(targets))) or (Target.here(),)
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{final.name}-", dir=final.parent) as temporary:
        work = Path(temporary, "bundle")
        work.mkdir()
        lessons = _fill(work, wanted, spark, report)
        _write_checksums(work)
        if final.exists():
            final.rmdir()
        work.rename(final)
    return Bundle(
        folder=final,
        targets=wanted,
        wheels=len(list((final / "wheels").iterdir())),
        jars=len(list(final.glob("jars/*"))),
        lessons=lessons,
        size=sum(file.stat().st_size for file in final.rglob("*") if file.is_file()),
    )


def _fill(work: Path, targets: Sequence[Target], spark: bool, report: Callable[[str], None]) -> int:
    """Write everything but the checksums into `work`. Return the number of lessons."""
    extras = ("course", "spark") if spark else ("course",)
    report("The wheel of deletekit")
    (work / "wheels").mkdir()
    own_wheel(work / "wheels")
    for target in targets:
        report(f"Wheels for {target.platform}, Python {target.python}")
        collect_wheels(work / "wheels", target, extras)
    if spark:
        report("Spark's jars")
        fetch_jars(work / "jars")
    report("The lessons, and their pages")
    for language in LANGUAGES:
        lessons, copies = lessons_folder(language), work / "notebooks" / language
        shutil.copytree(lessons, copies, ignore=_not_lessons, copy_function=copy_unrun)
    (work / "data").mkdir()
    for name in ("animals", "flights", "users"):
        shutil.copy(datasets.path(name), work / "data")
    titles = write_pages(work / "html")
    write_instructor_pages(work / "html" / "instructor")
    (work / "START_HERE.html").write_text(start_here(targets, titles, spark=spark), encoding="utf-8")
    shutil.copy(_INSTALLER, work / "install.py")
    machines = [[target.platform, target.python] for target in targets]
    described = {"deletekit": __version__, "extras": extras, "targets": machines}
    (work / "bundle.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    return len(titles["en"])


def _not_lessons(_: str, names: Sequence[str]) -> set[str]:
    return {name for name in names if not name.endswith(".ipynb")}


def _write_checksums(work: Path) -> None:
    """Write the SHA-256 of every file, as `sha256sum --check` reads them."""
    lines = []
    for file in sorted(file for file in work.rglob("*") if file.is_file()):
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        lines.append(f"{digest}  {file.relative_to(work).as_posix()}\n")
    (work / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
