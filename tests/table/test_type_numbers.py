"""Numbers in the text of a type or a partition transform: what can be held, or a refusal by name."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.tables import items, make, new_catalog

MOST = 2**31 - 1
GOOD_TYPES = ("fixed[1]", "fixed[100]", "decimal(38, 38)", "decimal(1, 0)")
BAD_TYPES = (
    *(f"fixed[{n}]" for n in (-1, MOST + 1, 2**40, 2**63, "9" * 5000)),
    *(f"decimal({n})" for n in ("0, 0", "39, 0", "5, 6", "9, 9999999999", "9999999999, 2", "-9, 2", "9, -2")),
)
GOOD_WIDTHS = (1, MOST)
BAD_WIDTHS = (0, MOST + 1, 2**64, 10**400)


def with_type(location: Path, text: str) -> str:
    """The document with one more column."""
    raw: dict[str, Any] = json.loads(location.read_text())
    raw["schemas"][0]["fields"].append({"id": 99, "name": "f", "required": False, "type": text})
    return json.dumps(raw | {"last-column-id": 99})


def test_types(tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, items((1, "a", 1.0)))
        location = tmp_path / "changed.metadata.json"
        original = Path(table.metadata_location.removeprefix("file://"))
        for text in (*GOOD_TYPES, *BAD_TYPES):
            location.write_text(with_type(original, text))
            is_good = text in GOOD_TYPES
            reads: list[Callable[[], Any]] = [
                lambda: dk.scan(dk.from_metadata(location)).to_arrow(),
                lambda: dk.scan(dk.from_metadata(location)).count(),
                lambda: dk.scan(dk.from_metadata(location), "f is null", columns=["id"]).count(),
                partial(lambda text: dk.add_column(make(catalog), "f", text), text),
            ]
            for read in reads:
                if is_good:
                    read()
                    continue
                with pytest.raises(dk.DeletekitError):
                    read()


def test_widths_of_transforms(tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        for name in ("bucket", "truncate"):
            for width in (*GOOD_WIDTHS, *BAD_WIDTHS):
                if width in GOOD_WIDTHS:
                    table = make(catalog, items((1, "a", 1.0)), partition_by=f"{name}({width}, id)")
                    assert dk.scan(table, "id = 1").count() == 1
                    continue
                for options in ({"partition_by": f"{name}({width}, id)"}, {"sort_by": f"{name}({width}, id)"}):
                    with pytest.raises(dk.InvalidInputError):
                        make(catalog, **options)
        for field, text in (("partition-specs", "bucket[4]"), ("sort-orders", "truncate[4]")):
            options = (
                {"partition_by": "bucket(4, id)"} if field == "partition-specs" else {"sort_by": "truncate(4, id)"}
            )
            table = make(catalog, items((1, "a", 1.0), (2, "a", 1.0)), **options)
            location = Path(table.metadata_location.removeprefix("file://"))
            stored = location.read_text()
            assert text in stored
            for width in BAD_WIDTHS:
                location.write_text(stored.replace(text, f"{text.partition('[')[0]}[{width}]"))
                with pytest.raises(dk.FormatError) as error:
                    dk.append(dk.load_table(catalog, ".".join(table.identifier)), items((3, "a", 1.0), (2, "a", 1.0)))
                assert error.value.field == field
            location.write_text(stored)
