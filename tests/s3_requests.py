"""A proxy before moto's server, which notes each request to S3, and may hold it back for a while or let it fail."""

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.s3 import S3

RESET = b""
"""An answer that is none: the connection is broken off."""

_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) ([^ ?]*)[^ ]* HTTP/1\.1\r\n")


def refusal(status: int, code: str) -> bytes:
    """An answer of S3 that refuses a request."""
    body = f"<Error><Code>{code}</Code><Message>{code} by the test</Message></Error>"
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class S3Requests:
    """The requests that were seen, as (method, key).

    Attributes
    ----------
    seconds: how long each one is held back.
    most_at_once: how many were held back at the same time.
    fails: gets the number of a request, from 1, and returns what is answered in the server's place, or None.
    """

    def __init__(self, s3: S3) -> None:
        self.seconds = 0.0
        self.seen: list[tuple[str, str]] = []
        self.most_at_once = 0
        self.fails: Callable[[int], bytes | None] = lambda _: None
        self.times: list[float] = []
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
        self.times.clear()
        self.most_at_once = 0

    def _hold(self, method: str, key: str) -> bytes | None:
        with self._lock:
            self.seen.append((method, key))
            self.times.append(time.monotonic())
            answer = self.fails(len(self.seen))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(self.seconds)
        with self._lock:
            self._at_once -= 1
        return answer

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
                    answer = self._hold(found[1].decode(), found[2].decode().partition("/wh/")[2])
                    if answer is not None:
                        _refuse(source, answer)
                        break
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def _refuse(client: socket.socket, answer: bytes) -> None:
    """Answer in the server's place, and close the connection; a client that is still sending sees that first."""
    if answer == RESET:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        return
    client.settimeout(0.2)
    with suppress(TimeoutError):
        while client.recv(1 << 16):
            pass
    client.settimeout(None)
    client.sendall(answer)
    client.shutdown(socket.SHUT_RDWR)


@contextmanager
def requests_of(s3: S3) -> Iterator[S3Requests]:
    """Give a proxy that stands before the server until the block ends."""
    proxy = S3Requests(s3)
    try:
        yield proxy
    finally:
        proxy.close()
