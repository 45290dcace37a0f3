"""Cases of partitions: transforms, odd values, and specs that changed between deletes."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()
PARTITION_SCOPED = {"write.delete.granularity": "partition"}
ODD_TEXTS = ["a b", "ü/ö", "x=y", "100%", "?#&;+", "", "null", "__HIVE_DEFAULT_PARTITION__", "日本", "a\\'b", "1-1"]


@RECIPES.add("partition-identity", "special-characters", "null-partition", "position-delete", "deletion-vector")
def partitions_of_odd_texts(scene: Scene) -> None:
    """Partition values with spaces, slashes, signs, accents, NULL and what NULL is written as. Catches partition values
    taken from paths, and delete paths that are decoded or encoded before they are compared.
    """
    scene.create("id int, part string", "part", PARTITION_SCOPED)
    values = [f"({i}, '{text}')" for i, text in enumerate(ODD_TEXTS)] + ["(90, NULL)"]
    again = [f"({i + 100}, '{text}')" for i, text in enumerate(ODD_TEXTS)] + ["(190, NULL)"]
    scene.insert(", ".join(values + again))
    scene.sql("DELETE FROM {t} WHERE id < 100")
    scene.delete_equal(["id"], {"id": 103}, partition=["100%"])
    scene.delete_equal(["id"], {"id": 105}, {"id": 190}, partition=[""])
    live = [*(i + 100 for i in range(len(ODD_TEXTS)) if i not in (3, 5)), 190]
    scene.current(ids=live)
    scene.where("part = 'a b'", ids=[100])
    scene.where("part IS NULL", ids=[190])
    scene.columns("part")


@RECIPES.add("partition-identity", "null-partition", "position-delete", "deletion-vector", "equality-delete")
def partitions_of_other_types(scene: Scene) -> None:
    """Identity partitions of int, date, boolean and decimal, some NULL. Catches NULL partitions that match nothing."""
    scene.create("id int, i int, d date, b boolean, n decimal(9,2)", "i, d, b, n", PARTITION_SCOPED)
    full = "-7, DATE'1969-12-31', true, -1.50BD"
    none = "CAST(NULL AS int), CAST(NULL AS date), CAST(NULL AS boolean), CAST(NULL AS decimal(9,2))"
    half = "0, NULL, false, 0BD"
    scene.insert(f"(1, {full}), (2, {full}), (3, {none}), (4, {none}), (5, {half}), (6, {half})")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 3)")
    scene.delete_equal(["id"], {"id": 4}, partition=[None, None, None, None])
    scene.delete_equal(["id"], {"id": 5}, {"id": 2}, partition=[0, None, False, "0.00"])
    scene.current(ids=[2, 6])
    scene.where("i = -7", ids=[2])
    scene.where("d IS NULL", ids=[6])


@RECIPES.add("partition-bucket", "partition-truncate", "position-delete", "deletion-vector")
def partitions_of_buckets_and_prefixes(scene: Scene) -> None:
    """Buckets of int, string and date, truncated strings and negative ints. Catches transforms of one's own that prune
    the wrong delete files.
    """
    scene.create(
        "id int, s string, d date, n int", "bucket(4, id), bucket(3, s), bucket(2, d), truncate(2, s), truncate(10, n)",
        PARTITION_SCOPED,
    )  # fmt: skip
    rows = [f"({i}, 'été{i % 3}', DATE'2024-01-0{i % 7 + 1}', {i - 12})" for i in range(1, 21)]
    scene.insert(", ".join(rows))
    scene.sql("DELETE FROM {t} WHERE id % 3 = 0")
    live = [i for i in range(1, 21) if i % 3]
    scene.current(ids=live)
    scene.where("id = 7", ids=[7])
    scene.where("s = 'été1' and n < 0", ids=[1, 4, 7, 10])
    scene.where("n >= -3 and n <= 3", ids=[i for i in live if -3 <= i - 12 <= 3])


@RECIPES.add("partition-time", "position-delete", "deletion-vector", versions=(2,))
def partitions_of_times(scene: Scene) -> None:
    """Year, month, day and hour of dates, timestamps and timestamptz around 1970. Catches rounding towards zero."""
    scene.create(
        "id int, y date, m timestamp_ntz, d timestamp, h timestamp", "years(y), months(m), days(d), hours(h)",
        PARTITION_SCOPED,
    )  # fmt: skip
    texts = ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "1969-12-31 22:30:00", "2024-02-29 23:00:00"]
    rows = [
        f"({i * 10 + j}, DATE'{text[:10]}', TIMESTAMP_NTZ'{text}', TIMESTAMP'{text}Z', TIMESTAMP'{text}Z')"
        for i, text in enumerate(texts)
        for j in (1, 2)
    ]
    scene.insert(", ".join(rows))
    scene.sql("DELETE FROM {t} WHERE id % 10 = 1 AND id <> 31")
    scene.current(ids=[2, 12, 22, 31, 32])
    scene.where("y < '1970-01-01'", ids=[2, 22])
    scene.where("m >= '1970-01-01T00:00:00'", ids=[12, 31, 32])


@RECIPES.add("partition-evolution", "position-delete", "deletion-vector", "equality-delete", "partition-scoped")
def partition_field_added(scene: Scene) -> None:
    """Unpartitioned, then by part, then by part and bucket; deletes before and after each change. Catches deletes of a
    file written under the table's newest spec instead of the file's own.
    """
    scene.create("id int, part string", properties=PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b')")
    scene.sql("DELETE FROM {t} WHERE id = 1", "ALTER TABLE {t} ADD PARTITION FIELD part")
    scene.insert("(4, 'a'), (5, 'a'), (6, 'b'), (7, 'b')")
    scene.sql("DELETE FROM {t} WHERE id IN (2, 4)", "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
    scene.insert("(8, 'a'), (9, 'a'), (10, 'b')")
    scene.sql("DELETE FROM {t} WHERE id IN (6, 8)")
    scene.delete_equal(["id"], {"id": 5}, {"id": 9}, {"id": 3}, spec_id=1, partition=["a"])
    scene.current(ids=[3, 7, 9, 10])
    scene.where("part = 'b'", ids=[3, 7, 10])
    scene.history(
        [1, 2, 3], [2, 3], [2, 3, 4, 5, 6, 7], [3, 5, 6, 7], [3, 5, 6, 7, 8, 9, 10], [3, 5, 7, 9, 10], [3, 7, 9, 10]
    )


@RECIPES.add("partition-evolution", "partition-void", "position-delete", "deletion-vector", "partition-scoped")
def partition_field_dropped(scene: Scene) -> None:
    """By part, then by nothing, deletes before and after. Catches a delete of spec 1 (global for equality) mixed with
    those of spec 0, and position deletes of the empty partition applied to every file.
    """
    scene.create("id int, part string", "part", PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b'), (4, 'b')")
    scene.sql("DELETE FROM {t} WHERE id = 1", "ALTER TABLE {t} DROP PARTITION FIELD part")
    scene.insert("(5, 'a'), (6, 'b'), (7, 'c')")
    scene.sql("DELETE FROM {t} WHERE id IN (3, 5)")
    scene.delete_equal(["part"], {"part": "c"}, partition=[])
    scene.current(ids=[2, 4, 6])
    scene.where("part = 'a'", ids=[2])


@RECIPES.add("partition-evolution", "position-delete", "deletion-vector", "equality-delete", "partition-scoped")
def partition_field_replaced(scene: Scene) -> None:
    """By day, replaced with hour, then the partition column renamed. Catches equal-looking partition values of
    different specs taken for one partition: day 0 and hour 0 are both 0.
    """
    scene.create("id int, t timestamp_ntz", "days(t)", PARTITION_SCOPED)
    scene.insert("(1, TIMESTAMP_NTZ'1970-01-01 00:10:00'), (2, TIMESTAMP_NTZ'1970-01-01 00:20:00')")
    scene.sql("ALTER TABLE {t} REPLACE PARTITION FIELD t_day WITH hours(t)")
    scene.insert("(3, TIMESTAMP_NTZ'1970-01-01 00:10:00'), (4, TIMESTAMP_NTZ'1970-01-01 00:30:00')")
    scene.delete_equal(["t"], {"t": "1970-01-01T00:10:00"}, spec_id=1, partition=[0])
    scene.checkpoint([1, 2, 4])
    keys = [{"t": "1970-01-01T00:20:00"}, {"t": "1970-01-01T00:30:00"}]
    scene.delete_equal(["t"], *keys, spec_id=0, partition=["1970-01-01"])
    scene.sql("ALTER TABLE {t} RENAME COLUMN t TO at", "DELETE FROM {t} WHERE id = 1")
    scene.current(ids=[4])
    scene.where("at >= '1970-01-01T00:25:00'", ids=[4])
    scene.columns("id")


@RECIPES.add("partition-evolution", "dropped-column", "position-delete", "deletion-vector", "equality-delete")
def partition_source_column_dropped(scene: Scene) -> None:
    """A column that an old spec partitions by is dropped after deletes in it. Catches failing on a spec whose source is
    gone, or reading its partition values as NULL: then no delete of that spec applies, or all do.
    """
    # Else Iceberg merges the old spec's delete manifests after the drop, and writes their partition values as NULL.
    unmerged = {"commit.manifest-merge.enabled": "false"}
    scene.create("id int, part string, other string", "part", PARTITION_SCOPED | unmerged)
    scene.insert("(1, 'a', 'x'), (2, 'a', 'y'), (3, 'b', 'x'), (4, 'b', 'y')")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["other"], {"other": "x"}, {"other": "y"}, partition=["b"])
    scene.sql("ALTER TABLE {t} REPLACE PARTITION FIELD part WITH other", "ALTER TABLE {t} DROP COLUMN part")
    scene.insert("(5, 'x'), (6, 'x'), (7, 'y')")
    scene.delete_equal(["id"], {"id": 6}, {"id": 7}, {"id": 2}, spec_id=1, partition=["x"])
    scene.current(ids=[2, 5, 7])
    scene.where("other = 'y'", ids=[2, 7])
    scene.columns("id")
