"""Content files as values: what makes one the same as another, and what kind of delete it is."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.content_file import (
    DataFile,
    DeleteFile,
    FileContent,
    file_format_of,
    partition_key,
    refuse_encrypted,
)

DATA = DataFile(spec_id=0, file_path="a.parquet", file_format="PARQUET", record_count=10, file_size_in_bytes=100)
POSITIONS = DeleteFile(
    content=FileContent.POSITION_DELETES,
    spec_id=0,
    file_path="d.parquet",
    file_format="PARQUET",
    record_count=1,
    file_size_in_bytes=100,
)
EQUALITY = replace(POSITIONS, content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
VECTOR = replace(POSITIONS, file_format="PUFFIN", referenced_data_file="a", content_offset=4, content_size_in_bytes=40)


@pytest.mark.parametrize(
    ("file", "kind"), [(POSITIONS, "position-delete"), (EQUALITY, "equality-delete"), (VECTOR, "deletion-vector")]
)
def test_kind_of_a_delete(file: DeleteFile, kind: str) -> None:
    assert file.kind == kind
    assert file.is_deletion_vector == (kind == "deletion-vector")


def test_bytes_of_a_vector_are_its_blobs_and_not_the_files() -> None:
    assert (POSITIONS.content_bytes, EQUALITY.content_bytes, VECTOR.content_bytes) == (100, 100, 40)
    assert replace(VECTOR, content_size_in_bytes=None).content_bytes == 100


@pytest.mark.parametrize("name", ["", "csv", "parquet ", "metadata"])
def test_unknown_format_is_refused(name: str) -> None:
    with pytest.raises(FormatError) as error:
        file_format_of(name)
    assert (error.value.kind, error.value.field, error.value.found) == ("file-format", "file_format", name)


@pytest.mark.parametrize("file", [DATA, POSITIONS, EQUALITY, VECTOR])
def test_encrypted_file_is_refused_by_name(file: DataFile | DeleteFile) -> None:
    refuse_encrypted(file)
    with pytest.raises(UnsupportedError) as error:
        refuse_encrypted(replace(file, key_metadata=b""))
    assert (error.value.kind, error.value.file, error.value.field) == ("encryption", file.file_path, "key_metadata")


# --- partitions -------------------------------------------------------------------------------------------------------

NAN, OTHER_NAN = float("nan"), struct.unpack("<d", b"\1\0\0\0\0\0\xf8\x7f")[0]
EQUAL: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [
    ((), ()),
    ((None,), (None,)),
    ((NAN,), (OTHER_NAN,)),
    ((-NAN,), (NAN,)),
    ((1.5, b"x", None), (1.5, b"x", None)),
]
DIFFERENT: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [
    ((-0.0,), (0.0,)),
    ((None,), (0,)),
    ((None,), (NAN,)),
    (("1",), (1,)),
    ((b"1",), ("1",)),
    ((1, 2), (2, 1)),
    ((1,), (1, None)),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_partitions_that_are_equal(left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    assert partition_key(left) == partition_key(right)
    assert hash(partition_key(left)) == hash(partition_key(right))


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_partitions_that_differ(left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    assert partition_key(left) != partition_key(right)
