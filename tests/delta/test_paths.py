"""Paths of a Delta log and of storage, each way."""

import random
import re
from urllib.parse import quote, unquote

import pytest

from deletekit.delta.paths import delta_path, is_hidden_below, path_below, spelling_free, storage_path
from deletekit.errors import FormatError


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("pq=a%20b%252Fc%2525%253D%C3%A9/x.parquet", "/t", "/t/pq=a b%2Fc%25%3Dé/x.parquet"),
        ("x.parquet", "s3://b/t", "s3://b/t/x.parquet"),
        ("file:/other/x%20y", "/t", "/other/x y"),
        ("file:///other/x", "file:/t", "file:/other/x"),
        ("file:///other/x", "/t", "/other/x"),
        ("/other/x", "s3://b/t", "s3://b/other/x"),
        ("s3://c/x%25y", "s3://b/t", "s3://c/x%y"),
        ("a:b/c.parquet", "/t", "a:b/c.parquet"),
    ],
)
def test_storage_path(path: str, root: str, expected: str) -> None:
    assert storage_path(path, root) == expected


@pytest.mark.parametrize("path", ["", "../x", "a/../../x", "%2e%2e/x", "a%00", "%ff"])
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(FormatError):
        storage_path(path, "/t")


@pytest.mark.parametrize("path", ["/t/a b/c%d.parquet", "/t/é", "/other/x#y?z", "s3://b/x y", "/t/a:b/c"])
def test_a_path_comes_back(path: str) -> None:
    assert storage_path(delta_path(path, "/t"), "/t") == path


PIECES = (
    *"%25Aa.:~é/",
    "%20",
    "%2F",
    "%2E",
    "%7E",
    "%C3%A9",
    "%c3%a9",
    "file:/",
    "s3://",
    "=",
    "//",
    "%zz",
    "./",
    "%3A",
)


@pytest.mark.parametrize("seed", range(20))
def test_spellings_of_one_file_are_equal_and_of_two_are_not(seed: int) -> None:
    """Two paths are one file if they are equal after decoding, without `.` parts and `//`."""
    rng, by_file = random.Random(seed), dict[str, set[str]]()
    for _ in range(2_000):
        path = "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 5)))
        for spelled in (path, quote(path), quote(unquote(path)), f"./{path}"):
            plain = unquote(spelled, errors="surrogateescape")
            parts = [part for part in plain.split("/") if part not in ("", ".")]
            if parts and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", plain):  # no name, or on another storage
                file = "/" * plain.startswith("/") + "/".join(parts)
                by_file.setdefault(file, set()).add(spelling_free(spelled))
    assert [forms for forms in by_file.values() if len(forms) > 1] == []
    assert len(set().union(*by_file.values())) == len(by_file)
    assert len(by_file) > 1_000
    assert len({spelling_free(path) for path in ("/a%20b", "file:/a b", "file:///a%20b", "file://localhost/a b")}) == 1


def test_below() -> None:
    assert path_below("file:///t/a", "/t/") == "a"
    assert path_below("/t", "/t") == ""
    assert path_below("/tt/a", "/t") is None
    assert all(map(is_hidden_below, ("_x/a", ".x", "a/_x/b")))
    assert not any(map(is_hidden_below, ("_p=1/a", "a", "")))
