"""The documentation is true: README's code runs, every command is in it, links lead somewhere.

A fence of README marked `python` runs anywhere; one marked `python spark` finds a session named `spark`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from deletekit.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


class Block(NamedTuple):
    """One fenced block: its code after as many empty lines as stand before it, so that tracebacks show README's."""

    code: str
    needs_spark: bool


def python_blocks() -> list[Block]:
    text = README.read_text(encoding="utf-8")
    fences = re.finditer(r"^```python( spark)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block("\n" * text.count("\n", 0, fence.start(2)) + fence[2], bool(fence[1])) for fence in fences]


def run_blocks(blocks: list[Block], names: dict[str, Any]) -> None:
    assert blocks, "README has no Python code"
    for block in blocks:
        exec(compile(block.code, README, "exec"), names)  # noqa: S102 - our own README


def test_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks([block for block in python_blocks() if not block.needs_spark], {"__name__": "readme"})


def test_readme_runs_with_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(python_blocks(), {"__name__": "readme", "spark": spark})


def commands() -> Iterator[tuple[str, click.Command]]:
    """Walk `deletekit`, its commands, and theirs."""
    from deletekit.cli import main  # noqa: PLC0415 - README's code is tested without a command line too

    waiting: list[tuple[str, click.Command]] = [("deletekit", main)]
    while waiting:
        name, command = waiting.pop(0)
        yield name, command
        if isinstance(command, click.Group):
            waiting += [(f"{name} {child}", sub) for child, sub in command.commands.items() if not sub.hidden]


def test_every_command_has_help() -> None:
    for name, command in commands():
        assert command.help, f"`{name}` has no help"
        assert CliRunner().invoke(command, ["--help"]).exit_code == 0, name
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        assert [f"{name} {option.opts[0]}" for option in options if not (option.help or option.hidden)] == []


def test_every_command_is_in_readme() -> None:
    text = README.read_text(encoding="utf-8")
    assert [name for name, _ in commands() if not re.search(rf"\b{re.escape(name)}\b", text)] == []


def test_links_lead_to_files() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "data").glob("*.md"), *(ROOT / "notebooks").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]
    assert broken == []


def test_changelog_has_this_version() -> None:
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
