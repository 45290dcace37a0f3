"""No key of an address or of properties is in an error, in what the program prints of one, or in the log."""

import logging
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import deletekit as dk
from deletekit import errors
from deletekit.cli import main
from deletekit.log import tell
from deletekit.maintenance.reachable import remove_files
from deletekit.maintenance.verify.report import from_error
from deletekit.text import without_secrets
from tests.tables import items, make

KEY = "hunter2secret"
TEXTS = [
    f"s3://AKIA:{KEY}@bucket/x",
    f"s3a://AKIA:a@b{KEY}@bucket/x",
    f"http://me:{KEY}@127.0.0.1:1/x",
    f"http://:{KEY}@127.0.0.1:1",
    f"https://{KEY}@127.0.0.1:1/x",
    f"HTTPS://me:{KEY}@h?x=1 and http://you:{KEY}@h",
    f"postgresql+psycopg2://u:a/b:{KEY}@h:5432/db",
    f"https://127.0.0.1:1/x?token={KEY}",
    f"https://127.0.0.1:1/x?{KEY}",
    f"https://h/x?anything={KEY}&more={KEY}#access_token={KEY}",
    f"/v1/config?token={KEY}/v1/config?warehouse=w (Caused by",
    f"s3://bucket/x?a=1&X-Amz-Signature={KEY}&X-Amz-Credential={KEY}&X-Amz-Security-Token={KEY}",
    f"gs://bucket/x?X-Goog-Signature={KEY}&GoogleAccessId=a",
    f"abfss://c@account.dfs.core.windows.net/x?sv=1&se=2&sig={KEY}",
    f"/x?sas={KEY}&key={KEY}",
    f"host=h user=u password={KEY} dbname=d",
    f"host=h password='{KEY} {KEY}' dbname=d",
    f"AccountName=a;AccountKey={KEY};EndpointSuffix=x",
    f"AWS_SECRET_ACCESS_KEY={KEY}",
    f"{{'s3.secret-access-key': '{KEY}', 's3.session-token': '{KEY}', 'x': 1}}",
    f'{{"client_secret":"{KEY}","token": "{KEY}"}}',
    f"[('credential', '{KEY}'), ('adls.account-key', '{KEY}')]",
    f"input_value={{'token': '{KEY[:9]}...",
    f"Not a valid bucket name: 'AKIA:{KEY}@bucket'",
    f"AKIA:{KEY}@bucket",
    f"http:/me:{KEY}@127.0.0.1:1/x and https:/{KEY}@h/x and http:/h/x?y={KEY}",  # as pathlib writes it
    f"in the file:\n  catalog:\n    token: {KEY}\n    s3.secret-access-key: {KEY}",
    f"Authorization: Bearer {KEY}",
]
KEPT = [
    "/data/a#b?c=d",
    "s3://bucket/t/data/day=2024-01-01/x.parquet",
    "abfss://container@account.dfs.core.windows.net/t",
    "hdfs://nn:8020/user/a@b/c:d@e",
    "postgresql://me@h/db",
    "http://127.0.0.1:8181/x@y:z",
    "no such option; field s3.secret-access-key; expected s3.access-key-id",
    "key=1, keys=2, design=3, x.key-id=4",
    "field token; the token is missing: look at password",
    "write.metadata.path=/x",
    "Bearer tokens and Basic examples",
    "name = 'a' and token in ('b')",
]


def whole(error: BaseException) -> str:
    """Everything of an error that a program or a log may show."""
    shown = [str(error), repr(error), repr(error.args), repr(vars(error)), repr(pickle.loads(pickle.dumps(error)))]  # noqa: S301
    return "\n".join([*shown, *traceback.format_exception(error)])


def test_texts_lose_their_keys_only() -> None:
    for text in TEXTS:
        said = without_secrets(text)
        assert KEY not in said, said
        assert KEY[:9] not in said, said
        assert "***" in said
        assert without_secrets(said) == said
        assert without_secrets([{"x": (text,)}]) == [{"x": (said,)}]
    for text in KEPT:
        assert without_secrets(text) == text
    assert without_secrets({"s3.secret-access-key": KEY, "uri": "u"}) == {"s3.secret-access-key": "***", "uri": "u"}


@pytest.mark.parametrize(
    "part", ["//a:", "//::::", "token=", "https://h?a&", "'", "secret ", "x-", "Bearer ", "?key=", "@"]
)
def test_long_texts_take_no_time(part: str) -> None:
    start = time.process_time()
    without_secrets(part * (200_000 // len(part)))
    assert time.process_time() - start < 2


ERRORS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, dk.DeletekitError)]


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_is_without_keys(error: type[dk.DeletekitError]) -> None:
    """Each class, with a key in each of its parts; also as a command prints it."""
    for text in TEXTS:
        for part in ("message", "file", "field", "found", "expected"):
            for value in (text, [text], {"where": text}, Exception(text)) if part in ("found", "expected") else (text,):
                made = error(**{"message": "wrong", part: value})
                made = made.in_file(text)
                said = str(made) + repr(made) + repr(made.args)
                assert KEY[:9] not in said, said
    assert error("wrong", field="s3.secret-access-key", found=KEY).found == "***"


class _SeenError(Exception):
    """An error was looked at, and has no key."""


@contextmanager
def seeing() -> Iterator[None]:
    try:
        yield
    except dk.DeletekitError as e:
        text = whole(e)
        raise _SeenError from None if KEY not in text else AssertionError(text)


def test_causes_are_without_keys_and_else_as_they_were() -> None:
    """The whole chain, contexts and notes too; an error of a chain without a key stays the same object."""

    def raised(text: str) -> dk.DeletekitError:
        try:
            try:
                try:
                    raise ConnectionError(f"no answer of {text}")
                except ConnectionError:
                    made = ValueError("bad answer", {"at": text})
                    made.add_note(f"for {text}")
                    raise made  # noqa: B904  # a context, which a traceback prints too
            except ValueError as e:
                raise dk.StorageError("storage failed") from e
        except dk.StorageError as e:
            return e

    plain = raised("s3://bucket/x")
    causes = plain.__cause__, plain.__cause__.__context__  # type: ignore[union-attr]
    errors.hide_causes_secrets(plain)
    assert (plain.__cause__, plain.__cause__.__context__) == causes  # type: ignore[union-attr]
    for text in TEXTS:
        error = raised(text)
        errors.hide_causes_secrets(error)
        shown = "".join(traceback.format_exception(error))
        assert KEY[:9] not in shown, shown
        assert all(f"{name}: " in shown for name in ("ConnectionError", "ValueError", "StorageError"))
        assert "in raised" in shown
    circle = raised(TEXTS[0])
    circle.__cause__.__context__.__context__ = circle.__cause__  # type: ignore[union-attr]
    errors.hide_causes_secrets(circle)
    assert KEY not in "".join(traceback.format_exception(circle))


CALLS: dict[str, Callable[[str, dk.Table], Any]] = {
    "metadata": lambda at, _: dk.from_metadata(at),
    "rest": lambda at, _: dk.load_catalog("p", type="rest", uri=at).list_namespaces(),
    "sql": lambda at, _: dk.load_catalog("p", type="sql", uri=at).list_namespaces(),
    "no type": lambda at, _: dk.load_catalog("p", type="nothing", uri=at, token=KEY),
    "properties": lambda at, _: dk.load_catalog({"uri": at, "token": KEY}),  # type: ignore[arg-type]
    "local": lambda at, _: dk.local_catalog(at),
    "table": lambda at, _: dk.scan(at),  # type: ignore[arg-type]
    "create": lambda at, t: dk.create_table(t.catalog, "a.b", pa.schema([("id", pa.int64())]), location=at),  # type: ignore[arg-type]
    "register": lambda at, t: t.catalog.register_table("a.c", at),  # type: ignore[union-attr]
    "add_files": lambda at, t: dk.add_files(t, [at]),
    "rows": lambda at, t: dk.append(t, at),
    "orphans": lambda at, t: dk.remove_orphan_files(t, location=at),
    "set": lambda at, t: dk.set_properties(t, {"write.data.path": f"{at}/../x", "commit.retry.num-retries": at}),
    "delta": lambda at, t: dk.sync_delta(at, t.catalog, "a.d"),  # type: ignore[arg-type]
    "delete directory": lambda at, t: dk.sync_delta(t.location, t.catalog, "a.d", delete_directory=at),  # type: ignore[arg-type]
    "filter": lambda at, t: dk.scan(t, at).count(),
}
ADDRESSES = [
    f"s3://AKIA:{KEY}@bucket/x.metadata.json",
    f"s3://127.0.0.1/x.metadata.json?X-Amz-Signature={KEY}",
    f"http://me:{KEY}@127.0.0.1:1/x",
    f"http://127.0.0.1:1/x.json?token={KEY}",
    f"abfss://c@a.dfs.core.windows.net/../x?sig={KEY}",
    f"postgresql+psycopg2://me:{KEY}@127.0.0.1:1/x",
    f"nothing://me:{KEY}@127.0.0.1/x",
    f"/x?token={KEY}",
]


@pytest.mark.parametrize("call", CALLS)
def test_no_verb_shows_a_key(
    catalog: dk.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    table, seen = make(catalog, items((1, "a", 1.0))), 0
    with caplog.at_level(logging.DEBUG, "deletekit"):
        for address in ADDRESSES:
            with suppress(_SeenError), seeing():
                CALLS[call](address, table)
                continue
            seen += 1
    assert seen
    assert KEY not in caplog.text
    assert not any(KEY in repr(vars(record)) for record in caplog.records)


def test_no_command_shows_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = dk.local_catalog(tmp_path / "wh")
    make(catalog, items((1, "a", 1.0)))
    for address in (ADDRESSES[3], ADDRESSES[2], ADDRESSES[6]):
        rest = ["--catalog", "p", "-p", "type=rest", "-p", f"uri={address}"]
        for command in (
            ["inspect", address],
            ["inspect", "a.b", *rest],
            ["verify", "a.b", *rest, "--traceback"],
            ["inspect", "a.b", *rest, "--traceback", "--json"],
            ["sync-delta", address, "a.b", "--warehouse", str(tmp_path / "wh")],
            ["inspect", "a.b", "--warehouse", address],
            [address],
            ["inspect", "a.b", f"--{address}"],
            ["inspect", "a.b", "--catalog", "p", "-p", address],
        ):
            done = CliRunner().invoke(main, command)
            assert done.exit_code in (1, 2), (command, done.output)
            assert KEY not in done.output, (command, done.output)


class _Failing:
    """Storage whose library names an address with a key in each error."""

    def delete(self, path: str) -> None:
        raise RuntimeError(f"403 for {path}?X-Amz-Signature={KEY}")


def test_reasons_and_log_lines_are_without_keys(catalog: dk.Catalog, caplog: pytest.LogCaptureFixture) -> None:
    table = make(catalog)
    reasons = remove_files(_Failing(), table.metadata, ["https://h/x"], dk.engine.local())  # type: ignore[arg-type]
    assert "403" in str(reasons)
    found = from_error(RuntimeError(f"https://h/x?sig={KEY}"), "f", "x")
    with caplog.at_level(logging.DEBUG, "deletekit"):
        tell("create", location=f"s3://a:{KEY}@b/t", error=f"password={KEY}")
    assert caplog.records
    texts = [reasons, found, caplog.text, [vars(r) for r in caplog.records], table, table.catalog]
    assert not [text for text in texts if KEY in str(text) + repr(text)]
