# ---
# jupyter:
#   deletekit:
#     lesson: "05"
#     minutes: {teach: 25, exercise: 20}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 05 · Position deletes of format version 2
#
# **25 minutes to read and run, 20 for the exercises.** Before it: [04 · Equality deletes](04_equality_deletes.ipynb).
#
# A position delete file says which rows are deleted by naming the data file and the position of the row in it. It is an ordinary table with two columns. Format version 3 has put deletion vectors in its place; old files stay valid, and you will meet them for years.
#
# You will be able to
#
# - read a position delete file and say what it hides
# - put its lines in the order that the specification asks for
# - tell the counters of a snapshot apart
# - say which rule of sequence numbers applies to it, and what changes with format version 3

# %% [markdown]
# ## Predict
#
# One data file with 300 rows. Alice, with id 123, stands behind 150 others. **05.1** Which position will a position delete for Alice hold?

# %% tags=["exercise"] exercise="05.1"
from deletekit.course import predict

predict("05.1", ...)

# %% tags=["solution"] exercise="05.1"
from deletekit.course import predict

predict("05.1", 150)

# %% [markdown]
# ## Run

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution

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
# The file is Parquet, with the columns `file_path` and `pos`. Both are required, and they have reserved field ids, far beyond those of any column.

# %%
import pyarrow.parquet as pq

names = Aliases(table)
stored = pq.read_table(names.path("P1"), partitioning=None)
show([{"file_path": names.of(row["file_path"]), "pos": row["pos"]} for row in stored.to_pylist()])
show([{"column": f.name, "field id": int(f.metadata[b"PARQUET:field_id"])} for f in stored.schema])

# %%
check("05.1")

# %% [markdown]
# Its manifest entry has `content` 1. Unlike that of a deletion vector it names no data file for sure: a position delete file may be about one data file or about many.

# %%
(entry,) = dk.inspect(table)["manifests"][1]["entries"]
names.show(entry, "status", "sequence_number", "data_file.content", "data_file.file_format", "data_file.record_count")

# %% [markdown]
# A third column, `row`, may hold the deleted row itself. It was meant for those who want to replay changes, and today hardly anyone writes it; a reader must put up with it.

# %%
with_rows = here.table("people_with_rows", people)
dk.delete(with_rows, "id = 123", mode="position-delete", with_rows=True)
names = Aliases(with_rows)
(line,) = pq.read_table(names.path("P1"), partitioning=None).to_pylist()
names.show(line)

# %% [markdown]
# ## Several data files
#
# Lines are sorted by `file_path`, and then by `pos`. So a reader that goes through a data file from top to bottom can go through its deletes alongside, without holding all of them in memory.
#
# **05.2** A writer has found these positions. Put them in the order in which they must be written, each of them once.

# %%
found = [("a.parquet", 36), ("b.parquet", 9), ("a.parquet", 35), ("b.parquet", 7), ("a.parquet", 36)]

# %% tags=["exercise"] exercise="05.2"
check("05.2", ...)

# %% tags=["solution"] exercise="05.2"
check("05.2", sorted(set(found)))

# %% [markdown]
# The same four in a real table of two data files, in one position delete file:

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
# Here they are shown by short names. On the disk the paths decide the order, and these are random.
#
# Whether there is one file for all data files of a partition or one for each is up to the writer: the table property `write.delete.granularity` is `partition` or `file`. One file for all is cheaper to write, one for each is cheaper to read.

# %% [markdown]
# `RowFate` goes through a data file from top to bottom, as a reader does. Row 7 of `D2` is hidden by `P1`, which holds positions of `D1` too.

# %%
dk.widgets.RowFate(two_files, data_file="D2", row=7)

# %% [markdown]
# ## Counters
#
# Three deletes one after the other, of 7, 8 and 12 rows.

# %%
counted = here.table("counted", people)
for where in ("id < 1007", "id >= 1007 and id < 1015", "id >= 1015 and id < 1027"):
    dk.delete(counted, f"{where} and id > 999", mode="position-delete")

# %% [markdown]
# **05.3** What does the summary of the last snapshot say? Answer with a dict: `"added"` for `added-position-deletes`, `"total"` for `total-position-deletes`, `"files"` for `total-delete-files`.

# %% tags=["exercise"] exercise="05.3"
predict("05.3", ...)

# %% tags=["solution"] exercise="05.3"
predict("05.3", {"added": 12, "total": 27, "files": 3})

# %%
counters = (
    "added-position-delete-files",
    "added-delete-files",
    "added-position-deletes",
    "total-delete-files",
    "total-position-deletes",
    "total-equality-deletes",
)
for counter in counters:
    print(f"{counter}: {counted.current_snapshot.summary[counter]}")

# %%
check("05.3")

# %% [markdown]
# ## A reader
#
# **05.4** Write the heart of a reader. It is given the rows of a data file, the path of the file, and pairs (path, position) from all position delete files that may concern it. It returns the live rows, in order.


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
# A streaming writer needs this: when a row that it has just written is deleted before the commit, it knows the position, and deletes the row by it in the same commit.
#
# ## Format version 3
#
# In version 3 no position delete file may be added any more. Those that are there go on hiding rows.

# %%
dk.upgrade_format_version(table, 3)
print("rows left after the upgrade:", dk.scan(table).count())
try:
    dk.delete(table, "id = 1001", mode="position-delete")
except dk.InvalidInputError as error:
    print("refused:", error.kind)

# %% [markdown]
# The next delete takes them into a deletion vector; `rewrite_position_deletes` does so without deleting anything.

# %%
dk.rewrite_position_deletes(table)
names = Aliases(table)
names.show(names.deletes(), "name", "kind", "positions")
print("rows left:", dk.scan(table).count())

# %% [markdown]
# ## Break it
#
# A position delete is only as good as the file that it names. Let us rewrite the data file of a table and keep the old deletes, as a careless compaction would: the rows move up, and the positions now point to others. We play it with lists.

# %%
old = ["Ann", "Bob", "Cid", "Dan", "Eve"]
deleted = {1, 3}
live = [row for position, row in enumerate(old) if position not in deleted]
rewritten = live  # the new file
read_with_old_deletes = [row for position, row in enumerate(rewritten) if position not in deleted]
print("live:", live)
print("the new file, read with the old deletes:", read_with_old_deletes)

# %% [markdown]
# Bob and Dan stay away, but Cid is lost too, without an error. This cannot happen in Iceberg, because a delete names its data file by path, and a rewritten file has a new path: old deletes never apply to it.
#
# ## Key points
#
# - A position delete file has `file_path` and `pos`, sorted by both, and sometimes `row`: [position delete files](https://iceberg.apache.org/spec/#position-delete-files).
# - It applies to data files with a sequence number **less than or equal to** its own, in the same partition: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - `position-deletes` counts positions, `delete-files` counts files; totals are about the whole snapshot.
# - In format version 3 none may be added, but those that are there count until a vector has taken them in: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
#
# Next: [06 · Deletion vectors](06_deletion_vectors.ipynb)
