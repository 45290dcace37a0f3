"""Scope and age of deletes, one rule of the specification after the other (spec "Scan Planning")."""

import math

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform, VoidTransform

from deletekit.deletes.which_apply import covers, is_global, is_old_enough, own_deletes, referenced_path, scope_of
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry

BY_REGION = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "region"), spec_id=0)
VOID = PartitionSpec(PartitionField(1, 1000, VoidTransform(), "region"), spec_id=1)
SPECS = {0: BY_REGION, 1: VOID, 2: PartitionSpec(spec_id=2)}
PATH = "data/1.parquet"


def data(number: int = 1, spec_id: int = 0, partition: tuple[object, ...] = ("n",), path: str = PATH) -> ManifestEntry:
    file = DataFile(
        spec_id=spec_id,
        partition=partition,
        file_path=path,
        file_format="PARQUET",
        record_count=1,
        file_size_in_bytes=1,
    )
    return entry(file, number)


def delete(
    content: FileContent,
    number: int = 1,
    spec_id: int = 0,
    partition: tuple[object, ...] = ("n",),
    about: str | None = None,
    bounds: tuple[bytes, bytes] | None = None,
    form: str = "PARQUET",
) -> ManifestEntry:
    low, high = bounds or (None, None)
    file = DeleteFile(
        content=content,
        spec_id=spec_id,
        partition=partition,
        file_path="data/1-deletes.parquet",
        file_format=form,
        record_count=1,
        file_size_in_bytes=1,
        referenced_data_file=about,
        lower_bounds=None if low is None else {2147483546: low},
        upper_bounds=None if high is None else {2147483546: high},
    )
    return entry(file, number)


def entry(file: DataFile | DeleteFile, number: int) -> ManifestEntry:
    return ManifestEntry(
        status=EntryStatus.ADDED, snapshot_id=1, sequence_number=number, file_sequence_number=number, data_file=file
    )


def covered(of: ManifestEntry, file: ManifestEntry) -> bool:
    assert isinstance(of.data_file, DeleteFile)
    return covers(of.data_file, file.data_file, SPECS)


@pytest.mark.parametrize(("number", "by_value", "by_position"), [(1, True, True), (2, False, True), (3, False, False)])
def test_equality_deletes_apply_to_strictly_older_data_files(number: int, by_value: bool, by_position: bool) -> None:
    assert is_old_enough(data(number), delete(FileContent.EQUALITY_DELETES, 2)) is by_value
    assert is_old_enough(data(number), delete(FileContent.POSITION_DELETES, 2)) is by_position


def test_an_unpartitioned_spec_is_global_for_equality_deletes_alone() -> None:
    assert [is_global(spec) for spec in SPECS.values()] == [False, True, True]
    for spec_id, partition in ((1, (None,)), (2, ())):
        assert covered(delete(FileContent.EQUALITY_DELETES, 2, spec_id, partition), data())
        assert not covered(delete(FileContent.POSITION_DELETES, 2, spec_id, partition), data())


def test_a_delete_of_a_partition_covers_that_spec_and_partition() -> None:
    for content in (FileContent.EQUALITY_DELETES, FileContent.POSITION_DELETES):
        assert covered(delete(content), data())
        assert not covered(delete(content, partition=("s",)), data())
        assert not covered(delete(content), data(spec_id=1))
        assert not covered(delete(content, spec_id=9), data(spec_id=9))


def test_partitions_are_equal_by_the_spec() -> None:
    def scope(value: object) -> object:
        return scope_of(data(partition=(value,)).data_file)

    assert scope(math.nan) == scope(-math.nan)
    assert scope(0.0) != scope(-0.0)
    assert scope(None) == scope(None)


def test_own_deletes_are_about_one_data_file() -> None:
    position, path = FileContent.POSITION_DELETES, PATH.encode()
    named = delete(position, about=PATH)
    bounded = delete(position, bounds=(path, path))
    vector = delete(position, about=PATH, form="PUFFIN")
    partition = delete(position, bounds=(b"a", b"z"))
    other = delete(position, about="data/2.parquet")
    by_value = delete(FileContent.EQUALITY_DELETES, bounds=(path, path))
    assert own_deletes(PATH, [named, bounded, vector, partition, other, by_value]) == [named, bounded, vector]
    assert covered(bounded, data())
    assert not covered(other, data())
    assert referenced_path(delete(position, bounds=(path, path), form="PUFFIN").data_file) is None
