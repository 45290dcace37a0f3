"""A target knows which wheels and which requirements are its own."""

import platform
import sys
from importlib.metadata import Distribution, PackageNotFoundError

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement

from deletekit.cli.course import workshop_bundle
from deletekit.course.workshop import PLATFORMS, Target
from deletekit.course.workshop.wheels import dependency_versions

WINDOWS = Target("windows-x86_64", "3.12")


def test_this_machine_is_judged_as_pip_judges_it() -> None:
    here = Target.here()
    assert here.python == platform.python_version().rpartition(".")[0]
    assert here.platform.partition("-")[0] in (sys.platform, "macos", "windows")
    own = default_environment()
    for name in ("os_name", "sys_platform", "platform_system", "platform_machine", "python_version"):
        assert here.wants(Marker(f"{name} == '{own[name]}'"), ()), name  # type: ignore[literal-required]
        assert not here.wants(Marker(f"{name} == 'another'"), ())


def test_markers_are_those_of_the_target() -> None:
    assert WINDOWS.wants(Marker("os_name == 'nt' and python_version < '3.14'"), ())
    assert not WINDOWS.wants(Marker("sys_platform != 'win32'"), ())
    assert not WINDOWS.wants(Marker("extra == 'spark'"), ("course",))
    assert WINDOWS.wants(Marker("extra == 'spark'"), ("course", "spark"))
    assert WINDOWS.wants(None, ())


def test_the_command_knows_the_platforms() -> None:
    (option,) = (parameter for parameter in workshop_bundle.params if parameter.name == "platforms")
    assert tuple(option.type.choices) == PLATFORMS  # type: ignore[attr-defined]


def test_dependencies_follow_the_markers_of_the_target() -> None:
    asked = []

    def look_up(requirement: Requirement) -> Distribution:
        asked.append(requirement.name)
        return Distribution.from_name("six")  # stands for what only Windows has

    for_windows = dependency_versions(["jupyterlab"], WINDOWS, look_up)
    for_linux = dependency_versions(["jupyterlab"], Target("linux-x86_64", "3.12"))
    assert {"jupyter-server", "nbconvert", "tornado", "packaging"} <= set(for_windows) & set(for_linux)
    assert "pexpect" in for_linux
    assert "pexpect" not in for_windows
    assert "pywinpty" in asked
    assert set(asked) <= {"pywinpty", "colorama"}
    with pytest.raises(PackageNotFoundError):
        dependency_versions(["jupyterlab"], WINDOWS)


def test_a_target_is_above_every_release_of_its_python() -> None:
    assert "--python-version=3.11.99" in Target("linux-x86_64", "3.11").pip_options, "pip takes 3.11 for 3.11.0"
