# ---
# jupyter:
#   deletekit:
#     lesson: "12"
#     minutes: {teach: 15, exercise: 15}
#     needs: spark
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 12 · The engines lab
#
# **15 minutes to read and run, 15 for the exercises.** Before it: [11 · Compaction and erasure](11_compaction.ipynb).
#
# A table belongs to no engine. Here Spark, with Iceberg's own Java library, and deletekit take turns on the same tables. Each must see the changes of the other. This lesson needs Java 17 and PySpark. Without them it still runs to the end, but the cells that ask Spark only say that it is missing. Then read the stored outputs of the notebook instead.
#
# You will be able to
#
# - say what Spark writes for DELETE, UPDATE and MERGE, and see it in the plan
# - look at deletes through the metadata tables of Spark
# - follow a table through the upgrade from format version 2 to 3
# - prove that two engines see the same rows, and make a table readable for a third

# %% [markdown]
# ## Predict
#
# `users` has format version 2, and `write.delete.mode` is merge-on-read. **12.1** Spark runs `DELETE FROM users WHERE id IN (1, 3)`. What does it write: `"equality-delete"`, `"position-delete"`, `"deletion-vector"`, or new data files (`"copy-on-write"`)?

# %% tags=["exercise"] exercise="12.1"
from deletekit.course import predict

predict("12.1", ...)

# %% tags=["solution"] exercise="12.1"
from deletekit.course import predict

predict("12.1", "position-delete")

# %% [markdown]
# ## Run
#
# `here.sql` runs a statement in Spark and returns its rows. Spark commits to the catalog, and `refresh` loads the new state into our table object.

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution

here = lesson("12", needs_spark=True)
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}

users = here.table("users", dk.datasets.users(), properties={"write.delete.mode": "merge-on-read"})
here.sql("DELETE FROM users WHERE id IN (1, 3)")

users.refresh()
names = Aliases(users)
names.show(names.deletes(), "name", "kind", "positions_by_file", "positions")
names.show(dk.explain(users, "id = 1", columns=["id", "name"]))

# %%
check("12.1")

# %% [markdown]
# ## Both see the same
#
# Spark never writes equality deletes. But others do, for example Flink, so Spark must be able to read them. Now deletekit writes one for id 4.

# %%
here.rewind("delete by key", users)
dk.delete_keys(users, [{"id": 4}])
show(here.sql("SELECT id, name, value FROM users"))

# %% [markdown]
# To compare two engines, look for rows that only one of them sees, in both directions. In SQL that is EXCEPT twice. A count is not enough: two mistakes can have the same size.


# %%
def rows(found):
    return {tuple(row.values()) for row in found}


def compare(table):
    ours = rows(dk.scan(table).to_arrow().to_pylist())
    spark = rows(here.sql(f"SELECT * FROM {table.identifier[-1]}"))
    found = {"both": len(ours & spark), "only Spark": len(spark - ours), "only deletekit": len(ours - spark)}
    return found if here.spark else dict.fromkeys(found, "?")


show([compare(users)])

# %% [markdown]
# ## Look inside: metadata tables
#
# Iceberg shows its own state as tables: `snapshots`, `manifests`, `files`, `delete_files`, `position_deletes` and more. You write each one after the name of a table. `content` 1 is a position delete, 2 an equality delete.

# %%
show(
    here.sql("SELECT content, file_format, record_count, equality_ids FROM course.users.delete_files ORDER BY content")
)

# %% [markdown]
# ## What the plan says
#
# You can see how a statement will work without running it. `EXPLAIN` shows one of three nodes: `DeleteFromTable` only changes metadata and reads no row, `WriteDelta` writes deletes and new rows, `ReplaceData` rewrites whole files.
#
# `numbers` has two files, with ids 1 to 4 and 5 to 8, and all its modes are merge-on-read. `copied` has the same rows and no property. **12.3** Which node will each of the three statements have? Answer with a dict of names, with the keys `"one row"`, `"whole file"` and `"no property"`.

# %% tags=["exercise"] exercise="12.3"
predict("12.3", ...)

# %% tags=["solution"] exercise="12.3"
predict("12.3", {"one row": "WriteDelta", "whole file": "DeleteFromTable", "no property": "ReplaceData"})

# %%
parts = [pa.table({"id": pa.array(range(start, start + 4), pa.int32())}) for start in (1, 5)]
numbers = here.table("numbers", *parts, properties=MERGE_ON_READ)
copied = here.table("copied", *parts)


def node(statement):
    plan = " ".join(row["plan"] for row in here.sql(f"EXPLAIN {statement}"))
    return next((name for name in ("DeleteFromTable", "WriteDelta", "ReplaceData") if name in plan), "-")


show(
    [
        {"": "one row", "node": node("DELETE FROM numbers WHERE id = 1")},
        {"": "whole file", "node": node("DELETE FROM numbers WHERE id <= 4")},
        {"": "no property", "node": node("DELETE FROM copied WHERE id = 1")},
    ]
)

# %%
check("12.3")

# %% [markdown]
# ## A third reader
#
# Spark and deletekit agree on `users`. Would PyIceberg? Here is a table like it: Spark deletes one row of it by position, deletekit deletes another by key. `dk.readers` says what is known of an engine. Then we ask PyIceberg itself.

# %%
from pyiceberg.table import StaticTable

third = here.table("third", dk.datasets.users(), properties=MERGE_ON_READ)
here.sql("DELETE FROM third WHERE id = 1")
third.refresh()
dk.delete_keys(third, [{"id": 4}])
show([{"engine": known.named, "reads": known.verdict} for known in dk.readers(third, engines=["pyiceberg 0.12.0"])])
try:
    StaticTable.from_metadata(third.metadata_location).scan().to_arrow()
except ValueError as error:
    print("PyIceberg:", error)

# %% [markdown]
# PyIceberg does not support equality deletes. So `make_readable` turns the equality delete into a position delete, which all three engines read. This change is the least one: it writes no data file again. Afterwards we compare in both directions, first with PyIceberg, then with Spark.

# %%
here.rewind("readable", third)
made = dk.make_readable(third, ["spark", "pyiceberg"])
show([{"step": step.action, "data files": step.files, "rows": step.rows} for step in made.steps])

ours = rows(dk.scan(third).to_arrow().to_pylist())
theirs = rows(StaticTable.from_metadata(third.metadata_location).scan().to_arrow().to_pylist())
show([{"both": len(ours & theirs), "only PyIceberg": len(theirs - ours), "only deletekit": len(ours - theirs)}])
show([compare(third)])

# %% [markdown]
# ## From version 2 to version 3
#
# `grown` starts with format version 2. Spark deletes id 1, upgrades the table, and then deletes id 3. **12.5** Which positions will the deletion vector hold?

# %% tags=["exercise"] exercise="12.5"
predict("12.5", ...)

# %% tags=["solution"] exercise="12.5"
predict("12.5", {0, 2})

# %%
grown = here.table("grown", dk.datasets.users(), properties=MERGE_ON_READ)
here.sql("DELETE FROM grown WHERE id = 1")
here.sql("ALTER TABLE grown SET TBLPROPERTIES ('format-version' = '3')")
here.sql("DELETE FROM grown WHERE id = 3")

grown.refresh()
of_grown = Aliases(grown)
of_grown.show(of_grown.deletes(), "name", "kind", "positions_by_file", "positions")
show(here.sql("SELECT file_format, record_count, content_offset, content_size_in_bytes FROM course.grown.delete_files"))

# %%
check("12.5")

# %% [markdown]
# deletekit continues where Spark stopped: it deletes id 4, and its new vector includes Spark's. Then Spark merges: it updates id 2 and adds a new row.

# %%
here.rewind("merge", grown)
dk.delete(grown, "id = 4")
here.sql(
    """
    MERGE INTO grown AS t
    USING (SELECT 2 AS id, 222.0 AS value UNION ALL SELECT 9, 900.0) AS s
    ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET value = s.value
    WHEN NOT MATCHED THEN INSERT (id, name, value, timestamp)
      VALUES (s.id, 'User-9', s.value, TIMESTAMP_NTZ '2024-01-09 00:00:00')
    """
)
grown.refresh()
of_grown.show(of_grown.deletes(), "name", "kind", "positions_by_file", "positions")
show([compare(grown)])

# %% [markdown]
# Format version 3 has row lineage too, and both engines must agree on it.

# %%
LINEAGE = ["id", "value", "_row_id", "_last_updated_sequence_number"]
show(here.sql(f"SELECT {', '.join(LINEAGE)} FROM grown ORDER BY id"))
show(dk.scan(grown, columns=LINEAGE).to_arrow().sort_by("id"))

# %% [markdown]
# ## Break it
#
# One Puffin file can hold the vectors of many data files. Here deletekit writes `V1` for `D1` and `V2` for `D2` into one file, Spark replaces `V1` with `V3`, and an append follows.

# %%
shared = here.table("shared", *parts, format_version=3, properties=MERGE_ON_READ)
with dk.engine.local(threads=1):
    dk.delete(shared, "id in (1, 5)", granularity="partition")
here.sql("DELETE FROM shared WHERE id = 2")
here.append(shared, pa.table({"id": pa.array([9], pa.int32())}))

of_shared = Aliases(shared)
of_shared.show(of_shared.deletes(), "name", "data_file.referenced_data_file", "positions")
print("rows:", dk.scan(shared).count())

# %% [markdown]
# Now the old snapshots expire, and this time we call Iceberg's Java library directly. It finds the entries that the expired snapshots removed, and removes their files. **12.7** Which data file can nobody read after that: `"D1"`, `"D2"` or `"D3"`?

# %% tags=["exercise"] exercise="12.7"
predict("12.7", ...)

# %% tags=["solution"] exercise="12.7"
predict("12.7", "D2")

# %%
import time

here.rewind("expire", shared)
if here.spark:
    java = here.spark._jvm.org.apache.iceberg.spark.Spark3Util
    java_table = java.loadIcebergTable(here.spark._jsparkSession, f"{here.catalog.name}.course.shared")
    java_table.expireSnapshots().expireOlderThan(int(time.time() * 1000) + 1000).retainLast(1).commit()
    shared.refresh()


# %%
def reading(where):
    try:
        return f"{dk.scan(shared, where).count()} rows"
    except dk.DeletekitError as error:
        return error.kind


ids = {"D1": "id <= 4", "D2": "id > 4 and id <= 8", "D3": "id = 9"}
show([{"file": name, "reading it": reading(where)} for name, where in ids.items()])

# %%
check("12.7")

# %% [markdown]
# The entry of `V1` was removed, so Java removed its file. That file also held `V2`, which is live. At least nobody gets a wrong answer: a reader that cannot open a delete must fail. If Java's library maintains your tables, let no two vectors share a file. `granularity="file"` writes one file for each.
#
# ## Key points
#
# - DELETE, UPDATE and MERGE each have a mode property. A statement that drops whole files needs none of them: [write properties](https://iceberg.apache.org/docs/latest/configuration/#write-properties).
# - Spark writes position deletes in version 2 and deletion vectors in version 3, but never equality deletes. It reads all of them: [row-level deletes](https://iceberg.apache.org/spec/#row-level-deletes).
# - Two engines agree if neither sees a row that the other does not. That is true of one table: run them on yours.
#
# Next: [13 · Streaming deletes](13_streaming_deletes.ipynb)

# %%
here.close()
