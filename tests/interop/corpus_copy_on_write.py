"""Cases without delete files: copy-on-write, deletes of whole files and partitions, format version 1."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import COPY_ON_WRITE, Scene

RECIPES = Recipes()
PEOPLE = "(1, 'ann', 10), (2, 'bob', 20), (3, 'cy', 30), (4, 'di', 40), (5, 'ed', 50)"


@RECIPES.add("copy-on-write", "delete", "time-travel")
def cow_delete(scene: Scene) -> None:
    """Copy-on-write DELETE, twice. Catches reading replaced data files (manifest entries with status DELETED)."""
    scene.create("id int, name string, value int", properties=COPY_ON_WRITE)
    scene.insert(PEOPLE)
    scene.sql("DELETE FROM {t} WHERE id = 2", "DELETE FROM {t} WHERE value > 35")
    scene.current(ids=[1, 3])
    scene.history([1, 2, 3, 4, 5], [1, 3, 4, 5], [1, 3])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("metadata-delete", "partition-identity")
def metadata_delete_of_partition(scene: Scene) -> None:
    """DELETE of whole partitions, done in metadata alone. Catches reading manifests with only DELETED entries."""
    scene.create("id int, part string", "part")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.insert("(4, 'a'), (5, 'b')")
    scene.sql("DELETE FROM {t} WHERE part = 'a'", "DELETE FROM {t} WHERE part IN ('c')")
    assert not scene.delete_files()
    scene.current(ids=[2, 5])
    scene.history([1, 2, 3], [1, 2, 3, 4, 5], [2, 3, 5], [2, 5])


@RECIPES.add("empty", versions=(3,))
def empty_table(scene: Scene) -> None:
    """A table without a snapshot. Catches readers that need one (no rows, but all columns and types)."""
    scene.create("id int, name string, price decimal(10,2), tags array<string>")
    scene.current(ids=[])


@RECIPES.add("empty", "truncate", versions=(2,))
def emptied_table(scene: Scene) -> None:
    """Everything deleted by TRUNCATE, so there are snapshots and no files. Catches showing an older
    snapshot instead.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b')")
    scene.sql("DELETE FROM {t} WHERE id = 1", "TRUNCATE TABLE {t}")
    scene.current(ids=[])
    scene.history([1, 2], [2], [])


@RECIPES.add("v1", "copy-on-write", versions=(1,))
def v1_table(scene: Scene) -> None:
    """Format version 1, where manifests have no sequence numbers. Catches requiring them."""
    scene.create("id int, part string", "part", properties=COPY_ON_WRITE)
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b')")
    scene.sql("DELETE FROM {t} WHERE id = 2")
    scene.current(ids=[1, 3])
    scene.history([1, 2, 3], [1, 3])


@RECIPES.add("v1", "upgrade", "position-delete", "equality-delete", "deletion-vector", versions=(1,))
def v1_upgraded_to_v2_and_v3(scene: Scene) -> None:
    """Data of v1, position and equality deletes of v2, a deletion vector of v3. Catches sequence number
    0 of v1 files.
    """
    scene.create("id int, part string", "part")
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b'), (4, 'b'), (5, 'b')")
    scene.set(format__version="2")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["id"], {"id": 3}, partition=["b"])
    scene.insert("(3, 'b')")
    scene.set(format__version="3")
    scene.sql("DELETE FROM {t} WHERE id = 4")
    scene.current(ids=[2, 3, 5])
    scene.history([1, 2, 3, 4, 5], [2, 3, 4, 5], [2, 4, 5], [2, 3, 4, 5], [2, 3, 5])
    scene.lineage()
