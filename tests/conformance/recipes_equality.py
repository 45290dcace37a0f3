"""Tables of equality deletes: which rows they match."""

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

import deletekit as dk
from tests.conformance.bench import Bench
from tests.conformance.recipes import Recipes

RECIPES = Recipes()
PEOPLE = ((1, "a"), (2, "b"), (3, "c"), (4, "d"))


def people(b: Bench, *rows: tuple[object, ...]) -> None:
    b.create(id="int", name="string")
    b.append(*(rows or PEOPLE))


@RECIPES.add("null-equals-null", "equality-delete", "null-key", versions=(2,))
def null_key(b: Bench) -> None:
    """A delete of NULL and of one text. NULL equals NULL, and differs from the text NULL and from an empty one."""
    people(b, (1, None), (2, ""), (3, "NULL"), (4, "x"), (5, None))
    b.add(*b.equal("name", {"name": None}, {"name": "x"}))


@RECIPES.add("null-is-no-other-value", "equality-delete", "null-key", versions=(2, 3))
def null_beside_a_deleted_value(b: Bench) -> None:
    """A delete of one number, beside rows whose key is NULL. These rows stay: NULL differs from every value."""
    b.create(id="int", k="int")
    b.append((1, 7), (2, None), (3, 8), (4, None))
    b.add(*b.equal("k", {"k": 7}))


@RECIPES.add("all-columns-match", "equality-delete", "multi-column-key", "null-key", versions=(2,))
def two_key_columns(b: Bench) -> None:
    """Two key columns, each sometimes NULL. A row is deleted when all its key columns match, and not by one alone."""
    b.create(id="int", a="int", b="string")
    b.append((1, 1, "x"), (2, 1, "y"), (3, 2, "x"), (4, None, "x"), (5, 1, None), (6, None, None))
    b.add(*b.equal("a b", {"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": None, "b": None}))


@RECIPES.add("nan-equals-nan", "equality-delete", "nan", versions=(3,))
def nan_key(b: Bench) -> None:
    """Keys of double with NaN and the infinities. NaN equals NaN, as Java compares them."""
    b.create(id="int", d="double")
    b.append((1, math.nan), (2, math.inf), (3, -math.inf), (4, 0.0), (5, None))
    b.add(*b.equal("d", {"d": math.nan}, {"d": -math.inf}))


@RECIPES.add("negative-zero", "equality-delete", "negative-zero", versions=(2,))
def zero_of_either_sign(b: Bench) -> None:
    """-0.0 is deleted as a double and 0.0 as a float. The two zeroes are other keys, as Java compares them."""
    b.create(id="int", d="double", f="float")
    b.append((1, -0.0, 1.0), (2, 0.0, 1.0), (3, 1.0, -0.0), (4, 1.0, 0.0), (5, None, None))
    b.add(*b.equal("d", {"d": -0.0}))
    b.add(*b.equal("f", {"f": 0.0}))


@RECIPES.add("exact-strings", "equality-delete", "key-string", versions=(3,))
def texts_that_look_alike(b: Bench) -> None:
    """Texts that differ in case, or in how an accent is composed, and an emoji. Texts are equal when their characters
    are.
    """
    b.create(id="int", k="string")
    rows = ((1, "\u00e9"), (2, "e\u0301"), (3, "A"), (4, "a"), (5, "\U0001f600"), (6, " a"), (7, ""))
    b.append(*rows)
    b.add(*b.equal("k", {"k": "\u00e9"}, {"k": "a"}, {"k": "\U0001f600"}))


@RECIPES.add("exact-numbers", "equality-delete", "key-long", "key-decimal", versions=(2,))
def numbers_beyond_doubles(b: Bench) -> None:
    """Longs above 2^53 and decimals of 38 digits, which differ by one. Numbers are compared as they are, and not as
    doubles.
    """
    b.create(id="int", n="long", w="wide")
    wide = Decimal("1234567890123456789012345678.0123456789")
    b.append((1, 2**53, wide), (2, 2**53 + 1, -wide), (3, 2**63 - 1, wide + Decimal("1e-10")), (4, 0, None))
    b.add(*b.equal("n", {"n": 2**53 + 1}))
    b.add(*b.equal("w", {"w": wide}))


@RECIPES.add("exact-times", "equality-delete", "key-timestamp", "key-date", versions=(2,))
def times_of_one_millisecond(b: Bench) -> None:
    """Timestamps that differ by one microsecond, before 1970 too, and dates. They are compared to the microsecond."""
    b.create(id="int", t="timestamp", z="timestamptz", d="date")
    t, day = dt.datetime(1969, 12, 31, 23, 59, 59, 999998), dt.date(1969, 12, 31)  # noqa: DTZ001
    step = dt.timedelta(microseconds=1)
    utc = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    b.append((1, t, utc, day), (2, t + step, utc + step, day), (3, None, utc, dt.date(1970, 1, 1)))
    b.add(*b.equal("t", {"t": t}))
    b.add(*b.equal("z", {"z": utc + 2 * step}))
    b.add(*b.equal("d", {"d": dt.date(1970, 1, 1)}))


@RECIPES.add("exact-times", "equality-delete", "key-timestamp-ns", versions=(3,))
def nanoseconds(b: Bench) -> None:
    """Keys of timestamp_ns that differ by one nanosecond."""
    b.create(id="int", n="timestamp_ns")
    column = pa.array([1_704_067_200_000_000_001, 1_704_067_200_000_000_002, -1], pa.timestamp("ns"))
    dk.append(b.table, pa.table({"id": pa.array([1, 2, 3], pa.int32()), "n": column}))
    b.table.refresh()
    b.add(*b.equal("n", rows=pa.table({"n": column.slice(0, 1)})))


@RECIPES.add("own-equality-ids", "equality-delete", "several-id-sets", "multi-column-key", versions=(2,))
def three_sets_of_keys(b: Bench) -> None:
    """Deletes by id, by (a, b) and by (b, a). Each delete file has key columns of its own, and their order says
    nothing.
    """
    b.create(id="int", a="int", b="int")
    b.append((1, 1, 2), (2, 2, 1), (3, 3, 3), (4, 1, 1), (5, 4, 5))
    b.add(*b.equal("id", {"id": 3}))
    b.add(*b.equal("a b", {"a": 1, "b": 2}))
    b.add(*b.equal("b a", {"b": 5, "a": 4}, {"b": 2, "a": 9}))


@RECIPES.add("key-by-id", "equality-delete", "extra-columns", "column-order", versions=(2,))
def key_behind_another_column(b: Bench) -> None:
    """An equality delete file has another column in front of its key. Columns are found by field id, and not by their
    place.
    """
    b.create(id="int", other="int")
    b.append((1, 2), (2, 1), (3, 3))
    b.add(*b.equal("id", {"id": 1, "other": 2}, extra="other"))


@RECIPES.add("extra-columns-ignored", "equality-delete", "extra-columns", versions=(3,))
def delete_with_whole_rows(b: Bench) -> None:
    """An equality delete file has whole rows, whose other columns do not have the values of the table. Only the key
    columns are compared.
    """
    b.create(id="int", name="string", value="double")
    b.append((1, "a", 1.0), (2, "b", 2.0), (3, None, None))
    b.add(*b.equal("id", {"id": 1, "name": "x", "value": 9.0}, {"id": 3, "name": "c"}, extra="name value"))


@RECIPES.add("key-not-projected", "equality-delete", "projection", columns=("name",), versions=(3,))
def key_that_is_not_asked_for(b: Bench) -> None:
    """The key column is not among the columns that are asked for. The delete applies, and the key is not shown."""
    people(b)
    b.add(*b.equal("id", {"id": 2}))


@RECIPES.add("nested-key", "equality-delete", "key-nested", versions=(2,))
def key_in_a_struct(b: Bench) -> None:
    """A key inside a struct, beside a column of the same name at the top. The key is the leaf of its field id."""
    b.create(id="int", k="int", s=pa.struct([("v", pa.string()), ("k", pa.int32())]))
    b.append(*((i, 9 - i, {"v": "x", "k": i}) for i in (1, 2, 3)), (4, 4, None))
    b.add(*b.equal("s.k", {"s": {"k": 2}}))


@RECIPES.add("null-struct-leaf", "equality-delete", "key-nested", "null-key", versions=(3,))
def null_key_in_a_struct(b: Bench) -> None:
    """A delete of NULL by a key inside a struct. When the struct is NULL its leaf is NULL too, so both rows match."""
    b.create(id="int", s=pa.struct([("k", pa.int32()), ("v", pa.string())]))
    b.append((1, {"k": 1, "v": "a"}), (2, None), (3, {"k": None, "v": "c"}), (4, {"k": 4, "v": None}))
    b.add(*b.equal("s.k", {"s": {"k": None}}))


@RECIPES.add("promoted-key", "equality-delete", "promotion", versions=(3,))
def key_widened_after_its_delete(b: Bench) -> None:
    """A key of int and one of float are widened between data and deletes, before and after. Old and new values are
    compared in the wider type.
    """
    b.create(id="int", k="int", f="float")
    b.append((1, -1, 1.5), (2, 2, 2.5), (3, 3, 3.5), (4, 4, 4.5))
    b.add(*b.equal("k", {"k": 2}))
    dk.update_column(b.table, "k", type="long")
    dk.update_column(b.table, "f", type="double")
    b.append((5, -1, 3.5), (6, 5_000_000_000, 9.5))
    b.add(*b.equal("k", {"k": -1}, {"k": 5_000_000_000}))
    b.add(*b.equal("f", {"f": 3.5}))


@RECIPES.add("renamed-key", "equality-delete", "renamed-column", versions=(2,))
def key_renamed_after_its_delete(b: Bench) -> None:
    """The key column is renamed after its delete, and another column takes its name. Key columns are found by field
    id.
    """
    b.create(id="int", k="int", other="int")
    b.append((1, 1, 2), (2, 2, 1), (3, 3, 3))
    b.add(*b.equal("k", {"k": 1}))
    dk.rename_column(b.table, "k", "was_k")
    dk.rename_column(b.table, "other", "k")
    b.add(*b.equal("k", {"k": 3}))


@RECIPES.add("renamed-key", "equality-delete", "dropped-column", "re-added-column", versions=(2,))
def key_dropped_and_added_again(b: Bench) -> None:
    """The key column is dropped, and a new one of its name is added. The old delete is about the old column."""
    b.create(id="int", k="int")
    b.append((1, 1), (2, 2), (3, 3))
    b.add(*b.equal("k", {"k": 1}))
    dk.drop_column(b.table, "k")
    dk.add_column(b.table, "k", "int")
    b.append((4, 1), (5, 2), (6, None))
    b.add(*b.equal("id k", {"id": 5, "k": 2}, {"id": 2, "k": 2}, {"id": 3, "k": None}))


@RECIPES.add("dropped-key", "equality-delete", "dropped-column", versions=(3,))
def key_dropped_after_its_delete(b: Bench) -> None:
    """The key column is dropped after its delete. The delete still applies, and the column is not shown."""
    b.create(id="int", k="int", name="string")
    b.append((1, 1, "a"), (2, 2, "b"), (3, None, "c"))
    b.add(*b.equal("k", {"k": 1}, {"k": None}))
    dk.drop_column(b.table, "k")
    b.append((4, "d"))


@RECIPES.add("added-key", "equality-delete", "added-column", "null-key", versions=(3,))
def key_added_after_the_data(b: Bench) -> None:
    """A delete of NULL by a column that older data files do not have. Their rows have NULL in it, and match."""
    b.create(id="int")
    b.append((1,), (2,))
    dk.add_column(b.table, "k", "string")
    b.append((3, "x"), (4, None), (5, "y"))
    b.add(*b.equal("k", {"k": None}, {"k": "y"}))
    b.append((6, None))


@RECIPES.add("default-key", "equality-delete", "added-column", "initial-default", versions=(3,))
def key_with_a_default(b: Bench) -> None:
    """A column with the initial default 7 is added. Old rows have 7 in it: a delete of 7 matches them, and one of NULL
    does not.
    """
    b.create(id="int")
    b.append((1,), (2,))
    dk.add_column(b.table, "k", "int", default=7)
    b.append((3, 7), (4, None), (5, 8))
    b.add(*b.equal("id k", {"id": 1, "k": 7}, {"id": 2, "k": None}, {"id": 4, "k": None}))


@RECIPES.add("dropped-key", "equality-delete", "dropped-column", "initial-default", versions=(3,))
def default_of_a_dropped_key(b: Bench) -> None:
    """A column with the initial default 7 is added, is the key of a delete, and is dropped. Rows of files without it
    are deleted by its default.
    """
    b.create(id="int")
    b.append((1,), (2,))
    dk.add_column(b.table, "k", "int", default=7)
    b.append((3, 7), (4, 8), (5, None))
    b.add(*b.equal("id k", {"id": 2, "k": 7}, {"id": 3, "k": 7}, {"id": 1, "k": None}))
    dk.drop_column(b.table, "k")


@RECIPES.add("identity-partition-value", "equality-delete", "partition-identity", "add-files", versions=(2,))
def key_that_only_the_partition_has(b: Bench) -> None:
    """Data files do not have the partition column, as those of Hive. Its value comes from the partition, also where it
    is a key.
    """
    b.create(["part"], id="int", part="string")
    for part, ids in (("a", (1, 2)), ("b", (3, 4))):
        rows = b.rows(*((i, part) for i in ids)).select(["id"])
        b.add(replace(b.parquet(rows), partition=(part,)))
    keys = ({"id": 1, "part": "a"}, {"id": 2, "part": None})
    b.add(*b.equal("id part", *keys, partition=("a",)), *b.equal("part", {"part": "b"}, partition=("b",)))


@RECIPES.add("name-mapping", "equality-delete", "name-mapping", "add-files", versions=(3,))
def files_without_ids(b: Bench) -> None:
    """A data file has no field ids, and its columns in another order than the table. The name mapping gives the ids,
    also of a column that was renamed later.
    """
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["k"]}]'
    b.create(properties={"schema.name-mapping.default": mapping}, id="int", k="int")
    rows = pa.table({"k": pa.array([10, 2, 3], pa.int32()), "id": pa.array([1, 20, 30], pa.int32())})
    b.add(b.parquet(rows))
    dk.rename_column(b.table, "k", "was_k")
    b.add(*b.equal("was_k", {"was_k": 2}, {"was_k": 30}))
