"""Cases of file formats and encodings: Avro, ORC, codecs, compressed metadata, merged manifests, no field ids."""

import pyarrow as pa

from tests.interop.corpus_case import Recipes
from tests.interop.corpus_scene import Scene

RECIPES = Recipes()
ROWS = "(1, 'a', 1.5D), (2, 'b', NULL), (3, NULL, 3.5D), (4, 'd', 4.5D), (5, 'e', 5.5D), (6, 'f', 6.5D)"


@RECIPES.add("avro", "position-delete", "deletion-vector", "equality-delete")
def avro_everything(scene: Scene) -> None:
    """Avro data, Avro deletes (v3: vectors). Catches positions counted within an Avro block, and NULLs in unions."""
    _positions_and_equality(scene, {"write.format.default": "avro"}, "avro")
    formats = {file.file_format for file in scene.delete_files()}
    assert formats == ({"AVRO"} if scene.version == 2 else {"AVRO", "PUFFIN"})


@RECIPES.add("orc", "position-delete", "deletion-vector", "equality-delete")
def orc_everything(scene: Scene) -> None:
    """ORC data, ORC deletes (v3: vectors). Catches field ids looked for where Parquet keeps them, and positions counted
    within a stripe.
    """
    _positions_and_equality(scene, {"write.format.default": "orc"}, "orc")
    formats = {file.file_format for file in scene.delete_files()}
    assert formats == ({"ORC"} if scene.version == 2 else {"ORC", "PUFFIN"})


@RECIPES.add("avro", "orc", "position-delete", "deletion-vector", "equality-delete", "partition-scoped", "multi-file")
def three_formats_in_one_table(scene: Scene) -> None:
    """Data in Parquet, Avro and ORC under common deletes, themselves in three formats. Catches one format a table."""
    scene.create("id int, name string", properties={"write.delete.granularity": "partition"})
    for number, file_format in enumerate(("parquet", "avro", "orc")):
        scene.set(write_format_default=file_format)
        scene.insert(", ".join(f"({number * 10 + i}, 'n{i}')" for i in range(1, 6)))
    scene.sql("DELETE FROM {t} WHERE id IN (1, 13, 25)")
    for file_format, name in (("avro", "n2"), ("orc", "n4"), ("parquet", "none")):
        scene.delete_equal(["name"], {"name": name}, format=file_format)
    scene.sql("DELETE FROM {t} WHERE id IN (3, 15)")
    scene.current(ids=[5, 11, 21, 23])
    scene.columns("id")
    scene.where("id > 20", ids=[21, 23])


@RECIPES.add("avro", "orc", "nested-types", "special-names", "position-delete", "deletion-vector")
def odd_column_names(scene: Scene) -> None:
    """Columns named with spaces, dots, quotes and accents, in all three formats; Avro renames such fields. Catches
    columns by name instead of id.
    """
    scene.create("id int, `a b` string, `x.y` int, `ünï-1` struct<`k k`: int, `9`: string>, `_id` int, `select` string")
    for number, file_format in enumerate(("parquet", "avro", "orc")):
        scene.set(write_format_default=file_format)
        tens = number * 10
        rows = (f"({tens + i}, 's{i}', {i}, named_struct('k k', {i}, '9', 'x'), -{i}, 't{i}')" for i in (1, 2, 3))
        scene.insert(", ".join(rows))
    scene.sql("DELETE FROM {t} WHERE `x.y` = 2 AND id <> 22")
    scene.delete_equal(["a b"], {"a b": "s1"})
    scene.current(ids=[3, 13, 22, 23])
    scene.columns("id", "select")


@RECIPES.add("codecs", "position-delete", "deletion-vector", "equality-delete")
def parquet_codecs(scene: Scene) -> None:
    """Data and deletes in zstd, snappy, gzip, lz4_raw and plain Parquet. Catches codecs that a reader lacks."""
    scene.create("id int, name string")
    for number, codec in enumerate(("zstd", "snappy", "gzip", "lz4_raw", "uncompressed")):
        scene.set(write_parquet_compression__codec=codec, write_delete_parquet_compression__codec=codec)
        scene.insert(", ".join(f"({number * 10 + i}, '{codec}-{i}')" for i in range(1, 5)))
        scene.sql(f"DELETE FROM {{t}} WHERE id = {number * 10 + 1}")
        scene.delete_equal(["name"], {"name": f"{codec}-2"})
    scene.current(ids=[number * 10 + i for number in range(5) for i in (3, 4)])


@RECIPES.add("codecs", "avro", "orc", "position-delete", "equality-delete", versions=(2,))
def avro_and_orc_codecs(scene: Scene) -> None:
    """Avro in deflate, snappy, zstd and plain, ORC in zlib, snappy, zstd, lz4 and plain. Catches codecs
    a reader lacks.
    """
    codecs = [("avro", c) for c in ("gzip", "snappy", "zstd", "uncompressed")]
    codecs += [("orc", c) for c in ("zlib", "snappy", "zstd", "lz4", "none")]
    scene.create("id int, name string")
    for number, (file_format, codec) in enumerate(codecs):
        names = {f"write_{part}{file_format}_compression__codec": codec for part in ("", "delete_")}
        scene.set(write_format_default=file_format, write_delete_format_default=file_format, **names)
        scene.insert(", ".join(f"({number * 10 + i}, 'n{i}')" for i in range(1, 4)))
        scene.sql(f"DELETE FROM {{t}} WHERE id = {number * 10 + 1}")
    scene.delete_equal(["name"], {"name": "n2"}, format="avro")
    scene.current(ids=[number * 10 + 3 for number in range(len(codecs))])


@RECIPES.add("metadata-gzip", "manifest-merge", "position-delete", "deletion-vector", "equality-delete")
def gzipped_metadata_and_merged_manifests(scene: Scene) -> None:
    """metadata.json compressed, manifests merged at every commit: entries carry explicit sequence numbers of several
    commits. Catches taking the manifest's sequence number, or the snapshot's, for the entry's; v3: its first row id.
    """
    merging = {"commit.manifest.min-count-to-merge": "2", "write.metadata.compression-codec": "gzip"}
    scene.create("id int, name string", properties=merging)
    scene.insert("(1, 'a'), (2, 'b')")
    scene.delete_equal(["id"], {"id": 1})
    scene.insert("(1, 'again'), (3, 'c'), (4, 'd')")
    scene.sql("DELETE FROM {t} WHERE id = 3")
    scene.delete_equal(["id"], {"id": 4}, {"id": 9})
    scene.insert("(4, 'again'), (9, 'i')")
    scene.sql("DELETE FROM {t} WHERE id = 9")
    scene.current(ids=[1, 2, 4])
    scene.where("name = 'again'", ids=[1, 4])
    scene.history([1, 2], [2], [1, 2, 3, 4], [1, 2, 4], [1, 2], [1, 2, 4, 9], [1, 2, 4])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("name-mapping", "add-files", "position-delete", "deletion-vector", "equality-delete")
def added_files_without_ids(scene: Scene) -> None:
    """Plain Parquet taken over by add_files, so without field ids; then a rename and all deletes. Catches ids by column
    order, and names read after the rename (the mapping keeps the old one).
    """
    plain = scene.scratch("plain")
    rows = "('a', 1), ('b', 2), ('c', 3), ('d', 4)"
    scene.spark.sql(f"SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS v(name, id)").write.parquet(plain)
    scene.create("id int, name string, extra int")
    scene.call("add_files", f"source_table => '`parquet`.`{plain}`'")
    scene.sql("ALTER TABLE {t} RENAME COLUMN name TO title")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["title"], {"title": "b"})
    scene.delete_equal(["extra", "id"], {"extra": None, "id": 3})
    scene.insert("(3, 'new', 30)")
    scene.current(ids=[3, 4])
    scene.columns("extra")
    scene.where("title = 'd'", ids=[4])
    if scene.version == 3:
        scene.lineage()


@RECIPES.add("name-mapping", "add-files", "partition-identity", "position-delete", "deletion-vector", "equality-delete")
def added_hive_partitions(scene: Scene) -> None:
    """A Hive-style folder taken over: the partition column is in the folder names and not in the files. Catches reading
    it as NULL, most of all where it is an equality key.
    """
    plain = scene.scratch("hive")
    rows = "(1, 'a b', 10), (2, 'a b', 20), (3, 'ü', 10), (4, 'ü', 20), (5, CAST(NULL AS string), 10)"
    frame = scene.spark.sql(f"SELECT /*+ COALESCE(1) */ id, part, value FROM VALUES {rows} AS v(id, part, value)")
    frame.write.partitionBy("part").parquet(plain)
    scene.create("id int, part string, value int", "part")
    scene.call("add_files", f"source_table => '`parquet`.`{plain}`'")
    scene.sql("DELETE FROM {t} WHERE id = 1")
    scene.delete_equal(["part", "value"], {"part": "ü", "value": 10}, {"part": None, "value": 20}, partition=["ü"])
    scene.delete_equal(["part", "value"], {"part": None, "value": 10}, partition=[None])
    scene.current(ids=[2, 4])
    scene.columns("value")
    scene.where("part = 'ü'", ids=[4])


@RECIPES.add("avro", "orc", "schema-evolution", "promotion", "added-column", "dropped-column", "equality-delete")
def schema_changes_in_three_formats(scene: Scene) -> None:
    """A column widened, one added, one dropped, under data in Avro, ORC and Parquet. Catches Avro's and ORC's own ideas
    of schema resolution, by name or by place.
    """
    scene.create("id int, gone int, i int, f float")
    for number, file_format in enumerate(("parquet", "avro", "orc")):
        scene.set(write_format_default=file_format)
        tens = number * 10
        scene.insert(", ".join(f"({tens + i}, {i}, -{i}, {i}.5F)" for i in (1, 2, 3, 4)))
        scene.delete_equal(["gone"], {"gone": 1}, format=file_format)
    scene.sql("ALTER TABLE {t} DROP COLUMN gone", "ALTER TABLE {t} ADD COLUMN added string FIRST")
    scene.sql("ALTER TABLE {t} ALTER COLUMN i TYPE bigint", "ALTER TABLE {t} ALTER COLUMN f TYPE double")
    scene.delete_equal(["i", "added"], {"i": -2, "added": None}, {"i": -3, "added": "x"})
    scene.delete_equal(["f"], {"f": 3.5}, {"f": 1e300}, format="avro")
    scene.sql("INSERT INTO {t} VALUES ('x', 31, -3L, 3.5D)")
    scene.current(ids=[4, 14, 24, 31])
    scene.columns("added", "id")
    scene.where("i = -3", ids=[31])


@RECIPES.add("avro", "initial-default", "added-column", "equality-delete", versions=(3,))
def initial_defaults_in_avro(scene: Scene) -> None:
    """Columns with initial defaults over an old Avro file. Catches defaults that only the Parquet reader fills in."""
    _initial_defaults(scene, "avro")
    scene.current(ids=[2, 21])
    scene.columns("s")


@RECIPES.add("orc", "initial-default", "added-column", "equality-delete", "spark-wrong", versions=(3,))
def initial_defaults_in_orc(scene: Scene) -> None:
    """Columns with initial defaults over an old ORC file. Catches defaults that only the Parquet reader fills in."""
    _initial_defaults(scene, "orc")
    live = pa.table({"id": pa.array([2, 21], pa.int32()), "k": pa.array([7, 7], pa.int64()), "s": ["ü", "x"]})
    scene.current(ids=[2, 21], rows=live, wrong="Iceberg's ORC reader knows no default values, and fails")


def _positions_and_equality(scene: Scene, properties: dict[str, str], deletes_in: str) -> None:
    scene.create("id int, name string, value double", properties=properties)
    scene.insert(ROWS)
    scene.sql("DELETE FROM {t} WHERE id IN (1, 6)")
    scene.delete_equal(["name"], {"name": "b"}, {"name": None}, format=deletes_in)
    scene.insert("(2, 'b', 2.5D)")
    scene.sql("DELETE FROM {t} WHERE id = 4")
    scene.current(ids=[2, 5])
    scene.columns("value")
    scene.where("value > 2.0 and value < 6.0", ids=[2, 5])
    scene.deleted(dead=[1, 2, 3, 4, 6])
    if scene.version == 3:
        scene.lineage()


def _initial_defaults(scene: Scene, file_format: str) -> None:
    scene.create("id int", properties={"write.format.default": file_format})
    scene.insert("(1), (2), (3)")
    scene.add_default("k", "LongType", 7)
    scene.add_default("s", "StringType", "ü")
    scene.insert("(21, 7L, 'x'), (22, NULL, NULL)")
    scene.delete_equal(["k", "id"], {"k": 7, "id": 1}, {"k": None, "id": 2})
    scene.delete_equal(["s", "id"], {"s": None, "id": 22}, {"s": "ü", "id": 3}, {"s": None, "id": 2})
