"""Tables whose metadata leave out what they may, or say what cannot be."""

from dataclasses import replace
from typing import Any

import deletekit as dk
from tests.conformance.bench import Bench
from tests.conformance.recipes import Recipes
from tests.conformance.recipes_equality import people
from tests.conformance.recipes_positions import FOUR, FOUR_MORE, two_files

RECIPES = Recipes()


@RECIPES.add("vector-by-its-reference", "deletion-vector", "several-vectors", versions=(3,))
def vectors_in_another_order(b: Bench) -> None:
    """Three vectors in one Puffin file, in another order than the data files. A vector is for the data file that its
    entry names.
    """
    a, c = two_files(b)
    e = b.append((21, "a"), (22, "b"), (23, "c"))
    b.add(*b.shared_puffin((e, [2]), (a, [0]), (c, [1])))


def _uncounted(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **{name: None for name in row if name.endswith("files_count")}}


@RECIPES.add("absent-counts", "copy-on-write", "metrics-none", versions=(1,))
def counts_left_out_v1(b: Bench) -> None:
    """The manifest list of a table of version 1 has no counts of files. What is not counted may be there."""
    b.create(id="int", name="string")
    b.append(*FOUR)
    dk.delete(b.table, "id = 2", mode="copy-on-write")
    b.append(*FOUR_MORE)
    b.edit(lambda row: row, without=["files_count", "rows_count"])


@RECIPES.add("absent-counts", "copy-on-write", "metrics-none", versions=(1,))
def counts_of_null_v1(b: Bench) -> None:
    """The manifest list of a table of version 1 has NULL for its counts of files."""
    b.create(id="int", name="string")
    b.append(*FOUR)
    b.append(*FOUR_MORE)
    b.edit(_uncounted)


@RECIPES.add("absent-counts", "position-delete", "metrics-none", "upgrade", versions=(1,))
def counts_of_null_before_an_upgrade(b: Bench) -> None:
    """A tag of a table of version 1 has NULL for the counts of its manifests. The table is upgraded, and a row of its
    old file is deleted by position.
    """
    b.create(id="int", name="string")
    old = b.append(*FOUR)
    b.edit(_uncounted)
    dk.create_tag(b.table, "before")
    dk.upgrade_format_version(b.table, 2)
    b.version = 2
    b.append(*FOUR_MORE)
    b.add(*b.at((old, [1])))


@RECIPES.add("inline-manifests", "copy-on-write", versions=(1,))
def manifests_in_the_snapshot(b: Bench) -> None:
    """The snapshots of a table of version 1 list their manifests themselves, without a manifest list. One row was
    deleted by copy-on-write.
    """
    b.create(id="int", name="string")
    b.append(*FOUR)
    dk.delete(b.table, "id = 2", mode="copy-on-write")
    b.append(*FOUR_MORE)
    b.inline()


@RECIPES.add("sequence-in-range", "position-delete", "deletion-vector", "damaged")
def delete_below_zero(b: Bench) -> None:
    """The entry of a delete says the sequence number -1. It is refused, or taken for the number of the manifest; the
    deleted row does not come back.
    """
    people(b)
    (data,) = b.live()
    b.add(*b.at((data, [1])))
    b.edit(lambda entry: {**entry, "sequence_number": -1}, content=1)


@RECIPES.add("sequence-in-range", "equality-delete", "damaged", versions=(2,))
def data_newer_than_its_manifest(b: Bench) -> None:
    """The entry of a data file says a sequence number above that of the manifest. It is refused, or taken for the
    number of the manifest; the row that was deleted by key does not come back.
    """
    people(b)
    b.add(*b.equal("id", {"id": 2}))
    b.edit(lambda entry: {**entry, "sequence_number": 1_000_000_000}, content=0)


@RECIPES.add("path-bounds-that-lie", "position-delete", "damaged", versions=(2,))
def bounds_of_another_path(b: Bench) -> None:
    """The bounds of file_path of a position delete file are those of one data file, and the file has positions of
    another one. It is refused, or its paths count.
    """
    a, c = two_files(b)
    (delete,) = b.at((a, [0]), (c, [3]))
    path = c.file_path.encode()
    b.add(replace(delete, lower_bounds={2147483546: path}, upper_bounds={2147483546: path}, referenced_data_file=None))


@RECIPES.add("delete-of-another-partition", "position-delete", "deletion-vector", "partition-identity", "damaged")
def vector_of_another_partition(b: Bench) -> None:
    """A delete names a data file of the partition a, and is in the partition b. It is refused, as Iceberg's Java does
    from 1.12 on, or does not apply: both partitions must be equal.
    """
    b.create(["part"], id="int", part="string")
    data = b.append((1, "a"), (2, "a"))
    b.append((3, "b"))
    b.add(*b.at((data, [0]), granularity="file"))
    b.edit(lambda entry: {**entry, "data_file": {**entry["data_file"], "partition": {"part": "b"}}}, content=1)
    here = {"contains_null": False, "contains_nan": False, "lower_bound": b"b", "upper_bound": b"b"}
    b.edit(lambda row: {**row, "partitions": [here]} if row["content"] == 1 else row)
