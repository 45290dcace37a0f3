"""Java and jars, as the doctor finds them on machines that lack one thing each."""

from __future__ import annotations

import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from deletekit.course.diagnosis import Check, Environment
from deletekit.course.diagnosis.spark import DELTA_JAR, IVY_FOLDER, jars, java
from deletekit.spark import JARS
from tests.cli.machines import only, script, write

# --- Java -------------------------------------------------------------------------------------------------------------


def java_script(file: Path, version: str, modules: str = "java.base@17 jdk.incubator.vector@17") -> Path:
    asked = f'if [ "$1" = --list-modules ]; then echo "{modules}"; exit; fi'
    return script(file, asked, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


def java_place(here: Environment, path: Path, **variables: str) -> Environment:
    # The scripts' shell is found by its path, so that PATH can be what the test says.
    return replace(here, variables={"PATH": str(path), **variables}, platform="linux", system="debian 12", is_root=True)


def test_the_real_java(here: Environment, java: str) -> None:
    from deletekit.course.diagnosis.spark import java as check_java  # noqa: PLC0415 - the fixture has its name

    assert only(check_java, here).status == "ok"


def test_no_java(here: Environment, tmp_path: Path) -> None:
    check = only(java, java_place(here, tmp_path))
    assert (check.status, check.part, check.found) == ("missing", "spark", "none on the PATH")
    assert "Without Spark every verb still reads and writes tables" in check.meaning
    assert check.fix == "apt-get install --yes openjdk-17-jre-headless"
    assert only(java, replace(java_place(here, tmp_path), variables={})).status == "missing"


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2", "25", "17-ea"])
def test_java_that_is_new_enough(here: Environment, tmp_path: Path, version: str) -> None:
    program = java_script(tmp_path / "java", version)
    check = only(java, java_place(here, tmp_path))
    assert (check.status, check.found) == ("ok", f"{version} ({program})")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16.0.1"])
def test_java_that_is_too_old(here: Environment, tmp_path: Path, version: str) -> None:
    program = java_script(tmp_path / "java", version)
    check = only(java, java_place(here, tmp_path))
    assert (check.status, check.found) == ("missing", f"{version.removeprefix('1.')} ({program})")
    assert "Java 17 or later" in check.meaning


def test_java_from_pip_lacks_a_module(here: Environment, tmp_path: Path) -> None:
    java_script(tmp_path / "java", "21.0.5", modules="java.base@21 java.sql@21")
    check = only(java, java_place(here, tmp_path))
    assert check.status == "missing"
    assert "jdk.incubator.vector" in check.meaning


def test_programs_that_are_no_java(here: Environment, tmp_path: Path) -> None:
    script(tmp_path / "java", "echo 'Unable to locate a Java Runtime.'; exit 1")
    assert "Unable to locate" in only(java, java_place(here, tmp_path)).found
    (tmp_path / "java").write_bytes(b"\x7fELF of another machine")
    assert only(java, java_place(here, tmp_path)).status == "missing"
    (tmp_path / "java").chmod(0o644)
    assert only(java, java_place(here, tmp_path)).found == "none on the PATH"


def test_java_home_comes_first(here: Environment, tmp_path: Path) -> None:
    java_script(tmp_path / "new" / "java", "17.0.1")
    old = java_script(tmp_path / "home" / "bin" / "java", "11.0.1")
    check = only(java, java_place(here, tmp_path / "new", JAVA_HOME=str(tmp_path / "home")))
    assert (check.status, check.found) == ("missing", f"11.0.1 ({old}, by JAVA_HOME)")
    assert check.fix == "unset JAVA_HOME"
    gone = only(java, java_place(here, tmp_path / "new", JAVA_HOME=str(tmp_path / "gone")))
    assert (gone.found, gone.fix) == (f"none at JAVA_HOME ({tmp_path / 'gone'})", "unset JAVA_HOME")
    neither = only(java, java_place(here, tmp_path, JAVA_HOME=str(tmp_path / "gone")))
    assert neither.fix == "apt-get install --yes openjdk-17-jre-headless"


@pytest.mark.parametrize(
    ("system", "platform", "is_root", "there", "fix"),
    [
        ("debian 12", "linux", False, "", "sudo apt-get install --yes openjdk-17-jre-headless"),
        ("debian 13", "linux", True, "", "apt-get install --yes openjdk-21-jre-headless"),
        ("ubuntu 22.04", "linux", True, "", "apt-get install --yes openjdk-17-jre-headless"),
        ("linuxmint 22", "linux", True, "apt-get", "apt-get install --yes openjdk-17-jre-headless"),
        ("fedora 42", "linux", False, "dnf", "sudo dnf install --assumeyes java-21-openjdk-headless"),
        ("alpine 3.20", "linux", True, "", "apk add openjdk17-jre-headless"),
        ("nixos", "linux", False, "", "conda install --yes -c conda-forge openjdk=17"),
        ("", "darwin", False, "", 'brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"'),
        ("", "win32", False, "", "winget install EclipseAdoptium.Temurin.17.JDK"),
    ],
)
def test_java_is_installed_by_what_the_system_has(
    here: Environment, tmp_path: Path, system: str, platform: str, is_root: bool, there: str, fix: str
) -> None:
    if there:
        script(tmp_path / there)
    place = replace(java_place(here, tmp_path), system=system, platform=platform, is_root=is_root)
    assert only(java, place).fix == fix


# --- jars -------------------------------------------------------------------------------------------------------------

ALL_JARS = (*JARS, DELTA_JAR)


def cached(home: Path, coordinate: str) -> Path:
    group, artifact, version = coordinate.split(":")
    return home / IVY_FOLDER / "cache" / group / artifact / "jars" / f"{artifact}-{version}.jar"


def local(home: Path, coordinate: str, ending: str) -> Path:
    group, artifact, version = coordinate.split(":")
    folder = home.joinpath(".m2", "repository", *group.split("."), artifact, version)
    return folder / f"{artifact}-{version}.{ending}"


def make_jar(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return file


@pytest.fixture
def house(here: Environment, tmp_path: Path) -> Environment:
    """Give a machine on which nothing was fetched."""
    return replace(here, user_home=tmp_path / "home", variables={}, temp=tmp_path, platform="linux")


def statuses(place: Environment) -> list[str]:
    return [check.status for check in jars(place)]


def run_fix(check: Check) -> None:
    subprocess.run(["sh", "-c", check.fix], check=True)


def test_jars_not_fetched_yet(house: Environment) -> None:
    checks = list(jars(house))
    assert [c.name for c in checks] == ["Iceberg jar", "SQLite jar", "Delta jar"]
    for check, coordinate in zip(checks, ALL_JARS, strict=True):
        assert (check.status, check.part) == ("warning", "spark")
        assert coordinate in check.fix
        assert "needs the network" in check.meaning
        compile(check.fix.partition(" -c ")[2].strip("'"), "fix", "exec")


def test_jars_in_the_ivy_cache_or_the_maven_repository(house: Environment) -> None:
    for coordinate in ALL_JARS:
        make_jar(cached(house.user_home, coordinate))
    checks = list(jars(house))
    assert [c.status for c in checks] == ["ok"] * 3
    assert checks[1].found == f"3.50.3.0 in {house.user_home / IVY_FOLDER}"
    cached(house.user_home, JARS[1]).unlink()
    make_jar(local(house.user_home, JARS[1], "jar"))
    assert list(jars(house))[1].found == f"3.50.3.0 in {house.user_home / '.m2'}"


def test_a_jar_cut_off_does_not_count(house: Environment) -> None:
    file = make_jar(cached(house.user_home, JARS[0]))
    file.write_bytes(file.read_bytes()[:-30])
    assert statuses(house) == ["warning"] * 3


def test_a_pom_without_its_jar_is_in_the_way_until_the_fix(house: Environment) -> None:
    pom = local(house.user_home, JARS[1], "pom")
    write(pom, "<project/>")
    check = list(jars(house))[1]
    assert (check.status, check.found) == ("missing", f"a POM without its jar in {pom.parent}")
    run_fix(check)
    assert statuses(house) == ["warning"] * 3


def test_ivy_remembers_a_pom_that_is_gone(house: Environment) -> None:
    # What Spark 4.1's Ivy wrote when it met such a POM; deleting the POM alone leaves Spark failing.
    pom = local(house.user_home, JARS[1], "pom")
    write(pom, "<project/>")
    memory_file = cached(house.user_home, JARS[1]).parents[1] / "ivydata-3.50.3.0.properties"
    write(memory_file, "#ivy cached data file\nresolver=local-m2-cache\nartifact.resolver=local-m2-cache\n")
    pom.unlink()
    check = list(jars(house))[1]
    assert check.status == "missing"
    run_fix(check)
    assert not memory_file.exists()
    assert statuses(house) == ["warning"] * 3


def test_a_pom_does_no_harm_beside_a_jar_in_the_cache(house: Environment) -> None:
    write(local(house.user_home, JARS[1], "pom"), "<project/>")
    make_jar(cached(house.user_home, JARS[1]))
    assert list(jars(house))[1].status == "ok"


def test_delta_s_jar_is_missed_by_few(house: Environment) -> None:
    write(local(house.user_home, DELTA_JAR, "pom"), "<project/>")
    delta = list(jars(house))[2]
    assert delta.status == "warning"
    assert "sync_delta" in delta.meaning


def test_a_folder_of_jars(house: Environment, tmp_path: Path) -> None:
    folder = tmp_path / "my jars"
    folder.mkdir()
    place = replace(house, variables={"DELETEKIT_JARS": str(folder)})
    assert statuses(place) == ["missing", "missing", "warning"]
    assert next(jars(place)).fix == "unset DELETEKIT_JARS"
    for coordinate in ALL_JARS:
        make_jar(cached(house.user_home, coordinate))
    for check in jars(place):
        run_fix(check)
    checks = list(jars(place))
    assert [c.status for c in checks] == ["ok"] * 3
    assert checks[0].found == f"1.12.0 in {folder}"
