"""Find all packages that some requirements need on a target, each with the version to install.

A package gets the version that is installed here, because that one was tested. `look_up` finds a package that only
other platforms have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deletekit.course.workshop.target import Target


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
