"""Cases of what a planner may skip: metrics that are missing or cut short, filters, and paths in several spellings."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()


@RECIPES.add("metrics-none", "equality-delete", "position-delete", "deletion-vector", "pruning")
def metrics_switched_off(scene: Scene) -> None:
    """No bounds and no counts in data and equality delete files. Catches 'no bounds' taken for 'no
    rows' or 'no NULLs'.
    """
    scene.create("id int, k string", properties={"write.metadata.metrics.default": "none"})
    scene.insert("(1, 'a'), (2, NULL), (3, 'c'), (4, 'd')")
    scene.delete_equal(["k"], {"k": None})
    scene.delete_equal(["k"], {"k": "c"})
    scene.sql("DELETE FROM {t} WHERE id = 4")
    scene.current(ids=[1])
    scene.where("k = 'c'", ids=[])
    scene.where("id = 1", ids=[1])


@RECIPES.add("metrics-counts", "metrics-truncated", "equality-delete", "pruning", versions=(3,))
def metrics_cut_short(scene: Scene) -> None:
    """Bounds of two characters in data and deletes, longer equal beginnings. Catches taking a cut bound
    for the value.
    """
    scene.create("id int, k string, n string", properties={
        "write.metadata.metrics.default": "truncate(2)",
        "write.metadata.metrics.column.n": "counts",
    })  # fmt: skip
    scene.insert("(1, 'aaa', 'x'), (2, 'aab', 'y'), (3, 'aac', NULL), (4, '\U0010ffff\U0010ffff\U0010ffff', 'z')")
    scene.delete_equal(["k"], {"k": "aab"})
    scene.delete_equal(["k"], {"k": "\U0010ffff\U0010ffff\U0010ffff"})
    scene.delete_equal(["n", "id"], {"n": None, "id": 3})
    scene.current(ids=[1])
    scene.where("k >= 'aab'", ids=[])
    scene.where("k = 'aaa'", ids=[1])


@RECIPES.add("pruning", "filter", "equality-delete", "position-delete", "deletion-vector")
def filters_beside_the_key(scene: Scene) -> None:
    """Filters on columns that the deletes do not know, over several files. Catches a filter applied before the deletes
    where it drops the key, deletes pruned by a filter, and positions counted after it.
    """
    scene.create("id int, k int, v int")
    scene.insert("(1, 10, 100), (2, 20, 200), (3, 30, 300), (4, 40, 400)")
    scene.insert("(5, 10, 500), (6, 20, 600), (7, 30, 700), (8, 40, 800)")
    scene.delete_equal(["k"], {"k": 20})
    scene.sql("DELETE FROM {t} WHERE id IN (3, 8)")
    scene.insert("(9, 20, 900)")
    scene.current(ids=[1, 4, 5, 7, 9])
    scene.where("v > 150", ids=[4, 5, 7, 9])
    scene.where("v = 200", ids=[])
    scene.where("v IN (200, 300, 700, 900)", ids=[7, 9])
    scene.where("k = 20", ids=[9])
    scene.where("NOT (k = 10 or v < 500)", ids=[7, 9])
    scene.where("id = 3 or id = 4", ids=[4])
    scene.columns("v")


@RECIPES.add("required", "identifier-fields", "equality-delete")
def required_identifier_fields(scene: Scene) -> None:
    """Required keys that are the table's identifier fields, as an upsert stream writes them. Catches NULL checks that a
    required column has no counts for.
    """
    scene.create("id int NOT NULL, region string NOT NULL, v int")
    scene.sql("ALTER TABLE {t} SET IDENTIFIER FIELDS id, region")
    scene.insert("(1, 'eu', 1), (1, 'us', 2), (2, 'eu', 3)")
    key = [{"id": 1, "region": "eu"}]
    rows = [{"id": 1, "region": "eu", "v": 10}]
    scene.commit(data=[scene.data_file(rows)], deletes=[scene.equality_file(["id", "region"], key)])
    scene.delete_equal(["id", "region"], {"id": 2, "region": "us"}, {"id": 2, "region": "eu"})
    scene.current(ids=[1, 1])
    scene.where("v = 10", ids=[1])
    scene.columns("v")


@RECIPES.add("location", "position-delete", "deletion-vector", "equality-delete")
def location_with_a_scheme(scene: Scene) -> None:
    """A table at file:/..., with a space and an accent on the way: all paths carry the scheme. Catches paths that are
    normalised before they are compared with those in position deletes and vectors.
    """
    properties = {"write.delete.granularity": "partition"}
    scene.create("id int, name string", properties=properties, location=f"file:{scene.scratch('a ü table')}")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.insert("(4, 'a'), (5, 'b'), (6, 'c')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 6)")
    scene.delete_equal(["id"], {"id": 2})
    assert {path[:6] for path, _ in scene.positions()} == {"file:/"}
    scene.current(ids=[3, 4, 5])
    scene.deleted(dead=[1, 2, 6])


@RECIPES.add("location", "object-storage-paths", "position-delete", "deletion-vector", "equality-delete", versions=(3,))
def data_outside_the_table(scene: Scene) -> None:
    """Data, in hashed folders, and metadata written elsewhere than under the table. Catches paths put together instead
    of read.
    """
    scene.create("id int, part string", "part", properties={
        "write.object-storage.enabled": "true",
        "write.data.path": scene.scratch("data elsewhere"),
        "write.metadata.path": scene.scratch("metadata elsewhere"),
    })  # fmt: skip
    scene.insert("(1, 'a b'), (2, 'a b'), (3, 'b')")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["id"], {"id": 3}, partition=["b"])
    scene.current(ids=[2])
