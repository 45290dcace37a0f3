"""The doctor, on this machine and on machines that lack one thing each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.cells import cell_len

from deletekit.course.diagnosis import Environment, base_works, diagnose
from deletekit.course.diagnosis.environment import available_memory, linux
from deletekit.course.diagnosis.machine import (
    base_in_use,
    disk_space,
    memory,
    processors,
    python_version,
    temporary_folder,
    text_encoding,
)
from tests.cli.conftest import Run, RunProgram
from tests.cli.machines import only, script, write
from tests.cli.test_hostile import assert_harmless

# --- all together -----------------------------------------------------------------------------------------------------


def test_the_base_works_where_its_tests_run(here: Environment) -> None:
    checks = diagnose(here)
    assert [c for c in checks if c.part == "base" and c.status == "missing"] == []
    assert base_works(checks)
    assert all(c.meaning and c.fix for c in checks if c.status != "ok")
    names = [c.name for c in checks if c.part == "base"]
    assert names[:2] == ["Python", "pyarrow"]
    assert {"small table", "temporary files", "disk space", "processors", "text encoding", "rich"} <= set(names)
    spark = ["Java", "pyspark", "Iceberg jar", "SQLite jar", "Delta jar"]
    assert [c.name for c in checks if c.part == "spark"][:5] == spark
    assert [c.part for c in checks][-3:] == ["course", "test", "peers"]


def test_nothing_of_spark_is_a_warning_only(here: Environment, tmp_path: Path) -> None:
    bare = {k: v for k, v in here.packages.items() if k not in ("pyspark", "pandas")}
    place = replace(here, variables={"PATH": str(tmp_path)}, packages=bare, user_home=tmp_path)
    checks = diagnose(place)
    assert {c.name for c in checks if c.part == "spark" and c.status == "missing"} == {"Java", "pyspark"}
    assert base_works(checks)


def test_variables_may_be_secrets(here: Environment, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    assert "hunter2" not in repr(Environment.here())
    assert "hunter2" not in run("doctor", "--json").output


def test_json(program: RunProgram) -> None:
    done = program("doctor", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["base_works"] is True
    for check in document["checks"]:
        assert set(check) == {"part", "name", "status", "found", "meaning", "fix"}


def test_text(program: RunProgram) -> None:
    text = program("doctor", COLUMNS="80").stdout
    for title in ("Reading and writing tables", "Spark", "Notebooks", "Development"):
        assert f"\n\n{title}\n" in text
    assert f"  ok       Python           {'.'.join(map(str, sys.version_info[:3]))}" in text
    assert "\n\nReading and writing tables works." in text
    # Commands are left to the terminal to fold, so that they can be copied.
    commands = ("pip install", " -c ", "uv pip", "rm -r")
    lines = [line for line in text.splitlines() if not any(c in line for c in commands)]
    assert [line for line in lines if cell_len(line) > 80] == []


def test_without_java_for_real(program: RunProgram, tmp_path: Path) -> None:
    script(tmp_path / "apt-get")
    done = program("doctor", PATH=str(tmp_path), JAVA_HOME="", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "  missing  Java             none on the PATH\n" in done.stdout
    assert "apt-get install --yes openjdk-" in done.stdout
    assert "  warning  text encoding    ascii\n" in done.stdout
    assert "Not yet: Spark" in done.stdout


@pytest.mark.slow
def test_a_broken_package_for_real(program: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "pyroaring.py").write_text("raise ImportError('libroaring.so: \\x1b[31mno such file')\n")
    root = Path(__file__).parents[2]
    done = program("doctor", PYTHONPATH=os.pathsep.join([str(tmp_path), str(root)]))
    assert done.returncode == 1
    assert "missing  small table" in done.stdout
    assert "ImportError: libroaring.so: \\x1b[31mno such file" in " ".join(done.stdout.split())
    assert "deletekit does not work here yet." in done.stdout
    assert_harmless(done.stdout)
    again = program("doctor", "--json", PYTHONPATH=os.pathsep.join([str(tmp_path), str(root)]))
    assert again.returncode == 1
    assert json.loads(again.stdout)["base_works"] is False


def test_hostile_variables(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/\x1b[31m[red]java")
    monkeypatch.setenv("SPARK_HOME", "/\x1b]0;x\x07")
    for form in ([], ["--json"]):
        result = run("doctor", *form)
        assert result.exit_code == 0
        assert_harmless(result.output)
    assert "none at JAVA_HOME (/\\x1b[31m[red]java)" in run("doctor").stdout


# --- machine ----------------------------------------------------------------------------------------------------------


def test_python(here: Environment) -> None:
    assert only(python_version, here).status == "ok"
    old = only(python_version, replace(here, python=(3, 10, 12)))
    assert (old.status, old.found) == ("missing", f"3.10.12 ({here.executable})")


def test_temporary_folder(here: Environment, tmp_path: Path) -> None:
    assert only(temporary_folder, replace(here, temp=tmp_path)).status == "ok"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for temp in (tmp_path / "nowhere", tmp_path / "file", None):
        place = replace(here, temp=temp)
        check = only(temporary_folder, place)
        assert (check.status, check.part) == ("missing", "base")
        assert "TMPDIR" in check.fix
        assert list(disk_space(place)) == []
    assert only(base_in_use, replace(here, temp=tmp_path / "nowhere")).status == "missing"


def test_the_fix_for_the_temporary_folder_is_a_fix(here: Environment, tmp_path: Path) -> None:
    fix = only(temporary_folder, replace(here, temp=None)).fix
    code = "import tempfile; print(tempfile.gettempdir())"
    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", f'{fix} && "{sys.executable}" -c "{code}"'], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / "tmp")


def test_noexec_is_spark_s_trouble(here: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    fine, trouble = temporary_folder(replace(here, temp=tmp_path))
    assert (fine.part, fine.status) == ("base", "ok")
    assert (trouble.part, trouble.status) == ("spark", "warning")


def test_disk_space(here: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = replace(here, temp=tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=3 << 30))
    assert only(disk_space, place).found == f"3.0 GB free in {tmp_path}"
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=200 << 20))
    check = only(disk_space, place)
    assert (check.status, check.found) == ("warning", f"200 MB free in {tmp_path}")


def test_processors(here: Environment) -> None:
    assert only(processors, replace(here, processors=1)).found == "1: reads 1 data file at a time"
    assert only(processors, replace(here, processors=8)).found == "8: reads 8 data files at a time"


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf_8"])
def test_utf8(here: Environment, encoding: str) -> None:
    assert only(text_encoding, replace(here, encoding=encoding)).status == "ok"


def test_another_encoding(here: Environment) -> None:
    check = only(text_encoding, replace(here, encoding="latin-1"))
    assert (check.status, check.fix) == ("warning", "export PYTHONUTF8=1")
    assert only(text_encoding, replace(here, encoding="cp1252", platform="win32")).fix == "set PYTHONUTF8=1"


def test_memory(here: Environment) -> None:
    assert only(memory, replace(here, memory=2 << 30)).status == "ok"
    assert only(memory, replace(here, memory=None)).status == "ok"
    check = only(memory, replace(here, memory=600 << 20))
    assert (check.status, check.part) == ("warning", "spark")
    assert check.found == "600 MB available; Spark wants 1 GB"
    assert "512m" in check.fix


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


def test_linux(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    assert linux(release) == ""
    release.write_text('NAME="Debian GNU/Linux"\nVERSION_ID="12"\nVERSION="12 (bookworm)"\nID=debian\n')
    assert linux(release) == "debian 12"
    release.write_text("ID=arch\n")
    assert linux(release) == "arch"
