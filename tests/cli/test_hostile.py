"""What a table holds never acts on a terminal, in no command and in no form."""

import unicodedata
from pathlib import Path

import pytest

import deletekit as dk
from deletekit.text import plain
from tests.cli.conftest import EVIL, Run, RunProgram
from tests.tables import new_catalog

TURNS = {chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}


def assert_harmless(text: str) -> None:
    acting = [c for c in text if c != "\n" and (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in TURNS)]
    assert acting == []


ASKED = [
    ["inspect"],
    ["inspect", "--deletes", "--metrics"],
    ["inspect", "--ref", "b[red]" + EVIL],
    ["inspect", "--ref", EVIL],
    ["explain", "true"],
    ["scan"],
    ["changes"],
    ["explain", EVIL],
    ["explain", "id = 1", "--columns", EVIL],
    ["explain", "id = 1", "--columns", "[red]" + EVIL],
    ["delete", "id = 2", "--dry-run"],
    ["verify", "--level", "data"],
    ["repair", "--dry-run"],
    ["repair", "--dry-run", "--ref", EVIL],
    ["delete", EVIL],
    ["delete", "id = 2", "--ref", EVIL],
]


@pytest.mark.parametrize("asked", ASKED, ids=[" ".join(map(plain, a)) for a in ASKED])
def test_nothing_acts(run: Run, warehouse: Path, asked: list[str]) -> None:
    command, *rest = asked
    for form, columns in (([], None), ([], 80), (["--json"], None)):
        result = run(command, "--warehouse", warehouse, "demo.evil", *rest, *form, columns=columns)
        assert result.exit_code in (0, 1)
        assert_harmless(result.stdout)
        assert_harmless(result.stderr)
        assert "😄" not in result.output


def test_markup_is_text(run: Run, warehouse: Path) -> None:
    shown = run("inspect", "--warehouse", warehouse, "demo.evil", "--deletes").stdout
    assert plain(EVIL) in shown
    assert "[bold]x[/bold]" in shown
    explained = run("explain", "--warehouse", warehouse, "demo.evil", "id = 2").stdout
    assert "'[red]plain'" in explained


def test_names_of_files_and_catalogs(run: Run, tmp_path: Path) -> None:
    odd = tmp_path / "w\x1b[31m[red]\n"
    for arguments in (["demo.x"], ["x\x1b[2J.[red]"], ["noname\x1b"]):
        result = run("inspect", *arguments, "--warehouse", odd)
        assert result.exit_code == 1
        assert_harmless(result.output)
    result = run("inspect", odd)
    assert "[red]" in result.stderr
    assert_harmless(result.output)
    with new_catalog(odd) as catalog:
        table = dk.create_table(catalog, "demo.x", dk.datasets.users().schema)
        dk.append(table, dk.datasets.users())
    for command in ("inspect --deletes", "explain true", "delete true --dry-run", "delete true"):
        verb, *rest = command.split()
        result = run(verb, "--warehouse", odd, "demo.x", *rest)
        assert result.exit_code == 0, result.stderr
        assert_harmless(result.output)


def test_errors_of_a_traceback_too(run: Run, tmp_path: Path) -> None:
    result = run("inspect", tmp_path / EVIL.replace("/", ""), "--traceback")
    assert "Traceback" in result.stderr
    assert_harmless(result.output)


def test_usage_errors(run: Run) -> None:
    assert_harmless(run("delete", "t", "true", "--mode", "\x1b[31mx").output)
    assert_harmless(run("\x1b[31mx").output)
    assert_harmless(run("inspect", "t", "--snapshot", EVIL).output)


@pytest.mark.slow
def test_a_real_process_whose_output_has_no_unicode(program: RunProgram, warehouse: Path) -> None:
    for arguments in (["inspect", "--deletes"], ["explain", "true"], ["inspect", "--json"]):
        done = program(
            arguments[0], "--warehouse", warehouse, "demo.evil", *arguments[1:], PYTHONIOENCODING="ascii:strict"
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()
        assert_harmless(done.stdout)
