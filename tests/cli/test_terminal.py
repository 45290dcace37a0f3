"""On a real terminal there is progress and colour; anywhere else there is neither."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.conftest import RunProgram, environment

ESCAPE = "\x1b["


def in_terminal(*arguments: object, **variables: str) -> str:
    """Run a command on a pseudo-terminal of 80 columns; give everything it wrote there."""
    primary, replica = pty.openpty()
    fcntl.ioctl(replica, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "deletekit.cli", *map(str, arguments)]
    env = environment(TERM="xterm-256color", **variables)
    with subprocess.Popen(command, stdin=replica, stdout=replica, stderr=replica, env=env) as process:
        os.close(replica)
        written = b""
        while select.select([primary], [], [], 60)[0]:
            try:
                chunk = os.read(primary, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            written += chunk
    os.close(primary)
    assert process.returncode == 0, written.decode()
    return written.decode()


def settled(written: str) -> list[str]:
    """Give the lines without colours and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).replace("\r", "").splitlines()


@pytest.mark.slow
def test_progress_on_a_terminal(warehouse: Path) -> None:
    assert "Reading manifests and delete files" in in_terminal(
        "inspect", "--warehouse", warehouse, "demo.parts", "--deletes"
    )


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_no_progress_when_it_is_not_wanted(warehouse: Path, option: str) -> None:
    written = in_terminal("inspect", "--warehouse", warehouse, "demo.parts", "--deletes", option)
    assert "Reading manifests" not in written
    assert "\x1b[?25l" not in written  # a hidden cursor
    if option == "--json":
        assert ESCAPE not in written


def test_a_terminal_of_80_columns(warehouse: Path) -> None:
    written = in_terminal("inspect", "--warehouse", warehouse, "demo.parts", "--deletes", "--metrics", "--quiet")
    assert ESCAPE in written  # headings are bold
    assert max(map(len, settled(written))) == 80


def test_no_color(warehouse: Path) -> None:
    written = in_terminal("explain", "--warehouse", warehouse, "demo.users", "true", "--quiet", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", written)


@pytest.mark.slow
def test_hostile_text_on_a_terminal(warehouse: Path) -> None:
    for arguments in (["inspect", "--deletes", "--metrics"], ["explain", "true"]):
        written = in_terminal(arguments[0], "--warehouse", warehouse, "demo.evil", *arguments[1:], "--quiet")
        assert set(re.findall(r"\x1b.", written)) == {ESCAPE}
        assert set(re.findall(r"\x1b\[[0-9;?]*([A-Za-z])", written)) == {"m"}  # rich's own colours and no more
        assert "\x9b" not in written
        assert "\x07" not in written
        assert "\u202e" not in written


@pytest.mark.slow
def test_neither_in_a_pipe(program: RunProgram, warehouse: Path, fresh: Path) -> None:
    for arguments in (
        ["inspect", "--warehouse", warehouse, "demo.parts", "--deletes"],
        ["explain", "--warehouse", warehouse, "demo.parts", "true"],
        ["delete", "--warehouse", fresh, "demo.users", "id = 1"],
    ):
        done = program(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert ESCAPE not in done.stdout
