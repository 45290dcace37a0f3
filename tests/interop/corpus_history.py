"""Cases of history: branches, tags, time travel, rollback, cherry-picked and staged commits."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()
KINDS = ("position-delete", "deletion-vector", "equality-delete")


@RECIPES.add("branch", "tag", *KINDS)
def branches_with_their_own_deletes(scene: Scene) -> None:
    """main, two branches and a tag, each with other deletes on one file. Catches deletes of one branch applied to
    another: sequence numbers are the table's, and newer deletes of a branch are not main's.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    for ref in ("BRANCH left", "BRANCH right", "TAG v1"):
        scene.sql(f"ALTER TABLE {{t}} CREATE {ref}")
    scene.sql("DELETE FROM {t}.branch_left WHERE id = 1")
    scene.commit(deletes=[scene.equality_file(["id"], [{"id": 2}])], branch="right")
    scene.sql("DELETE FROM {t} WHERE id = 3", "DELETE FROM {t}.branch_left WHERE id = 4")
    scene.insert("(5, 'right')", into="{t}.branch_right")
    scene.sql("ALTER TABLE {t} CREATE TAG v2 AS OF VERSION " + str(scene.snapshot_ids()[3]))
    scene.current(ids=[1, 2, 4])
    scene.ref("main", ids=[1, 2, 4])
    scene.ref("left", ids=[2, 3])
    scene.ref("right", ids=[1, 3, 4, 5])
    scene.ref("v1", ids=[1, 2, 3, 4])
    scene.ref("v2", ids=[1, 2, 4])
    scene.history([1, 2, 3, 4], [2, 3, 4], [1, 3, 4], [1, 2, 4], [2, 3], [1, 3, 4, 5])


@RECIPES.add("branch", "tag", "schema-evolution", *KINDS)
def refs_and_schemas(scene: Scene) -> None:
    """The schema changes after a tag and a branch were made. Catches one schema for both: a tag and a snapshot are read
    with the schema they were written with, a branch with the table's.
    """
    scene.create("id int, name string, gone int")
    scene.insert("(1, 'a', 10), (2, 'b', 20), (3, 'c', 30)")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.sql("ALTER TABLE {t} CREATE TAG tagged", "ALTER TABLE {t} CREATE BRANCH branched")
    scene.delete_equal(["gone"], {"gone": 20})
    scene.sql("ALTER TABLE {t} DROP COLUMN gone", "ALTER TABLE {t} RENAME COLUMN name TO title")
    scene.sql("ALTER TABLE {t} ADD COLUMN added bigint")
    scene.insert("(4, 'd', 40L)")
    scene.current(ids=[3, 4])
    scene.ref("tagged", ids=[2, 3])
    scene.ref("branched", ids=[2, 3])
    scene.history([1, 2, 3], [2, 3], [3], [3, 4])


@RECIPES.add("time-travel", "rollback", *KINDS)
def time_travel_and_rollback(scene: Scene) -> None:
    """Deletes, a rollback before them, another delete. Catches time travel by age alone instead of the snapshot log,
    and deletes that were rolled back.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["id"], {"id": 2})
    first, second, third = scene.snapshot_ids()
    scene.call("rollback_to_snapshot", f"snapshot_id => {first}")
    scene.sql("DELETE FROM {t} WHERE id = 4")
    log = {entry.snapshotId(): entry.timestampMillis() for entry in scene.java().history()[:3]}
    scene.current(ids=[1, 2, 3])
    scene.as_of(log[second], ids=[2, 3, 4])
    scene.as_of(log[second] - 1, ids=[1, 2, 3, 4])
    scene.as_of(log[third], ids=[3, 4])
    scene.as_of(scene.java().history()[3].timestampMillis(), ids=[1, 2, 3, 4])
    scene.as_of(scene.java().history()[4].timestampMillis() + 1000, ids=[1, 2, 3])
    scene.history([1, 2, 3, 4], [2, 3, 4], [3, 4], [1, 2, 3])


@RECIPES.add("set-current-snapshot", "time-travel", *KINDS, versions=(3,))
def older_snapshot_made_current(scene: Scene) -> None:
    """main set to a snapshot that is not an ancestor. Catches 'the newest snapshot is the current one'."""
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    (_, deleted) = scene.snapshot_ids()
    scene.delete_equal(["id"], {"id": 2})
    scene.insert("(4, 'd')")
    scene.call("set_current_snapshot", f"snapshot_id => {deleted}")
    scene.current(ids=[2, 3])
    scene.history([1, 2, 3], [2, 3], [3], [3, 4])


@RECIPES.add("staged", "cherry-pick", "wap", "position-delete", "deletion-vector")
def staged_and_cherry_picked(scene: Scene) -> None:
    """Two staged commits, one of them cherry-picked over a delete of main; a third, a delete, fast-forwarded. Catches
    staged snapshots taken for current, and snapshots of the original instead of the picked one (v3: new row ids).
    """
    scene.create("id int, name string", properties={"write.wap.enabled": "true"})
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    with scene.conf("spark.wap.id", "picked"):
        scene.insert("(4, 'picked'), (5, 'picked')")
    with scene.conf("spark.wap.id", "forgotten"):
        scene.insert("(6, 'forgotten')")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.call("cherrypick_snapshot", f"snapshot_id => {scene.snapshot_ids()[1]}")
    with scene.conf("spark.wap.id", "delete"):
        scene.sql("DELETE FROM {t} WHERE id = 5")
    scene.call("publish_changes", "wap_id => 'delete'")
    with scene.conf("spark.wap.id", "unpublished"):
        scene.sql("DELETE FROM {t} WHERE id = 4")
    scene.current(ids=[2, 3, 4])
    scene.history([1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 6], [2, 3], [2, 3, 4, 5], [2, 3, 4], [2, 3])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("replaced-table", "time-travel", "schema-evolution", *KINDS)
def table_replaced(scene: Scene) -> None:
    """CREATE OR REPLACE with another schema and partitioning. Catches old snapshots read with the new schema, whose
    fields have the same names and other ids, and deletes of the old table in the new one.
    """
    scene.create("id int, name string, old int")
    scene.insert("(1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["id"], {"id": 2}, {"id": 4})
    properties = f"'format-version' = '{scene.version}', 'write.delete.mode' = 'merge-on-read'"
    scene.sql(
        f"CREATE OR REPLACE TABLE {{t}} USING iceberg PARTITIONED BY (name) TBLPROPERTIES ({properties}) AS "
        "SELECT /*+ COALESCE(1) */ * FROM VALUES ('a', 4L), ('b', 5L), ('b', 6L) AS v(name, id)"
    )
    scene.sql("DELETE FROM {t} WHERE id = 5")
    scene.current(ids=[4, 6])
    scene.history([1, 2, 3], [2, 3], [3], [4, 5, 6], [4, 6])
