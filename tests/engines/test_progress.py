"""A long call shows its progress where somebody looks: in a terminal, or a notebook that a server shows."""

import os
import pty
import re
import subprocess
import sys
from fcntl import ioctl
from struct import pack
from termios import TIOCSWINSZ
from time import sleep

import pytest

from deletekit.cli.terminal import Output
from deletekit.course import diagnosis
from deletekit.engines import local
from deletekit.log import tell_rows

SLOW = """
import time, deletekit as dk
print(sum(dk.engine.local({threads}).map(lambda n: time.sleep({seconds}) or n, range(5))))
"""


def in_terminal(program: str) -> str:
    """Return what a program writes to the terminal that is its standard error."""
    ours, its = pty.openpty()
    ioctl(its, TIOCSWINSZ, pack("HHHH", 24, 80, 0, 0))
    made = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=its, text=True, check=True)
    os.close(its)
    assert made.stdout == "10\n"
    try:
        return os.read(ours, 100_000).decode()
    except OSError:  # Linux: nothing was written, and nobody has the other end
        return ""
    finally:
        os.close(ours)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_takes_longer_than_two_seconds_shows_how_far_it_is(threads: int) -> None:
    shown = in_terminal(SLOW.format(threads=threads, seconds=1.1))
    assert "/5" in shown
    assert shown.endswith("\r")  # the line is taken away at the end


def test_what_is_quick_shows_nothing() -> None:
    assert in_terminal(SLOW.format(threads=1, seconds=0)) == ""


def test_nothing_is_shown_where_nobody_looks() -> None:
    program = SLOW.format(threads=1, seconds=0.5)
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (made.stdout, made.stderr) == ("10\n", "")


def test_the_rows_of_one_file_move_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(local, "_QUIET", 0)
    monkeypatch.setattr(local, "_somebody_looks", lambda: True)
    monkeypatch.setattr(Output, "_animated", True)

    def read_a_file(_: int) -> None:
        for _ in range(3):
            sleep(0.2)
            tell_rows(100)

    with Output(as_json=False, quiet=False).bar("Updating"):
        list(local.LocalEngine(1).map(read_a_file, [0]))
    shown = capsys.readouterr().err
    assert re.findall(r"Updating:   0%.*?0/1 .*?(\d+) rows", shown) == ["100", "200", "300"]


def test_the_doctor_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(local, "_QUIET", 0)
    monkeypatch.setattr(local, "_somebody_looks", lambda: True)
    monkeypatch.setattr(diagnosis, "CHECKS", [lambda: filter(sleep, [0.2])] * 3)
    monkeypatch.setattr(Output, "_animated", True)
    with Output(as_json=False, quiet=False).bar("Looking"):
        diagnosis.diagnose()
    assert "1/3" in capsys.readouterr().err


@pytest.mark.parametrize("output", [Output(as_json=True, quiet=False), Output(as_json=False, quiet=True)])
def test_a_command_that_is_quiet_shows_no_bar(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_somebody_looks", lambda: True)
    with output.bar("Updating"):
        assert local.PROGRESS.get() is None
