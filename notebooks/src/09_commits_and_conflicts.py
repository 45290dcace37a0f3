# ---
# jupyter:
#   deletekit:
#     lesson: "09"
#     minutes: {teach: 20, exercise: 15}
#     needs: plain
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 09 · Commits and conflicts
#
# **20 minutes to read and run, 15 for the exercises.** Before it: [08 · Readers](08_readers.ipynb).
#
# Writing data files and deletes takes time. None of it counts until the catalog swaps one metadata location for another. This lesson is about two writers who change the same rows and commit at the same time.
#
# You will be able to
#
# - say what a commit swaps, and why two writers cannot both win
# - decide what to do after a lost race: rebase the change, merge it, or replan it
# - explain how two deletes of one data file end in one vector

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
# ## Look inside: the swap
#
# The catalog of this lesson is a SQLite file. It has one row for each table, and the important value in it is the location of the current metadata file.

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
# Now we run the five races. `outcome` says what the writer did after it lost.


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
# - `new rows`: the delete was meant for all ids below 3, and here are two more of them. The new plan finds them too.
# - `compacted`: the vector names a data file that is gone. Its positions mean nothing in the new one.
# - `update`: we made the new version from a row that no longer exists. If we committed that version, a deleted row would come back.
#
# An equality delete depends on nothing: no row was read for it. So it can always be rebased. It hides every row with a smaller sequence number, even rows committed after it was written. That is one more reason why streams like it.

# %% [markdown]
# ## No answer

# %% [markdown]
# A catalog answers yes or no. But if the connection breaks, the writer gets no answer. Then the commit may or may not have happened. The writer must not delete its files, and must not try again before it has looked in the table whether its commit is there. deletekit raises `CommitStateUnknownError`.
#
# ## Workers and a coordinator
#
# Within one job you need no race. Workers search and report, and a coordinator commits once. But two workers may get parts of the same data file, and then each writes its own vector for it.

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
# ## Key points
#
# - A commit is one swap of a location, compare-and-swap. All files are written before it: [optimistic concurrency](https://iceberg.apache.org/spec/#optimistic-concurrency).
# - The loser may reuse its files only if nothing they depend on has changed: [commit conflict resolution and retry](https://iceberg.apache.org/spec/#commit-conflict-resolution-and-retry).
# - One data file has one vector, so the second writer merges the two: [deletion vectors](https://iceberg.apache.org/spec/#deletion-vectors).
#
# Next: [11 · Compaction and erasure](11_compaction.ipynb)

# %%
here.close()
