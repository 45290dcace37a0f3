# ---
# jupyter:
#   deletekit:
#     lesson: "17"
#     minutes: {teach: 20, exercise: 20}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 17 · What changed
#
# **20 minutes to read and run, 20 for the exercises.** It builds on [04 · Equality deletes](04_equality_deletes.ipynb), [06 · Deletion vectors](06_deletion_vectors.ipynb) and [11 · Compaction and erasure](11_compaction.ipynb).
#
# A search index, a report or a copy of a table asks the same question again and again: which rows left, and which rows came? A snapshot does not say that. It says which files it has. This lesson is about the way from files to rows.
#
# You will be able to
#
# - find the rows that changed between two snapshots, in every delete mode
# - say what must be opened for a deletion vector, and what for an equality delete
# - choose between all changes, net changes and upserts, and apply them to a copy
# - read a table as it was, by snapshot or branch

# %% [markdown]
# ## Predict
#
# A table has two data files: `D1` with ids 1, 2 and 3, and `D2` with ids 4, 5 and 6. We delete ids 2 and 5 from three such tables, each time in another mode.
#
# **17.1** How many rows have changed in each of the tables? Answer with a dict whose keys are `"copy-on-write"`, `"deletion-vector"` and `"equality-delete"`.

# %% tags=["exercise"] exercise="17.1"
from deletekit.course import predict

predict("17.1", {"copy-on-write": ..., "deletion-vector": ..., "equality-delete": ...})

# %% tags=["solution"] exercise="17.1"
from deletekit.course import predict

predict("17.1", {"copy-on-write": 2, "deletion-vector": 2, "equality-delete": 2})

# %% [markdown]
# ## Run
#
# `dk.changes` takes the snapshot from which you want to know the changes. It returns rows of the table with a few more columns. `_change_type` is `insert`, `delete`, `update_before` or `update_after`, and `_change_ordinal` is the number of the commit.

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import Aliases, check, hint, lesson, show, solution

here = lesson("17")


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "value": [100.0 * number for number in ids]})


def changed(table, snapshot_id, **options):
    found = dk.changes(table, snapshot_id, **options).to_arrow().drop_columns(["_commit_snapshot_id"])
    return found.sort_by([("_change_ordinal", "ascending"), ("id", "ascending")])


# %%
tables = {}
for mode in ("copy-on-write", "deletion-vector", "equality-delete"):
    tables[mode] = here.table(mode.replace("-", "_"), rows(1, 2, 3), rows(4, 5, 6), format_version=3)
    before = tables[mode].current_snapshot.snapshot_id
    dk.delete(tables[mode], "id in (2, 5)", mode=mode)
    print(mode)
    show(changed(tables[mode], before))

# %%
check("17.1")

# %% [markdown]
# All three give the same answer, and a deleted row has all its old values. What differs is the way to it.
#
# ## Look inside: copied rows
#
# Copy-on-write removed both data files and wrote two new ones. Six rows left with the old files, and four came back with the new ones.

# %%
dk.widgets.SnapshotDiff(tables["copy-on-write"])

# %% [markdown]
# Whoever only compares files sees ten changes here. `dk.changes` reads the removed and the added files whole, and compares their rows. A row that is in both was only copied, and is no change.
#
# ## A vector says which rows
#
# A second delete removes id 3 from the table with deletion vectors.

# %%
by_place = tables["deletion-vector"]
here.rewind("second vector", by_place)
before = by_place.current_snapshot.snapshot_id
dk.delete(by_place, "id = 3", mode="deletion-vector")

names = Aliases(by_place)
names.show(names.deletes(), "name", "data_file.referenced_data_file", "positions")
show(changed(by_place, before))

# %% [markdown]
# `D1` had the vector `V1` with position 1. Now it has `V3` with positions 1 and 2. Both are bitmaps, so one subtraction is enough: position 2 is new. Only this row is read from `D1`. `D2` and `V2` are the same in both snapshots, so nobody opens them.
#
# ## A key has to be looked up
#
# A stream now sends three keys, and `delete_keys` writes them into an equality delete file without reading a row. The ids 2 and 5 of this table are deleted already, and it never had an id 9.
#
# **17.2** The keys are 2, 3 and 9. How many rows does this commit change?

# %% tags=["exercise"] exercise="17.2"
predict("17.2", ...)

# %% tags=["solution"] exercise="17.2"
predict("17.2", 1)

# %%
by_value = tables["equality-delete"]
here.rewind("three keys", by_value)
before = by_value.current_snapshot.snapshot_id
dk.delete_keys(by_value, [{"id": 2}, {"id": 3}, {"id": 9}])

names = Aliases(by_value)
names.show(names.deletes(), "name", "rows", "sequence_number")
show(changed(by_value, before))

# %%
check("17.2")

# %% [markdown]
# The file `E2` does not say where a key is, or whether there is such a row at all. So the key column of every older data file that may hold one of the keys has to be read. The older deletes of these files count too: `E1` had already hidden id 2.
#
# | the commit wrote | what is opened to find the changed rows |
# |---|---|
# | new data files, by copy-on-write | the removed and the added files, whole |
# | a deletion vector | the old and the new vector, then only the rows in which they differ |
# | an equality delete | the keys of all older data files that may hold one, their older deletes, then the rows that it hides |

# %% [markdown]
# ## All, net, upsert
#
# Four commits follow: id 4 gets a new value, id 7 is inserted, id 7 gets a new value, and id 6 is deleted. You can ask for their changes in three modes:
#
# - `all` gives the changes of each commit, in order. An update is two rows: the old one and the new one.
# - `net` compares only the first and the last snapshot. What came and went in between is not in it.
# - `upsert` is like `net`, but an update is only its new row.
#
# **17.3** How many rows does each mode give? Answer with a dict whose keys are `"all"`, `"net"` and `"upsert"`.

# %% tags=["exercise"] exercise="17.3"
predict("17.3", {"all": ..., "net": ..., "upsert": ...})

# %% tags=["solution"] exercise="17.3"
predict("17.3", {"all": 6, "net": 4, "upsert": 3})

# %%
here.rewind("four commits", by_place)
start = by_place.current_snapshot.snapshot_id
dk.update(by_place, {"value": 444.0}, where="id = 4", mode="deletion-vector")
dk.append(by_place, rows(7))
dk.update(by_place, {"value": 777.0}, where="id = 7", mode="deletion-vector")
dk.delete(by_place, "id = 6", mode="deletion-vector")

for mode in ("all", "net", "upsert"):
    print(mode)
    show(changed(by_place, start, mode=mode, on="id"))

# %%
check("17.3")

# %% [markdown]
# ## Apply them
#
# **17.4** Write `apply`. It gets a copy of a table, a dict from id to value, and a list of changes in order, such as `("delete", 2, 200.0)`: type, id and value. It returns the copy after these changes. An update may change the id too.


# %% tags=["exercise"] exercise="17.4"
def apply(copy, changes): ...


check("17.4", apply)


# %% tags=["solution"] exercise="17.4"
def apply(copy, changes):
    for kind, key, value in changes:
        if kind in ("delete", "update_before"):
            copy.pop(key)
        else:
            copy[key] = value
    return copy


check("17.4", apply)

# %% [markdown]
# `dk.stream.sink` does this with a table ([13](13_streaming_deletes.ipynb)). It takes the rows of `dk.changes` as they are, without the columns that the table does not have.

# %%
here.rewind("follow", by_place)
copy = here.table("copy", dk.scan(by_place, snapshot_id=start).to_arrow(), format_version=3)
news = changed(by_place, start)
with dk.stream.sink(copy, "follow", on=["id"]) as sink:
    sink.write(news.select(["id", "value", "_change_type"]), batch_id=0)

there, ours = (dk.scan(table).to_arrow().sort_by("id") for table in (by_place, copy))
print("equal:", there.to_pylist() == ours.to_pylist())
show(ours)

# %% [markdown]
# ## Time travel
#
# A snapshot never changes, so you can read a table as it was, until somebody cleans up. Branches and tags give names to snapshots.
#
# `users` has ids 1, 2, 3 and 4; that is snapshot `S1`. A second commit, `S2`, deletes ids 1 and 3 with a deletion vector.
#
# Two more commits follow. In one of them id 3 comes back.

# %%
from datetime import datetime, timedelta, timezone


def user(number):
    return [{"id": number, "name": f"User-{number}", "value": 100.0 * number, "timestamp": datetime(2024, 1, number)}]


users = here.table("users", dk.datasets.users(), format_version=3)
dk.delete(users, "id in (1, 3)", mode="deletion-vector")
dk.append(users, user(5))
dk.append(users, user(3))

names = Aliases(users)
print("S1:", dk.scan(users, snapshot_id=names.snapshot_id("S1")).to_arrow()["id"].to_pylist())
print("now:", dk.scan(users).to_arrow()["id"].to_pylist())

# %% [markdown]
# **17.5** In which of the snapshots `S1`, `S2`, `S3` and `S4` did id 3 come back? Answer with its name, such as `"S1"`. `names.snapshot_id("S1")` is the id of a snapshot.

# %% tags=["exercise"] exercise="17.5"
check("17.5", ...)

# %% tags=["solution"] exercise="17.5"
found = [dk.scan(users, "id = 3", snapshot_id=names.snapshot_id(f"S{n}")).count() for n in (1, 2, 3, 4)]
check("17.5", f"S{found.index(1, found.index(0)) + 1}")

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
# ## Break it
#
# A copy remembers the snapshot that it is at. Here a tag keeps this snapshot, but the snapshots after it expire.

# %%
here.rewind("expire", by_place)
dk.create_tag(by_place, "copied", snapshot_id=start)
dk.expire_snapshots(by_place, older_than=datetime.now(timezone.utc) + timedelta(days=1), retain_last=1)

for mode in ("all", "net"):
    try:
        print(f"{mode}: {dk.changes(by_place, start, mode=mode).count()} changes")
    except dk.NotFoundError as error:
        print(f"{mode}: {error.kind}")

# %% [markdown]
# `all` needs every snapshot in between, and refuses to guess. `net` needs only the two at the ends. Without the tag the first one would be gone too, and the copy would have to be made again.
#
# ## Key points
#
# - Two vectors of a data file differ in positions, which are the changed rows: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
# - An equality delete holds values. Its keys have to be looked up in the older data files, and may hide nothing: [equality delete files](https://iceberg.apache.org/spec/#equality-delete-files).
# - A `_row_id` or a key makes an update of a delete and an insert: [row lineage](https://iceberg.apache.org/spec/#row-lineage).
# - A reader starts from the snapshot's own manifest list, so later deletes cannot reach it: [scan planning](https://iceberg.apache.org/spec/#scan-planning).
#
# This is the last lesson. Back to the [lessons of the course](00_start_here.ipynb)

# %%
here.close()
