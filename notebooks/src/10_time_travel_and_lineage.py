# ---
# jupyter:
#   deletekit:
#     lesson: "10"
#     minutes: {teach: 15, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 10 · Time travel and lineage
#
# **15 minutes to read and run, 15 for the exercises.** Before it: [09 · Commits and conflicts](09_commits_and_conflicts.ipynb).
#
# A snapshot never changes, so you can read a table as it was, until somebody cleans up. Branches and tags give names to snapshots. Row lineage gives every row a number, which the row keeps through updates and compaction.
#
# You will be able to
#
# - read a table as it was, by snapshot, time, branch or tag
# - say why no later delete can reach an older snapshot
# - publish the work of a branch, and take it back
# - follow a row by its `_row_id`, and say when it gets a new one

# %% [markdown]
# ## Predict
#
# `users` has ids 1, 2, 3 and 4; that is snapshot `S1`. A second commit, `S2`, deletes ids 1 and 3 with a deletion vector.
#
# **10.1** Then we read the snapshot `S1` again. How many rows does it have?

# %% tags=["exercise"] exercise="10.1"
from deletekit.course import predict

predict("10.1", ...)

# %% tags=["solution"] exercise="10.1"
from deletekit.course import predict

predict("10.1", 4)

# %% [markdown]
# ## Run
#
# Two more commits follow. In one of them id 3 comes back.

# %%
from datetime import datetime, timedelta, timezone

import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution

here = lesson("10")


def user(number):
    return [{"id": number, "name": f"User-{number}", "value": 100.0 * number, "timestamp": datetime(2024, 1, number)}]


users = here.table("users", dk.datasets.users(), format_version=3)
dk.delete(users, "id in (1, 3)", mode="deletion-vector")
dk.append(users, user(5))
dk.append(users, user(3))

names = Aliases(users)
print("S1:", dk.scan(users, snapshot_id=names.snapshot_id("S1")).to_arrow()["id"].to_pylist())
print("now:", dk.scan(users).to_arrow()["id"].to_pylist())

# %%
check("10.1")

# %% [markdown]
# **10.2** In which of the snapshots `S1`, `S2`, `S3` and `S4` did id 3 come back? Answer with its name, such as `"S1"`. `names.snapshot_id("S1")` is the id of a snapshot.

# %% tags=["exercise"] exercise="10.2"
check("10.2", ...)

# %% tags=["solution"] exercise="10.2"
found = [dk.scan(users, "id = 3", snapshot_id=names.snapshot_id(f"S{n}")).count() for n in (1, 2, 3, 4)]
check("10.2", f"S{found.index(1, found.index(0)) + 1}")

# %% [markdown]
# ## Look inside
#
# A snapshot has one manifest list, and a reader finds everything there: data files and deletes. The list of `S1` was written before there was any delete.

# %%
for name in ("S1", "S2"):
    print(name)
    names.show(dk.inspect(users, snapshot_id=names.snapshot_id(name))["manifest-list"], "content", "manifest_path")

# %% [markdown]
# The manifest with `content` 1 leads to the vector. Of these two lists, only that of `S2` names it. `D1` itself knows nothing of it. That is why time travel needs no undo: nothing has changed the older files.
#
# `SnapshotDiff` compares any two snapshots, not only neighbours. It shows which files and rows came and went between them. Only its counters are those of one commit, here `S4`.

# %%
dk.widgets.SnapshotDiff(users, before="S2", after="S4")

# %% [markdown]
# ## Branches and tags
#
# A branch and a tag are names for a snapshot, kept in the table metadata. A branch moves with each commit on it; a tag stays. `main` is a branch too. We tag the current snapshot, and delete id 4 on a branch.

# %%
here.rewind("branch", users)
dk.create_tag(users, "checked")
dk.create_branch(users, "audit")
dk.delete(users, "id = 4", mode="deletion-vector", ref="audit")

for ref in ("main", "audit"):
    print(ref, dk.scan(users, ref=ref).to_arrow()["id"].to_pylist())
    deletes = dk.inspect(users, ref=ref, deletes=True)["deletes"]
    names.show(deletes, "data_file.referenced_data_file", "positions")

# %% [markdown]
# Both have a vector for `D1`, but not the same one. "At most one for a data file" is a rule for one snapshot.
#
# Now the schema changes: the table gets a column `city`. Neither the tag nor the branch has a new snapshot.
#
# **10.3** How many columns does a read of the tag `checked` have, and how many does a read of the branch `audit` have? Answer with a dict of numbers, with the keys `"tag"` and `"branch"`.

# %% tags=["exercise"] exercise="10.3"
predict("10.3", ...)

# %% tags=["solution"] exercise="10.3"
predict("10.3", {"tag": 4, "branch": 5})

# %%
here.rewind("column", users)
dk.add_column(users, "city", "string")
for ref in ("checked", "audit"):
    print(f"{ref}: {', '.join(dk.scan(users, ref=ref).columns)}")

# %%
check("10.3")

# %% [markdown]
# ## Publish, and take it back
#
# `fast_forward` moves `main` to the head of the branch, and `rollback` moves it back to an older snapshot of its history. A fast-forward writes only the table metadata, and all readers see the change at once. Between the two we note the time.

# %%
here.rewind("publish", users)
dk.fast_forward(users, "main", "audit")
published = users.metadata.raw["snapshot-log"][-1]["timestamp-ms"]
print("published:", dk.scan(users).count(), "rows")

dk.rollback(users, names.snapshot_id("S4"))
print("taken back:", dk.scan(users).count(), "rows")

# %% [markdown]
# **10.4** `S5`, the snapshot of the branch, is no longer in the history of `main`. We read the table as of the time that we noted. How many rows do we get?

# %% tags=["exercise"] exercise="10.4"
predict("10.4", ...)

# %% tags=["solution"] exercise="10.4"
predict("10.4", 3)

# %%
print(dk.scan(users, as_of=published).count(), "rows")
names.show(users.metadata.raw["snapshot-log"], "snapshot-id")

# %%
check("10.4")

# %% [markdown]
# The log of the table metadata says which snapshot was current on `main`, and when. It keeps the detour too: `S4`, `S5`, and `S4` again.
#
# ## Row lineage
#
# In format version 3 every row has a number that no other row of the table has, `_row_id`. It also has `_last_updated_sequence_number`, the sequence number of the commit that wrote its current values. For most rows neither is stored. The manifest entry of a data file has a `first_row_id`, and the row's number is that plus its position.

# %%
LINEAGE = ["id", "value", "_row_id", "_last_updated_sequence_number"]
show(dk.scan(users, columns=LINEAGE).to_arrow())

# %% [markdown]
# **10.5** We update the value of id 2 with copy-on-write. A new file replaces `D1`, and the next free row number is 6. Which `_row_id` will id 2 have?

# %% tags=["exercise"] exercise="10.5"
predict("10.5", ...)

# %% tags=["solution"] exercise="10.5"
predict("10.5", 1)

# %%
here.rewind("copy-on-write update", users)
dk.update(users, {"value": 250.0}, where="id = 2", mode="copy-on-write")
show(dk.scan(users, columns=LINEAGE).to_arrow())

# %%
check("10.5")

# %% [markdown]
# Id 2 has a new sequence number and its old row number. Id 4 was only copied, and has kept both. Now they are stored, in two columns that the schema does not know. NULL means that nothing is stored: the changed row takes the sequence number of its new file.

# %%
import pyarrow.parquet as pq

show(pq.read_table(names.path("D4"), columns=LINEAGE, partitioning=None))

# %% [markdown]
# **10.6** Which ids were inserted or changed after `S2`, which has sequence number 2? Answer with a set.

# %% tags=["exercise"] exercise="10.6"
check("10.6", ...)

# %% tags=["solution"] exercise="10.6"
rows = dk.scan(users, columns=LINEAGE).to_arrow().to_pylist()
check("10.6", {row["id"] for row in rows if row["_last_updated_sequence_number"] > 2})

# %% [markdown]
# Such an answer does not include deleted rows. To find them, compare the row numbers of both snapshots.
#
# ## When a row gets another number
#
# The writer of an equality delete does not read the row, so it does not know the number. Here is the same update again, by equality delete:

# %%
here.rewind("equality update", users)
dk.update(users, {"value": 260.0}, where="id = 2", mode="equality-delete")
show(dk.scan(users, "id = 2", columns=LINEAGE).to_arrow())

# %% [markdown]
# For lineage this is a new row. Its number is 8, because the rewritten file had 6 and 7 reserved for its two rows.
#
# Now a branch: id 6 is appended to `ingestion`, and id 7 to `main` at the same time. So you can no longer fast-forward `main`. `cherry_pick` repeats on `main` what a snapshot of another branch did.

# %%
here.rewind("cherry-pick", users)
dk.create_branch(users, "ingestion")
appended = dk.append(users, user(6), ref="ingestion")
dk.append(users, user(7))
dk.cherry_pick(users, appended.snapshot_id)

for ref in ("ingestion", "main"):
    print(ref)
    show(dk.scan(users, "id = 6", columns=LINEAGE, ref=ref).to_arrow())

# %% [markdown]
# It is the same data file, added by two commits. A data file gets its row numbers when a commit adds it, and this file was added twice. Remember this if you follow rows across branches by `_row_id`.
#
# ## Break it
#
# Time travel to a snapshot ends when it expires: `expire_snapshots` removes it from the table metadata. The table now has ten snapshots. `main` is at `S10`, the branch `audit` at `S5`, `ingestion` at `S8`, and the tag `checked` at `S4`.
#
# **10.7** We expire everything that may expire, and keep one snapshot of each branch. Which snapshots can you still read? Answer with a set of names.

# %% tags=["exercise"] exercise="10.7"
predict("10.7", ...)

# %% tags=["solution"] exercise="10.7"
predict("10.7", {"S4", "S5", "S8", "S10"})

# %%
here.rewind("expire", users)
ids = {name: names.snapshot_id(name) for name in (f"S{n}" for n in range(1, 11))}
dk.expire_snapshots(users, older_than=datetime.now(timezone.utc) + timedelta(days=1), retain_last=1)


def reading(snapshot_id):
    try:
        return f"{dk.scan(users, snapshot_id=snapshot_id).count()} rows"
    except dk.NotFoundError as error:
        return error.kind


show([{"snapshot": name, "reading it": reading(snapshot_id)} for name, snapshot_id in ids.items()])

# %%
check("10.7")

# %% [markdown]
# ## Key points
#
# - A reader starts from the snapshot's own manifest list, so later deletes cannot reach it: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - A read by time returns what was current on `main` then. The snapshot log knows it: [point in time reads](https://iceberg.apache.org/spec/#point-in-time-reads-time-travel).
# - A branch is read with the current schema, a tag and a snapshot with their own: [snapshot references](https://iceberg.apache.org/spec/#snapshot-references).
# - `_row_id` survives updates and rewrites, but not an update by equality delete or a cherry-pick: [row lineage](https://iceberg.apache.org/spec/#row-lineage).
# - A snapshot that no branch or tag retains will expire one day: [snapshot retention policy](https://iceberg.apache.org/spec/#snapshot-retention-policy).
#
# Next: [11 · Compaction and erasure](11_compaction.ipynb)

# %%
here.close()
