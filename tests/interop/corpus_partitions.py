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
