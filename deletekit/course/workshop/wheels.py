"""Collect the wheels of a bundle: deletekit's own, and those of all that it needs, for each target.

Packages and versions are chosen here; pip only fetches and builds. A package gets the version that is installed here,
because that one was tested. A wheel that is in the folder is not fetched
again, so targets share wheels.
"""

import base64
import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deletekit.course.workshop.target import Target
from deletekit.errors import EnvironmentMissingError

_CHECKOUT = Path(__file__).parents[3]
_SOURCE_ONLY = ("pyspark",)
"""Pure Python packages that are released as source only. One wheel, built here, is for every platform."""


def own_wheel(folder: Path) -> Path:
    """Write deletekit as a wheel: built from the checkout that is imported, or packed from the installed files."""
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "notebooks").is_dir():
        # If the build backend is installed, pip need not fetch it.
        isolation = [] if importlib.util.find_spec("hatchling") is None else ["--no-build-isolation"]
        _pip("wheel", "--no-deps", *isolation, "--wheel-dir", str(folder), str(_CHECKOUT))
        (wheel,) = folder.glob("deletekit-*.whl")
        return wheel
    return _packed(distribution("deletekit"), folder)


def _packed(installed: Distribution, folder: Path) -> Path:
    """Write a wheel of an installed package: without the files that pip added, with a new RECORD.

    pip puts data of the wheel into `share` and `etc` of the environment; programs beside them are its own.
    """
    own = f"{installed.name}-{installed.version}.dist-info"
    made_by_pip = {f"{own}/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")}
    wheel = folder / f"{installed.name}-{installed.version}-py3-none-any.whl"
    data = f"{installed.name}-{installed.version}.data/data"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(installed.files or (), key=str):
            name = file.as_posix()
            if name.startswith(".."):
                name = f"{data}/{name.lstrip('./')}"
                if not name.startswith((f"{data}/share/", f"{data}/etc/")):
                    continue
            if name in made_by_pip or name.endswith(".pyc"):
                continue
            content = Path(str(file.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
            archive.writestr(name, content)
        archive.writestr(f"{own}/RECORD", "".join([*record, f"{own}/RECORD,,\n"]))
    return wheel


def collect_wheels(folder: Path, target: Target, extras: Sequence[str]) -> None:
    """Fetch what deletekit, whose wheel is in the folder, needs on a target.

    Raises EnvironmentMissingError with pip's message if pip finds no wheel.
    """
    (own,) = folder.glob("deletekit-*.whl")
    roots = map(str, target.wanted(metadata_of(own), extras))
    versions = dependency_versions(roots, target, lambda requirement: _look_up(requirement, target, folder))
    pins = {name: f"{name}=={version}" for name, version in versions.items()}
    for name in _SOURCE_ONLY:
        if name in pins and not any(folder.glob(f"{name}-{versions[name]}-*.whl")):
            _pip("wheel", "--no-deps", "--wheel-dir", str(folder), pins[name])
    wheels = [pin for name, pin in pins.items() if name not in _SOURCE_ONLY]
    _pip("download", "--no-deps", "--dest", str(folder), *target.pip_options, *wheels)


def dependency_versions(
    roots: Iterable[str], target: Target, look_up: Callable[[Requirement], Distribution] | None = None
) -> dict[str, str]:
    """Return the versions of all dependencies by canonical name.

    Parameters
    ----------
    roots: requirements, such as `jupyterlab>=4.6`.
    look_up: returns the metadata of a package that is not installed here; None raises PackageNotFoundError for it.
    """
    extras: dict[str, set[str]] = {}
    found: dict[str, Distribution] = {}
    waiting = [Requirement(root) for root in roots]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        wanted_extras = {"", *requirement.extras}
        if not target.wants(requirement.marker, ()) or wanted_extras <= extras.get(name, set()):
            continue
        extras.setdefault(name, set()).update(wanted_extras)
        if name not in found:
            found[name] = _metadata(requirement, look_up)
        waiting += target.wanted(found[name], extras[name])
    return {name: found[name].version for name in sorted(found)}


def _metadata(requirement: Requirement, look_up: Callable[[Requirement], Distribution] | None) -> Distribution:
    try:
        return distribution(requirement.name)
    except PackageNotFoundError:
        if look_up is None:
            raise
        return look_up(requirement)


def _look_up(requirement: Requirement, target: Target, folder: Path) -> Distribution:
    """Fetch the newest wheel of a package for the target, and return its metadata."""
    text = f"{requirement.name}{requirement.specifier}"
    before = set(folder.glob("*.whl"))
    _pip("download", "--no-deps", "--dest", str(folder), *target.pip_options, text)
    new = set(folder.glob("*.whl")) - before
    start = requirement.name.lower().replace("-", "_")
    (wheel,) = new or {file for file in before if file.name.lower().startswith(f"{start}-")}
    return metadata_of(wheel)


def metadata_of(wheel: Path) -> Distribution:
    """Return the metadata in a wheel."""
    name, version, *_ = wheel.name.split("-")
    return PathDistribution(zipfile.Path(wheel, f"{name}-{version}.dist-info/"))


def _pip(*arguments: str) -> None:
    if importlib.util.find_spec("pip") is None:
        raise EnvironmentMissingError(f"pip is not installed in this Python: {sys.executable} -m ensurepip", kind="pip")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise EnvironmentMissingError(
            f"pip {arguments[0]} failed", kind="pip", found=" ".join(said)[-1000:], expected="a network, and a wheel"
        )
