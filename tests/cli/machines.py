"""What tests of the doctor share: making the machine that a check is to meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from deletekit.course.diagnosis import Check, Environment

__all__ = ["only", "script", "write"]


def only(checks: Callable[[Environment], Iterator[Check]], place: Environment) -> Check:
    """Run a check that says one thing; what is not well has a meaning and a fix."""
    (check,) = checks(place)
    assert bool(check.meaning) == (check.status != "ok")
    assert bool(check.fix) == (check.status != "ok")
    return check


def script(file: Path, *lines: str) -> Path:
    """Make a program."""
    write(file, "\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)
    return file


def write(file: Path, text: str) -> None:
    """Make a file and the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
