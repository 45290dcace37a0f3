"""`python -m data.pipeline` hands over to the pipeline, and prints what came of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from data.pipeline import CheckReport, PipelineReport, StepReport
from data.pipeline import __main__ as program
from tests.cli.conftest import EVIL


def report_of(directory: Path, *, ok: bool) -> PipelineReport:
    step = StepReport(name="load", status="done", rows_in=1200, rows_written=1200, files_added=13, seconds=1.5)
    return PipelineReport(
        directory=str(directory),
        table="pipeline.flights",
        master="local[2]",
        format_version=3,
        days=2,
        delivery="d",
        steps=(step,),
        checks=(CheckReport(name="deletekit's scan", ok=ok, found="1,200 rows" if ok else f"no {EVIL}"),),
        live_rows=1200,
        seconds=3.25,
    )


class Calls(list[dict[str, Any]]):
    """How the pipeline was called; `ok` is what its check will say."""

    ok = True


def run(*arguments: object) -> Result:
    return CliRunner().invoke(program.pipeline, [str(each) for each in arguments])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Put a pipeline that only remembers how it was called where the real one is."""
    made = Calls()

    @contextmanager
    def session_opener(directory: Path, **options: Any) -> Iterator[str]:
        made.append({"directory": directory, **options})
        yield "session"

    def run_pipeline(directory: Path, open_session: Any, *, say: Any, **options: Any) -> PipelineReport:
        made[-1].update(options, session=open_session)
        say(f"load {EVIL}")
        return report_of(directory, ok=made.ok)

    monkeypatch.setattr(program, "session_opener", session_opener)
    monkeypatch.setattr(program, "run_pipeline", run_pipeline)
    return made


def test_arguments(calls: Calls, tmp_path: Path) -> None:
    assert run(tmp_path / "a").exit_code == 0
    given = ["--master", "spark://h:7077", "--days", 3, "--format-version", 2, "--table", "a.b"]
    place = ["--catalog", "prod", "-p", "type=rest", "-p", "uri=http://h"]
    assert run(tmp_path / "b", *given, *place).exit_code == 0
    first = {"directory": tmp_path / "a", "master": None, "catalog_name": None, "properties": {}, "session": "session"}
    second = {"directory": tmp_path / "b", "master": "spark://h:7077", "catalog_name": "prod", "session": "session"}
    assert calls[0] == {**first, "days": 7, "format_version": 3, "table": "pipeline.flights"}
    assert calls[1] == {
        **second, "properties": {"type": "rest", "uri": "http://h"}, "days": 3, "format_version": 2, "table": "a.b",
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [["--days", "0"], ["--days", "31"], ["--format-version", "1"], ["-p", "uri=x"], ["--catalog", "c", "-p", "x"]],
)
def test_wrong_usage(calls: Calls, tmp_path: Path, arguments: list[str]) -> None:
    assert run(tmp_path / "a", *arguments).exit_code == 2
    assert calls == []


def test_what_it_says(calls: Calls, tmp_path: Path) -> None:
    result = run(tmp_path)
    assert "load" in result.stdout
    assert "1,200" in result.stdout
    assert "ok     deletekit's scan" in result.stdout
    assert not set(EVIL) & set("\x1b\x07\x9b\u202e") & set(result.output)
    assert "load" in result.stderr
    assert run(tmp_path, "-q").stderr == ""


def test_json(calls: Calls, tmp_path: Path) -> None:
    result = run(tmp_path, "--json")
    document = json.loads(result.stdout)
    assert (document["ok"], document["live_rows"], document["steps"][0]["rows_in"]) == (True, 1200, 1200)
    assert result.stderr == ""


def test_a_wrong_check_is_exit_code_1(calls: Calls, tmp_path: Path) -> None:
    calls.ok = False
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "WRONG" in result.stdout
    assert "\x1b" not in result.stdout
    assert run(tmp_path, "--json").exit_code == 1


def test_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "the directory holds something else than a pipeline" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
