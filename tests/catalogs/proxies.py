"""Proxies on loopback that lose, cut or falsify the one message that decides a commit."""

import http.client
import http.server
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Answer = tuple[int, bytes]
Forward = Callable[[], Answer]
RestFault = Callable[[Forward], Answer | None]
"""What becomes of a commit: gets the function that forwards it, gives the answer, or None to hang up without one."""


@dataclass
class RestProxy:
    """In front of a REST catalog.

    `faults` are used up one by one by commits to tables, `creations` by new tables, `drops` by dropped ones.
    """

    upstream: int
    port: int = 0
    faults: list[RestFault] = field(default_factory=list)
    creations: list[RestFault] = field(default_factory=list)
    drops: list[RestFault] = field(default_factory=list)
    commits: int = 0
    down: float = 0
    """How many of the next requests to read are answered by 503; `math.inf`: all, until it is 0 again."""

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "rest", "uri": f"http://127.0.0.1:{self.port}"}


@contextmanager
def rest_proxy(upstream: int) -> Iterator[RestProxy]:
    proxy = RestProxy(upstream)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            faults: list[RestFault] = []
            if self.command in ("GET", "HEAD") and proxy.down > 0:
                proxy.down -= 1
                faults = [lambda _: error_answer(503)]
            elif self.command == "POST" and ("/tables/" in self.path or self.path.endswith("/transactions/commit")):
                proxy.commits += 1
                faults = proxy.faults
            elif self.command == "POST" and self.path.endswith("/tables"):
                faults = proxy.creations
            elif self.command == "DELETE":
                faults = proxy.drops
            answer = faults.pop(0)(lambda: self.forward(body)) if faults else self.forward(body)
            if answer is None:
                self.close_connection = True
                return
            status, content = answer
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else content)

        do_GET = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815  # http.server's names

        def forward(self, body: bytes) -> Answer:
            connection = http.client.HTTPConnection("127.0.0.1", proxy.upstream, timeout=60)
            try:
                connection.request(self.command, self.path, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                return answer.status, answer.read()
            except OSError as e:
                return error_answer(502, str(e))
            finally:
                connection.close()

        def log_message(self, *arguments: Any) -> None:
            del arguments

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        proxy.port = server.server_address[1]
        with served(server):
            yield proxy


def error_answer(status: int, message: str = "made up by a test") -> Answer:
    """Iceberg's ErrorResponse."""
    return status, json.dumps({"error": {"message": message, "type": "Test", "code": status}}).encode()


PostgresFault = Callable[[Callable[..., None]], None]
"""What becomes of a COMMIT: gets the function that sends it on and waits for the answer. Then the client is cut off."""


@dataclass
class PostgresProxy:
    """In front of a PostgreSQL server's socket; `faults` are used up one by one, by COMMITs."""

    upstream: str
    port: int = 0
    faults: list[PostgresFault] = field(default_factory=list)
    closed: bool = False

    @property
    def uri(self) -> str:
        options = "sslmode=disable&gssencmode=disable&connect_timeout=5"
        return f"postgresql+psycopg2://postgres@127.0.0.1:{self.port}/postgres?{options}"


@contextmanager
def postgres_proxy(upstream: str) -> Iterator[PostgresProxy]:
    proxy = PostgresProxy(upstream)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if proxy.closed:
                return
            with socket.socket(socket.AF_UNIX) as server, suppress(OSError):
                server.connect(proxy.upstream)
                self.paused, self.answer = threading.Event(), threading.Event()
                threading.Thread(target=self.copy_back, args=(server,), daemon=True).start()
                self.copy_forth(server)
                server.shutdown(socket.SHUT_RDWR)  # a close alone would not wake copy_back

        def copy_forth(self, server: socket.socket) -> None:
            while data := self.request.recv(65536):
                if proxy.faults and data.endswith(b"COMMIT\0"):
                    self.paused.set()
                    proxy.faults.pop(0)(lambda wait=30.0, data=data: self.exchange(server, data, wait))
                    return
                server.sendall(data)

        def exchange(self, server: socket.socket, data: bytes, wait: float) -> None:
            server.sendall(data)
            self.answer.wait(wait)

        def copy_back(self, server: socket.socket) -> None:
            with suppress(OSError):
                while data := server.recv(65536):
                    if self.paused.is_set():
                        self.answer.set()
                    else:
                        self.request.sendall(data)
                self.request.shutdown(socket.SHUT_RDWR)  # the server hung up, and the client waits for that

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        proxy.port = server.server_address[1]
        with served(server):
            yield proxy


@contextmanager
def served(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
