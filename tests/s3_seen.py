"""A small S3 of our own, which notes how each request is signed; by http, by https, or in the place of a proxy."""

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

_SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]*)/\d+/([^/]*)/s3/")


class Seen(NamedTuple):
    """Who asked, and for what. A proxy is asked for a whole address."""

    path: str
    key: str | None
    region: str | None
    token: str | None
    payer: str | None


class SeenS3(ThreadingHTTPServer):
    """Objects by path. It keeps what is sent as old servers do: checksums behind the bytes are bytes to it."""

    def __init__(self, certificate: tuple[str, str] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[Seen] = []
        self.objects: dict[str, bytes] = {}
        self.connections = 0
        self.url = f"http{'s' * bool(certificate)}://127.0.0.1:{self.server_port}"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
        if self._context and certificate:
            self._context.load_cert_chain(*certificate)

    def finish_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        with suppress(OSError):  # a client that refuses the certificate
            if self._context:
                with self._context.wrap_socket(request, server_side=True) as wrapped:
                    super().finish_request(wrapped, client_address)
            else:
                super().finish_request(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: SeenS3
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.note()
        data = self.server.objects.get(self.key)
        begin, _, end = (self.headers["Range"] or "bytes=0-").removeprefix("bytes=").partition("-")
        self.answer(404 if data is None else 206, (data or b"")[int(begin) : int(end) + 1 if end else None])

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.note()
        if self.headers["Transfer-Encoding"] == "chunked":
            data = b""
            while length := int(self.rfile.readline(), 16):
                data += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.objects[self.key] = data
        self.answer(200)

    def do_DELETE(self) -> None:
        self.note()
        self.server.objects.pop(self.key, None)
        self.answer(204)

    @property
    def key(self) -> str:
        return re.sub(r"^http://[^/]*", "", self.path).partition("?")[0]

    def note(self) -> None:
        signed = _SIGNED.match(self.headers["Authorization"] or "")
        key, region = signed.groups() if signed else (None, None)
        token, payer = self.headers["x-amz-security-token"], self.headers["x-amz-request-payer"]
        self.server.seen.append(Seen(self.path, key, region, token, payer))

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def seen_s3(certificate: tuple[str, str] | None = None) -> Iterator[SeenS3]:
    """Serve while the block runs."""
    with SeenS3(certificate) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
