"""Tables of position deletes and deletion vectors, of refs, manifests and sequence numbers."""

import pyarrow as pa

import deletekit as dk
from deletekit.formats.deletion_vector import PositionBitmap, encode_vector
from deletekit.formats.parquet import ParquetOptions
from tests.conformance.bench import Bench
from tests.conformance.recipes import Recipes

RECIPES = Recipes()
KINDS = ("position-delete", "deletion-vector")
FOUR = ((1, "a"), (2, "b"), (3, "c"), (4, "d"))
FOUR_MORE = ((11, "a"), (12, "b"), (13, "c"), (14, "d"))


def two_files(b: Bench, **properties: str) -> tuple[object, object]:
    b.create(properties=properties, id="int", name="string")
    return b.append(*FOUR), b.append(*FOUR_MORE)


@RECIPES.add("positions-from-zero", *KINDS)
def first_and_last_row(b: Bench) -> None:
    """The first row of one file and the last of another are deleted. The first row of a file is at position 0."""
    a, c = two_files(b)
    b.add(*b.at((a, [0]), (c, [3])))


@RECIPES.add("path-exact", "position-delete", "partition-scoped", versions=(2,))
def one_delete_file_for_two_data_files(b: Bench) -> None:
    """One delete file has other positions for each of two data files. Each applies to the file of its path alone."""
    a, c = two_files(b)
    b.add(*b.at((a, [0, 1]), (c, [3])))


@RECIPES.add("same-or-older", *KINDS, "equality-delete", "same-commit", writer="flink-layout")
def key_twice_in_one_checkpoint(b: Bench) -> None:
    """A checkpoint of a Flink upsert writer: key 1 comes twice and key 9 comes and goes. One commit has the data, an
    equality delete of the keys, and a delete by position of the two rows of its own that were overtaken.
    """
    b.create(id="int", name="string")
    b.append(*FOUR)
    (new,) = b.data((1, "first"), (9, "gone"), (1, "second"))
    b.add(new, *b.equal("id", {"id": 1}, {"id": 9}), *b.at((new, [0, 1])))


@RECIPES.add("strictly-older", *KINDS, "equality-delete", "several-commits", writer="flink-layout")
def three_checkpoints(b: Bench) -> None:
    """Three checkpoints of a Flink upsert writer change the same keys. Each equality delete applies to the rows of
    older checkpoints, and not to those of its own.
    """
    b.create(id="int", name="string")
    for turn in (1, 2, 3):
        (new,) = b.data((1, f"old {turn}"), (1, f"turn {turn}"), (turn * 10, "added"))
        b.add(new, *b.equal("id", {"id": 1}, {"id": turn * 10}), *b.at((new, [0])))


@RECIPES.add("strictly-older", "equality-delete", "position-delete", "partition-identity", versions=(2,),
             writer="flink-layout")  # fmt: skip
def checkpoint_in_partitions(b: Bench) -> None:
    """A checkpoint of a Flink upsert writer in a partitioned table, whose key has the partition column. There are data,
    equality deletes and position deletes for each partition, in one commit.
    """
    b.create(["part"], id="int", part="string", name="string")
    b.append((1, "x", "old"), (2, "x", "old"), (1, "y", "old"))
    files = b.data((1, "x", "first"), (1, "x", "second"), (1, "y", "new"))
    deletes = [d for f in files for d in b.equal("id part", {"id": 1, "part": f.partition[0]}, partition=f.partition)]
    own = next(f for f in files if f.partition == ("x",))
    b.add(*files, *deletes, *b.at((own, [0])))


@RECIPES.add("position-before-filter", *KINDS, "equality-delete")
def position_behind_a_key(b: Bench) -> None:
    """Row 0 is deleted by its key and row 2 by position. A position counts all rows of the file, also deleted ones."""
    b.create(id="int", name="string")
    data = b.append(*FOUR)
    b.add(*b.equal("id", {"id": 1}))
    b.add(*b.at((data, [2])))


@RECIPES.add("position-behind-end", "position-delete", "dangling", versions=(2,))
def position_behind_the_end(b: Bench) -> None:
    """Positions 4 and 5,000,000,000 of a file with four rows, and a position of a file that is not in the table. None
    of them deletes a row.
    """
    b.create(id="int", name="string")
    data = b.append(*FOUR)
    path = data.file_path
    b.add(*b.listed((path, 1), (path, 4), (path, 5_000_000_000), (path.replace("data/", "data/x"), 0), of=data))


@RECIPES.add("duplicate-positions", "position-delete", versions=(2,))
def position_listed_three_times(b: Bench) -> None:
    """Position 1 comes twice in one delete file and once in another, position 2 in both. The row is deleted, however
    often its position comes.
    """
    b.create(id="int", name="string")
    data = b.append(*FOUR)
    path = data.file_path
    b.add(*b.listed((path, 1), (path, 1), (path, 2), of=data))
    b.add(*b.listed((path, 2), of=data))


@RECIPES.add("unsorted-positions", "position-delete", versions=(2,))
def positions_out_of_order(b: Bench) -> None:
    """The rows of a delete file come in no order. The spec has them sorted by path and position; a reader that loses
    those out of order shows deleted rows.
    """
    a, c = two_files(b)
    b.add(*b.listed((a.file_path, 3), (c.file_path, 2), (a.file_path, 0), (c.file_path, 1), of=a))


@RECIPES.add("row-groups-positions", *KINDS, "row-groups")
def three_row_groups(b: Bench) -> None:
    """A Parquet file with three row groups of four rows. A position counts from the start of the file."""
    b.create(id="int", name="string")
    rows = b.rows(*((i, f"name-{i}") for i in range(12)))
    data = b.parquet(rows, ParquetOptions(row_group_rows=4))
    b.add(data)
    b.add(*b.at((data, [1, 5, 11])))


@RECIPES.add("several-delete-files-union", "position-delete", "several-commits", versions=(2,))
def two_position_delete_files(b: Bench) -> None:
    """Two commits each add a position delete file for one data file. All of them apply."""
    b.create(id="int", name="string")
    data = b.append(*FOUR)
    b.add(*b.at((data, [0])))
    b.add(*b.at((data, [2])))


@RECIPES.add("several-blobs-one-puffin", "deletion-vector", "shared-puffin", versions=(3,))
def three_vectors_in_one_puffin(b: Bench) -> None:
    """One Puffin file has the vectors of three data files. A vector is named by path and offset."""
    a, c = two_files(b)
    d = b.append((21, "a"), (22, "b"), (23, "c"))
    b.add(*b.at((a, [0, 1]), (c, [2]), (d, [1])))


@RECIPES.add("vector-at-its-offset", "deletion-vector", "shared-puffin", versions=(3,))
def small_vector_behind_a_large_one(b: Bench) -> None:
    """One Puffin file has a large vector, and behind it a small one. A reader may read on to the end of the file; the
    small vector is at its own offset in what it has read.
    """
    b.create(id="int")
    a = b.append(*((i,) for i in range(2000)))
    c = b.append(*((i,) for i in range(5000, 5008)))
    b.add(*b.shared_puffin((a, range(0, 2000, 2)), (c, [1, 2, 4])))


@RECIPES.add("vector-at-its-offset", "deletion-vector", "shared-puffin", "partition-evolution", "partition-identity",
             versions=(3,))  # fmt: skip
def vectors_of_two_specs_in_one_puffin(b: Bench) -> None:
    """One Puffin file has the vectors of three data files, of two partition specs. Those of the newer spec are listed
    first, so the vectors are not read in the order in which they lie.
    """
    b.create(id="int", part="string")
    a, c = b.append((1, "x"), (2, "x"), (3, "x")), b.append((11, "x"), (12, "x"), (13, "x"))
    dk.add_partition_field(b.table, "part")
    d = b.append((21, "x"), (22, "x"), (23, "x"))
    b.add(*b.shared_puffin((a, [0]), (c, [1]), (d, [2])))


@RECIPES.add("run-length-minus-one", "deletion-vector", "run-containers", versions=(3,))
def vector_of_a_run(b: Bench) -> None:
    """A vector whose bitmap is one run of ten positions. A run is stored as its start and its length less one."""
    b.create(id="int")
    data = b.append(*((i,) for i in range(12)))
    b.add(*b.at((data, range(10))))


@RECIPES.add("high-positions", "deletion-vector", "position-behind-end", versions=(3,))
def vector_beyond_32_bits(b: Bench) -> None:
    """A vector with position 1, and with 4,294,967,296, which lies behind the end. A position has 64 bits, of which the
    upper half is the key of its bitmap.
    """
    b.create(id="int", name="string")
    b.add(*b.vector(b.append(*FOUR), encode_vector(PositionBitmap([1, 1 << 32]))))


@RECIPES.add("sparse-keys-vector", "deletion-vector", "position-behind-end", versions=(3,))
def vector_without_the_first_bitmap(b: Bench) -> None:
    """A vector whose only bitmap has key 1; Java would write an empty one for key 0. The key is what is stored with the
    bitmap, so position 4,294,967,296 is deleted, which no row has.
    """
    b.create(id="int", name="string")
    whole = encode_vector(PositionBitmap([1 << 32]))
    at = whole.index(b"\x3a\x30\x00\x00\x00\x00\x00\x00")  # the empty bitmap of key 0
    b.add(*b.vector(b.append(*FOUR), (1).to_bytes(8, "little") + whole[at + 8 :]))


@RECIPES.add("vector-wins", "position-delete", "deletion-vector", "upgrade", versions=(2,))
def vector_over_position_deletes(b: Bench) -> None:
    """A position delete file for two data files, an upgrade, and a vector for one of them that does not have the old
    position. For that data file the vector alone counts.
    """
    a, c = two_files(b)
    b.add(*b.at((a, [0]), (c, [0])))
    dk.upgrade_format_version(b.table, 3)
    b.add(*b.at((a, [2])))


@RECIPES.add("upgrade-keeps-deletes", "position-delete", "equality-delete", "upgrade", versions=(2,))
def upgraded_with_position_deletes(b: Bench) -> None:
    """A table with position and equality deletes is upgraded to version 3. They apply as before."""
    a, c = two_files(b)
    b.add(*b.at((a, [0]), (c, [3])))
    b.add(*b.equal("id", {"id": 2}))
    dk.upgrade_format_version(b.table, 3)
    b.append((2, "again"))


@RECIPES.add("upgrade-keeps-deletes", "position-delete", "deletion-vector", "upgrade", "delete", versions=(2,))
def vector_beside_old_position_deletes(b: Bench) -> None:
    """A position delete file for two data files, an upgrade, and a DELETE in one of them. Its vector has the old
    position, and the old delete file stays for the other.
    """
    two_files(b)
    dk.delete(b.table, "name = 'a'", mode="position-delete")
    dk.upgrade_format_version(b.table, 3)
    dk.delete(b.table, "id = 2", mode="deletion-vector")


@RECIPES.add("removed-deletes-do-not-apply", *KINDS, "rewrite")
def delete_file_taken_back(b: Bench) -> None:
    """A commit removes the deletes of an earlier one and adds others. What its manifest lists as DELETED does not
    apply.
    """
    b.create(id="int", name="string")
    data = b.append(*FOUR)
    old = b.add(*b.at((data, [0])))
    b.add(*b.at((data, [2])), remove=old)


@RECIPES.add("removed-files-not-read", "copy-on-write", "delete", "update", versions=(1, 2, 3))
def copy_on_write(b: Bench) -> None:
    """DELETE and UPDATE by copy-on-write. Data files that a manifest lists as DELETED are not read."""
    b.create(id="int", name="string")
    b.append(*FOUR)
    dk.delete(b.table, "id = 2", mode="copy-on-write")
    dk.update(b.table, {"name": "new"}, where="id = 3", mode="copy-on-write")


@RECIPES.add("existing-entries-count", "equality-delete", "manifest-merge", versions=(3,))
def manifests_merged(b: Bench) -> None:
    """Every commit merges the manifests. Entries of older commits are EXISTING and keep their sequence numbers."""
    b.create(properties={"commit.manifest.min-count-to-merge": "2"}, id="int", name="string")
    b.append(*FOUR)
    b.add(*b.equal("id", {"id": 1}))
    b.append((1, "again"), (5, "e"))
    b.add(*b.equal("id", {"id": 5}))
    b.append((5, "again"))


@RECIPES.add("inherited-sequence", "equality-delete", "several-commits", versions=(2,))
def deletes_and_appends_by_turns(b: Bench) -> None:
    """Appends and equality deletes take turns. Each entry is ADDED without a sequence number, and inherits that of its
    manifest.
    """
    b.create(id="int", turn="int")
    for turn in (1, 2, 3):
        b.append((1, turn), (10 + turn, turn))
        b.add(*b.equal("id", {"id": 1}))
    b.append((1, 4))


@RECIPES.add("explicit-sequence", "equality-delete", "rewrite", versions=(2,))
def rewritten_with_an_old_number(b: Bench) -> None:
    """A rewrite that began before an equality delete is committed after it. Its data file has the old sequence number
    in its entry, so the delete still applies.
    """
    b.create(id="int", name="string")
    old = b.append(*FOUR)
    new = b.data(*reversed(FOUR))
    b.add(*b.equal("id", {"id": 2}))
    b.add(*new, remove=[old], sequence=1, operation="replace")


@RECIPES.add("ref-own-deletes", *KINDS, "equality-delete", "branch", "tag")
def deletes_of_branches(b: Bench) -> None:
    """A branch and main delete other rows of one file after a tag was set. Each ref has the deletes of its own snapshot
    alone.
    """
    b.create(id="int", name="string")
    data = b.append(*FOUR)
    dk.create_branch(b.table, "audit")
    dk.create_tag(b.table, "before")
    b.add(*b.at((data, [0])))
    b.add(*b.equal("id", {"id": 2}), ref="audit")
    b.append((9, "audit"), ref="audit")


@RECIPES.add("current-snapshot", *KINDS, "rollback", versions=(3,))
def rolled_back(b: Bench) -> None:
    """A delete is rolled back. main is the snapshot that its ref names, and not the newest one."""
    b.create(id="int", name="string")
    data = b.append(*FOUR)
    first = b.table.current_snapshot.snapshot_id
    b.add(*b.at((data, [0, 1])))
    dk.rollback(b.table, first)


@RECIPES.add("snapshot-schema", "position-delete", "tag", "branch", "schema-evolution", versions=(2,))
def tag_before_a_rename(b: Bench) -> None:
    """A tag and a branch are set, then a column is renamed and one is added. A tag is read with the schema of its
    snapshot, a branch with the table's.
    """
    b.create(id="int", name="string")
    data = b.append(*FOUR)
    b.add(*b.at((data, [0])))
    dk.create_tag(b.table, "before")
    dk.create_branch(b.table, "audit")
    dk.rename_column(b.table, "name", "title")
    dk.add_column(b.table, "extra", "long")
    b.append((5, "e", 50))


@RECIPES.add("row-lineage", "deletion-vector", "lineage", "update", versions=(3,),
             columns=("id", "_row_id", "_last_updated_sequence_number"))  # fmt: skip
def row_ids_beside_a_vector(b: Bench) -> None:
    """A vector deletes the first row, and an UPDATE moves another into a new file. Row ids count all rows of a file,
    and the moved row keeps its own.
    """
    b.create(id="int", name="string")
    b.append(*FOUR)
    dk.delete(b.table, "id = 1", mode="deletion-vector")
    dk.update(b.table, {"name": "new"}, where="id = 3", mode="merge-on-read")


@RECIPES.add("positions-from-zero", *KINDS, "schema-evolution")
def positions_across_schema_changes(b: Bench) -> None:
    """Columns are added, renamed and dropped between deletes by position. Positions stay what they were."""
    b.create(id="int", a="int", name="string")
    first = b.append((1, 10, "x"), (2, 20, "y"), (3, 30, "z"))
    b.add(*b.at((first, [0])))
    dk.drop_column(b.table, "a")
    dk.add_column(b.table, "c", "long")
    second = b.append((4, "u", 5), (5, "v", 6))
    dk.rename_column(b.table, "name", "a")
    b.add(*b.at((second, [1])))


@RECIPES.add("path-exact", "position-delete", "partition-evolution", "partition-identity", versions=(2,))
def positions_across_specs(b: Bench) -> None:
    """A table gets a partition field between deletes. A position delete file has the spec and the partition of the data
    files that it is about.
    """
    b.create(id="int", part="string")
    first = b.append((1, "x"), (2, "y"), (3, "x"))
    dk.add_partition_field(b.table, "part")
    rows = b.append((4, "x"), (5, "x"))
    b.add(*b.at((first, [1])), *b.at((rows, [0])))


@RECIPES.add("several-delete-files-union", "position-delete", "merge", versions=(2,))
def merged_on_read(b: Bench) -> None:
    """MERGE INTO a merge-on-read table: rows are deleted, updated and added by one commit, then one more is deleted."""
    two_files(b, **{"write.delete.granularity": "partition"})
    dk.delete(b.table, "id in (1, 11)", mode="position-delete")
    source = pa.table({"id": pa.array([2, 12, 99], pa.int32()), "name": ["new", "new", "added"]})
    dk.merge(b.table, source, on=["id"], mode="merge-on-read")
    dk.delete(b.table, "id in (4, 99)", mode="position-delete")
