"""Cases of maintenance: compaction, rewritten deletes and manifests, expired snapshots, deletes left without data."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()
PARTITION_SCOPED = {"write.delete.granularity": "partition"}
KINDS = ("position-delete", "deletion-vector", "equality-delete")
REWRITE_ALL = "options => map('rewrite-all', 'true')"
FOREVER = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"


@RECIPES.add("compaction", "remove-dangling", *KINDS)
def compacted_and_dangling_deletes_removed(scene: Scene) -> None:
    """Compaction that removes the deletes it left without data. Catches needing them, and readers of
    removed entries.
    """
    scene.create("id int, part string", "part", PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b'), (4, 'b')")
    scene.insert("(5, 'a'), (6, 'a'), (7, 'b'), (8, 'b')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 7)")
    scene.delete_equal(["id"], {"id": 6}, partition=["a"])
    scene.call("rewrite_data_files", "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')")
    scene.current(ids=[2, 3, 4, 5, 8])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("rewrite", "equality-delete", "explicit-sequence-number")
def rewritten_with_an_old_sequence_number(scene: Scene) -> None:
    """A rewrite that began before an equality delete and was committed after it, with the data's old sequence number.
    Catches taking the file's own sequence number for the data's: the delete still applies.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    table = scene.java()
    old = list(table.currentSnapshot().addedDataFiles(table.io()))
    sequence_number = table.currentSnapshot().sequenceNumber()
    new = scene.data_file([{"id": i, "name": name} for i, name in ((3, "c"), (2, "b"), (1, "a"))])
    scene.delete_equal(["id"], {"id": 2})
    rewrite = scene.java().newRewrite().dataSequenceNumber(sequence_number)
    rewrite.deleteFile(old[0]).addFile(new).commit()
    scene.current(ids=[1, 3])
    scene.history([1, 2, 3], [1, 3], [1, 3])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("rewrite-position-deletes", "position-delete", "partition-scoped", versions=(2,))
def position_deletes_rewritten(scene: Scene) -> None:
    """Five delete files, some of them dangling, rewritten into one with an old sequence number. Catches both the
    replaced ones read, and the new one refused for data newer than some of them.
    """
    scene.create("id int, part string", "part", PARTITION_SCOPED)
    for start in (0, 10):
        scene.insert(", ".join(f"({start + i}, 'a'), ({start + i + 5}, 'b')" for i in range(1, 5)))
        scene.sql(f"DELETE FROM {{t}} WHERE id IN ({start + 1}, {start + 6})")
        scene.sql(f"DELETE FROM {{t}} WHERE id = {start + 2}")
    scene.sql("DELETE FROM {t} WHERE id = 3")
    scene.call("rewrite_position_delete_files", REWRITE_ALL)
    scene.current(ids=[4, 7, 8, 9, 13, 14, 17, 18, 19])
    scene.deleted(dead=[1, 2, 3, 6, 11, 12, 16])


@RECIPES.add("rewrite-manifests", "manifest-merge", *KINDS)
def manifests_rewritten(scene: Scene) -> None:
    """rewrite_manifests after deletes: all entries are EXISTING with numbers of their own. Catches inheriting them, and
    v3: counting row ids from the new manifest.
    """
    scene.create("id int, part string", "part", PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b'), (4, 'b')")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["id"], {"id": 3}, partition=["b"])
    scene.insert("(3, 'b'), (5, 'a'), (6, 'a')")
    scene.call("rewrite_manifests")
    scene.sql("DELETE FROM {t} WHERE id = 6")
    scene.current(ids=[2, 3, 4, 5])
    scene.history([1, 2, 3, 4], [2, 3, 4], [2, 4], [2, 3, 4, 5, 6], [2, 3, 4, 5, 6], [2, 3, 4, 5])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("expire-snapshots", *KINDS)
def snapshots_expired(scene: Scene) -> None:
    """Only the last snapshot is left; its manifests name snapshots that are gone. Catches looking those up."""
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    scene.sql("DELETE FROM {t} WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    scene.delete_equal(["id"], {"id": 3})
    scene.insert("(3, 'again')")
    scene.call("expire_snapshots", FOREVER)
    scene.current(ids=[3, 4])
    scene.history([3, 4])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("dangling", "metadata-delete", *KINDS)
def deletes_left_without_data(scene: Scene) -> None:
    """All data files removed one by one, equality and v2 position deletes still there. Catches failing on deletes of
    files that are not, and a later row deleted by them.
    """
    scene.create("id int, part string", "part", PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b'), (4, 'b')")
    places = scene.positions("id IN (1, 2)")
    by_position = scene.deletes_by_position(places, partition=["a"])
    scene.commit(deletes=[scene.equality_file(["id"], [{"id": 3}], partition=["b"]), *by_position])
    scene.remove_data_files()
    scene.checkpoint([])
    assert {file.content for file in scene.delete_files()} == ({1, 2} if scene.version == 2 else {2})
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b')")
    scene.current(ids=[1, 2, 3])


@RECIPES.add("overwrite", "deletion-vector", "position-delete", "partition-identity")
def partitions_overwritten_after_deletes(scene: Scene) -> None:
    """INSERT OVERWRITE of a partition with deletes, then copy-on-write of the other. Catches old
    deletes on new files.
    """
    scene.create("id int, part string", "part", PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b'), (4, 'b'), (5, 'b')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 3)")
    scene.sql("INSERT OVERWRITE {t} PARTITION (part = 'a') SELECT * FROM VALUES (6), (7)")
    scene.set(write_delete_mode="copy-on-write")
    scene.sql("DELETE FROM {t} WHERE id = 4")
    scene.current(ids=[5, 6, 7])
    scene.history([1, 2, 3, 4, 5], [2, 4, 5], [4, 5, 6, 7], [5, 6, 7])


@RECIPES.add("statistics", "position-delete", "deletion-vector")
def statistics_beside_deletes(scene: Scene) -> None:
    """Table and partition statistics in the metadata, the first a Puffin file too. Catches taking it for vectors, or
    failing on its compressed blobs.
    """
    scene.create("id int, part string", "part", PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'a'), (3, 'b')")
    scene.call("compute_table_stats")
    scene.call("compute_partition_stats")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.current(ids=[2, 3])
