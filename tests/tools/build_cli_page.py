"""Write docs/cli.md, the page of all commands, from what click knows: `python -m tests.tools.build_cli_page`."""

import os
from pathlib import Path

import click

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
INTRODUCTION = """\
# The command line

`deletekit COMMAND --help` shows what is here. This page is made from it by `python -m tests.tools.build_cli_page`.

- Every command that gives an answer takes `--json`: then the answer is one JSON document on standard output. It is in
  ASCII, and progress is not shown. `tour`, `lab`, `workshop-bundle` and `explore` show things to people and have none.
- Progress and errors go to standard error. Progress is only shown on a terminal, and `--quiet` hides it.
- The exit code is 0; 1 for an error, or for a check that finds one; 2 for wrong usage; 130 after Ctrl-C.

## Completion

The Tab key completes commands, options and names of tables after one line in the shell's start file:

| shell | file | line |
|---|---|---|
| bash | `~/.bashrc` | `eval "$(_DELETEKIT_COMPLETE=bash_source deletekit)"` |
| zsh | `~/.zshrc` | `eval "$(_DELETEKIT_COMPLETE=zsh_source deletekit)"` |
| fish | `~/.config/fish/completions/deletekit.fish` | `_DELETEKIT_COMPLETE=fish_source deletekit \\| source` |

bash needs version 4.4 or later.
"""


def cli_page() -> str:
    """Return the page: the list of commands, then the help of each."""
    from deletekit.cli import main  # noqa: PLC0415  # with the terminal's width set

    parts = [INTRODUCTION, "## Commands\n"]
    with click.Context(main, info_name="deletekit", **main.context_settings) as context:
        commands = {name: main.commands[name] for name in main.list_commands(context)}
        rows = [f"| [`{name}`](#{name}) | {command.get_short_help_str(200)} |" for name, command in commands.items()]
        parts.append("\n".join(["| command | what it does |", "|---|---|", *rows, ""]))
        for name, command in commands.items():
            with click.Context(command, info_name=name, parent=context, **main.context_settings) as own:
                parts.append(f"## {name}\n\n```text\n{own.get_help().rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    PAGE.write_text(cli_page(), encoding="utf-8")
