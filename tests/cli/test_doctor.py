"""The doctor, on this machine and on machines that lack one thing each."""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from rich.cells import cell_len

from deletekit.course import diagnosis
from deletekit.course.diagnosis import DELTA_JAR, IVY_FOLDER, Check, base_works, diagnose, satisfies
from deletekit.rows.available_memory import available_memory
from deletekit.spark import JARS
from tests.cli.conftest import ROOT, Run, RunProgram
from tests.cli.test_hostile import assert_harmless


def named(name: str) -> Check:
    """Run the checks, and return one of them; what is not well has a meaning and a fix."""
    wanted = (c for c in diagnosis.CHECKS if c is not diagnosis._base_in_use or name == "small table")
    checks = [check for checks in wanted for check in checks()]
    assert all(bool(check.meaning and check.fix) == (check.status != "ok") for check in checks)
    return next(check for check in checks if check.name == name)


def script(file: Path, *lines: str) -> Path:
    """Make a program."""
    write(file, "\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)
    return file


def write(file: Path, text: str) -> None:
    """Make a file and the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


# --- all together -----------------------------------------------------------------------------------------------------


def test_the_base_works_where_its_tests_run(java: str) -> None:
    checks = diagnose()
    assert [c for c in checks if c.part == "base" and c.status == "missing"] == []
    assert base_works(checks)
    names = [c.name for c in checks if c.part == "base"]
    assert names[0] == "Python"
    assert {"pyarrow", "small table", "temporary files", "disk space", "text encoding", "rich"} <= set(names)
    spark = ["Java", "memory", "pyspark", "Iceberg jar", "SQLite jar", "Delta jar"]
    assert [c.name for c in checks if c.part == "spark"] == spark
    assert next(c for c in checks if c.name == "Java").status == "ok"
    assert [c.part for c in checks][-3:] == ["course", "test", "peers"]


def test_json(program: RunProgram) -> None:
    done = program("doctor", "--json", AWS_SECRET_ACCESS_KEY="hunter2")  # noqa: S106
    assert (done.returncode, done.stderr) == (0, "")
    assert "hunter2" not in done.stdout
    document = json.loads(done.stdout)
    assert document["base_works"] is True
    for check in document["checks"]:
        assert set(check) == {"part", "name", "status", "found", "meaning", "fix"}


def test_text_without_java(program: RunProgram, tmp_path: Path) -> None:
    script(tmp_path / "apt-get")
    done = program("doctor", PATH=str(tmp_path), JAVA_HOME="", PYTHONIOENCODING="ascii", COLUMNS="80")
    assert done.returncode == 0
    for title in ("Reading and writing tables", "Spark", "Notebooks", "Development"):
        assert f"\n\n{title}\n" in done.stdout
    assert f"  ok       Python           {'.'.join(map(str, sys.version_info[:3]))}" in done.stdout
    assert "  missing  Java             Spark needs Java 17 or later" in done.stdout
    assert "apt-get install --yes openjdk-" in done.stdout
    assert "  warning  text encoding    ascii\n" in done.stdout
    assert "\n\nReading and writing tables works. Not yet: Spark" in done.stdout
    # Commands are left to the terminal to fold, so that they can be copied.
    commands = ("pip install", " -c ", "uv pip", "rm -r", "apt-get")
    lines = [line for line in done.stdout.splitlines() if not any(c in line for c in commands)]
    assert [line for line in lines if cell_len(line) > 80] == []


@pytest.mark.slow
def test_a_broken_package_for_real(program: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "pyroaring.py").write_text("raise ImportError('libroaring.so: \\x1b[31mno such file')\n")
    done = program("doctor", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert done.returncode == 1
    assert "missing  small table" in done.stdout
    assert "ImportError: libroaring.so: \\x1b[31mno such file" in " ".join(done.stdout.split())
    assert "deletekit does not work here yet." in done.stdout
    assert_harmless(done.stdout)


def test_hostile_variables(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/\x1b[31m[red]java")
    monkeypatch.setenv("SPARK_HOME", "/\x1b]0;x\x07")
    for form in ([], ["--json"]):
        result = run("doctor", *form)
        assert result.exit_code == 0
        assert_harmless(result.output)


# --- machine ----------------------------------------------------------------------------------------------------------


def test_no_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    check = named("temporary files")
    assert (check.status, check.part) == ("missing", "base")
    assert named("small table").status == "missing"
    code = "import tempfile; print(tempfile.gettempdir())"
    command = ["sh", "-c", f'{check.fix} && "{sys.executable}" -c "{code}"']
    done = subprocess.run(command, env={**os.environ, "HOME": str(tmp_path)}, stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode().strip() == str(tmp_path / "tmp")


def test_little_disk_space_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=300 << 20))
    monkeypatch.setattr(diagnosis, "available_memory", lambda: 600 << 20)
    assert (named("disk space").status, named("disk space").found[:11]) == ("warning", "0.3 GB free")
    assert (named("memory").status, named("memory").found) == ("warning", "0.6 GB available; Spark wants 1 GB")


def test_memory_is_the_container_s(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    write(tmp_path / "proc/meminfo", "MemTotal:  24000000 kB\nMemAvailable:   8388608 kB\n")
    assert available_memory(tmp_path) == 8 << 30
    write(tmp_path / "sys/fs/cgroup/memory.max", "max\n")
    assert available_memory(tmp_path) == 8 << 30
    write(tmp_path / "sys/fs/cgroup/memory.max", f"{1 << 30}\n")
    write(tmp_path / "sys/fs/cgroup/memory.current", f"{256 << 20}\n")
    assert available_memory(tmp_path) == 768 << 20
    write(tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{512 << 20}\n")
    write(tmp_path / "sys/fs/cgroup/memory/memory.usage_in_bytes", f"{600 << 20}\n")
    assert available_memory(tmp_path) == 0
    (tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes").unlink()
    write(tmp_path / "proc/self/limits", f"Max address space         {3 << 29}           unlimited            bytes\n")
    write(tmp_path / "proc/self/status", "VmPeak:  2000000 kB\nVmSize:  1048576 kB\n")
    assert available_memory(tmp_path) == 512 << 20


# --- packages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "have", "found", "fix"),
    [
        ("pyarrow", "17.0.0", "pyarrow 17.0.0, not ", "pyarrow>="),
        ("pyspark", "4.10.0", "pyspark 4.10.0, not ", "pyspark"),
        ("pandas", "", "no pandas", "pandas"),
        ("jupyterlab", "", "no jupyterlab", "jupyterlab"),
    ],
)
def test_a_package_that_is_old_or_missing(
    monkeypatch: pytest.MonkeyPatch, package: str, have: str, found: str, fix: str
) -> None:
    real = diagnosis._version
    monkeypatch.setattr(diagnosis, "_version", lambda name: have if name == package else real(name))
    for has_pip, command in ((True, f"{sys.executable} -m pip install"), (False, "uv pip install --python")):
        monkeypatch.setattr(diagnosis, "find_spec", lambda _, there=has_pip: there or None)
        check = next(check for check in diagnose() if found in check.found)
        assert check.status == "missing"
        assert check.fix.startswith(command)
        assert fix in check.fix


def test_another_spark_of_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert (named("pyspark").status, named("pyspark").fix) == ("missing", "unset SPARK_HOME")
    write(tmp_path / "jars" / f"spark-core_2.13-{diagnosis._version('pyspark')}.jar", "")
    assert named("pyspark").status == "ok"


def test_the_requirements_of_pyproject_are_read_as_packaging_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"base": project["dependencies"], **project["optional-dependencies"]}
    lines = [
        (part, f"{line} and extra == '{part}'" if ";" in line else f"{line}; extra == '{part}'")
        for part, group in groups.items()
        for line in group
    ]
    monkeypatch.setattr(diagnosis, "requires", lambda _: [line for part, line in lines])
    for part in groups:
        theirs = [Requirement(line) for own, line in lines if own == part]
        held = [r for r in theirs if r.name != "deletekit" and r.marker and r.marker.evaluate({"extra": part})]
        ours = diagnosis._requirements(part)
        assert [name for name, _, _ in ours] == [r.name for r in held]
        for (_, bounds, _), wanted in zip(ours, held, strict=True):
            for limit in [Version(s.version.removesuffix(".*")) for s in wanted.specifier]:
                major, minor = limit.major, limit.minor
                for have in (
                    f"{major}.{minor}",
                    f"{major}.{minor}.7",
                    f"{major}.{minor + 1}",
                    f"{major + 1}.0",
                    "0.0.1",
                ):
                    assert satisfies(have, bounds) == wanted.specifier.contains(have), (have, wanted)


def test_versions_with_more_than_numbers() -> None:
    assert satisfies("26.0.1+cu12", ">=26.0")
    assert satisfies("27.0rc1", ">=26")
    assert not satisfies("unknown", ">=1")


# --- Java and jars ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], "no version"),
        (["echo 'Unable to locate a Java Runtime.' >&2; exit 1"], "Unable to locate"),
        (["echo 'openjdk version \"1.8.0_392\"' >&2"], "Java 8"),
        (["echo 'openjdk version \"16.0.1\"' >&2"], "Java 16"),
        (["echo 'openjdk version \"21.0.5\"' >&2", "echo java.base@21"], "lacks the module jdk.incubator.vector"),
        (["echo 'openjdk version \"17-ea\"' >&2", "echo jdk.incubator.vector@17"], "can run Spark"),
    ],
)
def test_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: list[str], found: str) -> None:
    script(tmp_path / "bin" / "java", *lines)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check = named("Java")
    assert (check.status == "ok") == (found == "can run Spark")
    assert found in check.found
    assert check.fix in ("", "unset JAVA_HOME")


def test_a_program_that_is_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (script(tmp_path / "bin" / "java")).write_bytes(b"\x7fELF of another machine")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert named("Java").status == "missing"


ALL_JARS = (*JARS, DELTA_JAR)
NAMES = ("Iceberg jar", "SQLite jar", "Delta jar")


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give the home of a user who has fetched nothing."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("DELETEKIT_JARS", raising=False)
    return tmp_path


def in_ivy(home: Path, coordinate: str) -> Path:
    group, artifact, version = coordinate.split(":")
    return home / IVY_FOLDER / "cache" / group / artifact / "jars" / f"{artifact}-{version}.jar"


def in_maven(home: Path, coordinate: str, ending: str) -> Path:
    group, artifact, version = coordinate.split(":")
    folder = home.joinpath(".m2", "repository", *group.split("."), artifact, version)
    return folder / f"{artifact}-{version}.{ending}"


def make_jar(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return file


def statuses() -> list[str]:
    return [check.status for check in diagnosis._jars()]


def test_jars_not_fetched_yet(house: Path) -> None:
    make_jar(in_ivy(house, JARS[0])).write_bytes(b"PK cut off")
    for name, coordinate in zip(NAMES, ALL_JARS, strict=True):
        check = named(name)
        assert (check.status, check.part) == ("warning", "spark")
        assert coordinate in check.fix
        code = subprocess.check_output(["sh", "-c", check.fix.replace(sys.executable, "printf %s", 1)], text=True)
        compile(code.removeprefix("-c"), "fix", "exec")


def test_jars_in_the_ivy_cache_the_maven_repository_or_a_folder(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for coordinate, file in zip(ALL_JARS, (in_ivy, in_ivy, in_ivy), strict=True):
        make_jar(file(house, coordinate))
    write(in_maven(house, JARS[0], "pom"), "<project/>")  # does no harm beside a jar in the cache
    assert statuses() == ["ok"] * 3
    in_ivy(house, JARS[1]).rename(in_maven(house, JARS[0], "pom").parent / "gone")
    make_jar(in_maven(house, JARS[1], "jar"))
    assert statuses() == ["ok"] * 3
    monkeypatch.setenv("DELETEKIT_JARS", str(house))
    assert statuses() == ["missing", "missing", "warning"]
    assert named(NAMES[0]).fix == "unset DELETEKIT_JARS"
    for coordinate in ALL_JARS:
        make_jar(house / in_ivy(house, coordinate).name)
    assert statuses() == ["ok"] * 3


def test_a_pom_without_its_jar_is_in_the_way_until_the_fix(house: Path) -> None:
    """What Spark 4.1's Ivy wrote when it met such a POM: deleting the POM alone leaves Spark failing."""
    pom = in_maven(house, JARS[1], "pom")
    write(pom, "<project/>")
    memory_file = in_ivy(house, JARS[1]).parents[1] / "ivydata-3.50.3.0.properties"
    write(memory_file, "#ivy cached data file\nresolver=local-m2-cache\nartifact.resolver=local-m2-cache\n")
    assert (named(NAMES[1]).status, named(NAMES[1]).found) == ("missing", f"a POM without its jar in {pom.parent}")
    pom.unlink()
    assert named(NAMES[1]).status == "missing"
    subprocess.run(["sh", "-c", named(NAMES[1]).fix], check=True)
    assert not memory_file.exists()
    assert statuses() == ["warning"] * 3
