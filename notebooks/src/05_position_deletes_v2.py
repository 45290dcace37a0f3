# ---
# jupyter:
#   deletekit:
#     lesson: "05"
#     minutes: {teach: 15, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 05 · Position deletes of format version 2
#
# **15 minutes to read and run, 15 for the exercises.** Before it: [04 · Equality deletes](04_equality_deletes.ipynb).
#
# A position delete file names deleted rows by their data file and their position in it. It is an ordinary table with two columns. We call its rows lines. In format version 3, deletion vectors replace such files. Old files stay valid, so you will meet them for years.
#
# You will be able to
#
# - read a position delete file and say what it hides
# - sort its lines in the order that the specification asks for
# - say which sequence number rule applies to it, and what changes with format version 3

# %% [markdown]
# ## Predict
#
# One data file has 300 rows. There are 150 rows before Alice, who has id 123. **05.1** Which position will a position delete for Alice hold?

# %% tags=["exercise"] exercise="05.1"
from deletekit.course import predict

predict("05.1", ...)

# %% tags=["solution"] exercise="05.1"
from deletekit.course import predict

predict("05.1", 150)

# %% [markdown]
# ## Run
#
# We delete Alice and two more rows, at positions 100 and 200.

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import Aliases, check, drawings, hint, lesson, show, solution

here = lesson("05")
people = pa.table(
    {
        "id": pa.array([123 if i == 150 else 1000 + i for i in range(300)], pa.int64()),
        "name": ["Alice" if i == 150 else f"name-{i}" for i in range(300)],
    }
)
table = here.table("people", people)
dk.delete(table, "id in (1100, 123, 1200)", mode="position-delete")
print("rows left:", dk.scan(table).count())

# %% [markdown]
# ## Look inside
#
# The file is Parquet, with the columns `file_path` and `pos`. Both are required. Their field ids are reserved, far above those of any column.

# %%
import pyarrow.parquet as pq

names = Aliases(table)
stored = pq.read_table(names.path("P1"), partitioning=None)
show([{"file_path": names.of(row["file_path"]), "pos": row["pos"]} for row in stored.to_pylist()])
show([{"column": f.name, "field id": int(f.metadata[b"PARQUET:field_id"])} for f in stored.schema])

# %%
check("05.1")

# %% [markdown]
# Its manifest entry has `content` 1. The entry does not have to name a data file: a position delete file can be about one data file or about many.

# %%
(entry,) = dk.inspect(table)["manifests"][1]["entries"]
names.show(entry, "status", "sequence_number", "data_file.content", "data_file.file_format", "data_file.record_count")

# %%
drawings.file_tree(table)

# %% [markdown]
# ## Several data files
#
# Lines are sorted by `file_path`, and then by `pos`. So a reader can read a data file and its deletes side by side, from top to bottom. It need not hold all deletes in memory.

# %% [markdown]
# This table has two data files. One thread and `granularity="partition"` write four positions into one position delete file.

# %%
forty = pa.table({"id": pa.array(range(40), pa.int32())})
ten = pa.table({"id": pa.array(range(100, 110), pa.int32())})
two_files = here.table("two_files", forty, ten)
with dk.engine.local(threads=1):
    dk.delete(two_files, "id in (36, 35, 107, 109)", mode="position-delete", granularity="partition")
names = Aliases(two_files)
lines = pq.read_table(names.path("P1"), partitioning=None).to_pylist()
in_order = [(line["file_path"], line["pos"]) for line in lines]
assert in_order == sorted(in_order)
show(
    sorted(
        ({"file": names.of(path), "pos": position} for path, position in in_order), key=lambda r: (r["file"], r["pos"])
    )
)

# %% [markdown]
# A writer can write one file for all data files of a partition, or one for each. The table property `write.delete.granularity` decides: it is `partition` or `file`. One file for all is cheaper to write, one for each is cheaper to read.

# %% [markdown]
# `RowFate` goes through a data file from top to bottom, like a reader. `P1` hides row 7 of `D2`, and it holds positions of `D1` too.

# %%
dk.widgets.RowFate(two_files, data_file="D2", row=7)

# %% [markdown]
# ## A reader
#
# **05.4** Write the core of a reader. It gets the rows of a data file, the path of the file, and pairs (path, position). The pairs come from all position delete files that may concern the file. It returns the list of the live rows, in order.


# %% tags=["exercise"] exercise="05.4"
def live_rows(rows, path, deletes): ...


check("05.4", live_rows)


# %% tags=["solution"] exercise="05.4"
def live_rows(rows, path, deletes):
    gone = {position for file, position in deletes if file == path}
    return [row for position, row in enumerate(rows) if position not in gone]


check("05.4", live_rows)

# %% [markdown]
# **05.5** A delete and a data file have the same sequence number. Does a position delete apply to the data file? Does an equality delete? Answer with a dict of `True` and `False` for `"position"` and `"equality"`.

# %% tags=["exercise"] exercise="05.5"
check("05.5", ...)

# %% tags=["solution"] exercise="05.5"
check("05.5", {"position": True, "equality": False})

# %% [markdown]
# ## Format version 3
#
# In version 3 no new position delete file is allowed. Existing ones still hide rows.

# %%
here.rewind("upgrade", table)
dk.upgrade_format_version(table, 3)
print("rows left after the upgrade:", dk.scan(table).count())
try:
    dk.delete(table, "id = 1001", mode="position-delete")
except dk.InvalidInputError as error:
    print("refused:", error.kind)

# %% [markdown]
# The next delete moves their positions into a deletion vector (lesson 06). `rewrite_position_deletes` does this without deleting anything.

# %%
here.rewind("rewrite", table)
dk.rewrite_position_deletes(table)
names = Aliases(table)
names.show(names.deletes(), "name", "kind", "positions")
print("rows left:", dk.scan(table).count())

# %%
drawings.file_tree(table)

# %% [markdown]
# ## Break it
#
# A position delete is valid only for the file that it names. Let us rewrite the data file of a table and keep the old deletes, like a careless compaction. The rows move up, and the positions now point to other rows. We try it with lists.

# %%
old = ["Ann", "Bob", "Cid", "Dan", "Eve"]
deleted = {1, 3}
live = [row for position, row in enumerate(old) if position not in deleted]
rewritten = live  # the new file
read_with_old_deletes = [row for position, row in enumerate(rewritten) if position not in deleted]
print("live:", live)
print("the new file, read with the old deletes:", read_with_old_deletes)

# %% [markdown]
# Bob and Dan stay deleted, but Cid is lost too, without an error. This cannot happen in Iceberg. A delete names its data file by path, and a rewritten file has a new path, so old deletes never apply to it.
#
# ## Key points
#
# - A position delete file has `file_path` and `pos`, sorted by both, and sometimes `row`: [position delete files](https://iceberg.apache.org/spec/#position-delete-files).
# - It applies to data files with a sequence number **less than or equal to** its own, in the same partition: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - Format version 3 allows no new ones. Existing ones count until a vector includes their positions: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
#
# Next: [06 · Deletion vectors](06_deletion_vectors.ipynb)

# %%
here.close()
