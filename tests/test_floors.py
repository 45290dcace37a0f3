"""The oldest releases that deletekit runs with are those that pyproject.toml promises."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]


def test_every_lower_bound_is_what_the_floors_are_run_with() -> None:
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    run_with = {canonicalize_name(pin.name): Version(next(iter(pin.specifier)).version) for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = {
        canonicalize_name(needed.name): Version(bound.version)
        for needed in map(Requirement, project["dependencies"])
        for bound in needed.specifier
        if bound.operator == ">="
    }
    assert run_with == promised
