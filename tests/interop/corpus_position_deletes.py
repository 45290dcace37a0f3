"""Cases of position deletes (v2) and deletion vectors (v3): the same statements, whatever the version writes."""

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()
FILE_SCOPED = {"write.delete.granularity": "file"}
PARTITION_SCOPED = {"write.delete.granularity": "partition"}


@RECIPES.add("position-delete", "file-scoped", versions=(2,))
def position_delete_file_scoped(scene: Scene) -> None:
    """One delete file for each of two data files. Catches applying positions to the wrong file (both have 4 rows)."""
    scene.create("id int, name string", properties=FILE_SCOPED)
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    scene.insert("(11, 'a'), (12, 'b'), (13, 'c'), (14, 'd')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 4, 12)")
    assert len(scene.delete_files()) == 2
    scene.current(ids=[2, 3, 11, 13, 14])
    scene.deleted(dead=[1, 4, 12])
    scene.where("id > 3", ids=[11, 13, 14])


@RECIPES.add("position-delete", "partition-scoped", "multi-file", versions=(2,))
def position_delete_partition_scoped(scene: Scene) -> None:
    """One delete file for three data files. Catches ignoring the path column, and bounds taken for a single file."""
    scene.create("id int, name string", properties=PARTITION_SCOPED)
    for start in (0, 10, 20):
        scene.insert(f"({start + 1}, 'a'), ({start + 2}, 'b'), ({start + 3}, 'c')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 12, 23)")
    assert len(scene.delete_files()) == 1
    scene.current(ids=[2, 3, 11, 13, 21, 22])
    scene.columns("name")
    scene.deleted(dead=[1, 12, 23])


@RECIPES.add("position-delete", "row", versions=(2,))
def position_delete_with_row(scene: Scene) -> None:
    """A position delete file with the deprecated `row` struct, over two files. Catches refusing or misreading it."""
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.insert("(4, 'd'), (5, 'e')")
    rows = [{"id": 2, "name": "b"}, {"id": 4, "name": "d"}]
    scene.commit(deletes=[scene.position_file(sorted(scene.positions("id IN (2, 4)")), rows=rows)])
    scene.current(ids=[1, 3, 5])


@RECIPES.add("position-delete", "deletion-vector", "all-rows")
def position_delete_of_every_row(scene: Scene) -> None:
    """Every row of one file deleted by position, the file still there. Catches dropping the other file
    or counting it.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b')")
    scene.insert("(3, 'c'), (4, 'd')")
    scene.sql("DELETE FROM {t} WHERE name = 'a'", "DELETE FROM {t} WHERE name = 'b'")
    scene.current(ids=[3, 4])
    scene.deleted(dead=[1, 2])


@RECIPES.add("deletion-vector", "multi-file", "shared-puffin", versions=(3,))
def vectors_in_one_puffin(scene: Scene) -> None:
    """Four vectors in one Puffin file. Catches identifying a delete file by its path alone instead of
    path and offset.
    """
    scene.create("id int, name string")
    for start in (0, 10, 20, 30):
        scene.insert(f"({start + 1}, 'a'), ({start + 2}, 'b'), ({start + 3}, 'c')")
    scene.sql("DELETE FROM {t} WHERE id IN (1, 12, 23, 31, 32)")
    files = scene.delete_files()
    assert len(files) == 4
    assert len({file.file_path for file in files}) == 1
    scene.current(ids=[2, 3, 11, 13, 21, 22, 33])
    scene.deleted(dead=[1, 12, 23, 31, 32])
    scene.lineage()


@RECIPES.add("position-delete", "deletion-vector", "row-groups")
def many_row_groups(scene: Scene) -> None:
    """6,000 rows in many row groups, deletes in runs and singles. Catches positions counted from the row group's start,
    and positions counted after a filter skipped row groups.
    """
    scene.create("id bigint, name string", properties={
        "write.parquet.row-group-size-bytes": "1024",
        "write.parquet.row-group-check-min-record-count": "100",
        "write.parquet.row-group-check-max-record-count": "100",
        "write.parquet.page-size-bytes": "512",
    })  # fmt: skip
    scene.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('name-', id) FROM range(6000)")
    (file,) = scene.java().currentSnapshot().addedDataFiles(scene.java().io())
    assert len(file.splitOffsets()) > 10
    scene.sql("DELETE FROM {t} WHERE id BETWEEN 1000 AND 1999 OR id % 7 = 0 OR id = 5999")
    live = [i for i in range(6000) if not (1000 <= i <= 1999 or i % 7 == 0 or i == 5999)]
    scene.current(ids=live)
    scene.where("id >= 5990", ids=[i for i in live if i >= 5990])
    scene.where("id > 1990 and id < 2010", ids=[i for i in live if 1990 < i < 2010])


@RECIPES.add("update", "merge", "position-delete", "deletion-vector")
def merge_on_read_update_and_merge(scene: Scene) -> None:
    """UPDATE, then MERGE. Catches position deletes that hit the new versions (same sequence number), or
    both versions.
    """
    scene.create("id int, name string, value int")
    scene.insert("(1, 'a', 10), (2, 'b', 20), (3, 'c', 30), (4, 'd', 40)")
    scene.sql(
        "UPDATE {t} SET value = value + 1 WHERE id <= 2",
        "MERGE INTO {t} USING (SELECT * FROM VALUES (1, 0), (3, -1), (9, 90) AS s(id, value)) s ON {t}.id = s.id "
        "WHEN MATCHED AND s.value < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET value = s.value "
        "WHEN NOT MATCHED THEN INSERT (id, name, value) VALUES (s.id, 'new', s.value)",
    )
    scene.current(ids=[1, 2, 4, 9])
    scene.where("value = 21", ids=[2])
    scene.history([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 4, 9])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("position-delete", "deletion-vector", "out-of-range", "dangling")
def positions_that_are_not(scene: Scene) -> None:
    """Positions beyond the end of the file (v2: and of a file that was never there). Catches failing on them, and
    subtracting their number from the row count.
    """
    scene.create("id int, name string")
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    ((path, _),) = scene.positions("id = 2")
    deletes = [(path, 1), (path, 3), (path, 5_000_000_000)]
    if scene.version == 2:
        deletes.append((path.replace(".parquet", "x.parquet"), 0))
    scene.commit(deletes=scene.deletes_by_position(deletes))
    scene.current(ids=[1, 3])
    scene.deleted(dead=[2])


@RECIPES.add("position-delete", "deletion-vector", "first-and-last-row")
def positions_at_the_edges(scene: Scene) -> None:
    """The first and the last row of a file, and every other row of another. Catches off-by-one."""
    scene.create("id bigint")
    scene.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(0, 100)")
    scene.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(100, 200)")
    scene.sql("DELETE FROM {t} WHERE id IN (0, 99) OR (id >= 100 AND id % 2 = 0)")
    live = [*range(1, 99), *range(101, 200, 2)]
    scene.current(ids=live)
    scene.where("id = 99 or id = 1 or id = 199", ids=[1, 199])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("deletion-vector", "position-delete", "run-and-bitmap-containers")
def positions_in_every_container(scene: Scene) -> None:
    """200,000 rows, so four roaring containers: a run, an array, a full bitmap and one with nothing dead. Catches
    containers read wrongly, and 16 bits taken for the whole position.
    """
    scene.create("id bigint")
    scene.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(200000)")
    scene.sql(
        "DELETE FROM {t} WHERE id BETWEEN 10 AND 60000 OR (id BETWEEN 65536 AND 131071 AND id % 1000 = 1) "
        "OR (id BETWEEN 131072 AND 196607 AND id % 3 = 0)"
    )
    live = [i for i in range(200_000) if not _in_a_container(i)]
    scene.current(ids=live)
    scene.where("id > 196600", ids=[i for i in live if i > 196_600])


@RECIPES.add("position-delete", "deletion-vector", "several-files", "several-commits", "insert-between")
def positions_between_inserts(scene: Scene) -> None:
    """Inserts and deletes take turns, each DELETE hits old and new files. Catches deletes applied to files added later,
    and the newest vector alone.
    """
    scene.create("id int, name string", properties=PARTITION_SCOPED)
    scene.insert("(1, 'a'), (2, 'b'), (3, 'c')")
    scene.sql("DELETE FROM {t} WHERE name = 'a'")
    scene.insert("(11, 'a'), (12, 'b'), (13, 'c')")
    scene.sql("DELETE FROM {t} WHERE name = 'b'")
    scene.insert("(21, 'a'), (22, 'b'), (23, 'c')")
    scene.sql("DELETE FROM {t} WHERE id IN (3, 23)")
    scene.current(ids=[11, 13, 21, 22])
    scene.history([1, 2, 3], [2, 3], [2, 3, 11, 12, 13], [3, 11, 13], [3, 11, 13, 21, 22, 23], [11, 13, 21, 22])


def _in_a_container(i: int) -> bool:
    return 10 <= i <= 60_000 or (65_536 <= i <= 131_071 and i % 1000 == 1) or (131_072 <= i <= 196_607 and i % 3 == 0)
