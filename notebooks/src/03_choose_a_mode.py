# ---
# jupyter:
#   deletekit:
#     lesson: "03"
#     minutes: {teach: 20, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 03 · Choose a mode
#
# **20 minutes to read and run, 15 for the exercises.** Before it: [02 · Copy-on-write](02_copy_on_write.ipynb).
#
# Copy-on-write makes reads fast and writes slow. Merge-on-read does the opposite. A table property says which mode to use, but it is only a hint.
#
# You will be able to
#
# - say which mode a delete will use, and why
# - explain why you got no deletion vector
# - estimate what a delete costs in each mode

# %% [markdown]
# ## Predict
#
# A table of format version 3 has four rows in one data file, and no property is set. **03.1** We delete one row. How many data files and how many delete files will the commit add? Answer with a dict, such as `{"data": 2, "deletes": 2}`.

# %% tags=["exercise"] exercise="03.1"
from deletekit.course import predict

predict("03.1", ...)

# %% tags=["solution"] exercise="03.1"
from deletekit.course import predict

predict("03.1", {"data": 1, "deletes": 0})

# %% [markdown]
# ## Run

# %%
import deletekit as dk
from deletekit.course import Aliases, check, drawings, hint, lesson, show, solution

here = lesson("03")


def what(commit):
    return {
        "operation": commit.operation,
        "data files added": len(commit.added_data_files),
        "data files removed": len(commit.removed_data_files),
        "delete files added": len(commit.added_delete_files),
    }


users = here.table("users", dk.datasets.users(), format_version=3)
show([what(dk.delete(users, "id = 1"))])

# %%
check("03.1")

# %% [markdown]
# ## The property is a hint
#
# `write.delete.mode` says which mode the owner of the table prefers: `copy-on-write`, which is the default, or `merge-on-read`. Updates and merges have their own properties, `write.update.mode` and `write.merge.mode`. Each writer decides whether to follow the hint, and each operation can choose another mode.

# %%
rows = []
for mode in ("copy-on-write", "merge-on-read"):
    table = here.table(f"hint_{mode.replace('-', '_')}", dk.datasets.users(), properties={"write.delete.mode": mode})
    rows.append({"write.delete.mode": mode, "the call says": "nothing", **what(dk.delete(table, "id = 1"))})
    asked = dk.delete(table, "id = 2", mode="equality-delete")
    rows.append({"write.delete.mode": mode, "the call says": "equality-delete", **what(asked)})
show(rows)

# %% [markdown]
# The meaning of merge-on-read depends on the format version: position delete files in version 2, deletion vectors in version 3.

# %%
for version in (2, 3):
    properties = {"write.delete.mode": "merge-on-read"}
    table = here.table(f"version_{version}", dk.datasets.users(), format_version=version, properties=properties)
    (file,) = dk.delete(table, "id = 1").added_delete_files
    print(f"version {version}: {file.kind}")

# %% [markdown]
# ## The same delete in each mode
#
# Here id 1 is deleted from four equal tables, in four modes.

# %%
modes = {"copy-on-write": 3, "equality-delete": 3, "position-delete": 2, "deletion-vector": 3}
users_in = {}
for mode, version in modes.items():
    users_in[mode] = here.table(f"users_{mode.replace('-', '_')}", dk.datasets.users(), format_version=version)
    dk.delete(users_in[mode], "id = 1", mode=mode)

# %% [markdown]
# Copy-on-write: a new data file takes the place of the old one.

# %%
drawings.file_tree(users_in["copy-on-write"])

# %% [markdown]
# An equality delete: the data file stays, and a file of values applies to it.

# %%
drawings.file_tree(users_in["equality-delete"])

# %% [markdown]
# A position delete: a file of positions applies to the data file.

# %%
drawings.file_tree(users_in["position-delete"])

# %% [markdown]
# A deletion vector: a bitmap in a Puffin file applies to the data file.

# %%
drawings.file_tree(users_in["deletion-vector"])

# %% [markdown]
# **03.2** Which modes write a delete without reading any row first? Answer with a set of names from `"copy-on-write"`, `"equality-delete"`, `"position-delete"` and `"deletion-vector"`.

# %% tags=["exercise"] exercise="03.2"
check("03.2", ...)

# %% tags=["solution"] exercise="03.2"
check("03.2", {"equality-delete"})

# %% [markdown]
# ## Look inside: where is my deletion vector?
#
# People ask this often: "I deleted rows from a table of version 3, and there is no Puffin file." Here are three such tables.

# %%
import pyarrow as pa

merge_on_read = {"write.delete.mode": "merge-on-read"}
two_files = [pa.table({"id": pa.array(ids, pa.int32())}) for ids in ([1, 2, 3, 4], [5, 6, 7, 8])]

first = here.table("first", *two_files, format_version=3)
second = here.table("second", *two_files, format_version=3, properties=merge_on_read)
third = here.table("third", *two_files, format_version=3, properties=merge_on_read)
show(
    [
        {"table": "default", **what(dk.delete(first, "id = 1"))},
        {"table": "whole file", **what(dk.delete(second, "id <= 4"))},
        {"table": "overridden", **what(dk.delete(third, "id = 1", mode="copy-on-write"))},
    ]
)
for name, table in (("default", first), ("whole file", second), ("overridden", third)):
    print(f"{name}: write.delete.mode is {table.properties.get('write.delete.mode', 'not set')}")

# %% [markdown]
# **03.3** What is the reason for each table? 1: the table is copy-on-write. 2: the file itself left the table. 3: the call asked for another mode. Answer with a dict of numbers, with the keys `"default"`, `"whole file"` and `"overridden"`.

# %% tags=["exercise"] exercise="03.3"
check("03.3", ...)

# %% tags=["solution"] exercise="03.3"
check("03.3", {"default": 1, "whole file": 2, "overridden": 3})

# %% [markdown]
# ## What it costs
#
# There are twenty files of 100 rows, and a delete hits one row in each file. **03.4** How many data files will copy-on-write rewrite?

# %% tags=["exercise"] exercise="03.4"
predict("03.4", ...)

# %% tags=["solution"] exercise="03.4"
predict("03.4", 20)

# %%
whole = pa.table({"id": pa.array(range(2000), pa.int64()), "file": [f"f{i // 100:02}" for i in range(2000)]})
rows = []
for mode, version in modes.items():
    table = here.table(f"cost_{mode.replace('-', '_')}", whole, format_version=version, partition_by=["file"])
    commit = dk.delete(table, f"id in {tuple(range(0, 2000, 100))}", mode=mode)
    data, deletes = commit.added_data_files, commit.added_delete_files
    again, noted = sum(f.record_count for f in data), sum(f.record_count for f in deletes)
    cost = {"data files written": len(data), "rows written again": again, "deletes written": noted}
    rows.append({"mode": mode, **cost, "rows left": dk.scan(table).count()})
show(rows)

# %%
check("03.4")

# %% [markdown]
# All four leave the same rows. Copy-on-write wrote 1980 rows to lose 20. The others wrote 20 lines, and from now on every reader must apply them. Skipping positions is cheap. Comparing values is not.
#
# | mode | the writer | the reader | choose it when |
# |---|---|---|---|
# | copy-on-write | reads and writes whole files | does nothing more | deletes are rare, or hit whole files |
# | equality delete | writes values, reads nothing | compares every older row | a stream must not wait, and somebody compacts soon |
# | position delete | reads, writes positions | skips positions | the table is of format version 2 |
# | deletion vector | reads, writes one bitmap for each file | skips positions, one small read for each file | deletes are frequent, format version 3 |

# %% [markdown]
# `CostMeter` measures this on a table that it makes, and counts bytes too: what the delete writes, and what a scan then reads of the columns and the deletes. Copy-on-write is the dearest to write and the cheapest to read. Change the number of files, the share of deleted rows or the format version. `CostMeter(table, where="id = 42")` measures your own table, and writes nothing to it.

# %%
dk.widgets.CostMeter()

# %% [markdown]
# ## Break it
#
# What if nobody cleans up after merge-on-read? We delete ten times, one row each time, from one file of format version 2. Then we count the files that a reader must open.

# %%
growing = here.table("growing", pa.table({"id": pa.array(range(1000), pa.int64())}), properties=merge_on_read)
for number in range(10):
    dk.delete(growing, f"id = {number}", granularity="partition")
print("delete files for one data file:", len(Aliases(growing).deletes()))

dk.compact(growing, delete_file_threshold=1, min_input_files=1)
print("after compaction:", len(Aliases(growing).deletes()))
print("rows:", dk.scan(growing).count())

# %% [markdown]
# The deletes add up until somebody rewrites them. A data file never has more than one deletion vector. Equality deletes are the worst: each one concerns all older files.
#
# ## Key points
#
# - `write.delete.mode`, `write.update.mode` and `write.merge.mode` are hints with the default `copy-on-write`: [write properties](https://iceberg.apache.org/docs/latest/configuration/#write-properties).
# - Merge-on-read writes position delete files in version 2 and deletion vectors in version 3: [row-level deletes](https://iceberg.apache.org/spec/#row-level-deletes).
# - If a delete hits all rows of a file, the file leaves the table. This is so in every mode, and no delete file is written.
# - What makes copy-on-write expensive is how many files the deleted rows touch, not how many rows there are.
#
# Next: [04 · Equality deletes](04_equality_deletes.ipynb)

# %%
here.close()
