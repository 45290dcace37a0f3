"""A file of the user's that is imported in the place of a library is named; one that does no harm is not blamed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """
import sys
sys.path.append({root!r})
import deletekit as dk
try:
    {code}
except ImportError as e:
    print(str(e))
except dk.EnvironmentMissingError as e:
    print(str(e))
else:
    print("fine")
"""
SCAN = "dk.load_catalog('p', type='sql', uri='sqlite://', warehouse='w').list_namespaces()"


def said(folder: Path, name: str, code: str = SCAN, text: str = "x = 1") -> str:
    """Run code beside a file of this name, and return what it prints."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    (folder / "main.py").write_text(PROGRAM.format(root=str(ROOT), code=code))
    done = subprocess.run([sys.executable, "main.py"], cwd=folder, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("random.py", "x = 1"),  # deletekit's own modules cannot be imported without it
        ("numbers.py", "x = 1"),
        ("copy/__init__.py", ""),
        ("pydantic.py", "x = 1"),
        ("uuid.py", "raise RuntimeError('a program of its own')"),
    ],
)
def test_a_file_that_shadows_a_module_is_named(tmp_path: Path, name: str, text: str) -> None:
    printed = said(tmp_path, name, text=text)
    assert str(tmp_path / name) in printed
    assert "another name" in printed
    assert "pip install" not in printed
    assert "Traceback" not in printed


def test_a_file_that_does_no_harm_is_not_blamed(tmp_path: Path) -> None:
    code = "dk.load_catalog('p', type='sql', uri='mysql+nothing://h/x')"
    assert "another name" not in said(
        tmp_path, "secrets.py", "sys.modules['MySQLdb'] = None; " + code.replace("+nothing", "")
    )
    assert said(tmp_path, "mine.py", "import mine; dk.local_catalog('wh').list_namespaces()") == "fine\n"
