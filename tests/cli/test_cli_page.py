"""The page of all commands is current, and what it says of all of them is true."""

import pytest

from deletekit.cli import main
from tests.tools.build_cli_page import PAGE, cli_page

FOR_PEOPLE = {"explore", "lab", "tour", "workshop-bundle"}


def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert PAGE.read_text(encoding="utf-8") == cli_page(), "run `python -m tests.tools.build_cli_page`"


def test_every_answer_can_be_json() -> None:
    without = {n for n, c in main.commands.items() if all("--json" not in p.opts for p in c.params)}
    assert without == FOR_PEOPLE
    assert all(f"`{name}`" in PAGE.read_text(encoding="utf-8").partition("## ")[0] for name in FOR_PEOPLE)
