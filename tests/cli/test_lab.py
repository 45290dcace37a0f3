"""`deletekit lab` copies the lessons, never over somebody's work, and starts JupyterLab."""

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest

import deletekit
from deletekit.course import lab
from deletekit.course.translations import LANGUAGES
from tests.cli.conftest import Run
from tests.tools.lessons import NOTEBOOKS, assert_unrun_copy, lesson_names


def test_again_in_the_folder_of_the_course(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("lab", "--no-start").exit_code == 0
    monkeypatch.chdir(tmp_path / "deletekit-course")
    result = run("lab", "--lang", "KO", "--no-start")
    assert result.exit_code == 0, result.output
    assert {place.name for place in (tmp_path / "deletekit-course").iterdir()} == {"en", "ko"}


def test_without_jupyterlab_it_says_how_to_get_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "jupyterlab" else found(name))
    result = run("lab", tmp_path / "mine")
    assert result.exit_code == 1
    assert "pip install 'deletekit[course]'" in result.output
    assert not (tmp_path / "mine").exists()
    assert run("lab", tmp_path / "mine", "--no-start").exit_code == 0


def test_a_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    # Root may write anywhere, but not here.
    result = run("lab", Path("/proc/deletekit-course"), "--no-start")
    assert result.exit_code == 1
    assert "/proc/deletekit-course" in result.output
    assert "Traceback" not in result.output


def test_a_track_copies_its_lessons_and_is_remembered(run: Run, tmp_path: Path) -> None:
    def copied() -> list[str]:
        return sorted(file.name[:2] for file in (tmp_path / "en").glob("*.ipynb"))

    result = run("lab", tmp_path, "--track", "hour", "--no-start")
    assert result.exit_code == 0, result.output
    assert "The track hour: lessons 00, 04, 06." in result.output
    assert copied() == ["00", "04", "06"]
    progress = tmp_path / "deletekit-progress.json"
    progress.write_text(json.dumps({**json.loads(progress.read_text()), "00.1": "correct"}))
    # Again tomorrow, without the option: the same lessons, and what was done.
    assert run("lab", tmp_path, "--no-start").output.startswith("0 lessons copied")
    assert json.loads(progress.read_text()) == {"00.1": "correct", "track": "hour"}
    assert run("lab", tmp_path, "--track", "course", "--no-start").exit_code == 0
    assert copied() == [name[:2] for name in lesson_names()]
    assert run("lab", tmp_path, "--track", "a year", "--no-start").exit_code == 2


def test_idle_kernels_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    class Ended:
        def __init__(self, command: list[str]) -> None:
            asked.append(command)

        def wait(self) -> int:
            return 0

    monkeypatch.setattr("subprocess.Popen", Ended)
    assert lab.run_jupyterlab(tmp_path / "en") == 0
    # The same names and values by the command line as by a file; and Jupyter's own class has them.
    kernels = json.loads(lab.write_server_settings(tmp_path).read_text())["MappingKernelManager"]
    assert {f"--MappingKernelManager.{name}={value}" for name, value in kernels.items()} <= set(asked[0])
    manager = pytest.importorskip("jupyter_server.services.kernels.kernelmanager").MappingKernelManager
    assert set(kernels) <= set(manager.class_trait_names(config=True))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_copied(language: str, run: Run, tmp_path: Path) -> None:
    result = run("lab", tmp_path / "mine", "--lang", language, "--no-start")
    assert result.exit_code == 0, result.output
    copied = sorted((tmp_path / "mine" / language).iterdir())
    assert [file.stem for file in copied] == lesson_names()
    for file in copied:
        assert_unrun_copy(file, NOTEBOOKS / language / file.name)
    assert str(copied[0]) in result.output


def test_what_a_learner_wrote_is_kept(run: Run, tmp_path: Path) -> None:
    run("lab", tmp_path, "--no-start")
    mine = tmp_path / "en" / "00_start_here.ipynb"
    mine.write_text("mine")
    (tmp_path / "en" / "06_deletion_vectors.ipynb").unlink()
    result = run("lab", tmp_path, "--no-start")
    assert result.exit_code == 0
    assert result.output.startswith("1 lesson copied")
    assert mine.read_text() == "mine"
    assert nbformat.read(tmp_path / "en" / "06_deletion_vectors.ipynb", as_version=4).cells


def test_a_file_is_no_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("lab", tmp_path / "file", "--no-start").exit_code == 2
    result = run("lab", tmp_path / "file" / "below", "--no-start")
    assert result.exit_code == 1
    assert "this is a file" in result.output


def test_an_unknown_language_is_refused(run: Run, tmp_path: Path) -> None:
    result = run("lab", tmp_path, "--lang", "fr", "--no-start")
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_jupyterlab_starts_at_the_first_lesson(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "BROWSER": "true",
    }
    (tmp_path / "config").mkdir()
    log = tmp_path / "log"
    with socket.socket() as taken, log.open("w") as output:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        # The port is taken: JupyterLab finds another.
        settings = {"ServerApp": {"port": taken.getsockname()[1]}}
        (tmp_path / "config" / "jupyter_server_config.json").write_text(json.dumps(settings))
        program = subprocess.Popen(
            [sys.executable, "-m", "deletekit.cli", "lab", "course", "--lang", "ko"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.PIPE,  # as from a terminal, where nobody answers JupyterLab's question
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            address = address_of(log, program)
            assert "/lab/tree/ko/00_start_here.ipynb" in address
            contents = answer_of(address.replace("/lab/tree/", "/api/contents/"))
            assert json.loads(contents)["name"] == "00_start_here.ipynb"
            presses = end_with_ctrl_c(program)
            # 130: JupyterLab was not done with starting.
            assert program.returncode in (0, 130), log.read_text()
            # JupyterLab may print a traceback of its own when a second Ctrl-C finds it ending.
            bad = "Traceback" if presses == 1 else f'File "{Path(deletekit.__file__).parent}'
            assert bad not in log.read_text()
        finally:
            end(program)


def end_with_ctrl_c(program: subprocess.Popen[bytes]) -> int:
    """Press Ctrl-C as a terminal does, for all processes at once, and again if that did not end it; how often it took.

    Without a terminal to ask on, JupyterLab ends at the first, unless it is still starting.
    """
    os.killpg(program.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        program.wait(10)
        return 1
    os.killpg(program.pid, signal.SIGINT)
    program.wait(40)
    return 2


def end(program: subprocess.Popen[bytes]) -> None:
    assert program.stdin is not None
    program.stdin.close()
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def address_of(log: Path, program: subprocess.Popen[bytes]) -> str:
    """Wait for the server's address; it has the token."""
    for _ in range(900):
        found = re.search(r"http://127\.0\.0\.1:\d+/lab/tree/\S+", log.read_text())
        if found:
            return found[0]
        assert program.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def answer_of(address: str) -> bytes:
    """Ask the server, which says its address a moment before it listens."""
    for _ in range(100):
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310 - our own server
                return bytes(answer.read())
        except ConnectionError:
            pass
        except urllib.error.URLError as e:
            if not isinstance(e.reason, ConnectionError):
                raise
        time.sleep(0.1)
    raise AssertionError(address)
