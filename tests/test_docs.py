"""The documentation is true: the pages' code runs, every command is in it, links lead somewhere.

Every fenced block of every page is run or checked, by what stands behind its fence. The blocks of a page run in order,
in a directory of their own, with one namespace:

- `python` runs anywhere, `python spark` where Java is, `python rest` with a REST catalog whose tables are on S3.
- `text output` is all that the Python before it prints, and `...` in it is anything.
- `console` has the commands of a session behind `$`, which run, and what they print.
- `bash` and no word have command lines, which their programs parse and do not run.
- `yaml` is the catalog's `.pyiceberg.yaml` that `python rest` has; `text` is a picture.

`<!-- not run: why -->` before a fence takes it out.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from doctest import ELLIPSIS, OutputChecker
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import click
import deltalake
import pytest
import yaml
from click.testing import CliRunner

import deletekit as dk
from conformance.run import BUILT_IN
from deletekit.cli.delta_targets import read_targets
from deletekit.version import __version__
from tests.conftest import fetching_jars

ROOT = Path(__file__).parents[1]


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


RUN = """
import sys
from pathlib import Path
from tests.test_docs import run_page

run_page(Path(sys.argv[1]), {"python", *sys.argv[2:]})
"""
ANYWHERE = {"python"}
PARSED = {"", "bash"}
OTHERS = {"python spark", "python rest", *OF_EXECUTORS, "text output", "console", "text", "toml", "yaml"}
KINDS = ANYWHERE | PARSED | OTHERS


def run_page(page: Path, kinds: set[str]) -> dict[str, Any]:
    """Run a page's blocks of these kinds in the working directory, and return the names that they leave.

    A Delta table is there for what begins with one. A session and what a block prints are compared if they follow on a
    block of these kinds.
    """
    deltalake.write_deltalake("path/to/delta", dk.datasets.animals())
    names: dict[str, Any] = {"__name__": page.stem}
    printed: str | None = ""
    for block in blocks_of(page):
        if block.not_run:
            continue
        if block.kind.startswith("python"):
            printed = run_python(block, names) if block.kind in kinds else None
        elif block.kind == "text output" and printed is not None:
            assert_same(block, block.code.lstrip("\n"), printed)
        elif block.kind == "console" and printed is not None:
            run_session(block)
    return names


def run_python(block: Block, names: dict[str, Any]) -> str:
    """Run a block and return what it printed."""
    with redirect_stdout(StringIO()) as out:
        exec(compile(block.code, block.page, "exec"), names)  # noqa: S102 - our own page
    return out.getvalue()


def run_session(block: Block) -> None:
    """Run the commands of a session one by one, and compare what they print."""
    from deletekit.cli import main  # noqa: PLC0415 - README's code is tested without a command line too

    for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
        line, _, wanted = part.replace("\\\n", " ").partition("\n")
        program, *arguments = shlex.split(line)
        assert program == "deletekit", f"{block}: only deletekit runs here"
        # The width of a terminal: nothing is broken as in the 80 columns that click's runner has.
        done = CliRunner(env={"COLUMNS": "120"}).invoke(main, arguments)
        assert_same(block, wanted, done.output)


def assert_same(block: Block, wanted: str, printed: str) -> None:
    same = OutputChecker().check_output(wanted.strip() + "\n", printed.strip() + "\n", ELLIPSIS)
    assert same, f"{block} says\n{wanted}\nand printed was\n{printed}"


def test_every_block_runs_or_says_why_not() -> None:
    """Python and sessions run in the tests below, command lines in the last; TOML is read by the test after them."""
    assert len(PAGES) > 20
    blocks = [block for page in PAGES for block in blocks_of(page) if not block.not_run]
    assert [str(block) for block in blocks if block.kind not in KINDS] == []
    lines = (line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines())
    fences = sum(line.lstrip(" >").startswith(("```", "~~~")) for line in lines)
    assert fences == 2 * sum(len(blocks_of(page)) for page in PAGES), "a fence that is indented or left open"
    for kind, runs in {"yaml": ["python rest"], "text output": ["python", "python spark", "python rest"]}.items():
        assert set(pages_with(kind)) <= set(pages_with(*runs)), f"a block of {kind} that nothing looks at"


def test_exercises_in_toml_are_written_as_real_ones() -> None:
    real = [tomllib.loads(f.read_text(encoding="utf-8")) for f in (ROOT / "deletekit/course/exercises").glob("*.toml")]
    known = {key for exercises in real for exercise in exercises.values() for key in exercise}
    blocks = [block.code for page in PAGES for block in blocks_of(page) if block.kind == "toml"]
    shown = [tomllib.loads(code) for code in blocks if "[[tables]]" not in code]
    assert 0 < len(shown) < len(blocks)
    assert {key for exercises in shown for exercise in exercises.values() for key in exercise} <= known


def test_tables_in_toml_are_read(tmp_path: Path) -> None:
    for page in PAGES:
        for block in blocks_of(page):
            if block.kind == "toml" and "[[tables]]" in block.code:
                (tmp_path / "tables.toml").write_text(block.code, encoding="utf-8")
                assert len(read_targets(tmp_path / "tables.toml", {})) == block.code.count("[[tables]]")


def pages_with(*kinds: str) -> list[Path]:
    return [page for page in PAGES if any(b.kind in kinds and not b.not_run for b in blocks_of(page))]


RUN_ANYWHERE = [str(page.relative_to(ROOT)) for page in pages_with("python", "console")]


@pytest.mark.parametrize("name", RUN_ANYWHERE)
def test_python_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / name, ANYWHERE)


def run_apart(page: Path, kind: str, folder: Path) -> None:
    """Run a page in a process of its own, as a reader's: it starts its own session, and reads its configuration."""
    command = [sys.executable, "-c", RUN, str(page), kind]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYICEBERG_HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.spark
@pytest.mark.usefixtures("own_spark")
@pytest.mark.parametrize("name", [str(page.relative_to(ROOT)) for page in pages_with("python spark")])
def test_python_runs_with_spark(name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with fetching_jars(tmp_path_factory):
        run_apart(ROOT / name, "python spark", tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("name", [str(page.relative_to(ROOT)) for page in pages_with("python rest")])
def test_python_runs_with_a_rest_catalog(name: str, rest_on_s3: dict[str, str], tmp_path: Path) -> None:
    """With the page's own configuration, in which the addresses are those of the servers here."""
    [shown] = [yaml.safe_load(block.code) for block in blocks_of(ROOT / name) if block.kind == "yaml"]
    [(catalog, properties)] = shown["catalog"].items()
    assert properties.keys() == rest_on_s3.keys()
    (tmp_path / ".pyiceberg.yaml").write_text(yaml.safe_dump({"catalog": {catalog: rest_on_s3}}), encoding="utf-8")
    run_apart(ROOT / name, "python rest", tmp_path)


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
    assert [word for word in arguments if word not in help_of(module)] == []


@cache
def help_of(module: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
        case ["python", "conformance/run.py", *rest]:
            check_module("conformance.run", [word for word in rest if word.startswith("--") or word in BUILT_IN])
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
        if block.kind in PARSED and not block.not_run
        for line in block.code.splitlines()
        if line.strip()
    ]
    assert len(lines) > 5
    monkeypatch.chdir(tmp_path)
    Path("warehouse").mkdir()  # which the commands are given
    for line in lines:
        check_command(line)


def test_links_lead_to_files() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]
    assert broken == []


def test_contributing_is_short_and_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/[\w/]*\w\.py)`", text))
    places = [ROOT, ROOT / "deletekit", ROOT / "tests"]
    assert len(named) > 20
    assert len(text.encode()) <= 8000
    assert [name for name in sorted(named) if not any((place / name).is_file() for place in places)] == []


def test_changelog_is_short_and_has_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{__version__}]" in text
    assert len(text.encode()) <= 6000
