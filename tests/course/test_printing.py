"""Rows stand in columns, whatever language is in them, and records in lines. A notebook has tables beside the text."""

from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

from deletekit.course import doctor, printing, show

RECORD = {"status": 1, "data_file": {"content": 0, "equality_ids": [1, 2], "lower_bounds": [{"key": 1, "value": b"a"}]}}
RECORDS = [{"content": n, "manifest_path": f"M{n}", "inner": {"rows": n * 2}} for n in range(3)]
WIDE = [{f"field-{i}": n * i for i in range(12)} for n in range(2)]
SHOWN: list[Any] = [
    [{"이름": "김", "n": 7}, {"이름": "Alice", "n": None}],
    pa.table({"id": range(100)}),
    pa.table({"id": pa.array([], pa.int64())}),
    RECORD,
    RECORDS,
    WIDE,
    [{"": "before", "n": 1}],
]


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What a notebook is given."""
    found: list[dict[str, str]] = []

    class Shell:
        class display_pub:  # noqa: N801  # IPython's name
            publish = found.append

    monkeypatch.setattr(printing, "notebook_shell", Shell)
    return found


def table_of(html: str) -> list[list[str]]:
    rows = ET.fromstring(html).iter("tr")  # noqa: S314  # it is ours
    return [["".join(cell.itertext()) for cell in row] for row in rows]


def shown(value: object, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(value)
    return capsys.readouterr().out.splitlines()


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


def test_the_doctor_says_that_all_is_here(java: str, capsys: pytest.CaptureFixture[str]) -> None:
    doctor()
    assert capsys.readouterr().out == "Everything that the course needs is here.\n"
    doctor(details=True)
    assert "pyarrow" in capsys.readouterr().out


@pytest.mark.parametrize("value", SHOWN)
def test_a_notebook_shows_a_table_beside_the_same_text(
    value: Any, capsys: pytest.CaptureFixture[str], published: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    show(value)
    (shown,) = published
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(printing, "notebook_shell", lambda: None)
    show(value)
    assert capsys.readouterr().out == shown["text/plain"] + "\n"
    cells = {cell for row in table_of(shown["text/html"])[1:] for cell in row if cell}
    assert all(cell.split(".")[-1] in shown["text/plain"] for cell in cells if "{" not in cell)


def test_the_table_of_rows_and_of_records(published: list[dict[str, str]]) -> None:
    for value in ([{"a": 1, "b": None}, {"a": 2}], RECORD, RECORDS, WIDE):
        printing.show_records(value)
    missing, record, records, wide = (table_of(data["text/html"]) for data in published)
    assert missing == [["a", "b"], ["1", "NULL"], ["2", ""]], "a field that a record has not is empty"
    assert record[1:] == [
        ["status", "1"],
        ["data_file.content", "0"],
        ["data_file.equality_ids", "[1, 2]"],
        ["data_file.lower_bounds", "[{key: 1, value: YQ==}]"],
    ]
    assert records[:2] == [["content", "manifest_path", "inner.rows"], ["0", "M0", "0"]]
    assert (len(wide), wide[3]) == (13, ["field-2", "0", "2"]), "many fields stand below each other"
