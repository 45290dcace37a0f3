"""Packages, as the doctor finds them; and what it reads of pyproject.toml without the library for it."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from deletekit.course.diagnosis import Environment, base_works
from deletekit.course.diagnosis.environment import canonical, declared, installed, parse, satisfies
from deletekit.course.diagnosis.packages import base_packages, extras, pyspark
from tests.cli.conftest import ROOT
from tests.cli.machines import only, write


def test_every_base_package_is_named(here: Environment) -> None:
    checks = list(base_packages(replace(here, packages={"pip": "1"})))
    assert {c.status for c in checks} == {"missing"}
    assert not base_works(checks)
    assert "pyarrow" in {c.name for c in checks}
    assert all(c.fix.startswith(f"{here.executable} -m pip install ") for c in checks)


def test_old_and_new_packages(here: Environment) -> None:
    packages = {**here.packages, "pyarrow": "17.0.0", "pyiceberg": "0.13.0"}
    lacking = {c.name: c for c in base_packages(replace(here, packages=packages)) if c.status != "ok"}
    assert set(lacking) == {"pyarrow", "pyiceberg"}
    assert lacking["pyarrow"].found.startswith("pyarrow 17.0.0, not >=18.1")
    assert lacking["pyiceberg"].found.startswith("pyiceberg 0.13.0, not ")


def test_what_an_extra_of_a_package_brings(here: Environment) -> None:
    packages = {k: v for k, v in here.packages.items() if k != "pyiceberg-core"}
    (lacking,) = (c for c in base_packages(replace(here, packages=packages)) if c.status != "ok")
    assert (lacking.name, lacking.found) == ("pyiceberg", "no pyiceberg-core")
    assert "pyiceberg[" in lacking.fix


def test_an_environment_of_uv_has_no_pip(here: Environment) -> None:
    packages = {k: v for k, v in here.packages.items() if k not in ("pip", "pyarrow")}
    (lacking,) = (c for c in base_packages(replace(here, packages=packages)) if c.status != "ok")
    assert lacking.fix.startswith(f"uv pip install --python {here.executable} 'pyarrow>=")
    windows = replace(here, packages=packages, platform="win32", executable=r"C:\My Python\python.exe")
    (lacking,) = (c for c in base_packages(windows) if c.status != "ok")
    assert '"C:\\My Python\\python.exe" pyarrow>=' in lacking.fix


def test_pyspark(here: Environment, tmp_path: Path) -> None:
    place = replace(here, packages={**here.packages, "pyspark": "4.1.4", "pandas": "3.0"}, variables={})
    assert only(pyspark, place).found == "4.1.4"
    for packages, found in (
        ({"pandas": "3.0"}, "no pyspark"),
        ({"pyspark": "4.1.4"}, "no pandas"),
        ({"pyspark": "3.4.4", "pandas": "3.0"}, "pyspark 3.4.4, not >=3.5,<4.2"),
        ({"pyspark": "4.10.0", "pandas": "3.0"}, "pyspark 4.10.0, not >=3.5,<4.2"),
    ):
        check = only(pyspark, replace(place, packages={"py4j": "0.10.9.9", **packages}))
        assert (check.status, check.part, check.found) == ("missing", "spark", found)
        assert "'pyspark>=3.5,<4.2'" in check.fix
    home = tmp_path / "spark-3.5"
    check = only(pyspark, replace(place, variables={"SPARK_HOME": str(home)}))
    assert (check.status, check.fix) == ("missing", "unset SPARK_HOME")
    write(home / "jars" / "spark-core_2.13-4.1.4.jar", "")
    assert only(pyspark, replace(place, variables={"SPARK_HOME": str(home)})).status == "ok"


def test_extras(here: Environment) -> None:
    course = [r.name for r in here.requirements["course"]]
    everything = {r.name: "9999.0" for part in here.requirements.values() for r in part}
    checks = {c.part: c for c in extras(replace(here, packages=everything))}
    assert {c.status for c in checks.values()} == {"ok"}
    assert checks["course"].found == ", ".join(f"{name} 9999.0" for name in course)
    del everything[course[0]]
    lacking = next(c for c in extras(replace(here, packages=everything)) if c.part == "course")
    assert (lacking.status, lacking.found) == ("missing", f"no {course[0]}")
    assert lacking.meaning.startswith("The notebooks need it.")


def test_where_no_requirements_can_be_found(here: Environment) -> None:
    check = only(base_packages, replace(here, requirements={}))
    assert check.status == "warning"
    assert list(extras(replace(here, requirements={}))) == []


def test_requirements_of_an_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = (
        "Metadata-Version: 2.4\nName: deletekit\nVersion: 9.9\n"
        "Requires-Dist: pyarrow>=26.0\n"
        "Requires-Dist: backports-zstd>=1.0; python_version < '3.14'\n"
        "Requires-Dist: tomli>=1; python_version < '3.8'\n"
        "Requires-Dist: pyspark[sql]==4.1.*; extra == 'spark'\n"
        "Requires-Dist: deletekit[spark]; extra == 'dev'\n"
    )
    write(tmp_path / "deletekit-9.9.dist-info" / "METADATA", metadata)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = declared(checkout=tmp_path)
    names = {part: [(r.name, r.bounds) for r in group] for part, group in found.items()}
    zstd = [("backports-zstd", ">=1.0")] if sys.version_info < (3, 14) else []
    assert names == {"base": [("pyarrow", ">=26.0"), *zstd], "spark": [("pyspark", "==4.1.*")], "dev": []}


def test_installed_packages(tmp_path: Path) -> None:
    for folder, version in (("first", "1.0"), ("second", "2.0")):
        write(
            tmp_path / folder / f"My_Package-{version}.dist-info" / "METADATA",
            f"Name: My_Package\nVersion: {version}\n",
        )
    write(tmp_path / "first" / "gone-1.0.dist-info" / "RECORD", "")
    assert installed([str(tmp_path / "first"), str(tmp_path / "second")]) == {"my-package": "1.0"}
    assert installed([]) == {}


# --- pyproject.toml ---------------------------------------------------------------------------------------------------

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GROUPS = {"base": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
LINES = [line for lines in GROUPS.values() for line in lines]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_pyproject(line: str) -> None:
    theirs, ours = Requirement(line), parse(line)
    if ours is None:
        assert theirs.name == "deletekit" or (theirs.marker and not theirs.marker.evaluate())
        return
    assert canonical(ours.name) == canonicalize_name(theirs.name)
    assert Requirement(ours.text).specifier == theirs.specifier
    limits = [Version(s.version.removesuffix(".*")) for s in theirs.specifier] or [Version("1.0")]
    for limit in limits:
        major, minor = limit.major, limit.minor
        for version in (f"{major}.{minor}", f"{major}.{minor}.0", f"{major}.{minor}.7", f"{major}.{minor + 1}",
                        f"{major + 1}.0", f"{major}.{max(minor - 1, 0)}", f"{major}.{minor}0.1", "0.0.1"):  # fmt: skip
            assert satisfies(version, ours.bounds) == theirs.specifier.contains(version), (version, line)


def test_every_group_is_read() -> None:
    found = declared(ROOT)
    assert set(found) == set(GROUPS)
    assert [r.text for r in found["course"]] == GROUPS["course"]


def test_other_pythons() -> None:
    line = "backports.zstd>=1.0; python_version < '3.14'"
    assert parse(line, (3, 14)) is None
    assert parse(line, (3, 13)) is not None


def test_versions_with_more_than_numbers() -> None:
    assert satisfies("26.0.1+cu12", ">=26.0")
    assert satisfies("27.0rc1", ">=26.0")
    assert not satisfies("unknown", ">=1")
    assert satisfies("unknown", "")
