"""One clear block for what goes wrong, and exit codes that scripts can rely on."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import deletekit as dk
from deletekit.cli.terminal import show_error
from deletekit.errors import CommitConflictError, FormatError
from tests.cli.conftest import Run, RunProgram, environment

Load = Callable[[str], dk.Table]


def test_every_part_of_an_error_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    where = {"kind": "puffin-magic", "file": "s3://b/[x].puffin", "field": "magic"}
    error = FormatError("bad magic", found=b"PF", expected=4, **where)
    show_error(error, with_traceback=False)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        "Error: bad magic\n"
        "  kind      puffin-magic\n"
        "  file      s3://b/[x].puffin\n"
        "  field     magic\n"
        "  found     X'5046'\n"
        "  expected  4\n"
    )


def test_a_lost_race_may_be_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(CommitConflictError("another writer committed first"), with_traceback=False)
    assert "retry  safe: nothing was committed" in capsys.readouterr().err


def test_long_errors_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(FormatError("bad", found="x" * 5000), with_traceback=False)
    assert len(capsys.readouterr().err) < 1200


@pytest.mark.slow
def test_a_real_process(program: RunProgram, warehouse: Path) -> None:
    done = program("inspect", "--warehouse", warehouse, "demo.nope")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: no such table\n  kind      table-not-found\n")
    assert "Traceback" not in done.stderr
    done = program("inspect", "--warehouse", warehouse, "demo.nope", "--traceback")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert "\nError: no such table\n" in done.stderr
    assert program("inspect").returncode == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"not avro at all", b"Obj\x01" + bytes(40)])
def test_a_damaged_file_is_named(run: Run, fresh: Path, damage: bytes) -> None:
    victim = next((fresh / "demo" / "users" / "metadata").glob("snap-*.avro"))
    victim.write_bytes(damage)
    result = run("inspect", "--warehouse", fresh, "demo.users")
    assert result.exit_code == 1
    assert victim.name in result.stderr
    assert "Traceback" not in result.stderr


def test_metadata_of_tomorrow(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "v1.metadata.json"
    file.write_text(json.dumps({"format-version": 4}))
    result = run("inspect", file)
    assert result.exit_code == 1
    assert "expected  1, 2 or 3" in result.stderr


def test_what_nobody_foresaw_is_one_block_too(run: Run, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk\n on  fire \x1b[31m")

    monkeypatch.setattr(dk, "inspect", fail, raising=False)
    result = run("inspect", "--warehouse", fresh, "demo.users")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: disk on fire \\x1b[31m\n  kind  unexpected OSError\n  more  --traceback shows where\n"
    )
    assert 'raise OSError("disk' in run("inspect", "--warehouse", fresh, "demo.users", "--traceback").stderr


def test_a_missing_package_leads_to_the_doctor(run: Run, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'pyroaring'")

    monkeypatch.setattr(dk, "inspect", fail, raising=False)
    assert "deletekit doctor" in run("inspect", "--warehouse", fresh, "demo.users").stderr


# --- ends that come from outside --------------------------------------------------------------------------------------


def test_ctrl_c_is_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        # A catalog that takes the call and never answers.
        catalog = ["--catalog", "c", "-p", "type=rest", "-p", f"uri=http://127.0.0.1:{server.getsockname()[1]}"]
        command = [sys.executable, "-m", "deletekit.cli", "inspect", "a.b", *catalog]
        with subprocess.Popen(
            command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            server.settimeout(60)
            connection, _ = server.accept()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            connection.close()
    assert process.returncode == 130
    assert out == ""
    assert err == "\nInterrupted.\n"


def test_ctrl_c_during_a_delete_says_what_is_not_known(run: Run, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dk, "delete", interrupt, raising=False)
    result = run("delete", "--warehouse", fresh, "demo.users", "true")
    assert result.exit_code == 130
    assert "Whether it was committed is not known" in result.stderr


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_has_seen_enough(warehouse: Path, form: list[str]) -> None:
    command = [sys.executable, "-m", "deletekit.cli", "inspect", "--warehouse", str(warehouse), "demo.history", *form]
    with subprocess.Popen(
        command, env=environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert "Traceback" not in errors
    assert not re.search("broken pipe", errors, re.IGNORECASE)
