"""Cases of position deletes and vectors together: a table of version 2 with position deletes, upgraded to version 3."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()
PARTITION_SCOPED = {"write.delete.granularity": "partition"}


@RECIPES.add("upgrade", "position-delete", "deletion-vector", "file-scoped", versions=(2,))
def upgrade_folds_position_deletes(scene: Scene) -> None:
    """File-scoped deletes of v2, upgrade, one more DELETE: the vector takes the old positions in, and the old delete
    file goes. Catches a vector added to, instead of put in place of, what was there, and v2 deletes ignored on v3.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    scene.insert("(11, 'a'), (12, 'b'), (13, 'c')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 12)")
    scene.set(format__version="3")
    scene.sql("DELETE FROM {t} WHERE id = 2")
    assert [file.file_format for file in scene.delete_files()] == ["PARQUET", "PUFFIN"]
    scene.current(ids=[3, 4, 11, 13])
    scene.deleted(dead=[1, 2, 12])
    scene.lineage()
    scene.history([1, 2, 3, 4], [1, 2, 3, 4, 11, 12, 13], [2, 3, 4, 11, 13], [3, 4, 11, 13])


@RECIPES.add("upgrade", "position-delete", "deletion-vector", "partition-scoped", "multi-file", versions=(2,))
def vector_for_one_file_of_a_shared_delete(scene: Scene) -> None:
    """One v2 delete file over three data files, upgrade, a vector for one of the three. Catches dropping the delete
    file, which the other two still need, and reading both it and the vector for the one.
    """
    scene.create("id int, name string", properties=PARTITION_SCOPED)
    for start in (0, 10, 20):
        scene.insert(f"({start + 1}, 'a'), ({start + 2}, 'b'), ({start + 3}, 'c'), ({start + 4}, 'd')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 12, 23)")
    scene.set(format__version="3")
    scene.sql("DELETE FROM {t} WHERE id = 3")
    assert [file.file_format for file in scene.delete_files()] == ["PARQUET", "PUFFIN"]
    scene.current(ids=[2, 4, 11, 13, 14, 21, 22, 24])
    scene.deleted(dead=[1, 3, 12, 23])
    scene.lineage()


@RECIPES.add("upgrade", "position-delete", "deletion-vector", "vector-wins", versions=(2,))
def vector_overrides_position_deletes(scene: Scene) -> None:
    """A vector that Iceberg Java wrote without the older v2 positions. Catches a union: by the spec the vector alone
    counts, and the v2 delete file, newer or older, is ignored for that file.
    """
    scene.create("id int, name string", properties=PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.insert("(11, 'a'), (12, 'b'), (13, 'c')")
    scene.commit(deletes=[scene.position_file(sorted(scene.positions("id IN (1, 11)")))])
    scene.set(format__version="3")
    scene.commit(deletes=scene.vectors(scene.positions("id = 3")))
    scene.current(ids=[1, 2, 12, 13])
    scene.deleted(dead=[3, 11])


@RECIPES.add("upgrade", "lineage", "copy-on-write", "merge", "update", versions=(2,))
def lineage_after_upgrade(scene: Scene) -> None:
    """v2 data, upgraded, then merge-on-read UPDATE and MERGE. Catches row ids of snapshots before the upgrade (they
    have none), and those of files that the first v3 commit takes over.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.sql("DELETE FROM {t} WHERE id = 2")
    scene.insert("(4, 'd')")
    scene.set(format__version="3")
    scene.sql(
        "UPDATE {t} SET name = 'new' WHERE id = 1",
        "MERGE INTO {t} USING (SELECT * FROM VALUES (3, 'merged'), (5, 'e') AS s(id, name)) s ON {t}.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *",
    )
    scene.current(ids=[1, 3, 4, 5])
    scene.lineage()
    scene.history([1, 2, 3], [1, 3], [1, 3, 4], [1, 3, 4], [1, 3, 4, 5])


@RECIPES.add("upgrade", "lineage", versions=(2,))
def lineage_without_a_v3_commit(scene: Scene) -> None:
    """Upgraded and nothing written since. Catches row ids made up: first row ids are given by the first v3 commit."""
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.sql("DELETE FROM {t} WHERE id = 2")
    scene.set(format__version="3")
    scene.current(ids=[1, 3])
    scene.lineage(ids=[1, 3])


@RECIPES.add("upgrade", "rewrite-position-deletes", "position-delete", "deletion-vector", versions=(2,))
def position_deletes_rewritten_to_vectors(scene: Scene) -> None:
    """v2 deletes of both scopes turned into vectors by rewrite_position_delete_files after the upgrade. Catches reading
    the replaced delete files, and vectors of several data files in one Puffin.
    """
    scene.create("id int, name string", properties=PARTITION_SCOPED)
    for start in (0, 10, 20):
        scene.insert(f"({start + 1}, 'a'), ({start + 2}, 'b'), ({start + 3}, 'c'), ({start + 4}, 'd')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 12, 23)", "DELETE FROM {t} WHERE id IN (2, 13)")
    scene.delete_equal(["name"], {"name": "d"})
    scene.set(format__version="3")
    scene.call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
    assert {(file.content, file.file_format) for file in scene.delete_files()} == {(1, "PUFFIN"), (2, "PARQUET")}
    scene.current(ids=[3, 11, 21, 22])
    scene.lineage()
