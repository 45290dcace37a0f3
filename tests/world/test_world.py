"""Simulated worlds keep their promises, are the same each time, and notice each planted mistake.

A world that broke a promise once is a named test here: `NAMED`.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.world.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
BLOCK = 17
"""Worlds of one test, of 1,500 steps each."""
BLOCKS = 40
NAMED: dict[str, str] = {}
"""What a world found, and the arguments that let it live again."""


def world(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m tests.world`. A world wants a process of its own: it changes the time."""
    command = [sys.executable, "-m", "tests.world", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def block(number: int) -> Any:
    """Return some of many worlds: a few in the first tier, 200,000 steps with the second, a million with the third."""
    marks = [] if number == 0 else pytest.mark.slow if number < 8 else pytest.mark.long
    arguments = f"--seed {1 + BLOCK * number} --worlds {BLOCK if number else 3}"
    return pytest.param(arguments, marks=marks, id=f"block {number}")


@pytest.mark.parametrize("arguments", [*map(block, range(BLOCKS)), *(pytest.param(NAMED[n], id=n) for n in NAMED)])
def test_promises(arguments: str) -> None:
    done = world(*arguments.split())
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_is_a_world() -> None:
    traces = [re.findall(r"^trace (\w+)", world("--seed", 3, "--steps", 300).stdout) for _ in range(2)]
    assert len(traces[0]) == 1
    assert traces[0] == traces[1]


@pytest.mark.slow
def test_each_mutant_is_found() -> None:
    """From the seed on that found it once; what the library does in between may have moved it."""
    done = world("--mutant", "all", "--worlds", 40)
    assert "Traceback" not in done.stderr, done.stderr
    assert len(re.findall(r"^[\w-]+: seed", done.stdout, re.MULTILINE)) >= len(MUTANTS) * 9 // 10, done.stdout


@pytest.mark.long
def test_a_world_shrinks() -> None:
    """What one process gets wrong alone is shown by one process, and without a fault."""
    done = world("--mutant", "clean-first", "--seed", 1, "--shrink")
    assert re.search(r"^python -m tests.world .* --actors \w+ --faults none$", done.stdout, re.MULTILINE), done.stdout
