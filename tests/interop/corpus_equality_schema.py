"""Cases of equality deletes across schema changes, and of delete files whose columns are not the table's."""

import pyarrow as pa

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()


@RECIPES.add("equality-delete", "promotion")
def equality_promoted_before_delete(scene: Scene) -> None:
    """int, float and decimal(5,2) widened before the deletes, which so are of the wide types. Catches data of the
    narrow type that is not widened to be compared; float 0.1 is not double 0.1, so that delete hits nothing old.
    """
    scene.create("id int, i int, f float, d decimal(5,2)")
    scene.insert("(1, -1, 1.5F, 1.10BD), (2, 2, 0.1F, 2.20BD), (3, 3, 2.5F, -3.30BD), (4, 4, 3.5F, 4.40BD)")
    scene.sql(
        "ALTER TABLE {t} ALTER COLUMN i TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN f TYPE double",
        "ALTER TABLE {t} ALTER COLUMN d TYPE decimal(12,2)",
    )
    scene.insert("(5, -1L, 0.1D, 5.50BD)")
    scene.delete_equal(["i"], {"i": -1}, {"i": 5000000000})
    scene.delete_equal(["f"], {"f": 2.5}, {"f": 0.1})
    scene.delete_equal(["d"], {"d": "4.40"})
    scene.current(ids=[2])
    scene.columns("id")


@RECIPES.add("equality-delete", "renamed-column", versions=(3,))
def equality_renamed_key(scene: Scene) -> None:
    """The key is renamed after its delete, and another column takes its name. Catches matching columns by name."""
    scene.create("id int, k int, other int")
    scene.insert("(1, 1, 2), (2, 2, 1), (3, 3, 3)")
    scene.delete_equal(["k"], {"k": 1})
    scene.sql("ALTER TABLE {t} RENAME COLUMN k TO was_k", "ALTER TABLE {t} RENAME COLUMN other TO k")
    scene.delete_equal(["k"], {"k": 3})
    scene.current(ids=[2])
    scene.columns("id", "k")
    scene.history([1, 2, 3], [2, 3], [2])


@RECIPES.add("equality-delete", "dropped-column")
def equality_dropped_key(scene: Scene) -> None:
    """The key column is dropped after its delete. Catches forgetting the delete, failing on the unknown id, and showing
    the dropped column.
    """
    scene.create("id int, k int, name string")
    scene.insert("(1, 1, 'a'), (2, 2, 'b'), (3, NULL, 'c')")
    scene.delete_equal(["k"], {"k": 1}, {"k": None})
    scene.sql("ALTER TABLE {t} DROP COLUMN k")
    scene.insert("(4, 'd')")
    scene.current(ids=[2, 4])
    scene.columns("name")
    scene.history([1, 2, 3], [2], [2, 4])


@RECIPES.add("equality-delete", "dropped-column", "re-added-column", "spark-wrong")
def equality_dropped_and_readded_key(scene: Scene) -> None:
    """The key column is dropped and a new one of the same name added. Catches finding columns by name: the old delete
    is about the old column, and the new column is NULL in old rows, which its own delete hits.
    """
    scene.create("id int, k int")
    scene.insert("(1, 1), (2, 2), (3, 3)")
    scene.delete_equal(["k"], {"k": 1})
    scene.sql("ALTER TABLE {t} DROP COLUMN k", "ALTER TABLE {t} ADD COLUMN k int")
    scene.insert("(4, 1), (5, 2), (6, NULL)")
    scene.delete_equal(["k", "id"], {"k": 2, "id": 5}, {"k": 2, "id": 2}, {"k": None, "id": 3})
    live = pa.table({"id": pa.array([2, 4, 6], pa.int32()), "k": pa.array([None, 1, None], pa.int32())})
    wrong = "Iceberg adds the dropped key to its projection by name, and fails: multiple fields for name k"
    scene.current(ids=[2, 4, 6], rows=live, wrong=wrong)
    scene.columns("k", rows=live.select(["k"]), wrong=wrong)


@RECIPES.add("equality-delete", "added-column", "null-key")
def equality_added_key(scene: Scene) -> None:
    """A delete of NULL on a column that older files do not have. Catches taking a missing column for
    'never matches'.
    """
    scene.create("id int")
    scene.insert("(1), (2)")
    scene.sql("ALTER TABLE {t} ADD COLUMN k string")
    scene.insert("(3, 'x'), (4, NULL), (5, 'y')")
    scene.delete_equal(["k"], {"k": None}, {"k": "y"})
    scene.insert("(6, NULL)")
    scene.current(ids=[3, 6])
    scene.columns("id")
    scene.history([1, 2], [1, 2, 3, 4, 5], [3], [3, 6])


@RECIPES.add("equality-delete", "added-column", "initial-default", versions=(3,))
def equality_key_with_initial_default(scene: Scene) -> None:
    """Columns with initial defaults, added after data was written. Catches NULL for the default: the delete of the
    value hits old rows, the delete of NULL only the row where NULL was written.
    """
    scene.create("id int")
    scene.insert("(1), (2)")
    scene.add_default("k", "IntegerType", 7)
    scene.add_default("s", "StringType", "dflt")
    scene.insert("(3, 7, 'x'), (4, NULL, 'y'), (5, 8, NULL), (6, 9, 'dflt')")
    scene.delete_equal(["k"], {"k": None})
    scene.checkpoint([1, 2, 3, 5, 6])
    scene.delete_equal(["id", "k"], {"id": 1, "k": 7}, {"id": 2, "k": None})
    scene.delete_equal(["s", "id"], {"s": None, "id": 5}, {"s": None, "id": 2})
    scene.current(ids=[2, 3, 6])
    scene.columns("id")
    scene.where("k = 7", ids=[2, 3])
    scene.where("s = 'dflt'", ids=[2, 6])
    scene.lineage()


@RECIPES.add("equality-delete", "extra-columns", versions=(2,))
def equality_extra_columns(scene: Scene) -> None:
    """A delete file that holds more columns than its key, with other values than the rows have. Catches
    comparing them.
    """
    scene.create("id int, name string, value double")
    scene.insert("(1, 'a', 1D), (2, 'b', 2D), (3, NULL, NULL)")
    columns = ["id", "name", "value"]
    scene.delete_equal(["id"], {"id": 1, "name": "other", "value": 9}, {"id": 3, "name": "c"}, columns=columns)
    scene.current(ids=[2])
    scene.columns("name")


@RECIPES.add("equality-delete", "column-order", versions=(3,))
def equality_column_order(scene: Scene) -> None:
    """Delete files with (b, extra, a), (a, b) and (c, b, a). Catches reading delete files by position, and one order of
    columns remembered for the next file of the same key.
    """
    scene.create("id int, a int, b int, c int")
    scene.insert("(1, 1, 2, 0), (2, 2, 1, 0), (3, 3, 4, 0), (4, 4, 3, 0), (5, 5, 6, 7), (6, 7, 6, 5)")
    scene.delete_equal(["a", "b"], {"a": 1, "b": 2, "c": 1}, columns=["b", "c", "a"])
    scene.delete_equal(["b", "a"], {"a": 4, "b": 3})
    scene.delete_equal(["a", "b", "c"], {"a": 5, "b": 6, "c": 7}, columns=["c", "b", "a"])
    scene.current(ids=[2, 3, 6])
    scene.columns("id", "c")
    scene.columns("b", "id")


@RECIPES.add("schema-evolution", "position-delete", "deletion-vector", "reordered-columns")
def positions_across_schema_changes(scene: Scene) -> None:
    """Columns added, reordered, renamed and dropped between position deletes. Catches columns by place, and positions
    counted after rows were dropped.
    """
    scene.create("id int, a int, b string")
    scene.insert("(1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.sql("ALTER TABLE {t} ADD COLUMN c bigint FIRST", "ALTER TABLE {t} DROP COLUMN a")
    scene.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (5L, 4, 'u'), (6L, 5, 'v')")
    scene.sql("ALTER TABLE {t} RENAME COLUMN b TO a", "DELETE FROM {t} WHERE a IN ('z', 'u')")
    scene.current(ids=[2, 5])
    scene.where("a = 'y'", ids=[2])
    scene.history([1, 2, 3], [2, 3], [2, 3, 4, 5], [2, 5])
