"""A real JupyterLab in a real Chromium, without the network: what the browser tests drive."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

import nbformat
from jupyter_client import BlockingKernelClient
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[3]
EXTENSIONS = ROOT / "deletekit" / "course" / "widgets" / "labextensions"
# Nothing but the notebook: no news, no update check, and every cell in the page, seen or not.
SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
}
_STATUS = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status"


class Lab:
    """One JupyterLab server, its files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "lab.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (folder / "work").mkdir()
        for name, value in SETTINGS.items():
            file = folder / "settings" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(value), encoding="utf-8")

    def __enter__(self) -> Self:
        own = {
            name: str(self.folder / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
        }
        environment = {
            **os.environ,
            **own,
            "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.folder / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.folder / "workspaces"),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "default",
        }
        options = [f"--port={self.port}", "--ip=127.0.0.1", "--no-browser", "--allow-root", "--IdentityProvider.token="]
        options += [f"--LabApp.extra_labextensions_path={EXTENSIONS}"]  # where a wheel puts it, JupyterLab looks anyway
        options += [f"--ServerApp.root_dir={self.folder / 'work'}", "--LabApp.expose_app_in_browser=True"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *options], stdout=log, stderr=log, env=environment
            )
        deadline = time.monotonic() + 120
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text(errors="replace")
            assert time.monotonic() < deadline, self._log.read_text(errors="replace")
            time.sleep(0.3)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api", timeout=2):
                return True
        except OSError:
            return False

    def notebook(self, name: str, cells: list[str]) -> str:
        """Write a notebook; returns its address."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(book, self.folder / "work" / f"{name}.ipynb")
        return self.address(f"{name}.ipynb")

    def copy(self, notebook: Path) -> str:
        """Copy a notebook, with the folder that it is in; returns its address."""
        there = self.folder / "work" / notebook.parent.name / notebook.name
        there.parent.mkdir(exist_ok=True)
        shutil.copyfile(notebook, there)
        return self.address(f"{notebook.parent.name}/{notebook.name}")

    def address(self, name: str) -> str:
        """Where a notebook is opened, and nothing beside it."""
        return f"http://127.0.0.1:{self.port}/doc/tree/{name}"

    def kernel(self) -> BlockingKernelClient:
        """A client of the one kernel that runs."""
        (file,) = (self.folder / "runtime").glob("kernel-*.json")
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        return client


class Notebook:
    """An open notebook with its kernel."""

    def __init__(self, browser: Browser, lab: Lab, address: str) -> None:
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": 1280, "height": 1000})
        self.page.set_default_timeout(20_000)
        self.page.on("request", self._request)
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.goto(address)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
        # What is run before the kernel is there is never run.
        self.page.wait_for_function(f"() => {_STATUS} === 'idle'", timeout=60_000)
        self._client = lab.kernel()

    def close(self) -> None:
        self._client.stop_channels()
        self.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
        self.page.close()

    def run_all(self) -> None:
        """Run every cell; returns at once."""
        self.command("notebook:run-all-cells")

    def _request(self, request: Any) -> None:
        if not re.match(r"(https?|wss?)://127\.0\.0\.1[:/]|data:|blob:", request.url):
            self.foreign.append(request.url)

    def command(self, name: str, **arguments: Any) -> None:
        """Run one of JupyterLab's commands."""
        self.page.wait_for_function("() => window.jupyterapp !== undefined")
        # Not its promise: some of them are never kept.
        self.page.evaluate("([n, args]) => {window.jupyterapp.commands.execute(n, args)}", [name, arguments])

    def theme(self, name: str) -> None:
        """`Light` or `Dark`."""
        self.command("apputils:change-theme", theme=f"JupyterLab {name}")
        light = str(name == "Light").lower()
        self.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")
        self.page.wait_for_timeout(400)  # the theme's stylesheet comes after the attribute

    def python(self, expression: str) -> Any:
        """The value of an expression in the kernel, by its JSON."""
        code = f"__import__('json').dumps({expression})"
        reply = self._client.execute("", user_expressions={"x": code}, reply=True, timeout=60)["content"]
        found = reply["user_expressions"]["x"]
        assert found["status"] == "ok", found
        return json.loads(eval(found["data"]["text/plain"]))  # noqa: S307  # the repr of a string that json made

    def run(self, code: str) -> None:
        """Run a line in the kernel."""
        reply = self._client.execute(code, reply=True, timeout=60)["content"]
        assert reply["status"] == "ok", reply

    def until(self, expression: str, expected: Any) -> None:
        """Wait until an expression in the kernel has a value."""
        deadline = time.monotonic() + 20
        while (found := self.python(expression)) != expected:
            assert time.monotonic() < deadline, f"{expression} is {found!r}, not {expected!r}"
            self.page.wait_for_timeout(50)
