"""The page about table properties says of each property of Iceberg what the code does with it."""

import re
from pathlib import Path

from deletekit.table.properties import COLUMN_PROPERTIES, PROPERTIES, REFUSED, RESERVED, UNHEEDED

PAGE = Path(__file__).parents[2] / "docs" / "properties.md"
ROW = re.compile(r"^\| `([a-z0-9.*-]+)` \| (yes|warned|refused|no effect) \| (?:`(.*?)`)? *\| (\S.*) \|$", re.MULTILINE)
GROUPS = {"write.parquet.row-group-size-bytes", "write.delete.parquet.row-group-size-bytes"}
ICEBERG = Path(__file__).with_name("iceberg_properties.txt").read_text(encoding="utf-8").split()
"""The names in Java's TableProperties of 1.12."""
PYICEBERG = {"write.parquet.row-group-limit", "write.delete.parquet.row-group-limit"}
OURS = {"deletekit.readable-by"}


def page() -> dict[str, tuple[str, str]]:
    """What the page says of each property, and its default; a property of columns by how it begins."""
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len({name for name, *_ in found}) == len(found), "no property twice"
    return {name.removesuffix("*"): (does, default) for name, does, default, _ in found}


def test_the_page_names_every_property_of_iceberg_and_ours() -> None:
    assert page().keys() == {*ICEBERG, *PYICEBERG, *OURS}
    assert len(ICEBERG) == len(set(ICEBERG)) == 124


def test_the_page_says_what_the_code_does() -> None:
    known = {**PROPERTIES, **COLUMN_PROPERTIES}
    for name, (does, default) in page().items():
        if name in known:
            assert (does, default) == ("yes", known[name].default or ""), name
        elif name in UNHEEDED:
            assert does == "warned", name
        elif name in REFUSED or name in RESERVED:
            assert does == "refused", name
        else:
            assert does == "no effect" or name in GROUPS, name


def test_the_code_follows_no_property_that_the_page_keeps_quiet_about() -> None:
    assert {*PROPERTIES, *COLUMN_PROPERTIES, *UNHEEDED, *REFUSED, *RESERVED} <= page().keys()
