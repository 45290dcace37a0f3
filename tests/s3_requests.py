"""A proxy before moto's server, which notes each request to S3, and may hold it back for a while."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.s3 import S3

__all__ = ["S3Requests", "requests_of"]

_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) ([^ ?]*)[^ ]* HTTP/1\.1\r\n")


class S3Requests:
    """The requests that were seen, as (method, key).

    Attributes
    ----------
    seconds: how long each one is held back.
    most_at_once: how many were held back at the same time.
    """

    def __init__(self, s3: S3) -> None:
        self.seconds = 0.0
        self.seen: list[tuple[str, str]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._s3 = s3
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._open: list[socket.socket] = [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def properties(self) -> dict[str, str]:
        """What pyiceberg's FileIO needs to talk to the server through this."""
        endpoint = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        # A request that a busy machine lets wait must not be sent twice.
        return {**self._s3.properties, "s3.endpoint": endpoint, "s3.request-timeout": "60"}

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def clear(self) -> None:
        """Forget what was seen."""
        self.seen.clear()
        self.most_at_once = 0

    def _hold(self, method: str, key: str) -> None:
        with self._lock:
            self.seen.append((method, key))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(self.seconds)
        with self._lock:
            self._at_once -= 1

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._s3.port))
                self._open += [client, server]
                for arguments in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, notes: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                # A client waits for the answer before it sends the next request, so that begins what is received.
                if notes and (found := _REQUEST.match(data)):
                    self._hold(found[1].decode(), found[2].decode().partition("/wh/")[2])
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@contextmanager
def requests_of(s3: S3) -> Iterator[S3Requests]:
    """Give a proxy that stands before the server until the block ends."""
    proxy = S3Requests(s3)
    try:
        yield proxy
    finally:
        proxy.close()
