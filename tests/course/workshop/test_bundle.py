"""The bundle is installed and the course taken in a network namespace without a route; what is damaged is not."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

import deletekit as dk
from deletekit.course.translations import LANGUAGES
from deletekit.course.workshop import Target, make_bundle
from deletekit.course.workshop.wheels import metadata_of, own_wheel
from tests.course.widgets.browser import axe_findings
from tests.optional_types import Browser
from tests.tools.lessons import NOTEBOOKS, assert_unrun_copy, lesson_names

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("workshop")]


@pytest.fixture(scope="module")
def bundle(build_backend: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the bundle for this machine, made once."""
    folder = tmp_path_factory.mktemp("bundle") / "workshop"
    made = make_bundle(folder)
    assert (made.targets, made.jars) == ((Target.here(),), 0)
    assert made.lessons == len(lesson_names())
    assert made.size == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return folder


def learner(tmp_path: Path) -> dict[str, str]:
    """Give the environment of somebody who has nothing."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "DELETEKIT_COURSE_ENGINE": "local", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def installed(bundle: Path, no_network: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder into which the bundle was installed."""
    return install(bundle, no_network, tmp_path_factory.mktemp("learner"))


def install(bundle: Path, no_network: list[str], place: Path) -> Path:
    """Install as somebody without a network would, and give the folder."""
    command = [*no_network, sys.executable, str(bundle / "install.py")]
    done = subprocess.run(command, cwd=place, env=learner(place), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(place / "deletekit-workshop" / "start.sh") in done.stdout
    return place / "deletekit-workshop"


def test_the_course_runs_without_a_network(installed: Path, no_network: list[str], tmp_path: Path) -> None:
    def run(*command: object) -> str:
        words = [*no_network, *map(str, command)]
        done = subprocess.run(words, cwd=tmp_path, env=learner(tmp_path), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "--lang" in run(installed / "start.sh", "--help")
    assert "lessons copied" in run(installed / "start.sh", "--lang", "ko", "--no-start")
    lessons = installed / "deletekit-course" / "ko"
    assert sorted(file.stem for file in lessons.iterdir()) == lesson_names()
    python = installed / "venv" / "bin" / "python"
    for name in ("00_start_here", "06_deletion_vectors"):
        run(python.with_name("jupyter"), "execute", "--inplace", lessons / f"{name}.ipynb")
        assert printed(lessons / f"{name}.ipynb") == printed(NOTEBOOKS / "ko" / f"{name}.ipynb")
    code = "import deletekit, pyarrow; print(deletekit.__file__); print(pyarrow.__file__)"
    assert all(line.startswith(str(installed)) for line in run(python, "-c", code).splitlines())


def printed(file: Path) -> list[object]:
    """List what the cells of an executed notebook say, without what is this machine's own."""
    cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
    said = []
    for cell in cells:
        assert cell.execution_count
        if "nbval-ignore-output" not in cell.metadata.get("tags", ()):
            texts = (o.text if o.output_type == "stream" else o.data["text/plain"] for o in cell.outputs)
            said.append((cell.execution_count, "".join(texts)))
    return said


def test_what_is_in_it(bundle: Path) -> None:
    assert {place.name for place in bundle.iterdir()} == {
        "START_HERE.html", "SHA256SUMS", "bundle.json", "data", "html", "install.py", "notebooks", "wheels"
    }  # fmt: skip
    check = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=bundle, check=False, capture_output=True
    )
    assert check.returncode == 0, check.stdout
    listed = (bundle / "SHA256SUMS").read_text(encoding="utf-8").count("\n")
    assert listed == sum(file.is_file() for file in bundle.rglob("*")) - 1
    for language in LANGUAGES:
        for name in lesson_names():
            lesson = Path(language, f"{name}.ipynb")
            assert_unrun_copy(bundle / "notebooks" / lesson, NOTEBOOKS / lesson)
    assert not any("pyspark" in file.name for file in (bundle / "wheels").iterdir())


def test_pages_ask_nobody_and_their_links_lead_somewhere(bundle: Path) -> None:
    pages = [bundle / "START_HERE.html", *(bundle / "html").rglob("*.html")]
    of_instructors = [f"{name}.html" for name in ("README", *lesson_names())]
    assert len(pages) == 1 + len(LANGUAGES) * len(lesson_names()) + len(("en", "ko")) * len(of_instructors)
    for language in ("en", "ko"):
        folder = bundle / "html" / "instructor" / language
        assert sorted(file.name for file in folder.iterdir()) == sorted(of_instructors)
    assert "흔한 오답" in (folder / "06_deletion_vectors.html").read_text(encoding="utf-8")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert ("<script" in text) == (page.parent.name in LANGUAGES and page.parents[1].name == "html"), page.name
        assert not re.search(r"""(?:src=|url\(|@import|<link)[^>]*//""", text), page.name
        for target in re.findall(r'href="([^"#]+)', text):
            if "://" not in target:
                assert (page.parent / target).is_file(), f"{page.name}: {target}"
    start = pages[0].read_text(encoding="utf-8")
    assert [start.count(f'<section id="{code}" lang="{code}">') for code in LANGUAGES] == [1] * len(LANGUAGES)
    korean = (bundle / "html" / "ko" / "01_table_anatomy.html").read_text(encoding="utf-8")
    assert '<html lang="ko">' in korean
    assert "on the disk" in korean, "the outputs are on the page"


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "page", ["START_HERE", "html/ko/06_deletion_vectors", "html/en/13_streaming_deletes", "html/instructor/ko/README"]
)
def test_axe_finds_nothing(page: str, bundle: Path, browser: Browser) -> None:
    assert axe_findings(browser, (bundle / f"{page}.html").as_uri()) == []


def test_damage_and_the_wrong_machine_are_named(bundle: Path, tmp_path: Path) -> None:
    def install(change: str, text: bytes) -> str:
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(bundle, folder, copy_function=os.link)
        (folder / change).unlink()
        (folder / change).write_bytes(text)
        done = subprocess.run(
            [sys.executable, str(folder / "install.py"), str(tmp_path / "target")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert not (tmp_path / "target").exists()
        return done.stderr

    (wheel,) = (bundle / "wheels").glob("pyarrow-*.whl")
    assert install(f"wheels/{wheel.name}", wheel.read_bytes()[:-1]) == (
        f"wheels/{wheel.name} is damaged: copy the bundle again.\n"
    )
    described = json.loads((bundle / "bundle.json").read_text(encoding="utf-8"))
    other = json.dumps({**described, "targets": [["windows-x86_64", "3.12"]]}).encode()
    said = "This bundle is for windows-x86_64 with Python 3.12. This is "
    assert install("bundle.json", other).startswith(said)


def test_an_installation_makes_the_wheel_it_came_from(bundle: Path, installed: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from deletekit.course.workshop.wheels import own_wheel;"
        "print(own_wheel(Path(sys.argv[1])))"
    )
    python = installed / "venv" / "bin" / "python"
    done = subprocess.run(
        [python, "-c", code, tmp_path], cwd=tmp_path, env=learner(tmp_path), capture_output=True, text=True, check=True
    )
    again = Path(done.stdout.strip())
    (first,) = (bundle / "wheels").glob("deletekit-*.whl")
    assert again.name == first.name
    assert contents(again) == contents(first)
    assert sorted(metadata_of(again).requires or ()) == sorted(metadata_of(first).requires or ())
    check = [python, "-m", "pip", "install", "--no-index", "--no-deps", "--target", tmp_path / "there", again]
    subprocess.run(list(map(str, check)), check=True, capture_output=True)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_the_wheel_carries_the_course(build_backend: None, tmp_path: Path) -> None:
    wheel = own_wheel(tmp_path)
    there = set(contents(wheel))
    wanted = {f"deletekit/_notebooks/{code}/{name}.ipynb" for code in LANGUAGES for name in lesson_names()}
    assert wanted <= there
    assert {"deletekit/course/workshop/install.py", "deletekit/course/locale/workshop.json"} <= there
    # pip copies this into share/jupyter of the environment, where JupyterLab looks.
    place = ".data/data/share/jupyter/labextensions/deletekit/package.json"
    (extension,) = (name for name in there if name.endswith(place))
    script = json.loads(contents(wheel)[extension])["jupyterlab"]["_build"]["load"]
    assert extension.replace("package.json", script) in there


def test_what_fails_leaves_nothing(build_backend: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(dk.EnvironmentMissingError, match="pip download failed") as caught:
        make_bundle(tmp_path / "place" / "workshop")
    assert "No matching distribution" in str(caught.value.found)
    assert list((tmp_path / "place").iterdir()) == []
