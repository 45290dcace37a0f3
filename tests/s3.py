"""An S3 on loopback: moto's server, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from itertools import count
from urllib.error import URLError

_numbers = count()


@dataclass
class S3:
    """A running server; `bucket()` makes an empty bucket."""

    port: int
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls) -> S3:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = cls(port, process)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            try:
                server.request("GET", "")
            except (URLError, ConnectionError):
                time.sleep(0.1)
            else:
                return server
        server.stop()
        raise RuntimeError("moto's server does not answer")

    @property
    def properties(self) -> dict[str, str]:
        """What pyiceberg's FileIO needs to find it."""
        return {
            "s3.endpoint": f"http://127.0.0.1:{self.port}",
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        }

    def bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"bucket{next(_numbers)}"
        self.request("PUT", name)
        return name

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Talk to the server without any library of S3; what others wrote cannot be read without a signature."""
        url, headers = f"http://127.0.0.1:{self.port}/{path}", {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  # loopback
            return bytes(answer.read())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
