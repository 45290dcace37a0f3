"""Rows stand in columns, whatever language is in them, and records in lines."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rich.cells import cell_len

from deletekit.course import doctor, show


def shown(value: object, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(value)
    return capsys.readouterr().out.splitlines()


def test_columns_are_as_wide_as_they_look(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown([{"이름": "김", "n": 7}, {"이름": "Alice", "n": 10}], capsys)
    assert lines == ["이름    n", "김      7", "Alice  10"]
    assert len({cell_len(line) for line in lines}) == 1


def test_arrow_and_missing_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(pa.table({"id": [1, 2], "c": ["a", None]}), capsys) == ["id  c", " 1  a", " 2  NULL"]
    assert shown(pa.table({"id": pa.array([], pa.int64())}), capsys) == ["id"]
    assert shown(pa.table({"id": range(100)}), capsys)[-1] == "... 60 more"


def test_records_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    value = {
        "a": 1,
        "inner": {"bounds": [{"key": 1, "value": b"\x01\0\0\0"}], "ids": [1, 2], "none": None, "yes": True},
    }
    assert shown(value, capsys) == [
        "a: 1",
        "inner:",
        "  bounds:",
        "    - key: 1",
        "      value: AQAAAA==",
        "  ids: [1, 2]",
        "  none: NULL",
        "  yes: true",
    ]


def test_a_value_cannot_add_lines_to_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(shown([{"a": "one\ntwo"}], capsys)) == 2


def test_the_doctor_says_that_all_is_here(java: str, capsys: pytest.CaptureFixture[str]) -> None:
    doctor()
    assert capsys.readouterr().out == "Everything that the course needs is here.\n"
    doctor(details=True)
    assert "pyarrow" in capsys.readouterr().out
