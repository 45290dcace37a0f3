"""What an installation of some requirements consists of on a target, each package with the version to install.

Law: every requirement of every package is followed. A package has the version that is installed here, which is the one
that was tried; one that only other platforms have is asked of `look_up`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deletekit.course.workshop.target import Target

__all__ = ["dependency_versions"]


def dependency_versions(
    roots: Iterable[str], target: Target, look_up: Callable[[Requirement], Distribution] | None = None
) -> dict[str, str]:
    """Versions by canonical name.

    Parameters
    ----------
    roots: requirements, such as `jupyterlab>=4.6`.
    look_up: the metadata of a package that is not installed here. Without it, raises PackageNotFoundError for one.
    """
    extras: dict[str, set[str]] = {}
    found: dict[str, Distribution] = {}
    waiting = [Requirement(root) for root in roots]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        asked = {"", *requirement.extras}
        if not target.wants(requirement.marker, ()) or asked <= extras.get(name, set()):
            continue
        extras.setdefault(name, set()).update(asked)
        if name not in found:
            found[name] = _metadata(requirement, look_up)
        for line in found[name].requires or ():
            below = Requirement(line)
            if target.wants(below.marker, extras[name]):
                below.marker = None
                waiting.append(below)
    return {name: found[name].version for name in sorted(found)}


def _metadata(requirement: Requirement, look_up: Callable[[Requirement], Distribution] | None) -> Distribution:
    try:
        return distribution(requirement.name)
    except PackageNotFoundError:
        if look_up is None:
            raise
        return look_up(requirement)
