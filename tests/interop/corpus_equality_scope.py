"""Cases of what equality deletes reach: sequence numbers, partitions, specs, and other deletes beside them."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()


@RECIPES.add("equality-delete", "position-delete", "deletion-vector", "same-commit")
def upsert_twice_in_one_commit(scene: Scene) -> None:
    """A streaming writer's commit: key 1 arrives twice, key 2 arrives and is deleted, all in one commit with a delete
    by position on the commit's own file. Catches < instead of <= for position deletes.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'old'), (2, 'old'), (3, 'old')")
    data = scene.data_file([{"id": 1, "name": "first"}, {"id": 2, "name": "gone"}, {"id": 1, "name": "second"}])
    pairs = [(data.location(), 0), (data.location(), 1)]
    by_key = scene.equality_file(["id"], [{"id": 1}, {"id": 2}])
    scene.commit(data=[data], deletes=[by_key, *scene.deletes_by_position(pairs)])
    scene.current(ids=[1, 3])
    scene.where("name = 'second'", ids=[1])
    scene.deleted(dead=[1, 1, 2, 2])


@RECIPES.add("equality-delete", "position-delete", "deletion-vector", "mixed")
def equality_and_position_deletes(scene: Scene) -> None:
    """Both kinds on one file, in both orders, some rows hit by both. Catches a vector that hides equality deletes."""
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f')")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["name"], {"name": "a"}, {"name": "b"})
    scene.sql("DELETE FROM {t} WHERE id = 3")
    scene.delete_equal(["id"], {"id": 3}, {"id": 4})
    scene.current(ids=[5, 6])
    scene.columns("name")
    scene.history([1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6], [3, 4, 5, 6], [4, 5, 6], [5, 6])
    scene.deleted(dead=[1, 2, 3, 4])


@RECIPES.add("equality-delete", "partition-identity", "partition-scoped")
def equality_in_one_partition(scene: Scene) -> None:
    """The same key in two partitions, deleted in one of them. Catches partitioned equality deletes taken for global."""
    scene.create("id int, part string, name string", "part")
    scene.insert("(1, 'a', 'x'), (2, 'a', 'y'), (3, 'b', 'x'), (4, NULL, 'x')")
    scene.delete_equal(["name"], {"name": "x"}, partition=["a"])
    scene.checkpoint([2, 3, 4])
    scene.delete_equal(["name"], {"name": "x"}, partition=[None])
    scene.current(ids=[2, 3])
    scene.columns("id")
    scene.where("part = 'b'", ids=[3])


@RECIPES.add("equality-delete", "global", "partition-evolution")
def equality_global_in_partitioned_table(scene: Scene) -> None:
    """A delete of the unpartitioned spec 0 in a table partitioned later, in two more ways. Catches global deletes kept
    to files of their own spec, and partitioned ones let out of theirs.
    """
    scene.create("id int, part string, name string")
    scene.insert("(1, 'a', 'x'), (2, 'b', 'y')")
    scene.sql("ALTER TABLE {t} ADD PARTITION FIELD part")
    scene.insert("(3, 'a', 'x'), (4, 'a', 'y'), (5, 'b', 'x'), (6, 'b', 'z')")
    scene.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
    scene.insert("(7, 'a', 'x'), (8, 'a', 'z')")
    scene.delete_equal(["name"], {"name": "x"}, spec_id=0, partition=[])
    scene.checkpoint([2, 4, 6, 8])
    scene.delete_equal(["name"], {"name": "y"}, {"name": "z"}, spec_id=1, partition=["a"])
    scene.checkpoint([2, 6, 8])
    scene.insert("(9, 'a', 'x')")
    scene.current(ids=[2, 6, 8, 9])
    scene.columns("id")
    scene.where("part = 'a'", ids=[8, 9])


@RECIPES.add("equality-delete", "global", "partition-void", "partition-evolution")
def equality_of_a_void_spec(scene: Scene) -> None:
    """Format version 1 turns a dropped partition field into `void`; after an upgrade a delete of that spec is global.
    Catches 'unpartitioned' taken for 'no fields': a spec of void fields only is unpartitioned too.
    """
    scene.create("id int, part string, name string", "part", {"format-version": "1"})
    scene.insert("(1, 'a', 'x'), (2, 'b', 'x'), (3, 'b', 'y')")
    scene.sql("ALTER TABLE {t} DROP PARTITION FIELD part")
    scene.insert("(4, 'c', 'x'), (5, 'c', 'y')")
    scene.set(format__version=str(scene.version))
    scene.delete_equal(["name"], {"name": "x"}, partition=[None])
    scene.current(ids=[3, 5])
    scene.columns("id")


@RECIPES.add("equality-delete", "partition-bucket", "partition-day", "partition-truncate")
def equality_in_transformed_partitions(scene: Scene) -> None:
    """Deletes in partitions of bucket, day and truncate. Catches comparing source values with partition values."""
    scene.create("id int, t timestamp_ntz, name string", "bucket(4, id), days(t), truncate(1, name)")
    scene.insert(
        "(1, TIMESTAMP_NTZ'1969-12-31 23:00:00', 'ax'), (2, TIMESTAMP_NTZ'1969-12-31 23:00:00', 'ay'), "
        "(3, TIMESTAMP_NTZ'1970-01-01 00:00:00', 'ax')"
    )
    ((bucket, day, prefix),) = scene.sql(
        "SELECT partition.id_bucket, partition.t_day, partition.name_trunc FROM {t}.data_files "
        "WHERE readable_metrics.id.lower_bound = 1"
    )
    assert (day.isoformat(), prefix) == ("1969-12-31", "a")
    scene.delete_equal(["name"], {"name": "ax"}, partition=[bucket, "1969-12-31", "a"])
    live = [2, 3]
    scene.current(ids=live)
    scene.columns("id")
