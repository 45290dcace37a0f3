"""The golden corpus is all there: a test over files that are gone would pass by doing nothing."""

import hashlib

import pytest

from tests.golden_files import GOLDEN, KINDS, content, index

pytestmark = pytest.mark.golden

LISTED = dict(reversed(line.split("  ")) for line in (GOLDEN / "MANIFEST.sha256").read_text().splitlines())
FEWEST = {
    "deletion_vectors": 70,
    "delta_deletion_vectors": 3,
    "puffin": 15,
    "manifests": 51,
    "delete_files": 45,
    "metadata": 15,
}


def test_every_listed_file_is_there_and_no_other() -> None:
    found = {file.relative_to(GOLDEN).as_posix() for kind in KINDS for file in (GOLDEN / kind).iterdir()}
    assert found == set(LISTED)


def test_each_file_has_the_listed_hash() -> None:
    assert {file: hashlib.sha256((GOLDEN / file).read_bytes()).hexdigest() for file in LISTED} == LISTED


@pytest.mark.parametrize("kind", KINDS)
def test_index_names_every_file_of_its_directory(kind: str) -> None:
    files = {file.name for file in (GOLDEN / kind).iterdir()} - {"index.json"}
    assert set(index(kind)) == files
    assert len(files) >= FEWEST[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_is_empty(kind: str) -> None:
    assert [file for file in index(kind) if not content(kind, file)] == []
