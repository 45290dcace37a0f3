"""Values become text that is safe, and JSON that is strict."""

import json
import unicodedata
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deletekit.text import count, first, json_ready, literal, moment, plain, runs, short, size
from tests.cli.conftest import EVIL


def test_plain_shows_what_it_takes_out() -> None:
    assert plain("tab\t, line\n, \x1b[31mred\x9b0m, \u202eback, \ud800, \u2028") == (
        "tab\\t, line\\n, \\x1b[31mred\\x9b0m, \\u202eback, \\ud800, \\u2028"
    )
    assert plain("größe 한국어 🦔 [b]x[/b] :smile: \\") == "größe 한국어 🦔 [b]x[/b] :smile: \\"
    assert plain(EVIL).startswith("[bold]x[/bold]\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\nnew:smile:\\u202egnp.exe")


@given(st.text())
def test_plain_has_nothing_that_acts(text: str) -> None:
    assert [c for c in plain(text) if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")] == []
    assert plain(plain(text)) == plain(text)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        (True, "true"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        ("it's", "'it''s'"),
        ("NULL", "'NULL'"),
        (b"\x00\xff", "X'00ff'"),
        ({"a": None, "b": ["x"]}, "{a: NULL, b: ['x']}"),
        ("\x1b", "'\\x1b'"),
        ("x" * 300, "'" + "x" * 199 + "… (+102)"),
    ],
)
def test_literal(value: object, shown: str) -> None:
    assert literal(value) == shown


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    A = "a"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (1.5, 1.5),
        (b"\x01\xff", "Af8="),
        (memoryview(b"\x01"), "AQ=="),
        (Number.ONE, 1),
        (Word.A, "a"),
        ({1: b"x"}, [{"key": 1, "value": "eA=="}]),
        ({"a": (1, float("nan"))}, {"a": [1, "NaN"]}),
        ([("k", None)], [["k", None]]),
        (2**70, 2**70),
    ],
)
def test_json_ready(value: object, shown: object) -> None:
    ready = json_ready(value)
    assert ready == shown
    assert type(ready) is type(shown)
    json.dumps(ready, allow_nan=False)


@given(st.sets(st.integers(0, 60)))
def test_runs_name_every_position_once(positions: set[int]) -> None:
    named: list[int] = []
    for run in runs(sorted(positions)):
        low, _, high = run.partition("-")
        named += range(int(low), int(high or low) + 1)
    assert named == sorted(positions)
    assert len(list(runs(sorted(positions)))) == sum(p - 1 not in positions for p in positions)


def test_times_beyond_the_calendar() -> None:
    from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform  # noqa: PLC0415 - slow, and for this test alone
    from pyiceberg.types import DateType, TimestampNanoType, TimestampType, TimestamptzType, TimeType  # noqa: PLC0415

    from deletekit.table.partition import value_text  # noqa: PLC0415

    assert value_text(DayTransform(), DateType(), 20512) == "2026-02-28"
    assert value_text(DayTransform(), DateType(), 2**31 - 1) == "+5881580-07-11"
    assert value_text(HourTransform(), TimestampType(), 24 * 2932897 + 5) == "+10000-01-01-05"
    assert value_text(HourTransform(), TimestampType(), -1) == "1969-12-31-23"
    assert value_text(IdentityTransform(), TimestampType(), -(2**63)) == "-290308-12-21T19:59:05.224192"
    assert value_text(IdentityTransform(), TimestamptzType(), 1) == "1970-01-01T00:00:00.000001+00:00"
    assert value_text(IdentityTransform(), TimestampNanoType(), 1) == "1970-01-01T00:00:00.000000001"
    assert value_text(IdentityTransform(), TimeType(), 86_400_000_000) == "86400000000"


def test_small_ones() -> None:
    assert first([1, 2, 3], 2) == ([1, 2], 1)
    assert first([1, 2, 3], 0) == ([1, 2, 3], 0)
    assert (count(1, "row"), count(2000, "row"), count(0, "key")) == ("1 row", "2,000 rows", "0 keys")
    assert (size(9_999), size(14_210), size(3 * 10**7), size(5 * 10**12)) == (
        "9,999 bytes",
        "14.2 kB",
        "30.0 MB",
        "5,000.0 GB",
    )
    assert short("s3://b/t/data/f", "s3://b/t/") == "data/f"
    assert short("s3://b/t2/f", "s3://b/t") == "s3://b/t2/f"
    assert moment(1733213722000) == "2024-12-03 08:15:22"
    assert moment(10**20) == "100000000000000000000"
    assert moment(None) == "None"
