"""Measure the memory of JupyterLab's server with lessons open: python -m tests.benchmarks.open_lessons_memory 04 06

Each lesson is run to its end in a kernel of its own, without Spark. Prints the proportional set sizes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from jupyter_client.blocking.client import BlockingKernelClient

from tests.benchmarks.session_memory import family, proportional_size
from tests.tools.lessons import learner, lesson_names, read_source


def main(numbers: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        settings = {"DELETEKIT_COURSE_ENGINE": "local", "JUPYTER_RUNTIME_DIR": folder, "HOME": folder}
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
        command += [f"--ServerApp.root_dir={folder}", "--IdentityProvider.token=measured"]
        with subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.DEVNULL) as server:
            try:
                address = f"http://127.0.0.1:{port}/api/kernels?token=measured"
                wait_for(address)
                print(f"server alone: {memory(server.pid)} MB")
                for number in numbers:
                    (name,) = (name for name in lesson_names() if name.startswith(number))
                    run_lesson(name, Path(folder), address)
                    print(f"with {name}: {memory(server.pid)} MB")
            finally:
                server.terminate()


def wait_for(address: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(address, timeout=30):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(address)


def run_lesson(name: str, runtime: Path, address: str) -> None:
    asked = urllib.request.Request(address, method="POST", data=b"{}")  # noqa: S310
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
        kernel = json.loads(answer.read())["id"]
    client = BlockingKernelClient(connection_file=str(runtime / f"kernel-{kernel}.json"))
    client.load_connection_file()
    client.start_channels()
    for _ in range(20):  # a kernel that is slow to start counts as dead
        with suppress(RuntimeError):
            client.wait_for_ready(timeout=120)
            break
    for cell in learner(read_source(name)).cells:
        if cell.cell_type == "code":
            reply = client.execute_interactive(cell.source, timeout=300, output_hook=lambda _: None)
            assert reply["content"]["status"] == "ok", reply["content"]
    client.stop_channels()


def memory(root: int) -> int:
    return sum(proportional_size(process) for process in family(root)) // 1_000_000


if __name__ == "__main__":
    main(sys.argv[1:])
