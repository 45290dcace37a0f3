"""A release: its workflow is sound, its tag and changelog agree, and its README works where the repository is not."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from deletekit.course.translations import LANGUAGES
from deletekit.version import __version__
from tests.tools.release import notes

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
ADDRESS = "https://forge.example/owner/deletekit"
CHANGELOG = """\
# Changelog

## [1.1.0] - Unreleased

- New.

## [1.0.0] - 2026-01-02

### Added

- All.

## [0.9] - 2026-01-01
"""
BUILD = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"


# --- the workflow -----------------------------------------------------------------------------------------------------


def program(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"{name} is not installed: pip install 'deletekit[test]'")
    return found


@pytest.mark.parametrize(
    "command",
    [
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
        ["zizmor", "--offline", "--no-progress", "--persona=pedantic"],
    ],
    ids=lambda command: command[0],
)
def test_linters_accept_the_workflow(command: list[str]) -> None:
    done = subprocess.run(
        [program(command[0]), *command[1:], str(WORKFLOW)], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_tests_every_python_that_we_name() -> None:
    yaml = pytest.importorskip("yaml")  # jupyter's
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert set(pythons) <= set(matrix["python"])
    assert f">={matrix['python'][0]}" == project["requires-python"]
    assert {name.partition("-")[0] for name in matrix["system"]} == {"ubuntu", "macos", "windows"}
    assert set(jobs["publish"]["needs"]) == {"build", "test"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "pypi"


# --- the tag and the changelog ----------------------------------------------------------------------------------------


def test_notes_are_the_chapter_of_the_version() -> None:
    assert notes("v1.0.0", "1.0.0", CHANGELOG) == "### Added\n\n- All."


@pytest.mark.parametrize(
    ("tag", "version", "said"),
    [
        ("v1.0.1", "1.0.0", "the tag is v1.0.1"),
        ("1.0.0", "1.0.0", "the tag is 1.0.0"),
        ("v1.1.0", "1.1.0", "has no date but 'Unreleased'"),
        ("v1.2.0", "1.2.0", "no chapter"),
        ("v0.9", "0.9", "is empty"),
    ],
)
def test_a_release_that_does_not_agree_is_refused(tag: str, version: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        notes(tag, version, CHANGELOG)


def test_the_command_says_what_is_wrong() -> None:
    script = ROOT / "tests" / "tools" / "release.py"
    done = subprocess.run([sys.executable, script, "v9.9.9"], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"the tag is v9.9.9, and deletekit/version.py says {__version__}")


# --- README elsewhere -------------------------------------------------------------------------------------------------


def built(what: str, source: Path, folder: Path, address: str | None = ADDRESS) -> Path:
    """Give what the build backend makes of a source tree."""
    environment = {name: value for name, value in os.environ.items() if name != "DELETEKIT_REPOSITORY"}
    if address:
        environment["DELETEKIT_REPOSITORY"] = address
    done = subprocess.run(
        [sys.executable, "-c", BUILD, what, str(folder)],
        cwd=source, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.strip()


def metadata_of(source: Path, folder: Path, address: str | None = ADDRESS) -> Message:
    """Give the metadata that a wheel of a source tree would have."""
    place = built("prepare_metadata_for_build_wheel", source, folder, address)
    return email.message_from_bytes((place / "METADATA").read_bytes())


@pytest.mark.usefixtures("build_backend")
def test_a_release_on_github_has_a_badge_for_each_language(tmp_path: Path) -> None:
    text = str(metadata_of(ROOT, tmp_path, "https://github.com/o/r").get_payload())
    lesson = rf"\]\(https://mybinder.org/v2/gh/o/r/v{__version__}\?labpath=course/([\w-]+)/00_start_here.ipynb\)"
    assert re.findall(lesson, text) == sorted(LANGUAGES)
    assert "mybinder" not in str(metadata_of(ROOT, tmp_path).get_payload())


@pytest.mark.usefixtures("build_backend")
def test_the_address_makes_urls_and_every_link_of_readme_absolute(tmp_path: Path) -> None:
    metadata = metadata_of(ROOT, tmp_path)
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    assert urls["Changelog"] == f"{ADDRESS}/blob/v{__version__}/CHANGELOG.md"
    text = str(metadata.get_payload())
    targets = re.findall(r"\]\(([^)\s]+)", text)
    assert len(targets) > 10
    assert [target for target in targets if not target.startswith("https://")] == []
    assert re.findall(r"<(?:img|a|source)\b[^>]*", text) == [], "the hook knows Markdown's links only"
    assert re.findall(r"^\[[^\]]+\]:.*", text, re.MULTILINE) == [], "the same"
    ours = [target.removeprefix(ADDRESS).split("/", 3)[1:] for target in targets if target.startswith(ADDRESS)]
    assert {tag for _, tag, _ in ours} == {f"v{__version__}"}
    assert [path for _, _, path in ours if not (ROOT / path.partition("#")[0]).exists()] == []
    pictures = {path for kind, _, path in ours if kind == "raw"}
    assert pictures == {path for _, _, path in ours if path.endswith((".png", ".svg"))} != set()


@pytest.mark.usefixtures("build_backend")
def test_without_an_address_readme_is_as_it_is(tmp_path: Path) -> None:
    metadata = metadata_of(ROOT, tmp_path, None)
    assert metadata.get_all("Project-URL") is None
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("build_backend")
def test_a_wheel_of_the_sdist_needs_no_address(tmp_path: Path) -> None:
    with tarfile.open(built("build_sdist", ROOT, tmp_path)) as archive:
        # Debian's Python 3.11.2 has no filters yet.
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path, **safely)  # noqa: S202  # this project packed it itself, a line above
    (source,) = (each for each in tmp_path.iterdir() if each.is_dir())
    for name in ("wheel", "direct"):
        (tmp_path / name).mkdir()
    made = metadata_of(source, tmp_path / "wheel", None)
    direct = metadata_of(ROOT, tmp_path / "direct")
    assert made.get_all("Project-URL") == direct.get_all("Project-URL")
    assert made.get_payload() == direct.get_payload()
