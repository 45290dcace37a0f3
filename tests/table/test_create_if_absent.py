"""Files that are created only if there are none, on a server of our own: of many writers one wins, lost answers are
asked for again, and storage that would overwrite is refused.
"""

import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import deletekit as dk
from deletekit.table.create_if_absent import CreateIfAbsent

KEYS = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "us-east-1"}


class Store(ThreadingHTTPServer):
    """An object store with one lock: it obeys the condition in `header`, and answers as often as `answers` says."""

    def __init__(self, header: str | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.header, self.objects, self.lock = header, dict[str, bytes](), threading.Lock()
        self.failing: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Store

    @property
    def key(self) -> str:
        return unquote(self.path.partition("?")[0])

    def do_PUT(self) -> None:
        data, path = self.rfile.read(int(self.headers["Content-Length"])), self.key
        with self.server.lock:
            header = self.server.header
            wanted = header is not None and self.headers[header] == ("0" if header.startswith("x-goog") else "*")
            exists = wanted and path in self.server.objects
            if not exists:
                self.server.objects[path] = data
            lost = self.server.failing.pop() if self.server.failing else None
        # Azure says 409 where the others say 412.
        self.answer(lost or ((409 if "Authorization" not in self.headers else 412) if exists else 200))

    def do_GET(self) -> None:
        data = self.server.objects.get(self.key)
        self.answer(404 if data is None else 200, data or b"")

    def do_DELETE(self) -> None:
        self.server.objects.pop(self.key, None)
        self.answer(204)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("x-goog-generation", "1")
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def store(request: pytest.FixtureRequest, obstore: None) -> Iterator[Store]:
    header = getattr(request, "param", "If-None-Match")
    with Store(header) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def on(store: Store, folder: str = "s3://bucket/delta") -> CreateIfAbsent:
    return CreateIfAbsent(folder, {**KEYS, "s3.endpoint": store.url})


def race(files: list[CreateIfAbsent], path: str) -> bytes:
    """Let writers create one file at once, and return the winner's bytes."""
    together = threading.Barrier(len(files))

    def write(number: int) -> bytes | None:
        together.wait()
        try:
            files[number].create(path, bytes([number]))
        except dk.CommitConflictError:
            return None
        return bytes([number])

    with ThreadPoolExecutor(len(files)) as pool:
        (winner,) = filter(None, pool.map(write, range(len(files))))
    return winner


def test_one_writer_wins_in_an_object_store(store: Store) -> None:
    for number in range(3):
        winner = race([on(store) for _ in range(8)], f"s3://bucket/delta/{number}")
        assert store.objects[f"/bucket/delta/{number}"] == winner


def test_one_writer_wins_on_a_disk(tmp_path: Path) -> None:
    for number in range(20):
        winner = race([CreateIfAbsent(str(tmp_path), {}) for _ in range(8)], f"{tmp_path}/log/{number}")
        assert (tmp_path / "log" / str(number)).read_bytes() == winner
    assert len(list((tmp_path / "log").iterdir())) == 20, "no draft stays"


CLOUDS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "s3": ("If-None-Match", "s3://bucket/delta", KEYS),
    "gs": ("x-goog-if-generation-match", "gs://bucket/delta", {"gcs.oauth2.token": "t"}),
    "abfss": ("If-None-Match", "abfss://bucket@account.dfs.core.windows.net/delta", {"adls.anon": "true"}),
}


@pytest.mark.parametrize(("name", "store"), [(name, found[0]) for name, found in CLOUDS.items()], indirect=["store"])
def test_each_cloud_gets_its_condition(store: Store, name: str) -> None:
    _, folder, properties = CLOUDS[name]
    azure = {"adls.blob-storage-authority": store.url.removeprefix("http://"), "adls.blob-storage-scheme": "http"}
    files = CreateIfAbsent(folder, {**properties, **azure, "s3.endpoint": store.url, "gcs.service.host": store.url})
    files.check()
    files.create(f"{folder}/x", b"1")
    files.create(f"{folder}/x", b"1")
    with pytest.raises(dk.CommitConflictError):
        files.create(f"{folder}/x", b"2")
    assert store.objects["/account" * (name == "abfss") + "/bucket/delta/x"] == b"1"


@pytest.mark.parametrize("store", [None], indirect=True)
def test_storage_that_ignores_the_condition_is_refused(store: Store) -> None:
    with pytest.raises(dk.UnsupportedError) as e:
        on(store).check()
    assert e.value.kind == "storage"


@pytest.mark.parametrize("failures", [1, 9])
def test_a_lost_answer_is_asked_for_again(store: Store, failures: int) -> None:
    """The request was done, and the server said 500."""
    store.failing = [500] * failures
    files = on(store)
    files.create("s3://bucket/delta/x", b"1")
    with pytest.raises((dk.CommitConflictError, dk.StorageError)):
        files.create("s3://bucket/delta/x", b"2")
    assert store.objects["/bucket/delta/x"] == b"1"


REFUSED = {
    "hdfs": ("hdfs://name/delta", {}),
    "wasb": ("wasb://c@a.blob.core.windows.net/delta", {}),
    "role": ("s3://bucket/delta", {"client.role-arn": "arn:aws:iam::1:role/x"}),
    "signer": ("s3://bucket/delta", {"s3.signer": "S3V4RestSigner"}),
    "azure": ("abfss://c@a.dfs.core.windows.net/delta", {"adls.connection-string": "x"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_promised_is_refused(obstore: None, name: str) -> None:
    with pytest.raises(dk.UnsupportedError) as e:
        CreateIfAbsent(*REFUSED[name])
    assert (e.value.kind, e.value.file) == ("storage", REFUSED[name][0])
    assert "write to a local folder" in e.value.message


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(dk.EnvironmentMissingError, match=r"pip install 'deletekit\[object-store\]'"):
        CreateIfAbsent("s3://bucket/delta", KEYS)
