"""A table as HTML is whole, has names for its rows and columns, and nothing of a value is markup."""

from xml.etree import ElementTree as ET

import pytest

from deletekit.html_table import html_table, number_columns, safe_html

EVIL = """<img src=x onerror="alert(1)">&amp;'</td>\x1b[31m\u202e"""


def parsed(html: str) -> ET.Element:
    return ET.fromstring(html)  # noqa: S314  # it is ours; XML is stricter than HTML


def cells(html: str) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in parsed(html).iter("tr")]


def test_every_text_is_there_and_none_is_markup() -> None:
    html = html_table([EVIL, "b"], [[EVIL, 1], ["x", EVIL]], caption=EVIL, lang=EVIL)
    shown = EVIL.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert cells(html) == [[shown, "b"], [shown, "1"], ["x", shown]]
    assert [element.text for element in parsed(html).iter("caption")] == [shown]
    assert {element.tag for element in parsed(html).iter()} == {
        "div",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert safe_html(EVIL).isprintable()


def test_rows_and_columns_have_names() -> None:
    html = html_table(["name", "n", ""], [["a", 1, "x"], ["b", 2, ""]], caption="two", numbers=[1], current=1)
    heads = [(h.get("scope"), h.text) for h in parsed(html).iter("th")]
    assert heads == [("col", "name"), ("col", "n"), ("row", "a"), ("row", "b")], "a name that is empty is none"
    sides = {cell.text: (cell.get("style") or "").split(";")[0] for cell in parsed(html).iter("*")}
    assert (sides["1"], sides["n"], sides["a"]) == ("text-align:right", "text-align:right", "text-align:left")
    assert [row.get("aria-current") for row in parsed(html).iter("tr")] == [None, None, "true"]
    assert [h.get("scope") for h in parsed(html_table((), [["a", 1]], caption="c")).iter("th")] == ["row"]


def test_what_is_wide_scrolls_by_keyboard() -> None:
    narrow, wide = html_table(["a"], [["x"]], caption="c"), html_table(["a"], [["x" * 100]], caption="c")
    assert all("overflow-x:auto" in (parsed(html).get("style") or "") for html in (narrow, wide))
    assert parsed(narrow).get("tabindex") is None
    assert (parsed(wide).get("tabindex"), parsed(wide).get("aria-label")) == ("0", "c")


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        ([[1, "a"], [2.5, "b"]], [0]),
        ([[None, 1], [3, None]], [0, 1]),
        ([[True, None], [False, None]], []),
        ([[1], ["1"]], []),
        ([], []),
    ],
)
def test_columns_of_numbers(rows: list[list[object]], numbers: list[int]) -> None:
    assert number_columns(rows) == numbers
