# ---
# jupyter:
#   deletekit:
#     lesson: "13"
#     minutes: {teach: 20, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 13 · Streaming deletes
#
# **20 minutes to read and run, 15 for the exercises.** It builds on [04 · Equality deletes](04_equality_deletes.ipynb) and [06 · Deletion vectors](06_deletion_vectors.ipynb).
#
# A stream of changes brings keys: "row 5 has a new value", "row 3 is gone". It does not say where row 3 is. This lesson is about what a streaming writer can do then.
#
# You will be able to
#
# - predict which deletes Flink's sink writes
# - say what an index changes, and which changes it must follow
# - turn equality deletes into deletion vectors, in place or on the way from one branch to another

# %% [markdown]
# ## Predict
#
# A *sink* is the part of a stream that writes to a table. Flink's sink collects changes, and commits them at every *checkpoint*: a moment, once a minute for example, when the whole stream saves its progress. The changes between two checkpoints are a *batch*.
#
# `users` has the ids 1, 2, 3 and 4. Between two checkpoints a stream sends four changes, in this order: insert 5, update 5, update 1, delete 3. Flink's sink writes them in upsert mode.
#
# In upsert mode, every incoming row may replace a row with the same key. So the writer deletes the key first, and then writes the row.
#
# **13.1** The writer has not read the table. Which ids will its equality delete file hold? Answer with a set.

# %% tags=["exercise"] exercise="13.1"
from deletekit.course import predict

predict("13.1", ...)

# %% tags=["solution"] exercise="13.1"
from deletekit.course import predict

predict("13.1", {1, 3, 5})

# %% [markdown]
# ## Run
#
# These are the four changes. A change is a row with one more column, `_change_type`: `INSERT`, `UPDATE_BEFORE` (the old row), `UPDATE_AFTER` (the new row) or `DELETE`. In upsert mode an insert and an update do the same, so `put` writes `UPDATE_AFTER` for both. To delete a row, its key is enough.

# %%
from datetime import datetime


def put(key, value):
    row = {"id": key, "name": f"User-{key}", "value": value, "timestamp": datetime(2024, 12, 25)}
    return {"_change_type": "UPDATE_AFTER", **row}


def gone(key):
    return {"_change_type": "DELETE", "id": key}


first = [put(5, 500.0), put(5, 555.0), put(1, 999.0), gone(3)]

# %% [markdown]
# Flink does not run here. `write_checkpoint` writes the changes of one checkpoint to a table, in the same way as Flink's sink does in upsert mode.

# %%
import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution
from deletekit.course.recordings.flink_writer import write_checkpoint

here = lesson("13")
users = here.table("users", dk.datasets.users(), format_version=3)
names = Aliases(users)
write_checkpoint(users, first, 0)

show(dk.scan(users, columns=["id", "value"]).to_arrow())

# %% [markdown]
# ## Look inside
#
# One commit brought three files: the data file `D2` with every incoming row, an equality delete file, and a deletion vector. These are the two deletes.

# %%
names.show(names.deletes(), "name", "kind", "rows", "positions", "sequence_number")

# %%
check("13.1")

# %% [markdown]
# Why is there a vector? The writer keeps a map in memory, from each key to the place of the row that it wrote last: id 5 is row 0 of `D2`. When id 5 comes again, the writer knows the place and deletes that row by position. A key that is not in the map gets an equality delete.
#
# Data file and deletes have the same sequence number, 2. The equality delete hides rows with a **smaller** number, so it does not touch `D2`. The vector hides rows with a smaller **or equal** number, so it can apply to `D2`. One commit can hold all this only because both rules exist. `explain` shows both of them for the two rows with id 5.

# %%
names.show(dk.explain(users, "id = 5", columns=["id", "value"]))

# %% [markdown]
# **13.2** Write the writer as a function. It gets the changes of one checkpoint: `("+", key)` puts a row, and `("-", key)` deletes a key. It returns a dict of two sets: `"equality"`, the keys that get an equality delete, and `"positions"`, the positions that it deletes in its own data file. Every `"+"` first deletes its key, and then writes one row.


# %% tags=["exercise"] exercise="13.2"
def deletes_of(changes): ...


check("13.2", deletes_of)


# %% tags=["solution"] exercise="13.2"
def deletes_of(changes):
    place, written = {}, 0
    equality, positions = set(), set()
    for change, key in changes:
        if key in place:
            positions.add(place.pop(key))
        else:
            equality.add(key)
        if change == "+":
            place[key] = written
            written += 1
    return {"equality": equality, "positions": positions}


check("13.2", deletes_of)

# %% [markdown]
# ## The map is forgotten
#
# The next checkpoint brings two changes: update 5, delete 2. The writer wrote the row of id 5 itself, in the checkpoint before. Watch whether it still knows the place.

# %%
here.rewind("second checkpoint", users)
second = [put(5, 556.0), gone(2)]
write_checkpoint(users, second, 1)
names.show(names.deletes(), "name", "kind", "rows", "positions", "sequence_number")

# %% [markdown]
# It does not: there is a second equality delete and no new vector. The map is not an index of the table. Every checkpoint throws it away. It can only undo what the same checkpoint has written. All older rows get an equality delete. So every checkpoint leaves one more equality delete file, and from then on every read compares values.
#
# ## With an index
#
# An index knows where each key of the *table* is. `dk.stream.sink` writes changes to a table, batch by batch. With an index it deletes directly by position. This is the mode `auto`, the default. It gets the same two batches.

# %%
indexed = here.table("indexed", dk.datasets.users(), format_version=3)
of_indexed = Aliases(indexed)
with_index = dk.stream.sink(indexed, "changes-of-users", on=["id"])
done = [with_index.write(first, batch_id=0), with_index.write(second, batch_id=1)]

show([{"batch": p.batch_id, "hits": p.hits, "misses": p.misses, "data files read": p.read_files} for p in done])
of_indexed.show(of_indexed.deletes(), "name", "data_file.referenced_data_file", "positions")
by_value, by_place = (sorted(dk.scan(t).to_arrow().to_pylist(), key=lambda r: r["id"]) for t in (users, indexed))
print("the same rows:", by_value == by_place)

# %% [markdown]
# There is no equality delete. A hit is a key that the index finds in the table, and a miss is a key that the table does not have. To fill the index the sink read `D1` once; it already knows the rows that it writes itself.

# %% [markdown]
# ## Equality in, vectors out
#
# Values are cheap to write but expensive to read. So let the writer write values, and convert them into positions before many readers come. `dk.stream.convert` does this in place, in one commit.

# %%
here.rewind("convert", users)
converted = dk.stream.convert(users)
names.show(names.deletes(), "kind", "positions", "data_file.referenced_data_file")
print("operation:", converted.operation, "· rows:", dk.scan(users).count())

# %% [markdown]
# The operation is `replace`: no row has changed, only the form of the deletes.
#
# ## A branch for the stream
#
# The other way uses two branches. The stream writes to its own branch, by value and as fast as it comes. From time to time you *promote* its rows to `main`, and every delete becomes a delete by position. Readers of `main` never meet an equality delete.

# %%
staged = here.table("staged", dk.datasets.users(), format_version=3)
of_staged = Aliases(staged)
dk.create_branch(staged, "ingestion")
with dk.stream.sink(staged, "changes-of-users", on=["id"], mode="eq-only", ref="ingestion") as to_branch:
    list(to_branch.run([first, second, [put(6, 600.0)]]))

for branch in ("main", "ingestion"):
    print(f"{branch}: ids {sorted(dk.scan(staged, columns=['id'], ref=branch).to_arrow()['id'].to_pylist())}")

# %% [markdown]
# There are three batches, so three snapshots on the branch. **13.5** After one promotion, how many new snapshots does `main` have, and how many equality delete files? Answer with a dict whose keys are `"snapshots"` and `"equality"`.

# %% tags=["exercise"] exercise="13.5"
predict("13.5", ...)

# %% tags=["solution"] exercise="13.5"
predict("13.5", {"snapshots": 1, "equality": 0})

# %%
here.rewind("promote", staged)
promotion = dk.stream.promote(staged, "ingestion", on=["id"])
head = staged.current_snapshot
of_staged.show({"head of main": head.snapshot_id, "its parent": head.parent_snapshot_id})
print("rows that came:", promotion.added_rows, "· rows that went:", promotion.deleted_rows)
of_staged.show(of_staged.deletes(), "name", "kind", "data_file.referenced_data_file", "positions")

# %%
check("13.5")

# %% [markdown]
# The three rows that went are ids 1, 2 and 3 of `D1`.

# %% [markdown]
# ## Break it

# %% [markdown]
# Now somebody else compacts the table. Every row moves to a file that the sink has not written.

# %%
here.rewind("compact", indexed)
dk.compact(indexed)
third = with_index.write([put(4, 444.0)], batch_id=2)
print("data files read:", third.read_files, "· hits:", third.hits)
of_indexed.show(of_indexed.deletes(), "name", "data_file.referenced_data_file", "positions")

# %% [markdown]
# If an index names a file that has left the table, it deletes nothing, or the wrong row. So an index must say which snapshot it describes, and it must follow every commit of every writer. The same holds for races and retries: a batch planned before the compaction and committed after it must look again.

# %% [markdown]
# ## Key points
#
# - A streaming writer knows keys, not places. It deletes by position only what it has written since the last checkpoint, everything else by value: [equality delete files](https://iceberg.apache.org/spec/#equality-delete-files).
# - One commit can hold both kinds, because equality deletes compare sequence numbers by `<` and deletes by position by `<=`: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
# - Keep equality deletes only for a short time. Convert them in place, or on the way from a branch to `main`: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors), [branches and tags](https://iceberg.apache.org/spec/#snapshot-references).
#
# Next: [14 · From Delta to Iceberg](14_delta_to_iceberg.ipynb)

# %%
here.close()
