"""docs/errors.md has every kind of error."""

import re
from pathlib import Path

from tests.tools.errors_page import PAGE, all_errors, errors_page

# Two tests raise errors of their own making, to see what becomes of them.
OWN = {"own", "metastore"}
TESTS = Path(__file__).parents[1]
# Kinds of errors that tests of other parts expect, looked for in their text.
EXPECTED = re.compile(
    r"""(?:(?:error|raised|caught|e)\.(?:value\.)?kind == |(?:raises|refused)\(.*Error, )"([a-z0-9-]+)\""""
)


def test_the_page_is_as_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == errors_page(), "run `python -m tests.tools.errors_page`"


def test_every_kind_that_another_test_expects_is_on_the_page() -> None:
    """The page reads code, and those tests run it: what they see raised must have been found."""
    known = {error.kind for error in all_errors()}
    folders = (
        "catalogs",
        "commit",
        "deletes",
        "delta",
        "engines",
        "formats",
        "maintenance",
        "stream",
        "table",
        "verbs",
    )
    expected = {
        kind
        for folder in folders
        for file in (TESTS / folder).glob("test_*.py")
        for kind in EXPECTED.findall(file.read_text(encoding="utf-8"))
    }
    assert len(expected) > 40
    assert expected - OWN <= known


def test_every_kind_has_words() -> None:
    rows = re.findall(r"^\| `[^|]*\|([^|]*)\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 200
    assert [row for row in rows if not row.strip()] == []
