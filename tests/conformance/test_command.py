"""`python -m conformance`: what it prints and writes, and its exit code."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conformance.__main__ import conformance
from conformance.runner import suite_folder
from conformance.suite import load_suite
from tests.cli.conftest import EVIL, Run, environment

[CASE] = (case for case in load_suite(suite_folder()) if case.name == "nan_key")


def engine(**answer: object) -> str:
    """Return `--engine` for a program that always gives this answer."""
    program = f"import sys\nfor line in sys.stdin: print({json.dumps(answer)!r}, flush=True)"
    return "mine=" + shlex.join([sys.executable, "-c", program])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(conformance, [str(a) for a in arguments])

    return run


def test_it_runs_from_any_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "conformance", "deletekit", "--case", "nan_key", "--json"]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    assert [result["verdict"] for result in json.loads(done.stdout)["results"]] == ["right"]


RIGHT = engine(version="1", rows=CASE.expected())
WRONG = engine(version="1", rows=CASE.expected()[1:])
REFUSES = engine(version="1", refuses="no")


@pytest.mark.parametrize(
    ("command", "exit_code", "verdict"),
    [(RIGHT, 0, "right"), (REFUSES, 0, "refuses"), (WRONG, 1, "WRONG"), (engine(rows=3), 1, "crashes")],
    ids=["right", "refuses", "WRONG", "crashes"],
)
def test_exit_code(run: Run, command: str, exit_code: int, verdict: str) -> None:
    done = run("--engine", command, "--case", "nan_key", "--json")
    assert done.exit_code == exit_code
    [result] = json.loads(done.stdout)["results"]
    assert (result["engine"], result["case"], result["ref"], result["verdict"]) == ("mine", "nan_key", "main", verdict)


def test_an_engine_that_cannot_be_asked_is_no_success_when_it_is_named(run: Run) -> None:
    done = run("--engine", engine(unavailable="not installed"), "--case", "nan_key")
    assert (done.exit_code, done.stdout.strip()) == (1, "mine is not available: not installed")


def test_text(run: Run) -> None:
    done = run("deletekit", "--engine", WRONG, "--case", "nan_key")
    lines = [line.split() for line in done.stdout.splitlines()]
    shown = [line for line in done.stdout.splitlines() if "nan_key" in line]
    assert [line.split(maxsplit=4) for line in shown] == [
        ["nan_key", "WRONG:", "other", "rows", '1 row missing ([2, "Infinity"]), 0 rows too many']
    ]
    assert ["mine", "1", "0", "0", "1", "0"] in lines
    assert [line[2:] for line in lines if line[:1] == ["deletekit"]] == [["1", "0", "0", "0"]]


def test_verdicts_are_collected(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "verdicts.json"
    file.write_text(json.dumps({"results": [{"engine": "mine", "version": "1", "case": "no more", "ref": "main"}]}))
    for command in (WRONG, RIGHT, RIGHT.replace("mine=", "other=")):
        run("--engine", command, "--case", "nan_key", "--write-verdicts", file)
    found = json.loads(file.read_bytes())
    shown = [(r["engine"], r["verdict"], r["verified"], r["source"], r["date"]) for r in found["results"]]
    assert shown == [(name, "right", True, None, found["date"]) for name in ("mine", "other")]


def test_what_an_engine_says_is_text_only(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    hostile = engine(version=f"<script>{EVIL}", refuses=f"<img src=x>{EVIL}")
    done = run("--engine", hostile, "--case", "nan_key", "--page", page)
    for text in (done.stdout, page.read_text(encoding="utf-8")):
        assert not set(EVIL) & set("\x1b\x07\x9b\r\u202e\u2066") & set(text)
    html = page.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;img src=x&gt;[bold]x[/bold]\\x1b]0;owned" in html
    assert CASE.sentence in html


def test_a_page_is_not_replaced_unasked(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    arguments = ("--engine", RIGHT, "--case", "nan_key", "--page", page)
    assert run(*arguments).exit_code == 1
    assert page.read_text() == "mine"
    assert run(*arguments, "--overwrite").exit_code == 0
    assert "<!doctype html>" in page.read_text()
