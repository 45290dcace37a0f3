"""Every command says what it does, with an example; and says it at once."""

import click
import pytest

from deletekit.cli import main
from deletekit.version import __version__
from tests.cli.conftest import Run, RunProgram

COMMANDS = sorted(main.commands)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_an_example_and_fits_a_terminal(run: Run, command: str) -> None:
    result = run(*command.split(), "--help", columns=80)
    assert result.exit_code == 0
    assert f"  deletekit {command}".rstrip() in result.output.partition("Examples:")[2]
    assert max(map(len, result.output.splitlines())) <= 80
    assert run(*command.split(), "-h", columns=80).output == result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command: str) -> None:
    options = [p for p in main.commands[command].params if isinstance(p, click.Option)]
    assert [o.name for o in options if not o.help] == []
    assert "--traceback" in {name for o in options for name in o.opts}


def test_commands_are_listed_with_whole_sentences(run: Run) -> None:
    listed = run("--help").output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == COMMANDS
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_version(program: RunProgram) -> None:
    assert program("--version").stdout == f"deletekit, version {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["inspect", "t", "--snapshot", "x"],
        ["inspect", "t", "--limit", "-1"],
        ["inspect", "t", "--snapshot", "1", "--ref", "main"],
        ["inspect", "t", "--ref", "main", "--as-of", "2026-01-01"],
        ["explain", "t"],
        ["delete", "t", "true", "--mode", "gently"],
        ["inspect", "a.b", "--warehouse", "w", "--catalog", "c"],
        ["inspect", "a.b", "--catalog-name", "n"],
        ["inspect", "a.b", "--warehouse", "w", "-p", "k=v"],
        ["inspect", "a.b", "--catalog", "c", "-p", "kv"],
        ["inspect", "a.b", "--catalog", "c", "-p", "=v"],
        ["nothing"],
    ],
)
def test_wrong_usage_is_exit_code_2(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr
    assert "--help" in result.stderr


def test_a_command_that_is_not_there_is_not_answered_by_one_that_only_looks_alike(run: Run) -> None:
    answers = {
        "create-table": "`deletekit create`", "select": "`deletekit scan`", "vacuum": "expire-snapshots",
        "history": "snapshots", "verfy": "mean verify?", "cmopact": "mean compact?", "frobnicate": "`deletekit -h`",
    }  # fmt: skip
    for command, answer in answers.items():
        result = run(command)
        assert result.exit_code == 2
        assert answer in result.stderr, command
        assert "readers" not in result.stderr
