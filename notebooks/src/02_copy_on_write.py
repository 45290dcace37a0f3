# ---
# jupyter:
#   deletekit:
#     lesson: "02"
#     minutes: {teach: 20, exercise: 20}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 02 · Copy-on-write
#
# **20 minutes to read and run, 20 for the exercises.** Before it: [01 · The anatomy of a table](01_table_anatomy.ipynb).
#
# This is the simplest way to delete rows from files that cannot change: write each file again without those rows, and replace the old files in one commit. Readers have no extra work. Writers pay.
#
# You will be able to
#
# - predict which files copy-on-write removes and adds
# - read from the manifests what a commit did
# - say what a delete costs, and when it costs nothing
# - explain why a row keeps its row id when it moves

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
# `SnapshotDiff` compares two snapshots: which files and rows came and went. It also counts the counters of the summary again. Those that are as written are one line.

# %%
dk.widgets.SnapshotDiff(users)

# %% [markdown]
# There is no delete file and no delete manifest. A reader of this snapshot reads data files and nothing else. That is the strength of copy-on-write.
#
# ## Whole files
#
# This table has two data files, ids 1 to 4 and 5 to 8. The first delete hits some rows of a file. The second one hits all rows of a file.

# %%
import pyarrow as pa

parts = [pa.table({"id": pa.array(ids, pa.int32())}) for ids in ([1, 2, 3, 4], [5, 6, 7, 8])]
numbers = here.table("numbers", *parts)
some = dk.delete(numbers, "id = 8", mode="copy-on-write")
all_rows = dk.delete(numbers, "id <= 4", mode="copy-on-write")
for what, commit in (("some rows of a file", some), ("all rows of a file", all_rows)):
    print(f"{what}: {commit.operation}, {len(commit.added_data_files)} added, {len(commit.removed_data_files)} removed")

# %% [markdown]
# **02.3** Which operation does the snapshot of each delete have? Answer with a dict whose keys are `"some"` and `"all"`.

# %% tags=["exercise"] exercise="02.3"
check("02.3", ...)

# %% tags=["solution"] exercise="02.3"
check("02.3", {"some": some.operation, "all": all_rows.operation})

# %% [markdown]
# Sometimes the bounds in the manifest show that a delete hits every row of a file, for example a whole partition. Then the file is not even read. In every mode such a delete writes only metadata. No delete is cheaper.
#
# ## Row lineage
#
# In format version 3 every row has an identity: `_row_id`, and the sequence number of the commit that last changed it. Both come from the place of the row in its file, until a rewrite moves the row. The rewrite must keep them.

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
# The same delete as a position delete writes one position. Copying is costly if you delete often and read rarely; it pays off the other way round. [Lesson 03](03_choose_a_mode.ipynb) compares the two.

# %%
again = here.table("again", pa.table({"id": pa.array(range(1000), pa.int64())}))
commit = dk.delete(again, "id = 500", mode="position-delete")
print("positions written:", sum(file.record_count for file in commit.added_delete_files))

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
# The file goes only when the older snapshot expires, because then nothing leads to the file any more.

# %%
from pathlib import Path

here.rewind("expire", users)
old_file = Path(names.path("D1"))
dk.expire_snapshots(users, snapshot_ids=[names.snapshot_id("S1")])
print("D1 is still on the disk:", old_file.exists())

# %% [markdown]
# ## Key points
#
# - Copy-on-write replaces data files: it writes the remaining rows again, the old file leaves the table, and readers get no delete file. The writer needs only the [manifests](https://iceberg.apache.org/spec/#manifests) of the format.
# - The operation of the [snapshot](https://iceberg.apache.org/spec/#snapshots) is `overwrite`, or `delete` if files only leave.
# - A rewritten row keeps its `_row_id`: [row lineage](https://iceberg.apache.org/spec/#row-lineage).
# - A delete does not erase anything while a snapshot still leads to the old file.
#
# Next: [03 · Choose a mode](03_choose_a_mode.ipynb)

# %%
here.close()
