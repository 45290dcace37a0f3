"""What each format version may hold."""

from __future__ import annotations

import pytest

import deletekit as dk
from deletekit.table.format_version import FORMAT_VERSIONS, NEWEST, FormatVersion

KINDS = {
    1: (),
    2: ("position-delete", "equality-delete"),
    3: ("deletion-vector", "equality-delete"),
}


@pytest.mark.parametrize("number", FORMAT_VERSIONS)
@pytest.mark.parametrize("kind", ["position-delete", "deletion-vector", "equality-delete"])
def test_kinds_of_deletes(number: int, kind: str) -> None:
    version = FormatVersion(number)
    assert version.delete_kinds == KINDS[number]
    if kind in KINDS[number]:
        version.check_delete_kind(kind)
        return
    with pytest.raises(dk.InvalidInputError) as caught:
        version.check_delete_kind(kind)
    assert (caught.value.kind, caught.value.found) == ("delete-kind", kind)
    assert caught.value.expected == ", ".join(("copy-on-write", *KINDS[number]))


@pytest.mark.parametrize(("number", "after"), [(1, 0), (2, 8), (3, 8)])
def test_sequence_numbers(number: int, after: int) -> None:
    assert FormatVersion(number).next_sequence_number(7) == after


def test_row_lineage_comes_with_the_newest() -> None:
    assert [FormatVersion(n).has_row_lineage for n in FORMAT_VERSIONS] == [False, False, True]
    assert NEWEST == 3
