"""Cases of row lineage (v3): `_row_id` and `_last_updated_sequence_number` through every kind of change."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import COPY_ON_WRITE, Scene

RECIPES = Recipes()
MERGE = (
    "MERGE INTO {t} USING (SELECT * FROM VALUES (2, 'merged'), (4, 'dead'), (9, 'new') AS s(id, name)) s "
    "ON {t}.id = s.id WHEN MATCHED AND s.name = 'dead' THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name "
    "WHEN NOT MATCHED THEN INSERT *"
)


@RECIPES.add("lineage", "copy-on-write", "compaction", "update", "merge", versions=(3,))
def lineage_copy_on_write(scene: Scene) -> None:
    """Everything by copy-on-write. Catches row ids counted from the file's first row id where the file carries them,
    and update numbers taken from the new file for rows that were only carried over.
    """
    _lived_in(scene, COPY_ON_WRITE)


@RECIPES.add("lineage", "deletion-vector", "compaction", "update", "merge", versions=(3,))
def lineage_merge_on_read(scene: Scene) -> None:
    """Everything by vectors. Catches row ids counted after dead rows were dropped, and updated rows given new ids."""
    _lived_in(scene, {})


@RECIPES.add("lineage", "avro", "deletion-vector", "compaction", versions=(3,))
def lineage_avro(scene: Scene) -> None:
    """The same in Avro. Catches reserved columns that only Parquet readers know."""
    _lived_in(scene, {"write.format.default": "avro"})


@RECIPES.add("lineage", "orc", "deletion-vector", "compaction", versions=(3,))
def lineage_orc(scene: Scene) -> None:
    """The same in ORC. Catches reserved columns that only Parquet readers know."""
    _lived_in(scene, {"write.format.default": "orc"})


@RECIPES.add("lineage", "manifest-merge", "copy-on-write", "partition-identity", versions=(3,))
def lineage_with_merged_manifests(scene: Scene) -> None:
    """Partitions and manifests merged at every commit. Catches the manifest's first row id added to entries that have
    their own.
    """
    properties = {"commit.manifest.min-count-to-merge": "2", **COPY_ON_WRITE}
    scene.create("id int, part string", "part", properties)
    scene.insert("(1, 'a'), (2, 'b'), (3, 'a')")
    scene.insert("(4, 'b'), (5, 'a'), (6, 'c')")
    scene.sql("UPDATE {t} SET part = 'b' WHERE id IN (1, 6)", "DELETE FROM {t} WHERE id = 2")
    scene.insert("(7, 'a'), (8, 'c')")
    scene.current(ids=[1, 3, 4, 5, 6, 7, 8])
    scene.lineage()


@RECIPES.add("lineage", "equality-delete", versions=(3,))
def lineage_lost_by_equality_upsert(scene: Scene) -> None:
    """A row replaced through an equality delete, beside one updated by a vector. Catches giving the replacement the old
    row's id: it is a new row.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    data = scene.data_file([{"id": 2, "name": "replaced"}])
    scene.commit(data=[data], deletes=[scene.equality_file(["id"], [{"id": 2}])])
    scene.sql("UPDATE {t} SET name = 'updated' WHERE id = 3")
    scene.current(ids=[1, 2, 3])
    scene.lineage()


def _lived_in(scene: Scene, properties: dict[str, str]) -> None:
    """Insert, delete, update, merge, insert, compact, update: after each the row ids must be those of the rows."""
    scene.create("id int, name string", properties=properties)
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.insert("(4, 'd'), (5, 'e'), (6, 'f')")
    scene.sql("DELETE FROM {t} WHERE id = 1", "UPDATE {t} SET name = 'updated' WHERE id IN (3, 6)", MERGE)
    scene.insert("(10, 'j')")
    scene.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    scene.sql("UPDATE {t} SET name = 'twice' WHERE id IN (6, 9)", "DELETE FROM {t} WHERE id = 3")
    scene.insert("(11, 'k')")
    scene.current(ids=[2, 5, 6, 9, 10, 11])
    scene.lineage(ids=[2, 5, 6, 9, 10, 11])
