# ---
# jupyter:
#   deletekit:
#     lesson: "09"
#     minutes: {teach: 25, exercise: 25}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 09 · Commits and conflicts
#
# **25 minutes to read and run, 25 for the exercises.** Before it: [08 · Readers](08_readers.ipynb).
#
# Writing data files and deletes takes time. None of it counts until the catalog swaps one metadata location for another. This lesson is about two writers who change the same rows and commit at the same time.
#
# You will be able to
#
# - say what a commit swaps, and why two writers cannot both win
# - decide what to do after a lost race: rebase the change, merge it, or replan it
# - explain how two deletes of one data file end in one vector
# - say why you cannot simply combine two commits into one

# %% [markdown]
# ## Predict
#
# A table of format version 3 has ids 0 to 9 in one data file. Two writers read it at the same time. The first one deletes id 1 with a deletion vector and commits. Meanwhile the second one has found id 2 and written its vector, and now commits too.
#
# **09.1** After both commits, which positions are in the live vector? Answer with a set of numbers.

# %% tags=["exercise"] exercise="09.1"
from deletekit.course import predict

predict("09.1", ...)

# %% tags=["solution"] exercise="09.1"
from deletekit.course import predict

predict("09.1", {1, 2})

# %% [markdown]
# ## Run
#
# We want a race with the same result every time. So we need a slow writer: it has found its rows but not committed them when another writer commits. In deletekit an engine runs the work of a writer. `Meanwhile` is an engine that lets another writer commit once, before the slow one does.

# %%
import pyarrow as pa

import deletekit as dk
from deletekit.course import Aliases, Meanwhile, check, drawings, hint, lesson, outcome, show, solution

here = lesson("09")
MERGE_ON_READ = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}


def ids(*numbers):
    return pa.table({"id": pa.array(numbers, pa.int32())})


def rows(table):
    return sorted(dk.scan(table).to_arrow()["id"].to_pylist())


# %%
numbers = here.table("numbers", ids(*range(10)), format_version=3, properties=MERGE_ON_READ)
other = dk.load_table(here.catalog, numbers.name)
second = dk.delete(numbers, "id = 2", engine=Meanwhile(lambda: dk.delete(other, "id = 1")))

names = Aliases(numbers)
names.show(names.deletes(), "name", "kind", "positions")
print("rows:", rows(numbers))
print("attempts to commit:", second.attempts, "- plans:", second.plans)

# %%
check("09.1")

# %% [markdown]
# A writer first *plans* its change: it searches for the rows. The second writer planned once. It lost the race and noticed, but did not search again. It merged its vector with the committed one, and committed the result in place of the committed one.

# %%
drawings.commit_race(numbers, second)

# %% [markdown]
# `SnapshotDiff` shows what the second commit changed: one vector went, one came, and one more row is hidden.

# %%
dk.widgets.SnapshotDiff(numbers)

# %% [markdown]
# ## Look inside: the swap
#
# The catalog of this lesson is a SQLite file. It has one row for each table, and the important value in it is the location of the current metadata file. The cell prints the number at the beginning of that file's name, and that of the file before.

# %%
import sqlite3
from contextlib import closing
from pathlib import Path


def catalog_row(connection):
    return connection.execute(
        "SELECT metadata_location, previous_metadata_location FROM iceberg_tables WHERE table_name = 'numbers'"
    ).fetchone()


with closing(sqlite3.connect(here.folder / "catalog.db")) as catalog:
    now, before = (Path(location).name.split("-")[0] for location in catalog_row(catalog))
print("now:", now, " before:", before)

# %% [markdown]
# A writer reads this location, writes a new metadata file, and asks the catalog: put my location in place of the one I read. If the catalog has another location by now, nothing happens, and the writer is told. Let us be two writers, on a copy of the catalog.

# %%
swap = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'numbers' AND metadata_location = ?"
with closing(sqlite3.connect(here.folder / "catalog.db")) as kept, closing(sqlite3.connect(":memory:")) as copy:
    kept.backup(copy)
    read, _ = catalog_row(copy)
    for writer in ("first", "second"):
        changed = copy.execute(swap, (f"{writer}.metadata.json", read)).rowcount
        print(f"{writer} writer: {changed} row changed; the catalog has {catalog_row(copy)[0]}")

# %% [markdown]
# This is called compare-and-swap. A REST catalog and Hive have other forms of it. Everything else is already on the disk, under names that nobody else uses: data files, deletes, manifests and the metadata file. A writer that is killed before the swap has changed nothing. It only leaves files that no snapshot lists.
#
# **09.2** Write the swap. It gets the location in the catalog, the location that the writer has read, and the new one. It returns the location that is in the catalog afterwards.


# %% tags=["exercise"] exercise="09.2"
def swapped(there, read, new): ...


check("09.2", swapped)


# %% tags=["solution"] exercise="09.2"
def swapped(there, read, new):
    return new if there == read else there


check("09.2", swapped)

# %% [markdown]
# Each attempt takes the next sequence number. When the second writer began, the last number was 1. Its first attempt would have got 2; its second attempt got 3. A manifest can still be used in the next attempt, because entries of added files have no number of their own: they inherit the number in the manifest list. That is why numbers are inherited.

# %%
print("sequence number:", second.sequence_number)

# %% [markdown]
# ## Who can reuse a change?
#
# After a lost race, a writer looks at the new commits. Then it does one of three things:
#
# - It **rebases**: it commits the files that it has, on top of the newest snapshot, the *head*.
# - It **merges**: it combines its vectors with the new ones of the same data files, and commits the result.
# - It **replans**: it throws its files away and plans again from the start.
#
# Replanning is always right. The first two save work, but are right only if a new plan would find the same rows in the same data files.
#
# Here are five races. The table has ids 0 to 4 in one data file and 5 to 9 in another.
#
# | race | our change | somebody else, meanwhile |
# |---|---|---|
# | `other file` | delete id 1 | deletes id 8 |
# | `same file` | delete id 1 | deletes id 2 |
# | `new rows` | delete ids below 3 | appends ids 0 and 1 once more |
# | `compacted` | delete id 1 | rewrites both files into one |
# | `update` | set id 3 to 103 | deletes id 3 |
#
# **09.3** Which of these changes must be replanned? Answer with a set of names.

# %% tags=["exercise"] exercise="09.3"
predict("09.3", ...)

# %% tags=["solution"] exercise="09.3"
predict("09.3", {"new rows", "compacted", "update"})


# %% [markdown]
# Now we run the five races. Each entry of `races` has two functions: our change, and that of somebody else. `outcome` says what the writer did after it lost.


# %%
def delete(where):
    return lambda table, engine=None: dk.delete(table, where, engine=engine)


def update(table, engine):
    return dk.update(table, {"id": 103}, where="id = 3", engine=engine)


races = {
    "other file": (delete("id = 1"), delete("id = 8")),
    "same file": (delete("id = 1"), delete("id = 2")),
    "new rows": (delete("id < 3"), lambda table: dk.append(table, ids(0, 1))),
    "compacted": (delete("id = 1"), lambda table: dk.compact(table, rewrite_all=True)),
    "update": (update, delete("id = 3")),
}

# %%
found = []
for name, (ours, theirs) in races.items():
    table = here.table("race", ids(*range(5)), ids(*range(5, 10)), format_version=3, properties=MERGE_ON_READ)
    other = dk.load_table(here.catalog, table.name)
    commit = ours(table, Meanwhile(lambda: theirs(other)))
    found.append({"race": name, "outcome": outcome(commit), "rows": str(rows(table))})
show(found)

# %%
check("09.3")

# %% [markdown]
# - `other file`: the two changes have nothing to do with each other.
# - `same file`: both only add positions. Both orders of the two deletes give the same result: their union.
# - `new rows`: the delete was meant for all ids below 3, and here are two more of them. The new plan finds them too.
# - `compacted`: the vector names a data file that is gone. Its positions mean nothing in the new one.
# - `update`: we made the new version from a row that no longer exists. If we committed that version, a deleted row would come back.
#
# An equality delete depends on nothing: no row was read for it. So it can always be rebased. It hides every row with a smaller sequence number, even rows committed after it was written. That is one more reason why streams like it.
#
# ## Isolation levels
#
# `write.delete.isolation-level` says how careful a delete has to be. `UPDATE` and `MERGE` have such a property too. The default is `serializable`: the result must be the same as if the commits ran one after the other. The other level is called `snapshot`: the delete is only about rows of the snapshot that it has read. New rows from other commits are then no reason to replan.
#
# **09.4** We run the race `new rows` again, with isolation level `snapshot`. The table has ids 0 to 9, we delete ids below 3, and meanwhile ids 0 and 1 are appended. Which ids are in the table afterwards? Answer with a set.

# %% tags=["exercise"] exercise="09.4"
predict("09.4", ...)

# %% tags=["solution"] exercise="09.4"
predict("09.4", {0, 1, 3, 4, 5, 6, 7, 8, 9})

# %%
table = here.table(
    "isolated",
    ids(*range(10)),
    format_version=3,
    properties={"write.delete.mode": "merge-on-read", "write.delete.isolation-level": "snapshot"},
)
other = dk.load_table(here.catalog, table.name)
commit = dk.delete(table, "id < 3", engine=Meanwhile(lambda: dk.append(other, ids(0, 1))))
print("rows:", rows(table), "-", outcome(commit))

# %%
check("09.4")

# %% [markdown]
# ## Give up
#
# The table property `commit.retry.num-retries` says how often a writer tries again. We set it to 0: after one lost race, the writer gives up. Here it loses to a compaction, which removes its data file. Then two things matter: nothing has changed, and no file stays behind. `remove_orphan_files` with `dry_run=True` only counts the files that no snapshot lists. The date of tomorrow makes it count new files too.

# %%
from datetime import datetime, timedelta, timezone

properties = {"write.delete.mode": "merge-on-read", "commit.retry.num-retries": "0"}
table = here.table("no_retry", ids(*range(10)), format_version=3, properties=properties)
other = dk.load_table(here.catalog, table.name)
try:
    dk.delete(table, "id = 1", engine=Meanwhile(lambda: dk.compact(other, rewrite_all=True)))
except dk.CommitConflictError as error:
    print("given up:", error.kind, "- to try again is safe:", error.retryable)

tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
left = dk.remove_orphan_files(table, older_than=tomorrow, force=True, dry_run=True)
print("files left behind:", len(left.orphan_files))

# %% [markdown]
# A catalog answers yes or no. But if the connection breaks, the writer gets no answer. Then the commit may or may not have happened. The writer must not delete its files, and must not try again before it has looked in the table whether its commit is there. deletekit raises `CommitStateUnknownError`.
#
# ## Workers and a coordinator
#
# Within one job you need no race. Workers search and report, and a coordinator commits once. But two workers may get parts of the same data file, and then each writes its own vector for it. Here two branches play the workers, and each gets one vector. A `RowDelta` lists the files that a commit adds and removes. `commit_change` commits it, as it does for `dk.delete` and `dk.update`.

# %%
from deletekit.commit.swap import commit as commit_change
from deletekit.commit.change import RowDelta
from deletekit.commit.planned_change import plan_change

table = here.table("workers", ids(*range(10)), format_version=3)
for worker, where in (("worker_1", "id in (0, 2)"), ("worker_2", "id in (5, 9)")):
    dk.create_branch(table, worker)
    dk.delete(table, where, mode="deletion-vector", ref=worker)

names = Aliases(table)
both = RowDelta(added_delete_files=(names.file("V1"), names.file("V2")))
try:
    commit_change(plan_change(table, lambda base: both))
except dk.InvalidInputError as error:
    print("refused:", error.kind)

# %% [markdown]
# A data file may have only one vector, so the coordinator must combine the reports.
#
# **09.5** Write the work of the coordinator. Your function gets a list of reports. Each report is a tuple: the name of a data file, and the set of positions that a worker found in it. Return a dict of the vectors to write, from the name of a data file to the set of positions. From the reports below, your function makes `{"A": {0, 2, 7}, "B": {5, 9}}`:

# %%
reports = [("A", {0, 2}), ("B", {5, 9}), ("A", {7}), ("C", set())]


# %% tags=["exercise"] exercise="09.5"
def vectors_of(reports): ...


check("09.5", vectors_of)


# %% tags=["solution"] exercise="09.5"
def vectors_of(reports):
    vectors = {}
    for name, positions in reports:
        if positions:
            vectors[name] = vectors.get(name, set()) | positions
    return vectors


check("09.5", vectors_of)

# %% [markdown]
# ## Three commits are not one
#
# A streaming writer has three changes of key 1: insert it with value `a`, delete it by an equality delete, insert it with value `b`. Before them the table has one row, with key 0. On the branch `stream` each change is its own commit.


# %%
def keyed(key, value):
    return pa.table({"id": pa.array([key], pa.int32()), "value": [value]})


streamed = here.table("streamed", keyed(0, "z"))
dk.create_branch(streamed, "stream")
inserted = dk.append(streamed, keyed(1, "a"), ref="stream")
deleted = dk.delete_keys(streamed, [{"id": 1}], ref="stream")
again = dk.append(streamed, keyed(1, "b"), ref="stream")
print("three commits:", dk.scan(streamed, "id = 1", ref="stream").to_arrow().to_pylist())

# %% [markdown]
# Somebody wants fewer commits, and puts exactly the same files on `main` in one commit.
#
# **09.6** How many rows with key 1 are on `main`?

# %% tags=["exercise"] exercise="09.6"
predict("09.6", ...)

# %% tags=["solution"] exercise="09.6"
predict("09.6", 2)

# %%
here.rewind("one commit", streamed)
in_one = RowDelta(
    added_data_files=inserted.added_data_files + again.added_data_files,
    added_delete_files=deleted.added_delete_files,
)
commit_change(plan_change(streamed, lambda base: in_one))
on_main = dk.scan(streamed, "id = 1").to_arrow().sort_by("value").to_pylist()
print("one commit:", on_main)

# %%
check("09.6")

# %% [markdown]
# All files of a commit have the same sequence number, and an equality delete applies only to files with a smaller one. The value `a` was deleted on the branch, but is live on `main`. To combine several commits into one, you must first work out what is left of each key. `dk.stream.promote` does that.
#
# ## Break it
#
# What if a writer skips all of this and commits its vector next to the existing one? deletekit refuses to write such a table, so we forge one. First we delete two rows of one data file, each on its own branch:

# %%
forged = here.table("forged", ids(*range(10)), format_version=3)
dk.create_branch(forged, "other")
dk.delete(forged, "id = 2", mode="deletion-vector", ref="other")
dk.delete(forged, "id = 1", mode="deletion-vector")
for ref in ("main", "other"):
    print(f"{ref}:", dk.scan(forged, ref=ref).to_arrow()["id"].to_pylist())

# %% [markdown]
# `L3` is the manifest list of `main`, `L2` that of the other branch. We write the delete manifest of `L2` into `L3`. Then we ask a reader, and `dk.verify`, which checks the table for such faults.

# %%
import fastavro

here.rewind("forge", forged)
names = Aliases(forged)
with open(names.path("L2"), "rb") as file:
    of_other = [manifest for manifest in fastavro.reader(file) if manifest["content"] == 1]
with open(names.path("L3"), "rb") as file:
    reader = fastavro.reader(file)
    schema, of_main = reader.writer_schema, list(reader)
with open(names.path("L3"), "wb") as file:
    fastavro.writer(file, schema, of_main + of_other)

try:
    dk.scan(forged).to_arrow()
except dk.FormatError as error:
    print("a reader refuses:", error.kind)
errors = [finding.kind for finding in dk.verify(forged).findings if finding.severity == "error"]
print("verify finds:", sorted(set(errors)))

# %% [markdown]
# A reader that takes the first vector brings id 2 back. One that takes the last brings id 1 back. And nobody promises the order of manifests. `repair` does what the writer should have done.

# %%
here.rewind("repair", forged)
dk.repair(forged)
names = Aliases(forged)
names.show(names.deletes(), "kind", "positions")
print("rows:", rows(forged))

# %% [markdown]
# **09.7** Three writers have each added their own vector for the same data file: {1, 2}, {2, 3} and {9}. All three deletes should count. Which positions does a repair put into the one vector? Answer with a set of numbers.

# %% tags=["exercise"] exercise="09.7"
check("09.7", ...)

# %% tags=["solution"] exercise="09.7"
check("09.7", {1, 2} | {2, 3} | {9})

# %% [markdown]
# ## Key points
#
# - A commit is one swap of a location, compare-and-swap. All files are written before it: [optimistic concurrency](https://iceberg.apache.org/spec/#optimistic-concurrency).
# - The loser may reuse its files only if nothing they depend on has changed: [commit conflict resolution and retry](https://iceberg.apache.org/spec/#commit-conflict-resolution-and-retry).
# - Deletes by position depend on their data file, deletes by value on nothing. New versions of rows depend on the old ones.
# - One data file has one vector, so the second writer merges the two: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
# - Sequence numbers are the order of the changes. If you put files of two commits into one, they lose this order: [sequence numbers](https://iceberg.apache.org/spec/#sequence-numbers).
#
# Next: [10 · Time travel and lineage](10_time_travel_and_lineage.ipynb)

# %%
here.close()
