"""Tables of equality deletes: which data files they reach, what a planner may skip, and in which formats they are."""

import math
from dataclasses import replace

import deletekit as dk
from deletekit.formats.content_file import FileContent
from tests.conformance.bench import Bench
from tests.conformance.recipes import Recipes
from tests.conformance.recipes_equality import PEOPLE, people

RECIPES = Recipes()


@RECIPES.add("strictly-older", "equality-delete", "same-commit")
def upsert_in_one_commit(b: Bench) -> None:
    """One commit deletes keys 1 and 2 by value and adds them again. The new rows have the sequence number of the
    delete, so they live.
    """
    people(b)
    b.add(*b.data((1, "new"), (2, "new")), *b.equal("id", {"id": 1}, {"id": 2}))


@RECIPES.add("older-data-only", "equality-delete", "several-commits", versions=(2,))
def key_deleted_and_added_again(b: Bench) -> None:
    """Key 2 is deleted by value and added by a later commit. An equality delete applies to older data files alone."""
    people(b)
    b.add(*b.equal("id", {"id": 2}))
    b.append((2, "again"), (5, "e"))


@RECIPES.add("nan-outside-bounds", "equality-delete", "nan", "pruning", versions=(3,))
def nan_beside_other_bounds(b: Bench) -> None:
    """A delete of NaN and 100.0 meets a file with NaN and 1.0. Bounds leave NaN out, so bounds that do not meet say
    nothing of it: the NaN row is deleted.
    """
    b.create(id="int", d="double")
    b.append((1, math.nan), (2, 1.0))
    b.add(*b.equal("d", {"d": math.nan}, {"d": 100.0}))


@RECIPES.add("partition-scope", "equality-delete", "partition-identity", "null-partition", versions=(3,))
def delete_in_one_partition(b: Bench) -> None:
    """A key is in three partitions, one of them NULL, and is deleted in two of them. An equality delete of a
    partitioned spec applies to its own partition.
    """
    b.create(["part"], id="int", part="string", name="string")
    b.append((1, "a", "x"), (2, "a", "y"), (3, "b", "x"), (4, None, "x"))
    b.add(*b.equal("name", {"name": "x"}, partition=("a",)), *b.equal("name", {"name": "x"}, partition=(None,)))


@RECIPES.add("global-scope", "equality-delete", "global", "partition-evolution", versions=(2,))
def delete_of_all_partitions(b: Bench) -> None:
    """A table is partitioned after its first rows. An equality delete of the unpartitioned spec 0 applies to all older
    data files, whatever their spec.
    """
    b.create(id="int", part="string", name="string")
    b.append((1, "a", "x"), (2, "b", "y"))
    dk.add_partition_field(b.table, "part")
    for row in ((3, "a", "x"), (4, "b", "x"), (5, "b", "z")):
        b.append(row)
    b.add(*b.equal("name", {"name": "x"}, spec=0))
    b.append((6, "a", "x"))


@RECIPES.add("spec-scope", "equality-delete", "partition-evolution", "partition-identity", versions=(3,))
def two_specs_with_equal_values(b: Bench) -> None:
    """The table is partitioned by a, then by b instead. A delete in the partition b = 1 does not apply to files of the
    partition a = 1: the specs differ, though the values are equal.
    """
    b.create(["a"], id="int", a="int", b="int")
    b.append((1, 1, 2))
    dk.drop_partition_field(b.table, "a")
    dk.add_partition_field(b.table, "b")
    b.append((2, 3, 1))
    keys = ({"id": 1}, {"id": 2})
    spec = b.table.refresh().metadata.spec
    b.add(*b.equal("id", *keys, partition=(1,) if len(spec.fields) == 1 else (None, 1)))


@RECIPES.add("void-spec-scope", "equality-delete", "global", "partition-void", "upgrade", versions=(1,))
def spec_of_void_fields(b: Bench) -> None:
    """In version 1 a dropped partition field becomes void. After an upgrade, a delete of that spec applies to all: a
    spec with void fields alone is unpartitioned.
    """
    b.create(["part"], id="int", part="string", name="string")
    b.append((1, "a", "x"), (2, "a", "y"))
    dk.drop_partition_field(b.table, "part")
    b.append((3, "c", "x"), (4, "c", "y"))
    dk.upgrade_format_version(b.table, 2)
    b.add(*b.equal("name", {"name": "x"}, partition=(None,)))


@RECIPES.add("equality-beside-vector", "equality-delete", "deletion-vector", "mixed", versions=(3,))
def keys_beside_a_vector(b: Bench) -> None:
    """A data file has a vector, and equality deletes before and after it. A vector replaces position delete files, and
    not equality deletes.
    """
    b.create(id="int", name="string")
    data = b.append(*PEOPLE)
    b.add(*b.equal("name", {"name": "a"}))
    b.add(*b.at((data, [2])))
    b.add(*b.equal("id", {"id": 4}))


@RECIPES.add("missing-metrics", "equality-delete", "metrics-none", "null-key", versions=(3,))
def no_bounds_at_all(b: Bench) -> None:
    """Neither data files nor equality deletes have metrics. A missing bound says nothing, so no delete may be
    skipped.
    """
    b.create(properties={"write.metadata.metrics.default": "none"}, id="int", name="string")
    b.append((1, "a"), (2, None), (3, "c"), (4, "d"))
    b.add(*b.equal("name", {"name": None}))
    b.add(*b.equal("name", {"name": "c"}))


@RECIPES.add("no-prune-by-null-count", "equality-delete", "metrics-none", "null-key", versions=(2,))
def no_count_of_nulls(b: Bench) -> None:
    """A data file has bounds of its key and no count of NULLs. There may be NULLs, so a delete of NULL is not
    skipped.
    """
    b.create(id="int", name="string")
    (data,) = b.data((1, "a"), (2, None), (3, "c"))
    b.add(replace(data, null_value_counts=None, value_counts=None))
    b.add(*b.equal("name", {"name": None}, {"name": "c"}))


@RECIPES.add("bounds-truncated", "equality-delete", "metrics-truncated", versions=(3,))
def bounds_of_two_characters(b: Bench) -> None:
    """Bounds are cut to two characters, where keys have the same beginning. A bound is not the value."""
    b.create(properties={"write.metadata.metrics.default": "truncate(2)"}, id="int", k="string")
    b.append((1, "aa"), (2, "aab"), (3, "aac"))
    b.add(*b.equal("k", {"k": "aab"}))


@RECIPES.add("avro-deletes", "equality-delete", "avro", "avro-deletes", versions=(3,))
def keys_in_avro(b: Bench) -> None:
    """A Parquet data file with equality deletes in Avro. A delete file has a format of its own."""
    people(b, (1, "a"), (2, None), (3, "c"))
    kind = ["null", "string"]
    schema = {"type": "record", "name": "table", "fields": [
        {"name": "name", "type": kind, "default": None, "field-id": 2}]}  # fmt: skip
    rows = [{"name": None}, {"name": "c"}]
    meta = {"delete-type": "equality", "delete-field-ids": "2"}
    b.add(b.avro(FileContent.EQUALITY_DELETES, schema, rows, meta, equality_ids=(2,), sort_order_id=0))


@RECIPES.add("avro-deletes", "position-delete", "avro", "avro-deletes", versions=(2,))
def avro_data_and_positions(b: Bench) -> None:
    """A data file and its position deletes are in Avro. A position counts the records of the file."""
    b.create(id="int", name="string")
    fields = [{"name": "id", "type": ["null", "int"], "default": None, "field-id": 1},
              {"name": "name", "type": ["null", "string"], "default": None, "field-id": 2}]  # fmt: skip
    rows = [{"id": i, "name": name} for i, name in PEOPLE]
    data = b.avro(FileContent.DATA, {"type": "record", "name": "table", "fields": fields}, rows)
    b.add(data)
    fields = [{"name": "file_path", "type": "string", "field-id": 2147483546},
              {"name": "pos", "type": "long", "field-id": 2147483545}]  # fmt: skip
    listed = [{"file_path": data.file_path, "pos": at} for at in (0, 2)]
    schema = {"type": "record", "name": "table", "fields": fields}
    b.add(b.avro(FileContent.POSITION_DELETES, schema, listed, {"delete-type": "position"}))


@RECIPES.add("strictly-older", "equality-delete", "deletion-vector", "upsert", versions=(3,))
def upserted_by_a_verb(b: Bench) -> None:
    """Two upserts of deletekit by key. Each commit has equality deletes of all its keys, and the new rows."""
    people(b)
    dk.upsert(b.table, b.rows((1, "first"), (9, "new")), on="id", mode="equality-delete")
    dk.upsert(b.table, b.rows((1, "second"), (2, "again")), on="id", mode="equality-delete")
