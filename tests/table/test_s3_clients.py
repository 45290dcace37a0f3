"""obstore and Arrow are told the same: whose keys they sign with, which way they go, and whom they trust."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pyarrow as pa
import pyiceberg.io
import pytest

import deletekit as dk
from deletekit.table import s3_files
from deletekit.table.create_if_absent import CreateIfAbsent
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.s3_files import S3Reads
from tests.s3 import S3
from tests.s3_requests import refusal, requests_of
from tests.s3_seen import Seen, SeenS3, seen_s3

PATH = "s3://bucket/wh/file"
GIVEN = {"s3.access-key-id": "K", "s3.secret-access-key": "S", "s3.region": "eu-west-1"}
CLIENT = {name.replace("s3.", "client."): text.lower() for name, text in GIVEN.items()}
# What a property may say. One that reads cannot differ by is not here.
VALUES = {
    "s3.session-token": "T",
    "client.session-token": "t",
    "client.access-key-id": "k",
    "client.secret-access-key": "s",
    "client.region": "us-west-2",
    "s3.access-key-id": "",
    "s3.secret-access-key": "",
    "s3.region": "",
    "s3.profile-name": "other",
    "client.profile-name": "other",
    "s3.anonymous": "true",
    "s3.resolve-region": "false",
    "s3.connect-timeout": "60",
    "s3.request-timeout": "60",
    "s3.signer": "S3V4RestSigner",
    "s3.signer.uri": "http://127.0.0.1:1",
    "s3.signer.endpoint": "sign",
    "s3.role-arn": "arn:aws:iam::1:role/x",
    "client.role-arn": "arn:aws:iam::1:role/x",
    "s3.role-session-name": "x",
    "client.role-session-name": "x",
    "s3.server-side-encryption": "AES256",
    "s3.sse-kms-key-id": "x",
    "s3.force-virtual-addressing": "false",
    "s3.path-style-access": "true",
    "s3.session-token-expires-at-ms": "1",
    "client.refresh-credentials-endpoint": "v1/x",
    "s3.something-new": "x",
}
# These have tests of their own below.
ELSEWHERE = {"s3.endpoint", "s3.proxy-uri", "s3.retry-strategy-impl"}
TAKEN_BY_OBSTORE = {
    *("s3.session-token", "client.session-token", "client.access-key-id", "client.secret-access-key", "client.region"),
    *("s3.connect-timeout", "s3.request-timeout", "s3.path-style-access", "s3.session-token-expires-at-ms"),
    "client.refresh-credentials-endpoint",
}
VARIABLES = {
    "AWS_ACCESS_KEY_ID": "ENV",
    "AWS_SECRET_ACCESS_KEY": "ENV",
    "AWS_SESSION_TOKEN": "ENV",
    "AWS_TOKEN": "ENV",
    "AWS_REGION": "ap-south-1",
    "AWS_DEFAULT_REGION": "ap-south-1",
    "AWS_PROFILE": "none",
    "AWS_SKIP_SIGNATURE": "true",
    "AWS_REQUEST_PAYER": "true",
    "AWS_UNSIGNED_PAYLOAD": "true",
    "AWS_S3_EXPRESS": "true",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AWS_ALLOW_HTTP": "false",
    "AWS_CONDITIONAL_PUT": "disabled",
    "HTTP_PROXY": "http://127.0.0.1:1",
    "https_proxy": "http://127.0.0.1:1",
    "ALL_PROXY": "http://127.0.0.1:1",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SeenS3]:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(s3_files, "_MAX_ATTEMPTS", 1)
    # Without a region pyiceberg asks AWS for that of the bucket.
    monkeypatch.setattr("pyiceberg.io.pyarrow._cached_resolve_s3_region", lambda bucket: f"of-{bucket}")
    with seen_s3() as server:
        server.objects["/bucket/wh/file"] = b"bytes"
        yield server


def asked(server: SeenS3, properties: Mapping[str, str], *, arrow: bool = False) -> tuple[set[Seen], str]:
    """How the requests of one read are signed, and its answer."""
    server.seen.clear()
    try:
        io = PyIcebergIO(properties, PATH)
        if arrow:
            io._s3 = S3Reads({})
        answer = io.read(PATH).decode()
    except dk.DeletekitError as e:
        answer = e.kind
    return set(server.seen), answer


def test_each_property_of_pyiceberg_has_a_row_here() -> None:
    names = {text for name, text in vars(pyiceberg.io).items() if name.startswith(("S3_", "AWS_"))}
    known = VALUES.keys() | GIVEN.keys() | ELSEWHERE
    assert {name for name in names if name.startswith(("s3.", "client."))} - known == set()


@pytest.mark.usefixtures("obstore")
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("given", [GIVEN, CLIENT, {**GIVEN, **CLIENT}], ids=["s3", "client", "both"])
def test_a_property_means_the_same_to_both(server: SeenS3, given: dict[str, str], name: str) -> None:
    properties = {**given, "s3.endpoint": server.url, name: VALUES[name]}
    both = asked(server, properties)
    assert both == asked(server, properties, arrow=True)
    if VALUES[name] and not name.startswith(("client.access", "client.secret")):
        assert (S3Reads(properties).read(PATH, 0, None) is not None) == (name in TAKEN_BY_OBSTORE)


@pytest.mark.usefixtures("obstore")
@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("token", ["", "T"])
def test_keys_of_the_properties_are_not_mixed_with_the_environment(
    server: SeenS3, monkeypatch: pytest.MonkeyPatch, token: str, name: str
) -> None:
    monkeypatch.setenv(name, VARIABLES[name])
    properties = {**GIVEN, "s3.endpoint": server.url, "s3.session-token": token}
    mine = {Seen("/bucket/wh/file", "K", "eu-west-1", token or None, None)}
    assert asked(server, properties) == (mine, "bytes")
    assert asked(server, properties, arrow=True) == (mine, "bytes")
    assert (S3Reads(properties).read(PATH, 0, None) is None) == ("proxy" in name.lower())
    if "proxy" not in name.lower():
        server.seen.clear()
        CreateIfAbsent("s3://bucket/delta", properties).create("s3://bucket/delta/x", b"1")
        assert {seen[1:] for seen in server.seen} == {seen[1:] for seen in mine}


@pytest.mark.usefixtures("obstore")
@pytest.mark.parametrize("name", ["s3.proxy-uri", "s3.connect-timeout", "s3.request-timeout", "s3.role-arn"])
def test_an_empty_text_is_none(server: SeenS3, name: str) -> None:
    properties = {**GIVEN, "s3.endpoint": server.url, name: ""}
    CreateIfAbsent("s3://bucket/delta", properties).create("s3://bucket/delta/y", b"1")
    assert server.objects["/bucket/delta/y"] == b"1"


@pytest.mark.usefixtures("obstore")
def test_keys_of_the_environment_are_left_to_arrow(server: SeenS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "ENV")
    properties = {"s3.endpoint": server.url, "s3.region": "eu-west-1"}
    assert S3Reads(properties).read(PATH, 0, None) is None
    assert asked(server, properties) == ({Seen("/bucket/wh/file", "ENV", "eu-west-1", "ENV", None)}, "bytes")


@pytest.mark.usefixtures("obstore")
@pytest.mark.parametrize("form", ["{url}", "{url}/", "", "{host}", "HTTP://{host}", "http://a b", "http://[", "x://y"])
def test_an_endpoint_in_any_form(server: SeenS3, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)  # where no endpoint is given
    properties = {**GIVEN, "s3.endpoint": form.format(url=server.url, host=server.url.removeprefix("http://"))}
    assert asked(server, properties) == asked(server, properties, arrow=True)
    taken = S3Reads(properties).read(PATH, 0, None)
    assert taken == (b"bytes" if form.startswith("{url}") else None)


@pytest.mark.usefixtures("obstore")
@pytest.mark.parametrize("name", ["", "HTTP_PROXY", "NO_PROXY", "no_proxy"])
def test_a_proxy_is_that_of_the_properties(server: SeenS3, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name:
        monkeypatch.setenv(name, "http://127.0.0.1:1" if name == "HTTP_PROXY" else "*")
    properties = {**GIVEN, "s3.endpoint": "http://127.0.0.1:1", "s3.proxy-uri": server.url}
    through = {Seen("http://127.0.0.1:1/bucket/wh/file", "K", "eu-west-1", None, None)}
    assert asked(server, properties) == (through, "bytes")
    assert asked(server, properties, arrow=True) == (through, "bytes")
    assert S3Reads(properties).read(PATH, 0, None) == b"bytes"


@pytest.mark.usefixtures("obstore")
@pytest.mark.parametrize("arrow", [False, True])
def test_connections_are_kept_for_the_next_load_of_a_table(server: SeenS3, arrow: bool) -> None:
    properties = {**GIVEN, "s3.endpoint": server.url}
    for _ in range(20):
        assert asked(server, properties, arrow=arrow)[1] == "bytes"
    assert server.connections <= 3
    assert asked(server, {**properties, "s3.session-token": "T"}, arrow=arrow)[0] == {
        Seen("/bucket/wh/file", "K", "eu-west-1", "T", None)
    }, "other keys have another client"


def test_a_fork_has_clients_of_its_own_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_files, "_CLIENTS", {})
    made = s3_files._shared("x", object)
    assert s3_files._shared("x", object) is made
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert s3_files._shared("x", object) is not made
    for number in range(1000):
        s3_files._shared(number, object)
    assert len(s3_files._CLIENTS) <= s3_files._MOST_CLIENTS


def test_a_server_that_keeps_checksums_as_bytes_is_named(server: SeenS3, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {**GIVEN, "s3.endpoint": server.url}
    with pytest.raises(dk.UnsupportedError, match="AWS_REQUEST_CHECKSUM_CALCULATION=when_required") as e:
        PyIcebergIO(properties, PATH).write("s3://bucket/wh/new", b"bytes")
    assert (e.value.kind, e.value.file) == ("storage-checksums", "s3://bucket/wh/new")
    assert "/bucket/wh/new" not in server.objects, "no file stays that would be damage"
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    io = PyIcebergIO(properties, PATH)
    for number in range(2):
        server.seen.clear()
        io.write(f"s3://bucket/wh/{number}", b"bytes")
        assert io.read(f"s3://bucket/wh/{number}") == b"bytes"
        assert server.objects[f"/bucket/wh/{number}"] == b"bytes"
    assert sum(seen.path == "/bucket/wh/1" for seen in server.seen) <= 4, "looked at once for each server"


@pytest.mark.parametrize(
    ("status", "code"), [(400, "ExpiredToken"), (403, "InvalidAccessKeyId"), (400, "InvalidToken")]
)
def test_keys_that_end_while_rows_are_read_are_named(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    rows = pa.table({"id": pa.array(range(1000), pa.int64())})
    with requests_of(s3) as requests:
        place = {"uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"s3://{s3.bucket()}/wh"}
        keys = {**requests.properties, "s3.session-token": "T"}
        table = dk.create_table(dk.load_catalog("s3", type="sql", **place, **keys), "n.t", rows.schema)
        dk.append(table, rows)
        (task,) = dk.scan(table).plan()
        requests.fails = lambda _: refusal(status, code)
        for attempt in (lambda: dk.scan(table).to_arrow(), lambda: table.io.size(task.data_file.file_path)):
            with pytest.raises(dk.StorageError) as e:
                attempt()
            assert e.value.file
            assert e.value.kind in ("storage", "storage-permission")
            assert status == 403 or "temporary ones end" in str(e.value.expected)
        with pytest.raises(dk.StorageError, match="refuses the keys") as e:
            list(table.io.list(table.location))
        assert e.value.kind == "storage-permission"
        requests.fails = lambda _: None
        assert dk.scan(table.refresh()).to_arrow().equals(rows)


# --- https ------------------------------------------------------------------------------------------------------------


def certificates(folder: Path) -> dict[str, tuple[str, str]]:
    """An authority of our own, and servers: known to it, with the name of another, of the past, signed by itself."""
    from cryptography import x509  # noqa: PLC0415  # moto's
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    def written(name: str, host: str | None, days: int, by: str = "ca") -> None:
        keys[name] = keys.get(name) or ec.generate_private_key(ec.SECP256R1())
        subject, issuer = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in (name, by))
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(keys[name].public_key())
        now = datetime.now(UTC)
        made = made.not_valid_before(now - timedelta(9)).not_valid_after(now + timedelta(days))
        made = made.serial_number(x509.random_serial_number())
        made = made.add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        if host:
            names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
            made = made.add_extension(names, critical=False)
        pem = serialization.Encoding.PEM
        (folder / f"{name}.pem").write_bytes(made.sign(keys[by], hashes.SHA256()).public_bytes(pem))
        private = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / f"{name}.key").write_bytes(keys[name].private_bytes(pem, *private))

    keys: dict[str, ec.EllipticCurvePrivateKey] = {}
    written("ca", None, 9)
    written("known", "127.0.0.1", 9)
    written("another host", "127.0.0.2", 9)
    written("past", "127.0.0.1", -1)
    written("itself", "127.0.0.1", 9, by="itself")
    return {name: (str(folder / f"{name}.pem"), str(folder / f"{name}.key")) for name in keys}


READ = """
import json, sys
from deletekit.errors import DeletekitError
from deletekit.table import s3_files
from deletekit.table.create_if_absent import CreateIfAbsent
from deletekit.table.file_io import PyIcebergIO

s3_files._MAX_ATTEMPTS = 1
found = {}
def answer(call):
    try:
        return call().decode()
    except DeletekitError as e:
        return [e.kind, str(e.expected)]
for name, properties in json.load(sys.stdin).items():
    io = PyIcebergIO(properties, "s3://bucket/wh/file")
    by_obstore = io._s3.read("s3://bucket/wh/file", 0, None)
    io._s3 = s3_files.S3Reads({})
    new = CreateIfAbsent("s3://bucket/d", properties)
    created = answer(lambda: new.create(f"s3://bucket/d/{name}", b"1") or b"created")
    found[name] = [by_obstore and by_obstore.decode(), answer(lambda: io.read("s3://bucket/wh/file")), created]
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("obstore")
@pytest.mark.parametrize("trusted", ["ca", None])
def test_both_trust_the_same_certificates(tmp_path: Path, trusted: str | None) -> None:
    known = certificates(tmp_path)
    servers = {name: seen_s3(known[name]) for name in ("known", "another host", "past", "itself")}
    found = read_by_https(servers, known[trusted][0] if trusted else None)
    trusted_one = found.pop("known") if trusted else None
    assert trusted_one in (["bytes", "bytes", "created"], None)
    for by_obstore, *others in found.values():
        assert by_obstore is None
        for kind, expected in others:
            assert kind == "storage-certificate"
            assert "SSL_CERT_FILE" in expected


def read_by_https(servers: Mapping[str, object], trusted: str | None) -> dict[str, list[object]]:
    """What a process of its own, which trusts an authority from its start, reads from each server."""
    from contextlib import ExitStack  # noqa: PLC0415

    with ExitStack() as stack:
        properties = {}
        for name, served in servers.items():
            server = stack.enter_context(served)  # type: ignore[arg-type]
            server.objects["/bucket/wh/file"] = b"bytes"
            properties[name] = {**GIVEN, "s3.endpoint": server.url}
        environment = {name: text for name, text in os.environ.items() if not name.startswith("SSL_CERT")}
        environment |= {"SSL_CERT_FILE": trusted} if trusted else {}
        run = [sys.executable, "-c", READ]
        done = subprocess.run(
            run, input=json.dumps(properties), env=environment, capture_output=True, text=True, check=True, timeout=120
        )
    return dict(json.loads(done.stdout))
