# ---
# jupyter:
#   deletekit:
#     lesson: "02"
#     minutes: {teach: 25, exercise: 20}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 02 · Copy-on-write, and which mode to choose
#
# **25 minutes to read and run, 20 for the exercises.** Before it: [01 · The anatomy of a table](01_table_anatomy.ipynb).
#
# This is the simplest way to delete rows from files that cannot change: write each file again without those rows, and replace the old files in one commit. Readers have no extra work. Writers pay.
#
# You will be able to
#
# - predict which files copy-on-write removes and adds
# - read from the manifests what a commit did
# - explain why a row keeps its row id when it moves
# - say which mode a delete will use, and why
# - explain why you got no deletion vector
# - estimate what a delete costs in each mode

# %% [markdown]
# ## Predict
#
# `users` has ids 1, 2, 3 and 4 in one data file. **02.1** We delete ids 1 and 3 by copy-on-write. How many rows will the new data file hold?

# %% tags=["exercise"] exercise="02.1"
from deletekit.course import predict

predict("02.1", ...)

# %% tags=["solution"] exercise="02.1"
from deletekit.course import predict

predict("02.1", 2)

# %% [markdown]
# ## Run
#
# `delete` returns the commit. It knows which files it added and removed.

# %%
import deletekit as dk
from deletekit.course import Aliases, check, drawings, hint, lesson, show, solution

here = lesson("02")
users = here.table("users", dk.datasets.users())
some = dk.delete(users, "id in (1, 3)", mode="copy-on-write")

show(dk.scan(users).to_arrow())

# %%
names = Aliases(users)
for file in some.added_data_files:
    print("added:", names.of(file), "with", file.record_count, "rows")
for file in some.removed_data_files:
    print("removed:", names.of(file), "with", file.record_count, "rows")

# %%
check("02.1")

# %% [markdown]
# ## Look inside
#
# The manifests of the new snapshot say what happened to each file. `status` 0 is existing, 1 is added, 2 is deleted. The snapshot that removes a file writes an entry with status 2. The next snapshot leaves this entry out.


# %%
def entries(table):
    aliases = Aliases(table)
    found = [
        {
            "file": aliases.of(entry["data_file"]["file_path"]),
            "status": entry["status"],
            "sequence number": entry["sequence_number"],
            "rows": entry["data_file"]["record_count"],
        }
        for manifest in dk.inspect(table)["manifests"]
        for entry in manifest["entries"]
    ]
    return sorted(found, key=lambda row: row["file"])


show(entries(users))

# %% [markdown]
# **02.2** What is the status of each of the two files in this snapshot? Answer with a dict, such as `{"D1": 0, "D2": 0}`.

# %% tags=["exercise"] exercise="02.2"
check("02.2", ...)

# %% tags=["solution"] exercise="02.2"
check("02.2", {row["file"]: row["status"] for row in entries(users)})

# %% [markdown]
# The drawing shows what this snapshot shares with the one before it, what it adds and what it removes.

# %%
drawings.file_tree(users)

# %% [markdown]
# `SnapshotDiff` compares two snapshots: which files and rows came and went. It also counts the counters of the summary again.

# %%
dk.widgets.SnapshotDiff(users)

# %% [markdown]
# ## Whole files
#
# This table has two data files, ids 1 to 4 and 5 to 8. The first delete hits some rows of a file. The second one hits all rows of a file.

# %%
import pyarrow as pa

parts = [pa.table({"id": pa.array(ids, pa.int32())}) for ids in ([1, 2, 3, 4], [5, 6, 7, 8])]
numbers = here.table("numbers", *parts)
some = dk.delete(numbers, "id = 8", mode="copy-on-write")
all_rows = dk.delete(numbers, "id <= 4", mode="copy-on-write")
for hit, commit in (("some rows of a file", some), ("all rows of a file", all_rows)):
    print(f"{hit}: {commit.operation}, {len(commit.added_data_files)} added, {len(commit.removed_data_files)} removed")

# %% [markdown]
# ## Row lineage
#
# In format version 3 every row has an identity: `_row_id`, and the sequence number of the commit that last changed it. Until a rewrite moves the row, `_row_id` comes from its place in the file, and the number from the file itself. The rewrite must keep both.

# %%
people = here.table("people", dk.datasets.users(), format_version=3)
columns = ["id", "_row_id", "_last_updated_sequence_number"]
show(dk.scan(people, columns=columns).to_arrow())

# %% [markdown]
# **02.4** Copy-on-write deletes ids 1 and 3, so ids 2 and 4 move into a new file. Which row ids do they have there? Answer with a set.

# %% tags=["exercise"] exercise="02.4"
predict("02.4", ...)

# %% tags=["solution"] exercise="02.4"
predict("02.4", {1, 3})

# %%
dk.delete(people, "id in (1, 3)", mode="copy-on-write")
show(dk.scan(people, columns=columns).to_arrow())

# %%
check("02.4")

# %% [markdown]
# ## What it costs
#
# A file has 1000 rows. We delete one of them.

# %%
thousand = here.table("thousand", pa.table({"id": pa.array(range(1000), pa.int64())}))
commit = dk.delete(thousand, "id = 500", mode="copy-on-write")

# %% [markdown]
# **02.5** How many rows did this delete write? `delete` returned `commit`, which knows the files that it added.

# %% tags=["exercise"] exercise="02.5"
check("02.5", ...)

# %% tags=["solution"] exercise="02.5"
check("02.5", sum(file.record_count for file in commit.added_data_files))

# %% [markdown]
# ## The property is a hint
#
# `write.delete.mode` says which mode the owner of the table prefers: `copy-on-write`, which is the default, or `merge-on-read`. Merge-on-read leaves the data files as they are, and writes which rows readers must skip. Updates and merges have their own properties, `write.update.mode` and `write.merge.mode`. Each writer decides whether to follow the hint, and each operation can choose another mode.


# %%
def what(commit):
    return {
        "operation": commit.operation,
        "data files added": len(commit.added_data_files),
        "data files removed": len(commit.removed_data_files),
        "delete files added": len(commit.added_delete_files),
    }


rows = []
for mode in ("copy-on-write", "merge-on-read"):
    table = here.table(f"hint_{mode.replace('-', '_')}", dk.datasets.users(), properties={"write.delete.mode": mode})
    rows.append({"write.delete.mode": mode, "the call says": "nothing", **what(dk.delete(table, "id = 1"))})
    asked = dk.delete(table, "id = 2", mode="equality-delete")
    rows.append({"write.delete.mode": mode, "the call says": "equality-delete", **what(asked)})
show(rows)

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
# **02.6** What is the reason for each table? 1: the table is copy-on-write. 2: the file itself left the table. 3: the call asked for another mode. Answer with a dict of numbers, with the keys `"default"`, `"whole file"` and `"overridden"`.

# %% tags=["exercise"] exercise="02.6"
check("02.6", ...)

# %% tags=["solution"] exercise="02.6"
check("02.6", {"default": 1, "whole file": 2, "overridden": 3})

# %% [markdown]
# There are twenty files of 100 rows, and a delete hits one row in each file.

# %%
whole = pa.table({"id": pa.array(range(2000), pa.int64()), "file": [f"f{i // 100:02}" for i in range(2000)]})
rows = []
for mode, version in modes.items():
    table = here.table(f"cost_{mode.replace('-', '_')}", whole, format_version=version, partition_by=["file"])
    done = dk.delete(table, f"id in {tuple(range(0, 2000, 100))}", mode=mode)
    data, deletes = done.added_data_files, done.added_delete_files
    again, noted = sum(f.record_count for f in data), sum(f.record_count for f in deletes)
    cost = {"data files written": len(data), "rows written again": again, "deletes written": noted}
    rows.append({"mode": mode, **cost, "rows left": dk.scan(table).count()})
show(rows)

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
# `CostMeter` measures this on a table that it makes, and counts bytes too: what the delete writes, and what a scan then reads of the columns and the deletes. Change the number of files, the share of deleted rows or the format version.

# %%
dk.widgets.CostMeter()

# %% [markdown]
# ## Break it
#
# Is a deleted row gone? It is gone from the newest snapshot. But the old file is still on the disk, and an older snapshot still reads it. If you must erase data, for example by law, a delete is not enough.

# %%
import pyarrow.parquet as pq

here.rewind("old file", users)
print("ids in D1 on the disk:", pq.read_table(names.path("D1"), columns=["id"], partitioning=None)["id"].to_pylist())
print("ids in snapshot S1:", dk.scan(users, snapshot_id=names.snapshot_id("S1")).to_arrow()["id"].to_pylist())

# %% [markdown]
# ## Key points
#
# - Copy-on-write replaces data files: it writes the remaining rows again, the old file leaves the table, and readers get no delete file. The writer needs only the [manifests](https://iceberg.apache.org/spec/#manifests) of the format.
# - A rewritten row keeps its `_row_id`: [row lineage](https://iceberg.apache.org/spec/#row-lineage).
# - A delete does not erase anything while a snapshot still leads to the old file.
# - `write.delete.mode`, `write.update.mode` and `write.merge.mode` are hints with the default `copy-on-write`: [write properties](https://iceberg.apache.org/docs/latest/configuration/#write-properties).
#
# Next: [04 · Equality deletes](04_equality_deletes.ipynb)

# %%
here.close()
