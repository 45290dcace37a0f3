"""The documentation is true: the pages' code runs, every command is in it, links lead somewhere.

Every fenced block of every page is run or checked, by what stands behind its fence: `python` runs anywhere, `python
spark` where Java is, and nothing stands for command lines, which their programs parse. `<!-- not run: why -->` before a
fence takes it out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import deltalake
import pytest
from click.testing import CliRunner

import deletekit as dk
from deletekit.version import __version__
from tests.conftest import fetching_jars

ROOT = Path(__file__).parents[1]
COMMANDS = ROOT / "docs" / "cli.md"


PAGES = sorted(
    ROOT / name
    for name in subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    .stdout.splitlines()
)  # fmt: skip
NOT_RUN = re.compile(r"<!-- not run: \S.*? -->\s*\Z", re.DOTALL)
FENCE = re.compile(r"^(?P<fence>```+|~~~+)(?P<kind>[^\n]*)\n(?P<code>.*?)^(?P=fence) *$", re.MULTILINE | re.DOTALL)

OF_EXECUTORS = ("python dask", "python loky", "python ray")
"""Blocks that tests/engines/test_documented.py runs."""


class Block(NamedTuple):
    """One fenced block: its code after as many empty lines as stand before it, so that tracebacks show the page's."""

    page: Path
    kind: str
    code: str
    not_run: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{len(self.code) - len(self.code.lstrip(chr(10)))} ```{self.kind}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        code = "\n" * text.count("\n", 0, fence.start("code")) + fence["code"]
        found.append(Block(page, fence["kind"].strip(), code, bool(NOT_RUN.search(text[: fence.start()]))))
    return found


RUN_WITH_SPARK = """
import sys
from pathlib import Path
from tests.test_docs import run_python

run_python(Path(sys.argv[1]), spark=True)
"""


def run_python(page: Path, *, spark: bool, others: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run a page's Python in the working directory, where a Delta table is for what begins with one; give its names."""
    deltalake.write_deltalake("path/to/delta", dk.datasets.animals())
    kinds = {"python", "python spark", *others} if spark else {"python", *others}
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks_of(page):
        if block.kind in kinds and not block.not_run:
            exec(compile(block.code, page, "exec"), names)  # noqa: S102 - our own page
    return names


def test_every_block_runs_or_says_why_not() -> None:
    """Python runs in the tests below, commands in the last; the exercise in TOML is read by the test after them.

    A block of text is a picture.
    """
    assert len(PAGES) > 20
    unknown = [
        str(block)
        for page in PAGES
        for block in blocks_of(page)
        if block.kind not in {"", "python", "python spark", *OF_EXECUTORS, "text", "toml"} and not block.not_run
    ]
    assert unknown == []
    lines = (line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines())
    fences = sum(line.lstrip(" >").startswith(("```", "~~~")) for line in lines)
    assert fences == 2 * sum(len(blocks_of(page)) for page in PAGES), "a fence that is indented or left open"


def test_exercises_in_toml_are_written_as_real_ones() -> None:
    real = [tomllib.loads(f.read_text(encoding="utf-8")) for f in (ROOT / "deletekit/course/exercises").glob("*.toml")]
    known = {key for exercises in real for exercise in exercises.values() for key in exercise}
    shown = [tomllib.loads(block.code) for page in PAGES for block in blocks_of(page) if block.kind == "toml"]
    assert shown
    assert {key for exercises in shown for exercise in exercises.values() for key in exercise} <= known


@pytest.mark.parametrize("name", sorted({b.page.name for p in PAGES for b in blocks_of(p) if "python" in b.kind}))
def test_python_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(next(page for page in PAGES if page.name == name), spark=False)


@pytest.mark.spark
@pytest.mark.usefixtures("own_spark")
def test_python_runs_with_spark(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In a process of its own, as a reader's: the README starts the session that it goes on with."""
    pages = sorted({str(b.page) for p in PAGES for b in blocks_of(p) if b.kind == "python spark"})
    for number, page in enumerate(pages):
        folder = tmp_path / str(number)
        folder.mkdir()
        with fetching_jars(tmp_path_factory):
            done = subprocess.run(
                [sys.executable, "-c", RUN_WITH_SPARK, page],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                check=False,
                capture_output=True,
                text=True,
            )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


# --- commands ---------------------------------------------------------------------------------------------------------


def check_deletekit(arguments: list[str]) -> None:
    """Parse a command line as click does, and run nothing."""
    from deletekit.cli import main  # noqa: PLC0415 - the pages' code is tested without a command line too

    with click.Context(main, info_name="deletekit") as context:
        name, command, rest = main.resolve_command(context, arguments)
        assert command is not None, name
        command.make_context(name, rest, parent=context)


def check_dev(arguments: list[str]) -> None:
    assert arguments[0] in {"tour", "test"}
    check_deletekit(arguments) if arguments[0] == "tour" else check_pytest(arguments[1:])


def check_pytest(arguments: list[str]) -> None:
    named = [each.partition("::")[0] for each in arguments if "/" in each]
    assert [each for each in named if not (ROOT / each).exists()] == []


def check_module(module: str, arguments: list[str]) -> None:
    """Hold that a module is there, and that its help names every word and option that it is given."""
    if module == "pytest":
        check_pytest(arguments)
        return
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [word for word in arguments if word not in done.stdout] == []


def check_pip(arguments: list[str]) -> None:
    """Hold that a pip command is about this checkout, and names extras that are there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (what,) = (each for each in arguments if not each.startswith("-"))
    match = re.fullmatch(r"\.(?:\[([\w,]+)\])?", what)
    assert match, what
    assert set((match[1] or "").split(",")) <= {"", *extras}


def check_command(line: str) -> None:
    match shlex.split(line, comments=True):
        case ["deletekit", *rest]:
            check_deletekit(rest)
        case ["python3", "dev.py", *rest]:
            check_dev(rest)
        case ["python", "-m", module, *rest]:
            check_module(module, rest)
        case ["pip", "install" | "wheel", *rest]:
            check_pip(rest)
        case words:
            pytest.fail(f"no test knows how to check this command: {words}")


@pytest.mark.slow
def test_commands_are_as_their_programs_take_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        line
        for page in PAGES
        for block in blocks_of(page)
        if block.kind == "" and not block.not_run
        for line in block.code.splitlines()
        if line.strip()
    ]
    assert len(lines) > 5
    monkeypatch.chdir(tmp_path)
    Path("warehouse").mkdir()  # which the commands are given
    for line in lines:
        check_command(line)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Walk `deletekit`, its commands, and theirs."""
    from deletekit.cli import main  # noqa: PLC0415 - the pages' code is tested without a command line too

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


def test_every_command_is_on_its_page() -> None:
    text = COMMANDS.read_text(encoding="utf-8")
    assert [name for name, _ in commands() if not re.search(rf"\b{re.escape(name)}\b", text)] == []


def test_links_lead_to_files() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]
    assert broken == []


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/[\w/]*\w\.py)`", text))
    places = [ROOT, ROOT / "deletekit", ROOT / "tests"]
    assert len(named) > 30
    assert [name for name in sorted(named) if not any((place / name).is_file() for place in places)] == []


def test_changelog_has_this_version() -> None:
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
