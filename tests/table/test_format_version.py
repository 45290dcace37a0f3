"""What each format version may hold."""

import pytest

import deletekit as dk
from deletekit.table.format_version import NEWEST, FormatVersion

KINDS = {1: (), 2: ("position-delete", "equality-delete"), 3: ("deletion-vector", "equality-delete")}


@pytest.mark.parametrize(("number", "kinds"), KINDS.items())
def test_kinds_of_deletes_sequence_numbers_and_row_lineage(number: int, kinds: tuple[str, ...]) -> None:
    version = FormatVersion(number)
    assert version.delete_kinds == kinds
    for kind in {"position-delete", "deletion-vector", "equality-delete"} - {*kinds}:
        with pytest.raises(dk.InvalidInputError) as caught:
            version.check_delete_kind(kind)
        assert caught.value.expected == ", ".join(("copy-on-write", *kinds))
    assert version.next_sequence_number(7) == (0 if number == 1 else 8)
    assert version.has_row_lineage == (number == NEWEST)
