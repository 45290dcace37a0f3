"""A few bytes that mean very many: each is refused, or read in little memory and time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.bombs import BOMBS

ROOT = Path(__file__).parents[2]
MOST_BYTES = 100_000
MOST_SECONDS = 20
MOST_MEMORY = 1 << 20  # KiB, most of it what the imports and the making of the bombs take


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """Give what the program that reads them printed, by name; one that ends the process has no answer."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.bombs"]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, f"{result.stdout[-300:]}\n{result.stderr[-3000:]}"
    return {line[0]: line for line in map(json.loads, result.stdout.splitlines())}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_does_not_go_off(name: str, answers: dict[str, Any]) -> None:
    _, size, answer, seconds, memory = answers[name]
    assert answer == BOMBS[name][1]
    assert size < MOST_BYTES
    assert seconds < MOST_SECONDS
    assert memory < MOST_MEMORY
